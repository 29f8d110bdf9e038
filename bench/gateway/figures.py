"""Ratios of the gateway benchmark, their spread and noise margin, and the tables made of them."""

import dataclasses
import math
import statistics


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * q))]


@dataclasses.dataclass
class Ratio:
    """The median of same-round ratios."""

    median: float
    low: float  # quartiles
    high: float
    rounds: int

    @property
    def margin(self):
        """Half the width of the 95 % interval of the median (McGill's notch), from 1 to 5 %."""
        notch = 1.57 * (self.high - self.low) / math.sqrt(self.rounds)
        return min(max(notch, 0.01), 0.05)

    def __str__(self):
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


def ratio(ours, theirs):
    """Both: {round: cost}. Only rounds that both have count."""
    pairs = [ours[r] / theirs[r] for r in ours if theirs.get(r)]
    if not pairs:
        return None
    return Ratio(statistics.median(pairs), quantile(pairs, 0.25), quantile(pairs, 0.75), len(pairs))


def unit_cost_us(result, streaming):
    units = result["events"] if streaming else result["done"]
    return sum(result["cpu_s"]) * 1e6 / max(1, units)


def table(header, lines):
    rows = [header, *lines]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    out = []
    for n, row in enumerate(rows):
        out.append("| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths)) + " |")
        if n == 0:
            out.append("| " + " | ".join("-" * w for w in widths) + " |")
    return "\n".join(out)


class Targets:
    """What must hold; collects verdicts."""

    def __init__(self):
        self.lines = []
        self.failed = False

    def at_most(self, what, measured, limit):
        """`measured`: a Ratio. Fails beyond its noise margin."""
        if measured is None:
            self.lines.append(f"not measured: {what} <= {limit}")
            return
        holds = measured.median <= limit + measured.margin
        self._add(holds, f"{what}: {measured.median:.3f} <= {limit} "
                         f"(noise margin {measured.margin:.3f})")

    def check(self, what, holds):
        self._add(holds, what)

    def _add(self, holds, text):
        self.lines.append(("ok      " if holds else "MISSED  ") + text)
        self.failed |= not holds
