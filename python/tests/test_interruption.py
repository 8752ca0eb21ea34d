"""Work of the core that cannot be cancelled: its answer, its error, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import fake_core
import pytest
from conftest import Entresol

from entresol.interruption import interruptible, signal_name


def test_the_answer_and_the_error_of_the_work_are_given_on() -> None:
    def fail() -> int:
        raise TimeoutError("of the work itself")

    assert interruptible(lambda: 7) == 7
    with pytest.raises(TimeoutError, match="of the work itself"):
        interruptible(fail)


def test_every_signal_has_a_name_those_for_real_time_too() -> None:
    every = [signal_name(number) for number in range(1, signal.SIGRTMAX + 1)]
    assert every[signal.SIGKILL - 1] == "SIGKILL"
    assert every[signal.SIGRTMIN + 5] == "SIGRTMIN+6"
    assert len(set(every)) == len(every)


def test_ctrl_c_while_the_command_line_loads_is_one_sentence() -> None:
    # A module that it needs is interrupted, as whichever is on its way when Ctrl-C comes.
    code = """
import sys
class Finder:
    def find_spec(self, name, *_):
        if name == "entresol.interruption":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
from entresol.__main__ import entry
entry()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "entresol: interrupted; nothing was written.\n"


@pytest.mark.usefixtures("fake")
def test_an_interrupted_export_leaves_nothing(
    entresol_command: Entresol,
    capture_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()

    def slow(_trace: str, _format: str, destination: str, *_: object) -> list[str]:
        Path(destination).write_text("half")
        os.kill(os.getpid(), signal.SIGTERM)
        release.wait(20)
        return []

    monkeypatch.setattr(fake_core, "trace_export", slow)
    before, started = sorted(tmp_path.iterdir()), time.monotonic()
    target = tmp_path / "x"
    outcome = entresol_command("trace", "export", capture_file, "-o", target, "--format", "macsim")
    release.set()
    assert time.monotonic() - started < 10
    assert outcome.code == 130 and "nothing was written" in outcome.err
    assert sorted(tmp_path.iterdir()) == before


def test_an_interruption_before_the_directory_of_results_is_guarded_leaves_nothing(
    tmp_path: Path,
) -> None:
    program = """
import sys
from pathlib import Path
from entresol import atomic

def interrupt(lock):
    assert list(Path(sys.argv[1]).iterdir()) != [], "the directory is there"
    raise KeyboardInterrupt

atomic.locks.alone_now = interrupt
try:
    atomic.OutputDirectory(Path(sys.argv[1]) / "out")
except KeyboardInterrupt:
    print("interrupted")
"""
    words = (sys.executable, "-c", program, str(tmp_path))
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "interrupted\n"
    assert list(tmp_path.iterdir()) == []
