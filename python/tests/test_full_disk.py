"""A disk that is really full, or may not be written: a small file system of the test's own."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Entresol, Outcome, one_line
from file_server import detach, without_fuse
from kill_lab import Server, Wrong, make_image, serve_command
from mounted import LOGGED, entresol
from nbd_client import TRIM
from small_devices import LITTLE

from entresol import atomic
from entresol.execution.processes import Processes
from entresol.store import result_store
from entresol.store.result_store import Store

WITHOUT = without_fuse()
Mount = Callable[[str], Path]
CHUNK = 64 << 10
ESHUTDOWN = 108
ROOM = "96k"
"""Takes the probe and some of the results of `GRID`, and not all."""
GRID = f"""
trace = "{ROOT}/traces/xz.etr"
machine = "demo"
threads = 1
design = ["base-cssd", "skybyte-w"]
ssd.log.size = ["64KiB", "96KiB", "128KiB", "192KiB"]
"""


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a file system of its own, or says with other options that it changes."""
    place = tmp_path / "small"
    place.mkdir()

    def mount(options: str) -> Path:
        word = f"remount,{options}" if place.is_mount() else options
        command = ["mount", "-t", "tmpfs", "-o", word, "tmpfs", str(place)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            why = done.stderr.strip() if done.returncode else ""
        except FileNotFoundError as error:
            why = str(error)
        if why:
            print(f"not tested, since nothing may be mounted here: {why}")
            pytest.skip(f"nothing may be mounted here: {why}")
        return place

    yield mount
    if place.is_mount():
        subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    file = tmp_path / "grid.toml"
    file.write_text(GRID)
    return file


def test_a_disk_that_fills_stops_a_sweep_with_a_sentence_and_loses_nothing(
    entresol_command: Entresol, tmp_path: Path, grid: Path, mount: Mount
) -> None:
    place = mount(f"size={ROOM}")
    words = ("sweep", grid, "--jobs", "1", "--store", place)
    stopped = entresol_command(*words, "-o", tmp_path / "out")
    assert stopped.code == 1 and stopped.out == ""
    last = stopped.err.splitlines()[-1]
    assert "No space left on device; everything stored before is kept" in last
    assert not (tmp_path / "out").exists()
    kept = Store(place).list_keys()
    assert 0 < len(kept) < 8 and all(result_store.read(Store(place).path(key)) for key in kept)
    assert list(place.rglob(f"{atomic.TEMPORARY}*")) == []
    mount("size=10m")
    resumed = entresol_command(*words, "-o", tmp_path / "out")
    assert resumed.code == 0 and f"{len(kept)} of them from the store" in resumed.out
    entresol_command("sweep", grid, "-o", tmp_path / "undisturbed")
    for name in ("results.parquet", "sweep.json", "report.html"):
        both = {(tmp_path / out / name).read_bytes() for out in ("out", "undisturbed")}
        assert len(both) == 1, name


def test_a_device_whose_disk_fills_stops_with_sentences_and_keeps_what_it_acknowledged(
    entresol_command: Entresol, tmp_path: Path, mount: Mount
) -> None:
    place = mount("size=24m")
    image, socket = place / "image", tmp_path / "nbd"
    make_image(
        image,
        "cxl",
        (
            "nand.blocks_per_plane=64",
            "nand.pages_per_block=64",
            "ssd.dram=5MiB",
            "ssd.log.size=1MiB",
        ),
    )
    server = Server(serve_command(image), socket)
    client = server.connect()
    written = 0
    while (error := client.write(written * CHUNK, _chunk(written))) == 0:
        written += 1
        assert written * CHUNK < client.size, "the disk never fills"
    assert error == ESHUTDOWN and written > 32
    # Whatever is asked now ends, with an error.
    assert client.write(0, _chunk(0)) == ESHUTDOWN
    assert client.flush() == ESHUTDOWN
    assert client.command(TRIM, 0, CHUNK) == ESHUTDOWN
    with pytest.raises(OSError, match=f"Errno {ESHUTDOWN}"):
        client.read(0, CHUNK)
    client.close()
    _wait_until_told(server, image)
    with pytest.raises(Wrong, match="No space left on device"):
        server.stop()
    # Where it listens, that the device stops, and what became of it.
    assert "Traceback" not in server.said() and server.said().count("\n") == 2, server.said()
    assert entresol_command("device", "stats", image).code == 0
    mount("size=400m")
    checked = entresol_command("device", "fsck", image)
    assert checked.code == 0, checked.out + checked.err
    server = Server(serve_command(image), socket)
    client = server.connect()
    for chunk in range(written):
        assert client.read(chunk * CHUNK, CHUNK) == _chunk(chunk), chunk
    assert client.write(written * CHUNK, _chunk(written)) == 0
    client.close()
    server.stop()


@pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")
def test_a_mount_in_the_background_says_at_its_end_what_found_no_room(
    entresol_command: Entresol, mount: Mount, tmp_path: Path
) -> None:
    ssd, folder = mount("size=40m") / "ssd", tmp_path / "mnt"
    make_image(ssd, "bytefs", LOGGED)
    entresol("mkfs", ssd)
    entresol("mount", ssd, folder, "--daemon")
    try:
        with pytest.raises(OSError), (folder / "large").open("wb", buffering=0) as file:
            for _ in range(60):
                file.write(random.randbytes(1 << 20))
        told = one_line(entresol_command("umount", folder), 1)
        wanted = "is unmounted, and what was written since the last sync may be lost: the device"
        assert wanted in told and "make room and open the image again" in told
        assert not folder.is_mount()
    finally:
        detach(folder)
    mount("size=400m")
    assert "0 problems" in entresol_command("fsck", ssd).out


def _wait_until_told(server: Server, image: Path) -> None:
    deadline = time.monotonic() + 60
    while f"{image}: the device has stopped: the disk has no room" not in server.said():
        assert time.monotonic() < deadline, server.said()
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("preset", "settings", "size", "kept"),
    [
        ("cxl", ("ssd.log.size=512KiB",), "10m", "everything acknowledged"),
        ("bytefs-cache", (), "10m", "every block acknowledged, and what was persisted"),
        ("consumer-tlc", (), "7m", "everything that was flushed"),
    ],
)
def test_a_full_disk_is_told_when_it_happens_and_at_the_end(
    entresol_command: Entresol,
    tmp_path: Path,
    mount: Mount,
    preset: str,
    settings: tuple[str, ...],
    size: str,
    kept: str,
) -> None:
    made = mount(f"size={size}") / "image"
    make_image(made, preset, (*LITTLE, *settings))
    server = Server(serve_command(made), tmp_path / "nbd")
    try:
        client = server.connect()
        at = 0
        while client.write(at, bytes([7]) * CHUNK) == 0:
            at += CHUNK
            assert at < client.size, "the disk never fills"
        _wait_until_told(server, made)
        info = entresol_command("device", "info", made).out
        assert "stopped, since the disk was full" in " ".join(info.split())
        client.close()
        assert server.end_with(signal.SIGTERM) == 1
        last = server.said().splitlines()[-1]
        assert last.endswith(f"open the image again: {kept} is in it"), last
    finally:
        server.kill_if_alive()


