"""`entresol results`: what is in the store, told, compared, taken out and cleared."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import fake_core
import pyarrow.parquet as pq
import pytest
from conftest import Entresol, one_line

from entresol import core
from entresol.store import clear_results, result_store, search
from entresol.store.result_store import Store

pytestmark = pytest.mark.usefixtures("fake")
DAY = 86400.0


@pytest.fixture
def kept(own_store: Path) -> Store:
    return Store(own_store)


@pytest.fixture
def made(entresol_command: Entresol, capture_file: Path, kept: Store) -> list[str]:
    """The keys of three results: two designs, and the second with another log."""
    words = ("run", capture_file, "--machine", "demo", "--json", "--threads", "4")
    entresol_command(*words, "--design", "base-cssd,skybyte-w")
    entresol_command(*words, "--design", "skybyte-w", "--set", "ssd.log.size=2MiB")
    found = search.items(kept, search.Filter())
    return [item.entry.key for item in found]


def _age(kept: Store, key: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(kept.path(key), (then, then))


def test_the_list_has_every_result_and_what_was_not_the_preset(
    entresol_command: Entresol, made: list[str]
) -> None:
    out = entresol_command("results", "list").out
    assert out.startswith("3 results, ")
    for key in made:
        assert key[:12] in out
    assert "demo threads=4 ssd.log.size=2MiB" in out and "this" in out


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ([], 3),
        (["--design", "skybyte-w"], 2),
        (["--design", "skybyte-w", "--where", "ssd.log.size=2MiB"], 1),
        (["--design", "base-cssd,skybyte-w", "--where", "threads=4"], 3),
        (["--where", "threads=8"], 0),
        (["--where", "audit=false"], 3),
        (["--trace", "sort"], 3),
        (["--trace", "other"], 0),
        (["--newer", "1h"], 3),
        (["--older", "1h"], 0),
        (["--other-core"], 0),
    ],
)
def test_filters_choose(
    entresol_command: Entresol, made: list[str], words: list[str], count: int
) -> None:
    assert len(made) == 3
    listed = json.loads(entresol_command("results", "list", "--json", *words).out)
    assert len(listed) == count


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--design", "skybyte-ful"), "--design skybyte-ful: is not known. Did you mean skybyte-f"),
        (
            ("--where", "ssd.log.siz=1"),
            "--where ssd.log.siz: is not known. Did you mean ssd.log.si",
        ),
        (("--where", "ssd.write_log=1"), "ssd.write_log is called ssd.log.size now"),
    ],
)
def test_a_filter_by_what_does_not_exist_is_refused(
    entresol_command: Entresol, words: tuple[str, str], said: str
) -> None:
    assert said in one_line(entresol_command("results", "list", *words))


def test_a_result_of_another_build_is_called_so(
    entresol_command: Entresol, made: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "core.so"
    other.write_bytes(b"another build")
    monkeypatch.setattr(core, "library", lambda: other)
    assert len(json.loads(entresol_command("results", "list", "--other-core", "--json").out)) == 3
    said = entresol_command("results", "gc", "--other-core", "--delete").out
    assert said.startswith("removed 3 of 3 results") and made


def test_a_result_is_shown_by_the_beginning_of_its_key(
    entresol_command: Entresol, made: list[str], kept: Store
) -> None:
    out = entresol_command("results", "show", made[0][:10]).out
    assert made[0] in out and "amat.paper_ps" in out
    whole = json.loads(entresol_command("results", "show", made[0], "--json").out)
    assert whole["key"] == made[0] and whole["result"] == kept.find(made[0])
    assert "no result has this key" in one_line(entresol_command("results", "show", "zz"))
    assert "no result has this key" in one_line(entresol_command("results", "show", ""))


def test_keys_that_begin_alike_are_told_apart_by_more(
    entresol_command: Entresol, made: list[str], kept: Store
) -> None:
    twin = kept.path(made[0][:-1] + ("0" if made[0][-1] != "0" else "1"))
    twin.write_bytes(kept.path(made[0]).read_bytes())
    assert "2 keys begin so" in one_line(entresol_command("results", "show", made[0][:8]))
    assert "other inputs" in one_line(entresol_command("results", "show", twin.stem))


def test_a_difference_names_the_inputs_and_the_numbers(
    entresol_command: Entresol, made: list[str], kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = json.loads(entresol_command("results", "list", "--json").out)
    base = next(item["key"] for item in listed if item["design"] == "base-cssd")
    log = next(item["key"] for item in listed if item["changes"])
    plain = next(key for key in made if key not in (base, log))
    found = json.loads(entresol_command("results", "diff", plain, log, "--json").out)
    assert found["inputs"] == [{"name": "config.ssd.log.size", "one": "1MiB", "other": "2MiB"}]
    assert found["numbers"] == []
    both = json.loads(entresol_command("results", "diff", base, log, "--json").out)
    assert {"name": "design", "one": "base-cssd", "other": "skybyte-w"} in both["inputs"]
    results = [kept.find(key) for key in (base, log)]
    times = [result["execution_time_ps"] for result in results if result is not None]
    change = {"name": "execution_time_ps", "one": times[0], "other": times[1]}
    assert change in both["numbers"]
    shown = entresol_command("results", "diff", base, log).out
    assert "inputs that differ: 3" in shown and "design" in shown
    assert "execution_time_ps" in shown and "more; --all" not in shown
    monkeypatch.setattr("entresol.cli.results.SHOWN", 3)
    short = entresol_command("results", "diff", base, log).out
    assert "more; --all shows them" in short
    assert entresol_command("results", "diff", base, log, "--all").out == shown


def test_an_export_has_a_row_for_each_result(
    entresol_command: Entresol, made: list[str], tmp_path: Path
) -> None:
    words = ("results", "export", "--design", "skybyte-w", "-o")
    assert entresol_command(*words, tmp_path / "x.parquet").code == 0
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.num_rows == 2 and set(table.column("key").to_pylist()) < set(made)
    assert {"execution_time_ps", "machine", "mode", "config_ssd_log_size"} <= set(
        table.column_names
    )
    assert entresol_command(*words, tmp_path / "x.json").code == 0
    assert len(json.loads((tmp_path / "x.json").read_text())) == 2
    assert "ends in neither" in one_line(entresol_command(*words, tmp_path / "x.txt"))
    none = ("results", "export", "--design", "skybyte-p", "-o", tmp_path / "y.json")
    assert "no result in the store fits" in one_line(entresol_command(*none))
    assert not (tmp_path / "y.json").exists()


def test_clearing_says_first_and_does_when_told(
    entresol_command: Entresol, made: list[str], kept: Store
) -> None:
    _age(kept, made[0], 40 * DAY)
    said = entresol_command("results", "gc", "--older", "30d").out
    assert said.startswith("would remove 1 of 3 results") and "--delete" in said
    assert kept.list_keys() == sorted(made)
    assert entresol_command("results", "gc", "--older", "30d", "--delete").code == 0
    assert kept.list_keys() == sorted(made[1:])


def test_clearing_by_age_takes_loads_windows_and_misses_too(
    entresol_command: Entresol, made: list[str], kept: Store
) -> None:
    directory = kept.root.parent
    names = ("file-systems/results/ab/abc.json", "steady/a.json", "steady/b.json",
             "misses/a.misses")  # fmt: skip
    files = [directory / name for name in names]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    for path in (files[0], files[1], files[3]):
        os.utime(path, (time.time() - 40 * DAY,) * 2)
    said = entresol_command("results", "gc", "--older", "30d").out
    assert "would remove 0 of 3 results" in said
    assert "and 3 of 4 files of loads, steady windows and misses" in said
    assert all(path.exists() for path in files)
    assert entresol_command("results", "gc", "--older", "30d", "--delete").code == 0
    assert [path.exists() for path in files] == [False, False, True, False]
    assert kept.list_keys() == sorted(made)


def test_clearing_to_a_size_keeps_the_last_used(
    entresol_command: Entresol, made: list[str], kept: Store
) -> None:
    for number, key in enumerate(made):
        _age(kept, key, DAY * (3 - number))
    size = max(kept.path(key).stat().st_size for key in made)
    entresol_command("results", "gc", "--keep", f"{size * 3 // 2}B", "--delete")
    assert kept.list_keys() == [made[2]]
    assert kept.find(made[2]) is not None


def test_a_result_that_is_used_is_young_again(made: list[str], kept: Store) -> None:
    _age(kept, made[0], 40 * DAY)
    kept.find(made[0])
    planned = clear_results.plan(kept, search.Filter(older=30 * DAY), None)
    assert planned.items == ()


def test_what_a_command_at_work_uses_is_spared(
    entresol_command: Entresol, made: list[str], kept: Store
) -> None:
    for key in made:  # Made in the same tick of the clock as it they would be in use.
        _age(kept, key, 40 * DAY)
    with kept.in_use():
        kept.find(made[1])
        said = entresol_command("results", "gc", "--keep", "0B", "--delete").out
        assert "spared" in said
        assert kept.list_keys() == sorted(made[1:2])
    entresol_command("results", "gc", "--keep", "0B", "--delete")
    assert kept.list_keys() == []


def test_a_killed_command_does_not_hold_the_store_for_ever(made: list[str], kept: Store) -> None:
    assert made
    left = kept.root / result_store.IN_USE / "killed"
    left.parent.mkdir(exist_ok=True)
    left.touch()
    assert kept.in_use_since() is None and not left.exists()
    with kept.in_use():
        assert kept.in_use_since() is not None


def test_files_that_were_never_finished_are_cleared_when_they_are_old(
    entresol_command: Entresol, made: list[str], kept: Store
) -> None:
    for name in (".new-old", ".new-young"):
        (kept.path(made[0]).parent / name).write_text("half")
    old = kept.path(made[0]).parent / ".new-old"
    others = [kept.root.parent / name for name in ("misses/.new-a.misses", "steady/.new-b",
                                                   "file-systems/results/ab/.new-c")]  # fmt: skip
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    for path in (old, *others[:2]):
        os.utime(path, (0, 0))
    said = entresol_command("results", "gc", "--older", "30d", "--delete").out
    assert "1 file that was never finished" in said
    assert ", 2 of 3 files of loads, steady windows and misses" in said
    assert not old.exists() and old.with_name(".new-young").exists()
    assert [path.exists() for path in others] == [False, False, True]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gc"], "say what may go"),
        (["gc", "--older", "soon"], "--older soon: is no span of time"),
        (["gc", "--keep", "many"], "--keep many: is no size"),
        (["list", "--where", "x"], "--where x: write it as KEY=VALUE"),
        (["show"], "KEY"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    entresol_command: Entresol, words: list[str], said: str
) -> None:
    assert said in one_line(entresol_command("results", *words))


def test_an_empty_store_is_no_error(entresol_command: Entresol, own_store: Path) -> None:
    assert entresol_command("results", "list").out.startswith("0 results")
    assert entresol_command("results", "gc", "--older", "1d", "--delete").code == 0
    assert list(own_store.iterdir()) == []


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    fake_core.hold.set()
    yield
