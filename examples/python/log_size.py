"""How large must the write log be? A study of two captures, in Python.

    .venv/bin/python examples/python/log_size.py [DIRECTORY]

Prints the speedup over a plain CXL-SSD for each size of the log and writes the report, the table
and a picture into DIRECTORY (`log-size` if left out). Points that were run before come from the
store.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import polars as pl

import entresol as es

matplotlib.use("Agg")

import matplotlib.pyplot as plt

TRACES = Path(__file__).resolve().parents[2] / "traces"
SIZES_KIB = (64, 128, 256, 512)


def main(directory: Path) -> None:
    results = es.sweep(
        {
            "trace": [str(TRACES / "xz.etr"), str(TRACES / "sort.etr")],
            "machine": "demo",
            "threads": 1,
            "points": [
                {"design": "base-cssd"},
                {"design": "skybyte-w", "ssd.log.size": [f"{size}KiB" for size in SIZES_KIB]},
            ],
        }
    )
    table = results.compare("base-cssd").filter(pl.col("design") == "skybyte-w")
    print(table.select("trace", "ssd.log.size", "speedup"))
    results.write(directory)

    figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
    for (trace,), rows in table.group_by("trace", maintain_order=True):
        axes.plot(SIZES_KIB, rows["speedup"], marker="o", label=trace)
    axes.axhline(1, linewidth=1, linestyle="dashed", color="grey")
    axes.set_xscale("log", base=2)
    axes.set_xticks(SIZES_KIB, [str(size) for size in SIZES_KIB])
    axes.set(xlabel="write log [KiB]", ylabel="speedup over base-cssd", ylim=(0, None))
    axes.legend()
    figure.savefig(directory / "log-size.svg")
    print(directory / "log-size.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "log-size"))
