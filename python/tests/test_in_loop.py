"""The device in the loop, as users start it: a process, its recording, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import ROOT, Entresol

from entresol import _core, core, in_loop

ON = ("--machine", "demo", "--threads", "1", "--design", "skybyte-w")
WAIT_SECONDS = 60.0


@contextmanager
def _firmware(socket: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "entresol", "firmware", "serve", str(socket), *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            end = time.monotonic() + WAIT_SECONDS
            while not socket.exists():
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


def test_one_command_runs_in_the_loop_and_its_recording_repeats_it(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    loop = entresol_command("run", captured, *ON, "dram-only", "--device", "loop", "-o", tmp_path)
    assert loop.code == 0, loop.err
    assert (tmp_path / "sort.skybyte-w.times").read_bytes()[:8] == b"ENTRtime"
    assert not (tmp_path / "sort.dram-only.times").exists()
    first = json.loads((tmp_path / "summary.json").read_text())["runs"]
    looped, dram = first
    assert "device" not in dram
    assert looped["device"]["source"] == "loop"
    assert any("does not repeat" in warning for warning in looped["warnings"])
    assert "check cache" in {work["work"] for work in looped["device"]["work"]}
    for place in (tmp_path, tmp_path / "sort.skybyte-w.times"):
        designs = ("dram-only",) if place == tmp_path else ()
        words = (*ON, *designs, "--device", f"recorded:{place}", "--json")
        fed = json.loads(entresol_command("run", captured, *words).out)["runs"][0]
        assert fed["device"]["source"] == "recorded"
        assert fed["execution_time_ps"] == looped["execution_time_ps"]
        assert fed["statistics"] == looped["statistics"]


def test_a_process_that_was_started_by_hand_is_used(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    socket = tmp_path / "firmware"
    with _firmware(socket, "--runs", "1") as process:
        words = ("--device", f"loop:{socket}", "--processor", "instant", "--json")
        outcome = entresol_command("run", captured, *ON, *words)
        assert outcome.code == 0, outcome.err
        assert process.wait(WAIT_SECONDS) == 0
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert "commands; empty timer" in said
    assert not socket.exists()


def _kill_in_run(process: int) -> None:
    """Kills a firmware process as soon as it shares memory with a run."""
    maps = Path(f"/proc/{process}/maps")
    end = time.monotonic() + WAIT_SECONDS
    while "memfd:entresol" not in maps.read_text() and time.monotonic() < end:
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)


def test_a_process_that_is_killed_leaves_a_sentence_and_no_result(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    socket = tmp_path / "firmware"
    with _firmware(socket) as process:
        killer = threading.Thread(target=_kill_in_run, args=(process.pid,))
        killer.start()
        words = ("--machine", "demo", "--design", "skybyte-full", "--device", f"loop:{socket}")
        outcome = entresol_command("run", captured, *words, "-o", tmp_path / "out")
        killer.join()
    assert outcome.code == 1
    assert "firmware process has gone" in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.fixture
def drive(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file on the file system of the build: that of temporary files may be in memory."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = folder / f"{request.node.name}-{os.getpid()}.drive"
    with path.open("wb") as file:
        file.truncate(24 << 20)
    yield path
    path.unlink()


def test_a_file_is_the_flash_of_a_run_in_the_loop(
    entresol_command: Entresol, captured: Path, drive: Path, tmp_path: Path
) -> None:
    drive_words = ("--drive", drive, "--drive-size", "16MiB")
    loop = entresol_command(
        "run", captured, *ON, "--device", "loop", *drive_words, "-o", tmp_path / "out"
    )
    assert loop.code == 0, loop.err
    looped = json.loads((tmp_path / "out" / "summary.json").read_text())["runs"][0]
    assert looped["device"]["flash"] == "drive"
    work = {each["work"]: each for each in looped["device"]["work"]}
    assert work["flash read"]["count"] > 0
    assert work["flash read"]["mean_ps"] > 1_000_000
    written = drive.read_bytes()
    assert any(written[: 16 << 20]) and not any(written[16 << 20 :])
    words = (*ON, "--device", f"recorded:{tmp_path / 'out'}", "--json")
    fed = json.loads(entresol_command("run", captured, *words).out)["runs"][0]
    assert fed["device"]["flash"] == "drive"
    assert fed["execution_time_ps"] == looped["execution_time_ps"]
    assert fed["statistics"] == looped["statistics"]


def test_a_drive_that_is_too_small_is_one_sentence(
    entresol_command: Entresol, captured: Path, drive: Path, tmp_path: Path
) -> None:
    for words, sentence in (
        (("--drive-size", "64KiB"), "are wanted; give a larger one"),
        (("--drive-size", "1GiB"), "has 24MiB and 1GiB are wanted"),
        (("--drive-size", "much"), "--drive-size"),
    ):
        loop = (*ON, "--device", "loop", "--drive", drive, *words, "-o", tmp_path / "out")
        outcome = entresol_command("run", captured, *loop)
        assert outcome.code in (1, 2)
        assert sentence in outcome.err
        assert len(outcome.err.strip().splitlines()) == 1, outcome.err
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--device", "loop", "--drive", "/nowhere"), "/nowhere: cannot be opened"),
        (("--device", "loop", "--drive", "/dev/null"), "neither a file nor a block device"),
        (("--device", "loop", "--overwrite-device"), "name it with --drive"),
        (("--drive", "/nowhere"), "write --device loop"),
        (("--device", "loop:/x", "--drive", "/nowhere"), "write --device loop"),
        (("--device", "lop"), "Did you mean loop?"),
        (("--device", "nvme"), "name an NVMe device, as nvme:/dev/ng0n1"),
        (("--device", "nvme:/dev/ng9n9"), "say --overwrite-device"),
        (("--device", "opencxd:/x", "--drive", "/nowhere"), "has its own flash"),
        (("--device", "nvme:/dev/ng9n9", "--overwrite-device"), "/dev/ng9n9: cannot be opened"),
        (("--device", "opencxd:/dev/null", "--overwrite-device"), "is no NVMe device"),
        (("--device", "recorded"), "name the recording"),
        (("--device", "recorded:/nowhere"), "cannot be read"),
        (("--device", "loop:/nowhere/firmware"), "no firmware can be reached there"),
        (("--device", "loop", "--processor", "cortex-a35"), "Did you mean cortex-a53?"),
        (("--processor", "cortex-a35"), "write --device loop"),
        (("--device", "recorded:/x", "--device-timeout", "9"), "write --device loop"),
        (("--device", "loop", "--processor", "no.toml"), "cannot be read"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    entresol_command: Entresol, captured: Path, words: tuple[str, ...], sentence: str
) -> None:
    outcome = entresol_command("run", captured, *ON, *words, "--json")
    assert outcome.code in (1, 2)
    assert sentence in outcome.err and "Fatal" not in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_an_nvme_device_is_asked_for_every_run_and_recorded(
    entresol_command: Entresol, captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def instead(run: _core.Run, path: str, dialect: str) -> tuple[str, bytes]:
        asked.append((path, dialect))
        return run.execute(), b"ENTRtime"

    monkeypatch.setattr(_core, "execute_on_nvme", instead)
    words = (*ON, "base-cssd", "--device", "opencxd:/dev/ng9n9", "--overwrite-device")
    done = entresol_command("run", captured, *words, "-o", tmp_path / "out")
    assert done.code == 0, done.err
    assert asked == [("/dev/ng9n9", "opencxd")] * 2
    assert (tmp_path / "out" / "sort.base-cssd.times").read_bytes() == b"ENTRtime"
    report = (tmp_path / "out" / "report.html").read_text()
    assert "--device opencxd:ng9n9 --overwrite-device" in report
    asked.clear()
    done = entresol_command("run", captured, *words, "skybyte-ct", "-o", tmp_path / "none")
    assert done.code != 0 and "whose host moves pages" in done.err, done.err
    assert asked == [] and not (tmp_path / "none").exists()


def test_a_file_that_is_no_recording_is_one_sentence(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.times").write_bytes(b"something else")
    device = f"recorded:{tmp_path / 'x.times'}"
    outcome = entresol_command("run", captured, *ON, "--device", device, "--json")
    assert outcome.code == 2
    assert "no recording" in outcome.err


def test_a_file_where_a_socket_is_to_be_stays(entresol_command: Entresol, tmp_path: Path) -> None:
    (tmp_path / "drive.img").write_bytes(b"of the user")
    before = signal.getsignal(signal.SIGINT)
    for more in ((), ("--drive", tmp_path / "none"), ("--drive-size", "1MiB")):
        refused = entresol_command("firmware", "serve", tmp_path / "drive.img", *more)
        assert refused.code in (1, 2) and refused.err.count("\n") == 1, refused
        assert (tmp_path / "drive.img").read_bytes() == b"of the user"
    assert signal.getsignal(signal.SIGINT) is before


def test_two_processes_do_not_listen_at_one_socket(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    socket = tmp_path / "firmware"
    with _firmware(socket):
        outcome = entresol_command("firmware", "serve", socket)
    assert outcome.code == 2
    assert "another firmware process listens there" in outcome.err


def test_what_a_command_was_told_is_in_the_one_that_repeats_it(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    told = ("--device", "loop", "--device-timeout", "59")
    loop = entresol_command("run", captured, *ON, *told, "-o", tmp_path)
    assert loop.code == 0, loop.err
    page = (tmp_path / "report.html").read_text()
    assert "--processor cortex-a53 --device-timeout 59" in page
    assert in_loop.words("loop", "host", in_loop.PATIENCE)[-1] == "host"


class _Interrupted:
    """A run that ends, or in the second design is interrupted."""

    def __init__(self, _path: Path, _setup: core.Setup, design: str, *_: object) -> None:
        self.design = design

    def execute_in_loop(self, *_: object) -> tuple[object, bytes]:
        if self.design != "skybyte-w":
            raise KeyboardInterrupt
        return {"runs": []}, b"times of its own"

    def progress(self) -> tuple[int, int]:
        return 0, 0

    def cancel(self) -> None:
        pass


def test_recordings_of_runs_that_have_ended_survive_an_interruption(
    entresol_command: Entresol, captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "Run", _Interrupted)
    at = ("--device", f"loop:{tmp_path / 'nobody'}", "-o", tmp_path / "out")
    stopped = entresol_command("run", captured, *ON, "skybyte-wp", *at)
    assert stopped.code == 130 and stopped.err.count("\n") == 1 and "nothing" not in stopped.err
    left = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert left == [Path("out/unfinished/sort.skybyte-w.times")]
    assert (tmp_path / left[0]).read_bytes() == b"times of its own"
    assert str(tmp_path / "out" / "unfinished") in stopped.err


def test_a_run_leaves_the_processor_of_the_firmware_to_it() -> None:
    allowed = os.sched_getaffinity(0)
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            os.sched_setaffinity(process.pid, {max(allowed)})
            with in_loop.leaving_the_processor_of(process.pid):
                # With one processor both have it.
                assert os.sched_getaffinity(0) == allowed - {max(allowed)} or len(allowed) == 1
            assert os.sched_getaffinity(0) == allowed
        finally:
            process.kill()
