"""The one writer of results: the files that each kind of study leaves.

Equal studies with equal results leave equal files, whoever wrote them and whatever was in the
store.
"""

from __future__ import annotations

from collections.abc import Sequence

from entresol import core, device_replay, report, result_table, summary
from entresol.atomic import OutputDirectory
from entresol.core import Config, Json
from entresol.cost import PAPER, Prices
from entresol.execution.executor import Outcome
from entresol.report import assumptions_page, gain_page, replay_page
from entresol.result_types import Assumptions, Gain, Samples, Summary
from entresol.study import Study
from entresol.sweeps import table
from entresol.sweeps.plan import Sweep

SUMMARY = "summary.json"
TABLE = "results.parquet"
PAGE = "report.html"


def write_run(
    output: OutputDirectory, study: Study, result: Summary, command: str, prices: Prices = PAPER
) -> None:
    """The files of `run`: `result` is the summary, `command` what repeats it."""
    output.write(SUMMARY, summary.to_text(result))
    result_table.write(result["runs"], output.file(TABLE))
    known = (core.designs(), core.parameters())
    output.write(PAGE, report.render(result, command, presets(study), *known, prices))
    output.commit()


def presets(study: Study) -> dict[str, Config]:
    """What each design would use on the machine as it is shipped."""
    setup = core.Setup(study.setup.machine)
    return {design: core.effective_config(setup, design) for design in study.designs}


def write_sweep(
    output: OutputDirectory,
    sweep: Sweep,
    outcomes: Sequence[Outcome],
    command: str,
    prices: Prices = PAPER,
) -> None:
    """The files of `sweep`: a row a point, in order, failed ones included."""
    output.write("sweep.json", summary.to_text(table.assemble(sweep, outcomes)))
    result_table.write_rows(table.rows(sweep, outcomes), output.file(TABLE))
    page = table.page(sweep, outcomes, command)
    output.write(PAGE, report.sweep_page(page, core.designs(), core.parameters(), prices))
    output.commit()


def write_gain(output: OutputDirectory, result: Gain) -> None:
    """The files of `explain-gain`."""
    output.write("gain.json", summary.to_text(result))
    output.write("gain.html", gain_page.render(result))
    output.commit()


def write_assumptions(output: OutputDirectory, result: Assumptions) -> None:
    """The files of `assumptions`."""
    output.write("assumptions.json", summary.to_text(result))
    output.write("assumptions.html", assumptions_page.render(result))
    output.commit()


def write_samples(output: OutputDirectory, result: Samples) -> None:
    """The files of `sample`: a row a window."""
    output.write("samples.json", summary.to_text(result))
    result_table.write(result["runs"], output.file("samples.parquet"))
    output.commit()


def write_steady(output: OutputDirectory, result: Json) -> None:
    """The file of `steady`."""
    output.write("steady.json", summary.to_text(result))
    output.commit()


def write_replay(output: OutputDirectory, result: Json, command: str) -> None:
    """The files of `replay`: a row a design."""
    output.write(SUMMARY, summary.to_text(result))
    rows = [device_replay.flatten(run) for run in result["runs"]]
    result_table.write_rows(rows, output.file(TABLE))
    output.write(PAGE, replay_page.render(result, command))
    output.commit()
