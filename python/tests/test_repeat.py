"""What a report says to repeat it with gives the same configuration and the same terms."""

from __future__ import annotations

from typing import Any

from entresol import core, cost
from entresol.derived import Run
from entresol.report import configuration

# Not of our own design: its width of compaction is its own, so a file of what all designs share
# cannot say the machine's.
DESIGNS = [design.name for design in core.designs() if design.name != "entresol"]


def runs(setup: core.Setup) -> list[Run]:
    def made(name: str) -> Any:
        return {"design": name, "config": core.effective_config(setup, name)}

    return [Run(made(name)) for name in DESIGNS]


def test_the_parameters_of_a_report_as_a_file_give_the_configuration_again() -> None:
    made = runs(core.Setup("demo", nand="slc", overrides=("ssd.dram=8MiB", "run.seed=7")))
    files = (("report.toml", configuration.toml(made)),)
    for run, design in zip(made, DESIGNS, strict=True):
        assert (
            core.effective_config(core.Setup("table2", files=files), design) == (run.json["config"])
        )


def test_the_file_of_a_single_design_leaves_the_design_to_its_name() -> None:
    (made,) = (run for run in runs(core.Setup("demo")) if run.design == "skybyte-full")
    text = configuration.toml([made])
    assert "[design]" not in text and "[nand]" in text


def test_the_device_of_the_paper_costs_what_the_paper_says() -> None:
    # 128 GiB of flash, an eighth of it spare: 112 GiB, at $0.27 per GB.
    full = runs(core.Setup("table2"))[DESIGNS.index("skybyte-full")]
    price = cost.bill(full)
    assert price.capacity_bytes == 112 << 30
    assert round(price.device, 2) == 32.47 and round(price.host, 2) == 9.19
    assert price.saving is not None and round(price.saving, 1) == 15.9
    assert price.saving_whole is not None and round(price.saving_whole, 1) == 12.4


def test_every_type_of_flash_has_a_rating_but_modules_of_unknown_cells() -> None:
    names = [preset.name for preset in core.nand_types()]
    assert len(names) >= 6
    for name in names:
        config = core.effective_config(core.Setup("table2", nand=name), "base-cssd")
        made: Any = {"config": config}
        assert (cost.rated(made) is None) == name.startswith("module-"), name
