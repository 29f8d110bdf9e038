#!/usr/bin/env python3
"""The rules of this tree that a program can check. Prints `file:line: text` for each violation and
exits 1 when there is one; prints warnings for soft limits. Only Python's standard library.

  tidy.py [--root DIR] [--no-warnings]

Checked: which folder of src/ may include which (tools/layers.txt); what the pure cores may use;
that each unit has its header and its test; headers that begin with their contract; sizes; names;
text that speaks of anything but the project.
"""

import argparse
import ast
import os
import re
import subprocess
import sys

# The cores decide; they do no I/O, read no clock, draw no random number, start no thread, take no
# lock and write no log.
CORES = {"model", "plan", "route", "lifecycle", "ledger", "proto", "fit"}
CORE_HEADERS = re.compile(
    r"<(sys/|netinet/|arpa/|unistd\.h|fcntl\.h|poll\.h|signal\.h|pthread\.h|thread>|mutex>|"
    r"shared_mutex>|condition_variable>|future>|fstream>|iostream>|filesystem>|random>|ctime>|"
    r"time\.h|spdlog/|sqlite3|openssl/(rand|ssl)|semaphore>|latch>|barrier>)")
CORE_OWN_HEADERS = {"base/log.h"}
CORE_CALLS = re.compile(r"\b(wall_now|mono_now|steady_now|random_hex|random_base62|getenv|rand|"
                        r"srand|sleep_for|log_info|log_warn|log_error|system_clock::now|"
                        r"steady_clock::now|printf|fopen)\s*\(")
# Headers that cost every includer seconds of compilation.
HEAVY = re.compile(r"<(nlohmann/json\.hpp|simdjson\.h|CLI/|yaml-cpp/|regex>|iostream>)")

# A closure with captures inside a co_await expression: g++ 12 destroys it twice. Name it first.
CO_AWAIT_CLOSURE = re.compile(r"\bco_await\b(?:(?!;|\{\n)[^;])*?\[[^\]\n]*[\w&=][^\]\n]*\]\s*"
                              r"(\([^)]*\)\s*)?(mutable\s*)?(->[^{;]*)?\{")

# Units that have no test of their own, and why.
NO_TEST = {
    "src/base/check.cc": "aborts the process; covered by every CHECK that fails",
    "src/base/log.cc": "formats and writes one line",
    **{f"src/controller/admin_{noun}.cc": "a noun's routes: tested through the API in api_test.cc"
       for noun in ("services", "inspect", "keys", "leases", "openapi")},
}
NO_TEST_FOLDERS = {"app": "wiring, covered end to end"}
NO_HEADER = {
    "src/app/main.cc": "the program",
    **{f"src/controller/admin_{noun}.cc": "declared in admin.h, one file per noun"
       for noun in ("services", "inspect", "keys", "leases", "openapi")},
}

SUFFIX = re.compile(r"\b(?:class|struct|enum class)\s+(\w*(?:Manager|Utils?|Helpers?|Handler))\b")
FILE_SUFFIX = re.compile(r"(^|_)(manager|utils?|helpers?|handler)(_test)?\.(h|cc|py|mjs)$")
# Written in pieces so that this file may pass its own check.
FOREIGN = re.compile("|".join([
    r"(?<![\w.~])/wo" r"rk/", r"\bissue " r"#\d", "registry" r"\.npmjs", "deb" r"\.debian\.org",
    '"resolved"' r'\s*:', r"\bshared/" "(facts|cases|tools|design)", r"field-" "cases",
    r"\bAI " "(assistant|helper|agent session)", r"\bClau" r"de\b", r"berth-" "land",
]), re.IGNORECASE)

TEXT = (".h", ".cc", ".c", ".py", ".mjs", ".js", ".ts", ".sh", ".cmake", ".md", ".txt", ".yaml",
        ".yml", ".json", ".service", ".conf", ".html", ".css", ".sql", ".toml")
CODE = (".h", ".cc", ".c", ".py", ".mjs", ".js", ".ts", ".sh", ".cmake")
LONG_OK = re.compile(r"(^|/)(corpus|golden|third_party)/|-lock\.json$|docs/ref/")
MAX_LINE, MAX_FILE, MAX_TEST, MAX_FUNCTION = 100, 600, 1200, 70


