"""tools/tidy.py finds what it says it finds, and nothing in a tree that keeps the rules."""

import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tools"))
import tidy  # noqa: E402

GOOD = {
    "tools/layers.txt": "# a comment\nbase\nmodel\nplan route\nsched store\napp\n",
    "tools/tidy.py": "",
    "src/app/main.cc": '#include "sched/a.h"\nint main() { return 0; }\n',
    "src/base/check.cc": '#include "base/check.h"\n',
    "src/base/check.h": "// Aborts.\n#pragma once\n",
    "src/base/log.cc": '#include "base/log.h"\n',
    "src/base/log.h": "// Log.\n#pragma once\n",
    "src/plan/a.cc": '#include "plan/a.h"\n',
    "src/plan/a_test.cc": '#include <thread>\n#include "plan/a.h"\n',
    "src/plan/a.h": '// A.\n#pragma once\n#include "base/log.h"\n'.replace("log", "check"),
    "src/sched/a.h": '// A port.\n#pragma once\n#include <mutex>\n#include "plan/a.h"\n',
}


@pytest.fixture(autouse=True)
def exceptions(monkeypatch):
    """This tree's own exceptions, whatever the real tree excepts."""
    monkeypatch.setattr(tidy, "NO_TEST", {"src/base/check.cc": "", "src/base/log.cc": ""})
    monkeypatch.setattr(tidy, "NO_HEADER", {"src/app/main.cc": ""})


def check(tmp_path, changes):
    for name, text in (GOOD | changes).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tidy.check_tree(str(tmp_path))


def test_a_good_tree_passes(tmp_path):
    report = check(tmp_path, {})
    assert report.violations == [] and report.warnings == []


H = "// A.\n#pragma once\n"


@pytest.mark.parametrize("name, text, line, words", [
    ("src/plan/b.h", H + '#include "route/x.h"\n', 3, "beside"),
    ("src/plan/b.h", H + '#include "sched/a.h"\n', 3, "above"),
    ("src/plan/b.h", H + '#include "b.h"\n', 3, "from the root"),
    ("src/plan/b.h", H + "#include <mutex>\n", 3, "a core"),
    ("src/plan/b.h", H + "#include <sys/socket.h>\n", 3, "a core"),
    ("src/plan/b.h", H + '#include "base/log.h"\n', 3, "writes no log"),
    ("src/plan/b.h", H + "inline int f() { return wall_now(); }\n", 3, "wall_now"),
    ("src/sched/b.h", H + "#include <nlohmann/json.hpp>\n", 3, "heavy"),
    ("src/sched/b.h", "#pragma once\n", 1, "contract"),
    ("src/sched/b.h", "// B.\n", 1, "#pragma once"),
    ("src/sched/b.h", H + "using namespace std;\n", 3, "using namespace"),
    ("src/sched/b.h", H + "class JobManager {};\n", 3, "JobManager"),
    ("src/sched/b.h", H + "// " + "x" * 98 + "\n", 3, "101 characters"),
    ("src/sched/b.h", H + "int x; \n", 3, "space at the end"),
    ("src/sched/b.h", H + "// TO" + "DO: later\n", 3, "(owner)"),
    ("src/sched/b.h", H + "int x;\n" * 600, 600, "602 lines"),
    ("src/sched/b.cc", "\n", 1, "no b.h"),
    ("src/sched/a.cc", "\n", 1, "no a_test.cc"),
    ("src/new/b.h", H, 1, "folder new"),
    ("src/sched/job_utils.h", H, 1, "named after what it does"),
    ("docs/a.md", "see /wo" + "rk/main\n", 1, "the project alone"),
    ("docs/a.md", "closes issue" + " #2\n", 1, "the project alone"),
    ("a/package-lock.json", '{"reso' + 'lved": "x"}\n', 1, "the project alone"),
    ("tools/x.py", "def f(:\n", 1, "does not parse"),
])
def test_a_violation_is_found(tmp_path, name, text, line, words):
    found = check(tmp_path, {name: text}).violations
    assert any(v.startswith(f"{name}:{line}: ") and words in v for v in found), found


def test_what_only_looks_like_a_violation(tmp_path):
    report = check(tmp_path, {
        "src/plan/b.h": H + '// wall_now() is for shells\ninline const char* f = "wall_now()";\n',
        "docs/a.md": "The network runs at full speed; a session of sacctmgr. " + "x" * 200 + "\n",
    })
    assert report.violations == []


@pytest.mark.parametrize("lines, warned", [(67, False), (68, True)])
def test_a_long_function_is_a_warning(tmp_path, lines, warned):
    body = "int f(int a,\n      int b) {\n" + "  a += b;\n" * lines + "}\n"
    report = check(tmp_path, {"src/plan/a.cc": body})
    assert bool(report.warnings) == warned and report.violations == []
