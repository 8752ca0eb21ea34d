"""Traces of a kernel made into classes, and what is judged of them; `make e2e` runs the whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from likeness import Row, rows, table
from likeness_classes import DATA, JOURNAL, METADATA, Moved, Wrong, check_whole, count
from likeness_guest import Missing, module_order, why_no_kvm

DEVICE = "259,1"


def _event(name: str, rest: str) -> str:
    return f"    kworker/0:1H-38      [000] .....    14.478684: {name}: {rest}\n"


def _issue(flags: str, block: int, blocks: int, device: str = DEVICE) -> str:
    rest = f"{device} {flags} {blocks * 4096} () {block * 8} + {blocks * 8} [kworker/0:1H]"
    return _event("block_rq_issue", rest)


def _allocated(flags: str, block: int, length: int) -> str:
    rest = f"dev 259,1 ino 13 flags {flags} len {length} block {block} lblk 0 goal 1 lleft 0"
    return _event("ext4_allocate_blocks", rest)


def _page(ino: int, index: int, place: int, kind: str) -> str:
    rest = (
        f"dev = (259,1), ino = {ino}, page_index = 0x{index:x}, oldaddr = 0xffffffff, "
        f"newaddr = 0x{place:x}, rw = WRITE(S), type = {kind}"
    )
    return _event("f2fs_submit_page_write", rest)


def _marked(*lines: str) -> list[str]:
    begin, end = (_event("tracing_mark_write", f"likeness {word}") for word in ("begin", "end"))
    return ["# tracer: nop\n", begin, *lines, end]


def _written(metadata: int = 0, journal: int = 0, data: int = 0) -> dict[str, int]:
    blocks = {METADATA: metadata, JOURNAL: journal, DATA: data}
    return {kind: 4096 * many for kind, many in blocks.items()}


def test_blocks_of_ext4_are_what_was_allocated_last() -> None:
    lines = _marked(
        _allocated("HINT_DATA|DELALLOC_RESV", 100, 2),
        _allocated("", 200, 1),
        _issue("WS", 99, 4),  # The block before, both, and the block behind.
        _issue("WSM", 500, 3),
        _issue("WM", 200, 1),
        _allocated("HINT_DATA", 200, 1),
        _issue("WS", 200, 1),
        _issue("WS", 100, 1, device="259,0"),
    )
    assert count(lines, DEVICE, journal=(500, 501, 502)).written == _written(3, 3, 3)


def test_flushes_are_those_asked_for_and_those_of_durable_writes() -> None:
    lines = _marked(
        _event("block_rq_issue", f"{DEVICE} FF 0 () 0 + 0 [kworker/0:1H]"),
        _issue("WFSM", 500, 1),
        _issue("WSM", 501, 1),
        _issue("RAM", 7, 2),
        _issue("DS", 900, 10),
    )
    moved = count(lines, DEVICE, journal=(500, 501))
    assert (moved.flushes, moved.discards) == (2, 1)
    assert moved.written == _written(journal=2)
    assert moved.read == _written(metadata=2)


def test_what_is_queued_again_counts_once_and_what_is_outside_the_marks_never() -> None:
    again = _event("block_rq_requeue", f"{DEVICE} WS 4096 () 800 + 8 [dd]")
    inside = _marked(_issue("WS", 100, 1), again, _issue("WS", 100, 1))
    lines = [_issue("WS", 7, 1), *inside, _issue("WS", 8, 1)]
    assert count(lines, DEVICE).written == _written(metadata=1)


def test_pages_of_f2fs_are_data_only_of_files() -> None:
    lines = _marked(
        _page(3, 0, 0x2000, "HOT_DATA"),  # Its node is hot: a directory.
        _page(14, 0, 0x2001, "HOT_DATA"),  # A small file is hot, too; its node is not.
        _page(1, 3, 0x1A00, "HOT_NODE"),
        _page(1, 14, 0x1C00, "WARM_NODE"),
        _page(2, 512, 512, "META_FLUSH"),
        _issue("WS", 0x2000, 2),
        _issue("WS", 0x1A00, 1),
        _issue("WS", 0x1C00, 1),
        _issue("WFSM", 512, 1),
    )
    moved = count(lines, DEVICE)
    assert (moved.written, moved.flushes) == (_written(metadata=4, data=1), 1)
    with pytest.raises(Wrong, match="directories and files"):
        count([*lines, _page(1, 3, 0x1C01, "WARM_NODE")], DEVICE)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("CPU:0 [LOST 12 EVENTS]\n", "no event"),
        (_event("sched_switch", "x"), "nobody asked for"),
        (_event("block_rq_issue", "259,1 hello"), "cannot be read"),
        (_issue("N", 1, 1), "nobody expects"),
        (_event("ext4_allocate_blocks", "dev 259,1"), "cannot be read"),
        (_event("f2fs_submit_page_write", "dev = (259,1)"), "cannot be read"),
    ],
)
def test_a_trace_that_is_not_understood_is_refused(line: str, says: str) -> None:
    with pytest.raises(Wrong, match=says):
        count(_marked(line), DEVICE)


def test_a_trace_that_is_not_whole_is_refused() -> None:
    with pytest.raises(Wrong, match="two marks"):
        count(_marked()[:-1], DEVICE)
    stats = "entries: 9\noverrun: 0\ncommit overrun: 0\nbytes: 5\ndropped events: 0\n"
    check_whole(stats)
    with pytest.raises(Wrong, match="not whole"):
        check_whole(stats.replace("\noverrun: 0", "\noverrun: 7"))
    with pytest.raises(Wrong, match="has not said"):
        check_whole("entries: 9\n")


def test_a_quarter_is_like_and_more_is_not() -> None:
    assert Row("p", "flushes", 100, 125).is_like
    assert Row("p", "flushes", 100, 75).is_like
    assert not Row("p", "flushes", 100, 126).is_like
    assert not Row("p", "flushes", 100, 74).is_like
    assert not Row("p", "data written", 0, 1 << 20).is_like, "one has none and the other much"
    assert Row("p", "flushes", 0, 7).is_like, "few in both"


def test_programs_are_added_up() -> None:
    one = Moved(written=_written(10, 20, 30), flushes=40)
    two = Moved(written=_written(10, 10, 30), flushes=4)
    found = rows({"a": one, "b": one}, {"a": two, "b": one})
    together = {row.quantity: (row.real, row.ours) for row in found if row.program == "all"}
    assert together["journal written"] == (40 * 4096, 30 * 4096)
    assert together["flushes"] == (80, 44)
    assert "| all | flushes | 80 | 44 | 0.55 * |" in table(found)


def test_modules_come_behind_those_they_need(tmp_path: Path) -> None:
    for name, needs in {"a": "b-c,d", "b-c": "d", "d": ""}.items():
        (tmp_path / f"{name}.ko").write_bytes(f"\x7fELF\0depends={needs}\0name={name}\0".encode())
    assert [path.stem for path in module_order(tmp_path, ["a", "d"])] == ["d", "b-c", "a"]
    with pytest.raises(Missing, match=r"no module e: remove .* run scripts/setup e2e"):
        module_order(tmp_path, ["e"])


def test_a_machine_without_kvm_says_why(tmp_path: Path) -> None:
    assert "No such file" in (why_no_kvm(tmp_path / "kvm") or "")
    (tmp_path / "none").touch()
    assert "makes no machine" in (why_no_kvm(tmp_path / "none") or "")
