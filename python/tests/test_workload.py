"""`entresol workload`: programs are listed, captured once, and set beside Table I."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Entresol, one_line

from entresol import core
from entresol import qemu_capture as recorder
from entresol.errors import Failed, UserError
from entresol.workload import Wanted, capture_cache, catalogue, record, table1

TINY = Wanted("radix", threads=3, footprint=1 << 20, work=2_000)


@pytest.fixture
def tools() -> None:
    """Real captures need what `make build` makes and QEMU."""
    try:
        catalogue.binary()
        recorder.tools()
    except UserError as missing:
        pytest.fail(str(missing))


@pytest.mark.usefixtures("tools")
def test_a_program_is_captured_once_and_then_found(tmp_path: Path) -> None:
    first = record(TINY, tmp_path)
    again = record(TINY, tmp_path)
    assert first.made and not again.made
    assert first.path == again.path and first.path.name == "radix.etr"
    assert first.said.startswith("radix ok: ") and again.said == first.said
    info = core.trace_info(first.path)
    assert info["threads"] == 3
    assert 10_000 < info["instructions"] < 1_000_000
    assert [path.name for path in (tmp_path / "captures").iterdir()] == [first.path.parent.name]


@pytest.mark.usefixtures("tools")
def test_of_several_that_want_a_capture_one_makes_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: record(TINY, tmp_path), range(4)))
    assert sorted(recording.made for recording in found) == [False, False, False, True]
    assert len({recording.path for recording in found}) == 1


@pytest.mark.usefixtures("tools")
def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    key = record(TINY, tmp_path).path.parent
    key.rename(key.parent / f".new-{key.name}-x")
    (key.parent / f".{key.name}.lock").touch()
    assert record(TINY, tmp_path).made
    assert list(key.parent.iterdir()) == [key]


@pytest.mark.parametrize("part", ["radix.etr", "about.json"])
@pytest.mark.parametrize("content", [None, b"", b"{}", b"ETR"])
@pytest.mark.usefixtures("tools")
def test_a_capture_that_is_damaged_is_made_anew(
    tmp_path: Path, part: str, content: bytes | None
) -> None:
    path = record(TINY, tmp_path).path
    damaged = path.parent / part
    damaged.unlink()
    if content is not None:
        damaged.write_bytes(content)
    assert record(TINY, tmp_path).made
    assert core.trace_info(path)["threads"] == 3 and not record(TINY, tmp_path).made


@pytest.mark.usefixtures("tools")
def test_other_inputs_give_another_capture(tmp_path: Path) -> None:
    keys = {
        record(wanted, tmp_path).path.parent.name
        for wanted in (TINY, replace(TINY, seed=2), replace(TINY, threads=2))
    }
    assert len(keys) == 3


@pytest.mark.usefixtures("tools")
def test_a_program_that_refuses_its_setting_is_one_sentence_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    with pytest.raises(UserError, match=r"^radix: --work 9999999: .*keys\.$"):
        record(replace(TINY, work=9_999_999), tmp_path)
    assert list((tmp_path / "captures").iterdir()) == []


@pytest.mark.usefixtures("tools")
def test_a_wrong_result_leaves_no_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = capture_cache._words
    monkeypatch.setattr(capture_cache, "_words", lambda *given: [*words(*given), "--spoil"])
    with pytest.raises(Failed, match="; no capture was made"):
        record(TINY, tmp_path)
    assert list((tmp_path / "captures").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["record", "radixx"], "radixx: no such workload; there are "),
        (["record", "radix", "--scale", "big"], "'--scale': 'big' is not one of 'small', 'paper'"),
        (["record", "radix", "--footprint", "huge"], "--footprint huge: is no size"),
        (["record", "radix", "--footprint", "900TiB"], "radix: needs 900 TiB of memory"),
        (["record", "all", "-o", "a.etr"], "a.etr: is one file for "),
        (["record", "radix", "--threads", "0"], "'--threads'"),
        (["table1", "radixx"], "radixx: no such workload"),
    ],
)
@pytest.mark.usefixtures("tools")
def test_bad_arguments_are_refused(
    entresol_command: Entresol, tmp_path: Path, words: list[str], message: str
) -> None:
    assert message in one_line(entresol_command("workload", *words, "--store", tmp_path))


@pytest.mark.usefixtures("tools")
def test_every_program_stands_in_table1(entresol_command: Entresol) -> None:
    outcome = entresol_command("workload", "list", "--json")
    listed = json.loads(outcome.out)
    assert [program["name"] for program in listed] == [
        name for name in table1.TABLE if name in {program["name"] for program in listed}
    ]
    for program in listed:
        published = table1.TABLE[program["name"]].footprint_gb * 1e9
        assert abs(program["footprint_bytes"] / published - 1) < 0.02


def test_a_verdict_says_what_is_off() -> None:
    row = table1.Row("radix", table1.TABLE["radix"], 1, 1, 1, 29.0, 7.1)
    assert row.verdict == "ok"
    assert replace(row, write_percent=32.1).verdict == "writes +3.1 points"
    assert replace(row, mpki=10.7).verdict == "MPKI × 1.51"
    assert replace(row, write_percent=20, mpki=1).verdict == "writes -9.0 points, MPKI × 0.14"
