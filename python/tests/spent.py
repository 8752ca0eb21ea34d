"""A plugin of pytest that notes what each file of tests took, for `scripts/test`."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

SPENT = "spent"
_began = pytest.StashKey[tuple[float, float]]()
_files: dict[str, tuple[float, float]] = {}


def _now() -> tuple[float, float]:
    """Seconds of processors, of this process and of children that have ended, and of the clock."""
    times = os.times()
    processor = times.user + times.system + times.children_user + times.children_system
    return processor, time.monotonic()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The test begins, in the process that runs it."""
    item.stash[_began] = _now()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Its last report says what it took."""
    if call.when == "teardown" and _began in item.stash:
        began, now = item.stash[_began], _now()
        item.user_properties.append((SPENT, (now[0] - began[0], now[1] - began[1])))
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds up the files, in the process that collects the reports."""
    for name, spent in report.user_properties:
        if name == SPENT and report.when == "teardown":
            file = report.nodeid.partition("::")[0]
            before = _files.get(file, (0.0, 0.0))
            assert isinstance(spent, (tuple, list))
            _files[file] = (before[0] + spent[0], before[1] + spent[1])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes what `scripts/test` reads."""
    place = os.environ.get("TEST_TIMES")
    if place is not None and not hasattr(session.config, "workerinput"):
        with Path(place).open("a") as times:
            for file, (processor, clock) in _files.items():
                times.write(f"{processor:.1f} {clock:.1f} {file}\n")
