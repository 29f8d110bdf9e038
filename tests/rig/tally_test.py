"""tools/dev/tally.py counts what ran, and never takes a runner that broke for a success."""

import os
import subprocess
import sys

import pytest

TALLY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/dev/tally.py")
JUNIT = """<testsuites><testsuite>
<testcase classname="A" name="good"/>
<testcase classname="A" name="bad"><failure message="x"/></testcase>
<testcase classname="A" name="left out"><skipped/></testcase>
<testcase classname="A" name="off" status="notrun"/>
</testsuite></testsuites>"""
GOOD = '<testsuite><testcase classname="A" name="good"/></testsuite>'


@pytest.mark.parametrize("files, last, rc", [
    ({"a.rc": "1", "a.xml": JUNIT}, "1 passed, 1 failed, 2 skipped", 1),
    ({"a.rc": "0", "a.xml": GOOD, "b.rc": "0"}, "2 passed, 0 failed", 0),
    ({"a.rc": "0", "a.xml": GOOD, "b.rc": "1"}, "1 passed, 1 failed", 1),
    ({"a.rc": "139", "a.xml": GOOD}, "1 passed, 1 failed", 1),
    ({"a.rc": "134", "a.xml": "<testsuite><testca"}, "0 passed, 1 failed", 1),
    ({}, "0 passed, 0 failed", 1),
])
def test_the_last_line_and_the_status(tmp_path, files, last, rc):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, TALLY, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert done.stdout.splitlines()[-1] == last and done.returncode == rc
