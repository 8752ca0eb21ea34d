"""The figures of ByteFS from invented results, and the loads behind them on the real core."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars
import pytest
import synthetic_figures
from conftest import Entresol, one_line

from entresol import core, memory
from entresol.cli import figure as figure_command
from entresol.core import Json
from entresol.errors import UserError
from entresol.figures import benches, frames, reproduction, simulate, tables, writing
from entresol.figures.entry import Figure, choose
from entresol.figures.plan import Bench, Results, Scale
from entresol.papers.bytefs import PAPER, claims, runs, switches
from entresol.store.result_store import Store

FEW = PAPER.settings(workloads=["create", "varmail", "oltp", "ycsb-a"])


def _of(name: str) -> Figure:
    (found,) = choose(PAPER.figures, [name])
    return found


@pytest.mark.parametrize("figure", PAPER.figures, ids=lambda figure: figure.name)
def test_every_figure_is_drawn_and_may_lack_everything(figure: Figure) -> None:
    writing.check(PAPER, [figure])
    results = synthetic_figures.results([figure], FEW)
    frame = figure.frame(results)
    assert frame["ours"].drop_nulls().len() > 0
    figure.draw(frame)
    lacking = Results(FEW, {}, failures=dict.fromkeys(results.benches, "no room"))
    assert figure.frame(lacking)["ours"].drop_nulls().len() == 0


def test_figures_say_what_they_are_of() -> None:
    def said(name: str) -> str:
        figure = _of(name)
        results = synthetic_figures.results([figure], FEW)
        return tables.settings(results, [], figure.benches(FEW))

    assert said("recovery") == "3 devices, which do not shrink with the scale."
    assert "loads of" in said("6")


def test_lines_of_a_recovery_are_of_its_key() -> None:
    (item, *_) = _of("recovery").benches(FEW)
    keys = [benches._Run.of(item, replace(FEW, overrides=sets)).inputs
            for sets in ((), ("run.lines=8",), ("run.lines=16",))]  # fmt: skip
    assert keys[0] == keys[1] != keys[2]


def test_a_fidelity_is_parameters_of_loads_and_a_mode_is_none_of_theirs() -> None:
    fidelity, sets = figure_command._for_runs(PAPER, "no_link", ("fs.aged=1%",))
    assert fidelity == "paper" and len(sets) > 1 and sets[-1] == "fs.aged=1%"
    with pytest.raises(UserError, match="unknown switch no_such"):
        figure_command._for_runs(PAPER, "no_such", ())
    fast = simulate.plan([_of("6")], replace(FEW, mode="fast"))
    with pytest.raises(UserError, match="--mode fast: none of these figures is"):
        figure_command._check(fast)
    with pytest.raises(UserError, match="--fidelity artifact: none of these figures reads it"):
        figure_command._check(simulate.plan([_of("6")], replace(FEW, fidelity="artifact")))
    figure_command._check(simulate.plan([_of("6")], FEW))


def test_throughput_is_over_the_one_by_blocks() -> None:
    figure = _of("6")
    results = synthetic_figures.results([figure], FEW)
    for item, result in results.benches.items():
        result["operations_per_second"] = 6.0 if item.personality == "bytefs" else 2.0
    cells = frames.cells(figure.frame(results), "normalised_throughput")
    assert cells["create", "bytefs"] == (3.0, 6.0)
    assert cells["varmail", "ext4-like"] == (1.0, None)


def test_amplification_is_of_both_directions() -> None:
    figure = _of("table2")
    results = synthetic_figures.results([figure], FEW)
    result = results.benches[runs.bench("varmail", "ext4-like")]
    result["application_written_bytes"], result["application_read_bytes"] = 100, 50
    result["synced"].update(
        metadata_written_by_bytes=0, metadata_written_by_blocks=100, journal_written_by_bytes=0,
        journal_written_by_blocks=200, data_written_by_bytes=0, data_written_by_blocks=100,
        metadata_read_by_blocks=25, data_read_by_bytes=0, data_read_by_blocks=50,
    )  # fmt: skip
    frame = figure.frame(results)
    assert frames.cells(frame, "write_amplification")["varmail", "ext4-like"] == (4.0, 3.85)
    assert frames.cells(frame, "read_amplification")["varmail", "ext4-like"] == (1.5, 1.21)


def test_claims_are_of_the_systems_that_there_are() -> None:
    settings = PAPER.settings()
    every = {item: synthetic_figures.bench(item) for item in claims.benches(settings)}
    absent = {"Ext4": "ext4-like", "F2FS": "f2fs-like", "NOVA": "nova-like", "PMFS": "pmfs-like"}
    absent = {called: name for called, name in absent.items() if name not in runs.systems()}
    for claim in claims.claims():
        ours = claim.ours(Results(settings, {}, benches=every))
        assert (ours is None) == any(name in claim.quantity for name in absent), claim.quantity
        assert claim.ours(Results(settings, {})) is None


def test_a_mean_of_some_loads_is_no_claim() -> None:
    settings = PAPER.settings(workloads=["create", "mkdir"])
    every = {item: synthetic_figures.bench(item) for item in claims.benches(settings)}
    known = {claim.quantity for claim in claims.claims()
             if claim.ours(Results(settings, {}, benches=every)) is not None}  # fmt: skip
    # That of a recovery is of no load.
    alone = {"create: throughput over Ext4", "recovery with a full log: scan and flush"}
    assert known == alone | (
        {"create: throughput over F2FS"} if "f2fs-like" in runs.systems() else set()
    )


def test_switches_are_of_all_personalities_or_of_one() -> None:
    text = PAPER.text
    assert text is not None
    name = "block_writes_wait_for_flash"
    fidelity, overrides = text.conditions(name, ("nand.t_r=3us",))
    assert fidelity == "paper"
    settings = replace(PAPER.settings(), overrides=overrides)
    slow = settings.overrides_of(runs.bench("create", "ext4-like"))
    assert slow == ("ssd.block_write_ack=programmed", "nand.t_r=3us")
    assert settings.overrides_of(runs.bench("create", "bytefs")) == ("nand.t_r=3us",)
    assert text.conditions("paper", ()) == ("paper", ())
    every = text.conditions("artifact", ())[1]
    assert set(every) == {each for sets in switches.switches().values() for each in sets}
    assert set(text.conditions(f"artifact,-{name}", ())[1]) == set(every) - set(overrides)
    with pytest.raises(UserError, match="unknown switch no_such"):
        text.conditions("no_such", ())


def _total(*names: str) -> Callable[[Json], float]:
    return lambda run: float(sum(run["synced"][name] for name in names))


def _rate(run: Json) -> float:
    return float(run["operations_per_second"])


MORE, LESS, OTHER, NOTHING = (lambda on, off: on > off, lambda on, off: on < off,
                              lambda on, off: on != off, lambda on, off: on == 0 < off)  # fmt: skip
SCENARIOS: dict[str, tuple[str, str, Callable[[Json], float], Callable[[float, float], bool]]] = {
    "block_writes_wait_for_flash": ("create", "ext4-like", _rate, LESS),
    "no_line_times": ("create", "bytefs", _rate, MORE),
    "no_link": ("varmail", "ext4-like", _rate, MORE),
    "no_channel_time": ("webserver", "ext4-like", _rate, MORE),
    "sixteen_dies": ("webserver", "ext4-like", _rate, LESS),
    "log_cleaned_at_75": ("create", "bytefs", _rate, OTHER),
    "contents_on_the_host": ("varmail", "bytefs",
                             _total("data_written_by_bytes", "data_written_by_blocks"), NOTHING),
    "no_transactions": ("varmail", "bytefs", _total("device_commits"), NOTHING),
    "blocks_from_a_quarter": ("varmail", "bytefs", _total("fs_pages_by_bytes"), MORE),
    "blocks_pass_by_the_cache": ("fileserver", "ext4-like", _total("device_flash_read_bytes"),
                                 MORE),
    "erases_take_no_time": ("fileserver", "ext4-like", _rate, MORE),
    "half_the_page_cache": ("fileserver", "ext4-like", _total("data_read_by_blocks"), MORE),
    "f2fs_keeps_its_caches": ("delete", "f2fs-like", _total("metadata_read_by_blocks"), LESS),
    "loads_of_the_artifact": ("varmail", "ext4-like",
                              lambda run: float(run["conditions"]["threads"]["user"]), MORE),
    "counts_from_the_beginning": ("delete", "ext4-like", _total("data_written_by_blocks"), MORE),
    "unmapped_pages_are_read": ("create", "pmfs-like", _total("device_flash_read_bytes"), MORE),
}  # fmt: skip
"""For each switch a load, a personality, a number of the result, and what the switch does to it."""
SETS = {
    "blocks_pass_by_the_cache": ("ssd.dram=4GiB", "run.cache=1MiB"),
    "erases_take_no_time": ("load.rounds=1000000",),
    **dict.fromkeys(("no_line_times", "no_link", "no_channel_time"), ("run.threads=1",)),
}
"""So that it matters: a cache of the device that is larger than the host's; rounds until blocks are
erased; one thread, which meets no other one otherwise than before."""


def test_every_switch_has_a_scenario() -> None:
    assert SCENARIOS.keys() == switches.switches().keys()


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_switch_does_what_it_says(name: str) -> None:
    load, personality, number, does = SCENARIOS[name]
    small = replace(PAPER.settings(), at=Scale("", shrink=1024))

    def measured(*sets: str) -> float:
        item = Bench(load, personality, "", (*SETS.get(name, ()), *sets))
        result = benches.run([item], small, None, 1, print)[item]
        assert not isinstance(result, str), result
        return number(result)

    assert does(measured(*switches.of(personality, (name,))), measured())


def test_options_of_runs_are_known_and_loads_are_found() -> None:
    settings = PAPER.settings()

    def of(*sets: str, load: str = "varmail") -> benches.Conditions:
        return benches.conditions(Bench(load, "bytefs", "", sets), settings)

    told = of("run.threads=1", "run.scale=16", "run.cache=1GiB", "nand.t_r=3us", "nand.t_r=4us")
    assert told == benches.Conditions(("nand.t_r=4us",), 16, 1, None, "1GiB", benches.LOG)
    for table in ("artifact_bytefs", "artifact_baselines"):
        known = benches.loads_of(PAPER.name, table)
        assert known.keys() <= set(PAPER.workloads)
        for load in known:
            sets = of(f"run.loads={table}", load=load).overrides
            assert all(each.startswith("load.") for each in sets)
    for wrong, part in (("run.colour=red", "run.colour: is no option"),
                       ("run.loads=mine", "has no table mine"),
                       ("run.counts=some", "run.counts is run or all"),
                       ("run.unmapped=no", "run.unmapped is known or read"),
                       ("run.threads=many", "are numbers")):  # fmt: skip
        with pytest.raises(UserError, match=part):
            of(wrong)


def test_recovery_takes_longer_with_more_in_the_log() -> None:
    items = [Bench(benches.RECOVERY, "bytefs", "", (f"run.log={mib}MiB",)) for mib in (1, 2)]
    found = benches.run(items, PAPER.settings(), None, 1, print)
    small, large = (found[item] for item in items)
    assert not isinstance(small, str) and not isinstance(large, str), found
    assert all(0 < small[part] < large[part] for part in ("scan_ps", "flush_ps"))


@pytest.mark.parametrize("load", PAPER.workloads)
def test_loads_of_the_artifact_are_loads(load: str) -> None:
    for table in ("artifact_bytefs", "artifact_baselines"):
        settings = replace(PAPER.settings(), at=Scale("", shrink=4096))
        told = benches.conditions(Bench(load, "ext4-like", "", (f"run.loads={table}",)), settings)
        # Refused before anything is made: the preset is none, the load is one.
        with pytest.raises(core.ConfigError, match="no device preset"):
            core.fs_bench(load, "ext4-like", device="none", overrides=told.overrides, scale=4096)


def test_causes_are_of_claims_and_ask_for_their_runs() -> None:
    study = reproduction.of(PAPER)
    plans = study.plans(FEW, study.causes())
    assert all(plan.benches for plan in plans[:2]) and not any(plan.wants for plan in plans)
    assert plans[0].settings.overrides == () != plans[1].settings.overrides


def test_runs_that_figures_share_are_made_once() -> None:
    both = simulate.plan(choose(PAPER.figures, ["8", "10"]), PAPER.settings())
    alone = simulate.plan(choose(PAPER.figures, ["8"]), PAPER.settings())
    assert both.benches == alone.benches and len(both.benches) == 4 * len(runs.systems())
    assert not both.captures


def test_a_figure_is_made_of_loads_that_run(
    entresol_command: Entresol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(runs.SCALES, "small", Scale("", shrink=1024))
    words = ("figure", "bytefs", "8", "--workloads", "mkdir", "--store", tmp_path / "store")
    first = entresol_command(*words, "-o", tmp_path / "first")
    assert first.code == 0, first.err
    second = entresol_command(*words, "-o", tmp_path / "second")
    assert second.code == 0, second.err
    csv = [(tmp_path / name / "fig08.csv").read_bytes() for name in ("first", "second")]
    assert csv[0] == csv[1]
    frame = polars.read_csv(tmp_path / "first" / "fig08.csv")
    assert frame["ours"].drop_nulls().len() > 0


def test_the_same_load_gives_the_same_json(entresol_command: Entresol) -> None:
    words = ("fs", "bench", "mkdir", "--scale", "1024", "--cores", "2", "--json")
    first, second = entresol_command(*words), entresol_command(*words)
    assert first.code == 0 and first.out == second.out
    (result,) = json.loads(first.out)
    assert result["latencies"]["mkdir"]["operations"] == result["operations"] > 0
    assert result["conditions"]["personality"] == "bytefs"
    table = entresol_command("fs", "bench", "mkdir", "--scale", "1024", "--personality", "all")
    assert table.code == 0
    assert all(name in table.out for name in core.fs_personalities())


def test_what_cannot_be_is_one_sentence(entresol_command: Entresol, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('title = "mine"\ncolour = "red"\n')
    for words, part in (
        (("nothing",), "there is no load nothing; did you mean"),
        ((mine,), f"{mine}: line 2: unknown field `colour`"),
        ((tmp_path / "absent.toml",), "absent.toml: cannot be read: No such file"),
        (("mkdir", "--scale", "3"), "--scale is 3; it must be a power of two"),
        (("mkdir", "--personality", "ext5-like"), "Did you mean ext4-like?"),
        (("mkdir", "--cache", "much"), "--cache: "),
        (("mkdir", "--set", "nand.colour=3"), "unknown key nand.colour"),
    ):
        refused = entresol_command("fs", "bench", *words)
        assert refused.code == 2 and part in one_line(refused), refused.err


def test_loads_are_listed(entresol_command: Entresol) -> None:
    listed = entresol_command("fs", "bench", "--list").out
    assert [line.split()[0] for line in listed.splitlines()] == [
        load.name for load in core.fs_loads()
    ]
    assert Bench("varmail", "bytefs") in simulate.plan([_of("6")], PAPER.settings()).benches


def test_a_load_is_kept_when_it_is_over_and_the_next_command_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    items = [Bench(load, "bytefs", "") for load in ("create", "delete", "mkdir")]
    asked: list[str] = []

    def once(load: str, *_rest: object, **_more: object) -> Json:
        asked.append(load)
        if load == "delete" and asked.count(load) == 1:
            raise KeyboardInterrupt
        return {"operations_per_second": 1.0}

    monkeypatch.setattr(core, "fs_bench", once)
    store = Store(tmp_path / "store")
    with pytest.raises(KeyboardInterrupt):
        benches.run(items, PAPER.settings(), store, 1, print)
    begun = list(asked)
    assert begun[:2] == ["create", "delete"]
    found = benches.run(items, PAPER.settings(), store, 1, print)
    assert list(found) == items and not any(isinstance(each, str) for each in found.values())
    assert "create" not in asked[len(begun) :] and "delete" in asked[len(begun) :]


def test_what_has_no_room_is_refused_before_anything_begins(
    monkeypatch: pytest.MonkeyPatch, entresol_command: Entresol, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1 << 30)
    asked: list[str] = []
    monkeypatch.setattr(core, "fs_bench", lambda load, *_rest, **_more: asked.append(load))
    words = ("figure", "bytefs", "6", "--scale", "paper", "--workloads", "create")
    refused = entresol_command(*words, "--store", tmp_path / "store", "-o", tmp_path / "out")
    said = refused.err.splitlines()[-1]
    assert refused.code == 2 and "create on ext4-like at scale 1 needs about " in said, refused.err
    assert "GiB of memory and this machine has 1.0 to give" in said and asked == []
    bench = entresol_command("fs", "bench", "create", "--scale", "1")
    assert bench.code == 2 and "create on bytefs at --scale 1 needs about" in one_line(bench)


def test_runs_begin_when_there_is_room_beside_others() -> None:
    budget = memory.Budget(10)
    begun, done = threading.Event(), threading.Event()

    def second() -> None:
        with budget.taken(6):
            begun.set()
        with budget.taken(20):  # More than there is: alone.
            done.set()

    with budget.taken(4), budget.taken(1):
        other = threading.Thread(target=second)
        with budget.taken(1):
            other.start()
            assert not begun.wait(0.05)
        # Four and one and six are still too many.
        assert not begun.wait(0.05)
    assert done.wait(30)
    other.join()
