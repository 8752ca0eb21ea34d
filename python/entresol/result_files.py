"""The files of a study: `summary.json`, `results.parquet`, `report.html`."""

from __future__ import annotations

from entresol import core, report, result_table, summary
from entresol.atomic import OutputDirectory
from entresol.core import Config, Json
from entresol.cost import PAPER, Prices
from entresol.study import Study


def write(
    output: OutputDirectory, study: Study, result: Json, command: str, prices: Prices = PAPER
) -> None:
    """Writes all three and puts them in place."""
    output.file("summary.json").write_text(summary.to_text(result), encoding="utf-8")
    result_table.write(result, output.file("results.parquet"))
    page = report.render(result, command, presets(study), core.designs(), core.parameters(), prices)
    output.file("report.html").write_text(page, encoding="utf-8")
    output.commit()


def presets(study: Study) -> dict[str, Config]:
    """What each design would use on the machine as it is shipped."""
    setup = core.Setup(study.setup.machine)
    return {design: core.effective_config(setup, design) for design in study.designs}
