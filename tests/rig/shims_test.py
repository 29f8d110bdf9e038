"""The shims fail in the ways they name, and otherwise stay out of the way."""

import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from shims import Shims  # noqa: E402

REAL = "#!/bin/sh\necho ran >>\"$(dirname \"$0\")/ran\"\necho '11|RUNNING'\necho '12|PENDING'\n"


@pytest.fixture
def shims(tmp_path):
    (tmp_path / "real").mkdir()
    for name in ("squeue", "sbatch"):
        path = tmp_path / "real" / name
        path.write_text(REAL)
        path.chmod(0o755)
    return Shims(str(tmp_path / "shims"), f"{tmp_path}/real:/usr/bin:/bin")


def call(shims, name, *args, timeout=10):
    return subprocess.run([f"{shims.bin}/{name}", *args], capture_output=True, text=True,
                          timeout=timeout)


def test_without_a_mode_the_real_command_answers(shims):
    assert call(shims, "squeue", "-h", "-o", "%i|%T").stdout == "11|RUNNING\n12|PENDING\n"
    assert shims.calls("squeue") == [["-h", "-o", "%i|%T"]] and shims.calls("sbatch") == []


@pytest.mark.parametrize("mode, rc, out, err", [
    ("rc1", 1, "", "Unable to contact"), ("empty", 0, "", "timed out"),
    ("cluster", 0, "CLUSTER: berth\n", ""), ("cut", 0, "11|RUNNING\n1", ""),
    ("killed", -9, "", ""), ("lost", 1, "", "timed out")])
def test_modes(shims, tmp_path, mode, rc, out, err):
    shims.set("squeue", mode)
    done = call(shims, "squeue")
    assert done.returncode == rc and err in done.stderr
    assert done.stdout == out
    assert os.path.exists(tmp_path / "real" / "ran") == (mode in ("cut", "lost"))
    assert call(shims, "sbatch").returncode == 0
    shims.set("squeue", "")
    assert call(shims, "squeue").returncode == 0


def test_hanging(shims):
    shims.set("squeue", "hang")
    with pytest.raises(subprocess.TimeoutExpired):
        call(shims, "squeue", timeout=0.3)