class Report:
    def __init__(self):
        self.violations, self.warnings = [], []

    def error(self, path, line, text):
        self.violations.append(f"{path}:{line}: {text}")

    def warn(self, path, line, text):
        self.warnings.append(f"{path}:{line}: warning: {text}")


def read_layers(root):
    """Folder -> rank, lowest first."""
    ranks = {}
    with open(f"{root}/tools/layers.txt") as f:
        rows = [line.split() for line in f if line.strip() and not line.startswith("#")]
    for rank, folders in enumerate(rows):
        for folder in folders:
            ranks[folder] = rank
    return ranks


def listed_files(root):
    out = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others",
                          "--exclude-standard"], stdout=subprocess.PIPE, check=True).stdout
    return sorted({p for p in out.decode().split("\0") if p and os.path.isfile(f"{root}/{p}")})


def is_text(path):
    return path.endswith(TEXT) or "." not in os.path.basename(path) or \
        os.path.basename(path).startswith(".clang")


def check_include(report, ranks, path, number, folder, name):
    """One #include "..." of a file in src/folder."""
    target = name.split("/")[0]
    if "/" not in name or target not in ranks:
        report.error(path, number, f'include "{name}" from the root of src/, as "folder/x.h"')
    elif folder in ranks and target != folder and folder != "app" \
            and ranks[target] >= ranks[folder]:
        where = "beside" if ranks[target] == ranks[folder] else "above"
        report.error(path, number, f"{folder}/ may not include {target}/, which stands {where} it "
                     "in tools/layers.txt")


def strip_comment(line):
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', line).split("//")[0]


def check_source(report, ranks, path, lines):
    """C++ in src/."""
    folder = path.split("/")[1]
    test = path.endswith("_test.cc")
    core = folder in CORES and not test
    if folder not in ranks:
        report.error(path, 1, f"folder {folder} is not in tools/layers.txt")
    for number, line in enumerate(lines, 1):
        if line.startswith("#include"):
            own = re.match(r'#include "([^"]+)"', line)
            if own:
                check_include(report, ranks, path, number, folder, own[1])
                if core and own[1] in CORE_OWN_HEADERS:
                    report.error(path, number, f"a core ({folder}/) writes no log")
            elif core and CORE_HEADERS.search(line):
                report.error(path, number, f"a core ({folder}/) does no I/O, clock, random number, "
                             f"thread or lock: {line[9:].strip()}")
            if path.endswith(".h") and HEAVY.search(line):
                report.error(path, number, f"too heavy for a header: {line[9:].strip()}")
        elif core:
            call = CORE_CALLS.search(strip_comment(line))
            if call:
                report.error(path, number, f"a core ({folder}/) may not call {call[1]}()")


NO_FUNCTION = re.compile(
    r"\s*([}#/]|(namespace|class|struct|enum|union|extern|using|template|public|private|protected|"
    r"if|for|while|switch|do|else|try|return|case)\b)")


def functions(lines):
    """First and last line of each function, as clang-format lays them out: it begins at the left
    margin or, in a class, two spaces in, and its last brace stands alone under its beginning."""
    begin = inside = None  # (line, indentation)
    for number, line in enumerate(lines, 1):
        indent = len(line) - len(line.lstrip())
        if inside:
            if line[inside[1]:].startswith("}") and indent == inside[1]:
                yield inside[0], number
                begin = inside = None
            continue
        if indent in (0, 2) and line.strip():
            begin = None if NO_FUNCTION.match(line) or "(" not in line else (number, indent)
        if begin and line.endswith("{"):
            inside = begin
        elif line.endswith((";", "}")):
            begin = None