def test_a_device_for_which_there_is_no_room_is_not_made(
    entresol_command: Entresol, mount: Mount
) -> None:
    place = mount("size=4m")
    said = _sentence(entresol_command("device", "create", place / "image", "--preset", "cxl"))
    assert "No space left on device" in said and str(place / "image") in said
    assert list(place.iterdir()) == []


def _chunk(number: int) -> bytes:
    return number.to_bytes(8, "little") * (CHUNK // 8)


@pytest.mark.parametrize(
    ("options", "why"),
    [("size=32k", "No space left on device"), ("ro", "Read-only file system")],
)
def test_a_store_that_cannot_be_written_is_told_before_anything_is_simulated(
    entresol_command: Entresol,
    tmp_path: Path,
    grid: Path,
    mount: Mount,
    monkeypatch: pytest.MonkeyPatch,
    options: str,
    why: str,
) -> None:
    place = mount(options)
    _no_worker(monkeypatch)
    said = _sentence(entresol_command("sweep", grid, "--store", place, "-o", tmp_path / "out"))
    assert why in said and "repeat the command when" in said
    assert [path for path in place.rglob("*") if path.is_file()] == []


def test_a_file_in_the_place_of_the_store_is_told_before_anything_is_simulated(
    entresol_command: Entresol, tmp_path: Path, grid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    _no_worker(monkeypatch)
    said = _sentence(entresol_command("sweep", grid, "--store", file, "-o", tmp_path / "out"))
    assert "Not a directory" in said and "with --store DIR" in said


def test_a_figure_is_told_before_anything_is_captured_or_simulated(
    entresol_command: Entresol,
    tmp_path: Path,
    captured: Path,
    mount: Mount,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = mount("size=32k")
    _no_worker(monkeypatch)
    (tmp_path / "bc-8.etr").symlink_to(captured)
    words = ("figure", "table3", "--workloads", "bc", "--store", place, "-o", tmp_path / "out")
    told = entresol_command(*words, "--captures", tmp_path)
    assert told.code == 1 and "No space left on device" in told.err.splitlines()[-1]
    told = entresol_command(*words)
    assert told.code == 2 and "nothing could be simulated" in told.err.splitlines()[-1]
    assert f"{place}/captures: cannot be written: No space left" in told.err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_a_run_says_first_that_it_will_not_be_kept(
    entresol_command: Entresol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    told: list[str] = []
    monkeypatch.setattr(result_store, "complain", told.append)

    def begin(count: int) -> Processes:
        told.append("run")
        return Processes(count)

    monkeypatch.setattr("entresol.execution.executor.Processes", begin)
    entresol_command(
        "run",
        ROOT / "traces" / "xz.etr",
        "--machine",
        "demo",
        "--threads",
        "1",
        "--design",
        "base-cssd",
        "--store",
        file,
        "--json",
    )
    assert "cannot be stored" in told[0] and told[1] == "run"


def _sentence(outcome: Outcome) -> str:
    assert outcome.code == 1 and outcome.out == "" and outcome.err.count("\n") == 1, outcome
    return outcome.err


def _no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_count: int) -> None:
        raise AssertionError("something would be simulated")

    monkeypatch.setattr("entresol.execution.executor.Processes", refuse)
    monkeypatch.setattr("entresol.workload.capture_cache._make", refuse)
