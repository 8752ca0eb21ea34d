"""Pages for people: one file each, no network, for light, dark and paper.

`render` shows the runs of a study, `sweep_page` the points of a sweep. Both are pure functions of
results, command and documentation, so that equal studies have equal pages.
"""

from __future__ import annotations

from entresol.report.study_page import render
from entresol.report.sweep_page import Point, Sweep, sweep_page

__all__ = ["Point", "Sweep", "render", "sweep_page"]
