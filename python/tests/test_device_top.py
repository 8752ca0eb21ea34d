"""`entresol device top`: frames of a device at work, in a pipe and on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from io import StringIO
from pathlib import Path

import pytest
from conftest import Entresol
from kill_lab import Server, serve_command
from nbd_client import FUA
from rich.console import Console
from rich.text import Text
from small_devices import SMALL

from entresol import core
from entresol.cli import device_latencies
from entresol.cli.device_top_frame import Look, View, fitted, frame
from entresol.core import Json

TOP = (sys.executable, "-m", "entresol", "device", "top")
HOME, ALTERNATE, BACK = b"\x1b[H", b"\x1b[?1049h", b"\x1b[?1049l"


def _text(view: View, width: int) -> str:
    console = Console(width=width, record=True, file=StringIO())
    console.print(frame(view, width))
    return console.export_text()


def test_a_frame_at_once_says_everything_and_ends(entresol_command: Entresol, image: Path) -> None:
    done = entresol_command("device", "top", image, "--once", "--interval", "0.05")
    assert (done.code, done.err) == (0, "")
    for words in ("at rest", "write log and cache", "traffic", "latency", "flash", "free blocks"):
        assert words in done.out, words
    assert "\x1b" not in done.out
    assert max(map(len, done.out.splitlines())) <= 120


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_frames_fit_their_terminal(image: Path, width: int) -> None:
    watch = core.DeviceWatch(image)
    view = View([Look(0.0, watch.look()), Look(1.0, watch.look())])
    lines = _text(view, width).splitlines()
    assert max(map(len, lines)) == width
    assert sum("╭" in line for line in lines) >= 3


KINDS = ("byte_read", "byte_write", "block_read", "block_write")


def _fitted(look: Json, width: int, height: int) -> list[str]:
    latency = {name: 1 for name, _ in device_latencies.SPANS} | {"requests": 1}
    look = {**look, "recent": dict.fromkeys(KINDS, latency)}
    view = View([Look(0.0, look), Look(1.0, look)])
    console = Console(width=width, height=height, record=True, file=StringIO(), force_terminal=True)
    console.print(fitted(view, console, Text(" Ctrl-C ends")))
    return console.export_text().rstrip("\n").splitlines()


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (130, 40), (200, 60)])
def test_all_of_a_device_is_to_be_seen_on_a_usual_terminal(
    image: Path, size: tuple[int, int]
) -> None:
    lines = _fitted(core.DeviceWatch(image).look(), *size)
    assert len(lines) <= size[1] and max(map(len, lines)) <= size[0]
    assert lines[-1] == " Ctrl-C ends"
    text = "\n".join(lines)
    for words in ("log", "reads from", "flash programs", "block write", "free blocks", "spare"):
        assert words in text, words


def test_a_device_that_has_stopped_is_shown_as_such(image: Path) -> None:
    look = core.DeviceWatch(image).look()
    look = {**look, "is_open": True, "statistics": {**look["statistics"], "is_stopped": 1}}
    for width, height in ((80, 24), (130, 40)):
        assert "● stopped: the disk is full" in "\n".join(_fitted(look, width, height))


def test_a_low_terminal_says_how_much_it_does_not_show(image: Path) -> None:
    look = core.DeviceWatch(image).look()
    lines = _fitted(look, 40, 10)
    assert len(lines) == 10 and max(map(len, lines)) <= 40
    assert lines[0].startswith("○ at rest: no process has it")
    (hidden,) = re.findall(r"^ (\d+) lines more · Ctrl-C ends$", lines[-1])
    assert len(_fitted(look, 40, 10 + int(hidden))) == 10 + int(hidden)
    assert "more" not in _fitted(look, 40, 10 + int(hidden))[-1]


def test_rates_and_latencies_are_of_the_time_between_looks(image: Path, tmp_path: Path) -> None:
    server = Server(serve_command(image), tmp_path / "nbd")
    client = server.connect()
    watch = core.DeviceWatch(image)
    first = Look(10.0, watch.look())
    assert first.about["is_open"] and first.about["recent"] is None
    for block in range(32):
        assert client.write(block * 4096, b"a" * 4096, flags=FUA) == 0
    deadline = time.monotonic() + 20
    # The server writes its counters a few times a second.
    while core.device_info(image)["statistics"]["block_port_writes"] < 32:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    look = watch.look()
    client.close()
    server.stop()
    view = View([first, Look(12.0, look)])
    assert view.recent("block_port_to_device_bytes") == 32 * 4096
    assert view.rates("block_port_to_device_bytes") == [16 * 4096]
    assert look["recent"]["block_write"]["requests"] == 32
    text = _text(view, 120)
    assert "● at work" in text and "64.0\u00a0KiB/s" in text
    assert re.search(r"block write +32 +\d", text), text
    assert "latency, since the last look" in text


def test_an_image_that_is_none_is_one_sentence(entresol_command: Entresol, tmp_path: Path) -> None:
    done = entresol_command("device", "top", tmp_path, "--once")
    assert done.code == 2 and "is not a device image" in done.err and done.err.count("\n") == 1


def _read(terminal: int, until: bytes, seconds: float = 20.0) -> bytes:
    seen = b""
    deadline = time.monotonic() + seconds
    while until not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:
                return seen
    return seen


def _resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def test_a_terminal_is_drawn_on_follows_its_size_and_is_left_as_it_was(image: Path) -> None:
    ours, theirs = pty.openpty()
    _resize(ours, 40, 130)
    before = termios.tcgetattr(theirs)
    environment = {**os.environ, "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        environment.pop(name, None)
    top = subprocess.Popen(
        [*TOP, str(image), "--interval", "600"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    try:
        drawn = _read(ours, b"Ctrl-C ends")
        assert ALTERNATE in drawn and "─" * 40 in drawn.decode()
        _resize(ours, 40, 70)
        again = _read(ours, b"Ctrl-C ends").decode()
        # No look is due for ten minutes: what draws anew is the size.
        assert "─" * 128 not in again and "╭" in again
        top.send_signal(signal.SIGINT)
        left = _read(ours, BACK)
        assert b"\x1b[?25h" in left + _drain(ours), "the cursor is shown again"
        assert top.wait(20) == 0
        assert termios.tcgetattr(theirs) == before
    finally:
        top.kill()
        top.wait()
        os.close(ours)
        os.close(theirs)


def _drain(terminal: int) -> bytes:
    seen = b""
    while select.select([terminal], [], [], 0.5)[0]:
        seen += os.read(terminal, 65536)
    return seen


def test_whoever_stops_reading_ends_it(image: Path) -> None:
    top = subprocess.Popen([*TOP, str(image), "--interval", "0.05"], stdout=subprocess.PIPE)
    assert top.stdout is not None
    assert "╭" in top.stdout.readline().decode()
    top.stdout.close()
    assert top.wait(30) != 2


def test_recovery_time_is_beside_the_papers(entresol_command: Entresol, tmp_path: Path) -> None:
    sets = [word for value in SMALL for word in ("--set", value)]
    words = ("device", "recovery-time", "--in", tmp_path, "--log", "64KiB", "--log", "256KiB")
    done = entresol_command(*words, *sets)
    assert done.code == 0, done.err
    rows = done.out.splitlines()
    assert "64.0\u00a0KiB" in rows[1] and "256\u00a0KiB" in rows[2]
    assert "ByteFS §5.5" in done.out and "4.2 s in all" in done.out
    assert list(tmp_path.iterdir()) == []
    many = ("--lines-per-page", "65")
    for more, sentence in ((("--log", "much"), "--log much"), (many, "a page has 64")):
        wrong = entresol_command("device", "recovery-time", *more, *sets)
        assert wrong.code == 2 and sentence in wrong.err and wrong.err.count("\n") == 1


def test_a_frame_of_a_new_device_shows_all_of_its_spare_and_no_work(image: Path) -> None:
    look = core.DeviceWatch(image).look()
    numbers = look["statistics"]
    assert numbers["available_spare_percent"] == 100
    assert numbers["free_blocks"] == numbers["blocks"] > 0
    assert numbers["log_slots"] > 0 == numbers["log_used_slots"]
    assert numbers["unsafe_shutdowns"] == 0
    text = _text(View([Look(0.0, look)]), 120)
    assert "0 of 256" in text and "no reads yet" in text and "no requests yet" in text


def test_latencies_of_any_length_fit_their_panel() -> None:
    spans = {name: 13_000_000 for name, _ in device_latencies.SPANS}
    table = device_latencies.table({"block_write": {"requests": 16_400, **spans}}, is_small=True)
    console = Console(width=62, record=True, file=StringIO())
    console.print(table)
    said = console.export_text()
    assert "…" not in said and said.count("13.0\u00a0µs") == len(device_latencies.SPANS)
