"""Runs that record what happens in them, for `entresol timeline` and `entresol why`."""

from __future__ import annotations

from entresol import core, study, terminal
from entresol.errors import UserError
from entresol.execution.point import Point, Recording
from entresol.result_types import Recorded

RECORDS = 1_000_000
"""Of a kind, at most."""


def one(
    trace: str,
    design: str,
    setup: core.Setup,
    threads: int | None,
    reading: core.ForeignReading,
) -> study.Study:
    """A study of one design. Raises `UserError` if several are named."""
    wanted = study.study_of([trace], [design], setup, threads, False, reading)
    if len(wanted.designs) != 1:
        raise UserError("name one design.")
    return wanted


def record(wanted: study.Study, span: tuple[int, int], slowest: int) -> Recorded:
    """What happened in a span of picoseconds, and the slowest reads."""
    measure = Recording(*span, RECORDS, slowest)
    capture, design = wanted.captures[-1], wanted.designs[0]  # A co-run stands behind its parts.
    point = Point(capture, design, wanted.setup, wanted.threads, wanted.audit, measure)
    (outcome,) = terminal.execute([point], terminal.name_of, None)
    assert outcome.recorded is not None, "it has run"
    return outcome.recorded
