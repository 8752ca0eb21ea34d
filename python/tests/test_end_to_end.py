"""The installed package: record a capture and look at it, run a shipped one, and break it.

About half a minute, most of it in QEMU and in the simulations.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Entresol, one_line

from entresol import core

COMMAND = Path(sys.executable).parent / "entresol"
DEMO = ("--machine", "demo")


def test_a_recording_holds_what_the_program_did_and_runs(
    entresol_command: Entresol, recorded: Path
) -> None:
    info = json.loads(entresol_command("trace", "info", recorded, "--json").out)
    assert info["threads"] >= 2
    assert 1_150_000 <= info["instructions"] < 1_300_000
    assert 0 < info["stores"] < info["loads"] < info["instructions"]
    assert info["footprint_pages"] > 10
    head = entresol_command("trace", "head", recorded, "-n", "5")
    assert len(head.out.splitlines()) == 5
    words = ("run", recorded, "--design", "all", *DEMO, "--audit", "--json")
    outcome = entresol_command(*words)
    assert outcome.code == 0, outcome.err
    assert len(json.loads(outcome.out)["runs"]) == len(core.designs())


def test_all_designs_do_the_same_work_and_equal_runs_are_equal_files(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    for jobs in ("1", "2"):
        words = ("run", captured, "--design", "all", *DEMO, "--audit", "--no-store", "--jobs", jobs)
        outcome = entresol_command(*words, "-o", tmp_path / jobs)
        assert outcome.code == 0, outcome.err
    for name in ("summary.json", "report.html", "results.parquet"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    runs = json.loads((tmp_path / "1" / "summary.json").read_text())["runs"]
    assert len(runs) == len(core.designs())
    assert len({run["instructions"] for run in runs}) == 1
    times = {run["design"]: run["execution_time_ps"] for run in runs}
    assert times["dram-only"] < times["base-cssd"]
    assert len({run["config_digest"] for run in runs}) == len(runs)


def test_an_override_reaches_the_simulation(entresol_command: Entresol, captured: Path) -> None:
    words = ("run", captured, "--design", "base-cssd", *DEMO, "--json")
    fast = json.loads(entresol_command(*words).out)["runs"][0]
    slow = json.loads(entresol_command(*words, "--set", "nand.t_r=50us").out)["runs"][0]
    assert slow["config"]["nand"]["t_r"] == "50us"
    assert slow["execution_time_ps"] > fast["execution_time_ps"]
    assert slow["config_digest"] != fast["config_digest"]


def test_a_configuration_that_was_shown_can_be_read_back(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    shown = entresol_command("config", "show", *DEMO, "--design", "skybyte-w").out
    (tmp_path / "shown.toml").write_text(shown)
    words = ("run", captured, "--design", "skybyte-w", *DEMO, "--json")
    plain = json.loads(entresol_command(*words).out)["runs"][0]
    read = json.loads(entresol_command(*words, "--config", tmp_path / "shown.toml").out)["runs"][0]
    assert read["config_digest"] == plain["config_digest"]


@pytest.mark.parametrize(
    "key",
    [
        "nand.t_r",
        "nand.t_prog",
        "nand.t_bers",
        "ssd.dram",
        "ssd.log.size",
        "host.promoted",
        "cpu.cores",
        "cpu.l3",
        "os.scheduler",
        "os.switch_cost",
        "os.switch_threshold",
    ],
)
def test_parameters_are_explained(entresol_command: Entresol, key: str) -> None:
    outcome = entresol_command("config", "explain", key)
    assert outcome.code == 0
    assert outcome.out.startswith(key)
    for word in ("unit", "default", "range", "source"):
        assert f"  {word}" in outcome.out


def test_every_parameter_has_a_value_and_every_value_a_parameter(
    entresol_command: Entresol,
) -> None:
    shown = json.loads(entresol_command("config", "show", "--json").out)
    for section, values in shown.items():
        for key in values:
            assert entresol_command("config", "explain", f"{section}.{key}").code == 0


def _damaged(captured: Path, place: Path, kind: str) -> Path:
    data = bytearray(captured.read_bytes())
    if kind == "truncated":
        del data[len(data) // 2 :]
    elif kind == "corrupted":
        data[len(data) // 3] ^= 0x55
    elif kind == "version":
        data[8:12] = b"\xff\xff\xff\xff"
    elif kind == "foreign":
        data[:] = b"SQLite format 3\0" + bytes(4096)
    elif kind == "empty":
        data.clear()
    path = place / f"{kind}.etr"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", ["truncated", "corrupted", "version", "foreign", "empty"])
def test_a_damaged_capture_is_refused(
    entresol_command: Entresol, captured: Path, tmp_path: Path, kind: str
) -> None:
    path = _damaged(captured, tmp_path, kind)
    assert f"{kind}.etr" in one_line(entresol_command("run", path, *DEMO, "-o", tmp_path / "out"))
    one_line(entresol_command("trace", "info", path))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "nand.t_x=1us"], "nand.t_x"),
        (["--set", "nand.t_r=1parsec"], "nand.t_r"),
        (["--set", "nand.t_r"], "nand.t_r"),
        (["--set", "cpu.cores=0"], "cpu.cores"),
        (["--set", "cpu.cores=100000"], "cpu.cores"),
        (["--set", "os.scheduler=lottery"], "lottery"),
        (["--nand", "papyrus"], "papyrus"),
        (["--threads", "500"], "500"),
        (["--set", "nand.blocks_per_plane=1", "--set", "nand.channels=1"], ""),
        (["--design", "skybyte"], "unknown design skybyte"),
    ],
)
def test_a_wrong_configuration_is_refused_before_anything_runs(
    entresol_command: Entresol, captured: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    output = tmp_path / "out"
    outcome = entresol_command("run", captured, *DEMO, *words, "-o", output)
    assert message in one_line(outcome)
    assert not output.exists()


def _heeds_interruptions() -> None:
    """What a shell starts behind itself ignores SIGINT, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_the_installed_command_leaves_nothing(
    captured: Path, tmp_path: Path, number: signal.Signals
) -> None:
    words = [str(COMMAND), "run", str(captured), "--set", "nand.t_r=10ms", "-o", "out"]
    process = subprocess.Popen(
        words,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heeds_interruptions,
    )
    while process.poll() is None and not list(tmp_path.iterdir()):
        time.sleep(0.01)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert "Traceback" not in err
    assert err.splitlines()[-1] == "entresol: interrupted; nothing was written."
    assert list(tmp_path.iterdir()) == []


ECHO = """
import signal, socket, sys
signal.signal(signal.SIGINT, lambda *_: sys.exit())
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1])
while True:
    client, _ = listener.accept()
    client.sendall(client.recv(64))
"""


def test_a_server_is_captured_until_ctrl_c(tmp_path: Path) -> None:
    python = str(Path(sys.executable).resolve())
    words = [str(COMMAND), "trace", "record", "-o", "server.etr", "--", python, "-uSEc", ECHO]
    process = subprocess.Popen(
        words,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    port = int(process.stdout.readline())
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(b"hello")
        assert client.recv(64) == b"hello"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (out, err)
    assert "instructions" in out
    assert [path.name for path in tmp_path.iterdir()] == ["server.etr"]
