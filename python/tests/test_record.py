"""`entresol trace record` refuses what it cannot capture, before anything runs."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from conftest import Entresol, one_line

from entresol import qemu_capture
from entresol.errors import UserError

pytestmark = pytest.mark.usefixtures("fake")


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = tmp_path / "tools" / qemu_capture.PLUGIN
    plugin.parent.mkdir()
    plugin.write_bytes(b"")
    qemu = plugin.parent / qemu_capture.QEMU
    qemu.write_text("#!/bin/sh\nexit 7\n")
    qemu.chmod(0o755)
    monkeypatch.setattr(qemu_capture, "_find_plugin", lambda: plugin)
    monkeypatch.setattr(qemu_capture, "_find_qemu", lambda: str(qemu))
    monkeypatch.chdir(tmp_path)


def _program(path: Path, head: bytes) -> Path:
    path.write_bytes(head)
    path.chmod(0o755)
    return path


def _elf(machine: int, loader: bytes = b"") -> bytes:
    head = bytearray(b"\x7fELF\x02\x01\x01" + bytes(57))
    struct.pack_into("<H", head, 18, machine)
    if loader:
        struct.pack_into("<Q", head, 32, 64)
        struct.pack_into("<HH", head, 54, 56, 1)
        head += struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, len(loader), len(loader), 1) + loader
    return bytes(head)


def test_a_script_is_refused_with_its_interpreter(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    script = _program(tmp_path / "job", b"#!/usr/bin/python3 -I\nprint()\n")
    outcome = entresol_command("trace", "record", "-o", "a.etr", "--", script)
    assert f"is a script; capture its interpreter: -- /usr/bin/python3 -I {script}" in one_line(
        outcome
    )


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"MZ" + bytes(100), "is not a Linux program"),
        (_elf(0xB7), "is not a 64-bit x86 program"),
        (_elf(0x3E, b"/lib/none.so\0"), "needs /lib/none.so, which is not installed"),
    ],
)
def test_a_program_that_cannot_be_captured_is_refused(
    entresol_command: Entresol, tmp_path: Path, head: bytes, message: str
) -> None:
    program = _program(tmp_path / "program", head)
    assert message in one_line(entresol_command("trace", "record", "-o", "a.etr", "--", program))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "a.etr", "--", "no-such-program"], "no-such-program: no such program"),
        (["-o", "a.bin", "--", "true"], "the name of a capture ends in .etr"),
        (["-o", "none/a.etr", "--", "true"], "none: no such directory"),
        (["-o", "a.etr", "--limit", "0", "--", "true"], "'--limit'"),
        (["-o", "a.etr"], "CMD"),
        (["--", "true"], "-o"),
    ],
)
def test_bad_arguments_are_refused(
    entresol_command: Entresol, words: list[str], message: str
) -> None:
    assert message in one_line(entresol_command("trace", "record", *words))


def test_a_program_that_leaves_no_capture_leaves_no_file(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    outcome = entresol_command("trace", "record", "-o", "a.etr", "--", "true")
    assert "true: ended with status 7 and nothing was captured" in one_line(outcome)
    assert sorted(tmp_path.rglob("*")) == before


def test_options_of_the_plugin_double_their_commas() -> None:
    window = qemu_capture.Window(roi=True, skip=5, limit=None)
    argument = qemu_capture._plugin_argument(Path("/t/p.so"), Path("/t/a,b.etr"), window, "qemu 7")
    assert argument == "/t/p.so,out=/t/a,,b.etr,emulator=qemu 7,roi=on,skip=5"


def test_without_qemu_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="run scripts/setup"):
        qemu_capture._find_qemu()
