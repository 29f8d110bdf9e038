#!/usr/bin/env python3
"""Adds up test results: tally.py DIR reads NAME.rc (a runner's exit status) and NAME.xml (JUnit).

Prints the failed tests, then one line alone: "N passed, N failed", with ", N skipped" when some
were. A runner without an XML file counts as one test. A runner that failed although no test of
it did (it crashed, or could not start) counts as one failure. Exits 1 when anything failed or
when nothing ran.
"""

import glob
import os
import sys
import xml.etree.ElementTree as ElementTree


def read_cases(path):
    """(passed, names of failed tests, skipped) of one JUnit file; None when it cannot be read."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return None
    passed, failed, skipped = 0, [], 0
    for case in cases:
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def tally(directory):
    passed, failed, skipped = 0, [], 0
    for path in sorted(glob.glob(f"{directory}/*.rc")):
        name = os.path.basename(path)[:-3]
        with open(path) as f:
            rc = int(f.read())
        cases = read_cases(path[:-3] + ".xml") if os.path.exists(path[:-3] + ".xml") else None
        if cases:
            passed += cases[0]
            failed += [f"{name}: {test}" for test in cases[1]]
            skipped += cases[2]
        elif rc == 0:
            passed += 1
        if rc != 0 and not (cases and cases[1]):
            failed.append(f"{name}: ended with status {rc}")
    return passed, failed, skipped


def main():
    passed, failed, skipped = tally(sys.argv[1])
    print()
    for name in failed:
        print(f"FAILED {name}")
    print(f"{passed} passed, {len(failed)} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
