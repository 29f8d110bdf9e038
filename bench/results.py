"""bench/RESULTS.md: one section for each benchmark, each written by its own run."""

import pathlib
import re

PATH = pathlib.Path(__file__).resolve().parent / "RESULTS.md"
HEAD = "# Results of the benchmarks\n\nWritten by `./dev bench`; do not edit.\n"


def put(title, text):
    """Replaces the section `## title`, or adds it; `text` is what stands below the heading."""
    old = PATH.read_text() if PATH.exists() else HEAD
    sections = re.split(r"^(?=## )", old, flags=re.M)[1:]
    ours = f"## {title}\n\n{text.strip()}\n"
    kept = [s for s in sections if not s.startswith(f"## {title}\n")]
    PATH.write_text("\n".join([HEAD] + [s.strip() + "\n" for s in sorted(kept + [ours])]))
    print(f"written to {PATH}")