def check_cpp(report, path, lines):
    text = "\n".join(strip_comment(line) for line in lines)
    for found in CO_AWAIT_CLOSURE.finditer(text):
        report.error(path, text.count("\n", 0, found.start()) + 1,
                     "a closure inside a co_await expression (destroyed twice by g++ 12): "
                     "give it a name first")
    """C++ anywhere."""
    for number, line in enumerate(lines, 1):
        name = SUFFIX.search(strip_comment(line))
        if name:
            report.error(path, number, f"{name[1]}: what does it do? Name it after that")
        if path.endswith(".h") and re.match(r"\s*using namespace ", line):
            report.error(path, number, "using namespace in a header")
    for start, end in functions(lines):
        if end - start + 1 > MAX_FUNCTION:
            report.warn(path, start, f"function of {end - start + 1} lines "
                        f"(soft limit {MAX_FUNCTION})")
    if path.endswith(".h") and path.startswith("src/"):
        if not lines or not lines[0].startswith("//"):
            report.error(path, 1, "a header begins with its contract, in a comment")
        if "#pragma once" not in lines:
            report.error(path, 1, "no #pragma once")


def check_python(report, path, text):
    try:
        tree = ast.parse(text)
    except SyntaxError as e:
        report.error(path, e.lineno or 1, f"does not parse: {e.msg}")
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = node.end_lineno - node.lineno + 1
            if length > MAX_FUNCTION:
                report.warn(path, node.lineno, f"function of {length} lines "
                            f"(soft limit {MAX_FUNCTION})")


def check_text(report, path, lines):
    """Any file a person reads."""
    code = path.endswith(CODE) or "." not in os.path.basename(path)
    if FILE_SUFFIX.search(os.path.basename(path)):
        report.error(path, 1, "a file is named after what it does, not manager, util, helper")
    todo = "TO" "DO"
    for number, line in enumerate(lines, 1):
        foreign = FOREIGN.search(line)
        if foreign:
            report.error(path, number, f"says {foreign[0]!r}: the tree speaks of the project alone")
        if todo in line and not re.search(todo + r"\(\w[\w-]*\)", line):
            report.error(path, number, f"write {todo}(owner): text")
        if not code:
            continue
        if len(line) > MAX_LINE and not re.search(r"https?://\S{60}", line):
            report.error(path, number, f"line of {len(line)} characters (limit {MAX_LINE})")
        if line != line.rstrip():
            report.error(path, number, "space at the end of the line")
        if "\t" in line and not path.endswith(".sh"):
            report.error(path, number, "a tab")
    limit = MAX_TEST if re.search(r"(^|/)tests/|_test\.", path) else MAX_FILE
    if code and len(lines) > limit:
        report.error(path, limit, f"file of {len(lines)} lines (limit {limit}): two concepts?")


def check_units(report, paths):
    """Each x.cc in src/ stands beside x.h and x_test.cc."""
    have = set(paths)
    for path in paths:
        if not (path.startswith("src/") and path.endswith(".cc")):
            continue
        if path.endswith("_test.cc"):
            continue
        stem = path[:-3]
        if stem + ".h" not in have and path not in NO_HEADER:
            report.error(path, 1, f"no {os.path.basename(stem)}.h beside it")
        if stem + "_test.cc" not in have and path not in NO_TEST \
                and path.split("/")[1] not in NO_TEST_FOLDERS:
            report.error(path, 1, f"no {os.path.basename(stem)}_test.cc beside it")
    for path in list(NO_TEST) + list(NO_HEADER):
        if path not in have:
            report.error("tools/tidy.py", 1, f"excepts {path}, which does not exist")


def check_tree(root):
    report = Report()
    ranks = read_layers(root)
    paths = listed_files(root)
    check_units(report, paths)
    for path in paths:
        if not is_text(path) or LONG_OK.search(path) and not path.endswith("-lock.json"):
            continue
        try:
            with open(f"{root}/{path}", encoding="utf-8") as f:
                text = f.read()
        except UnicodeDecodeError:
            report.error(path, 1, "not UTF-8")
            continue
        lines = text.split("\n")
        if lines[-1]:
            if path.endswith(CODE):
                report.error(path, len(lines), "no line feed at the end of the file")
        else:
            lines.pop()
        check_text(report, path, lines)
        if path.startswith("src/") and path.endswith((".h", ".cc")):
            check_source(report, ranks, path, lines)
        if path.endswith((".h", ".cc")):
            check_cpp(report, path, lines)
        if path.endswith(".py"):
            check_python(report, path, text)
    return report


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    p.add_argument("--no-warnings", action="store_true")
    a = p.parse_args()
    report = check_tree(a.root)
    if not a.no_warnings:
        for text in report.warnings:
            print(text)
    for text in report.violations:
        print(text)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
