"""Fixtures: the command line in this process, with a stand-in core or with the real one."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import fake_core
from file_server import FileServer, detach, reach, run
from in_process import InProcess
from kill_lab import make_image
from mounted import LOGGED, Mount, entresol
from small_devices import SMALL

from entresol import core
from entresol.cli import main
from entresol.execution import executor

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores it, and with it all that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


Entresol = Callable[..., Outcome]
Serve = Callable[..., FileServer]
Mounting = Callable[..., Mount]


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of the test's own: the user's is none of its business."""
    place = tmp_path_factory.mktemp("store")
    monkeypatch.setenv("ENTRESOL_STORE", str(place))
    return place


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Puts made-up simulations in place of the core."""
    fake_core.reset()
    monkeypatch.setattr(core, "_core", fake_core)
    monkeypatch.setattr(executor, "Processes", InProcess)
    yield
    fake_core.reset()


@pytest.fixture
def entresol_command(capsys: pytest.CaptureFixture[str]) -> Entresol:
    """Runs the command line in this process."""

    def call(*words: str | Path) -> Outcome:
        code = main.main([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def capture_file(tmp_path: Path) -> Path:
    """A file that the stand-in takes for a capture."""
    path = tmp_path / "sort.etr"
    path.write_bytes(fake_core.MAGIC)
    return path


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program recorded here: sort with its threads, the first instructions of its main part.

    What its threads did in the window depends on the machine and its load: no test may build on
    how much memory that was.
    """
    place = tmp_path_factory.mktemp("recorded")
    lines = place / "lines.txt"
    lines.write_text("".join(f"{number * 7919 % 100_003}\n" for number in range(200_000)))
    words = f"trace record -o {place}/sort.etr --skip 40000000 --limit 1200000 --"
    command = ["sort", "--parallel=4", "-S", "20M", str(lines), "-o", "/dev/null"]
    assert main.main([*words.split(), *command]) == 0
    return place / "sort.etr"


def _beginning(name: str, share: str, place: Path) -> Path:
    """The beginning of a shipped capture, of the same bytes everywhere."""
    cut, made = place / f"{name}-cut", place / f"{name}.etr"
    words = ["--format", "macsim", "--limit", share, "-o", str(cut)]
    assert main.main(["trace", "export", str(ROOT / "traces" / f"{name}.etr"), *words]) == 0
    assert main.main(["trace", "import", str(cut), "-o", str(made)]) == 0
    return made


@pytest.fixture(scope="session")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The beginning of a shipped capture: 1.28 million instructions of 8 threads, 2,195 pages."""
    return _beginning("sort", "8%", tmp_path_factory.mktemp("captured"))


@pytest.fixture(scope="session")
def beginnings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures called as the shipped ones, which are their beginnings: 640,000 instructions each.

    For tests to which it is all the same what a capture holds: sixteen million take the core of
    the tests twenty times as long."""
    place = tmp_path_factory.mktemp("beginnings")
    for name in ("xz", "sort", "memcached"):
        _beginning(name, "4%", place)
    return place


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A device."""
    made = tmp_path / "image"
    make_image(made, "cxl", SMALL)
    return made


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    """Where its server listens."""
    return tmp_path / "socket"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where it is mounted."""
    made = tmp_path / "a folder"
    made.mkdir()
    yield made
    detach(made)


@pytest.fixture
def serve(image: Path, folder: Path) -> Iterator[Serve]:
    """Serves the image at the folder."""
    servers = []

    def start(*more: str) -> FileServer:
        servers.append(FileServer(image, folder, *more))
        return servers[-1]

    yield start
    for server in servers:
        server.clean()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A device with an empty file system."""
    made = tmp_path_factory.mktemp("template") / "ssd"
    make_image(made, "bytefs", LOGGED)
    assert entresol("mkfs", made).endswith(f"{made}\n")
    return made


@pytest.fixture
def ssd(template: Path, tmp_path: Path) -> Path:
    """A copy of it, which a test may spoil."""
    made = tmp_path / "ssd"
    run("cp", "-r", "--sparse=always", template, made)
    return made


@pytest.fixture
def mount(ssd: Path, folder: Path) -> Iterator[Mounting]:
    """Mounts it at the folder."""
    mounts = []

    def start(*more: str) -> Mount:
        mounts.append(Mount(ssd, folder, *more))
        return mounts[-1]

    yield start
    for one in mounts:
        one.clean()


@pytest.fixture(scope="session")
def shared(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A mount for the tests of what a program sees; each has a directory of its own."""
    place = tmp_path_factory.mktemp("shared")
    made, folder = place / "ssd", place / "mnt"
    run("cp", "-r", "--sparse=always", template, made)
    folder.mkdir()
    mounted = Mount(made, folder, "-o", "allow_other")
    reach(folder)
    yield folder
    mounted.clean()


@pytest.fixture
def here(shared: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """An empty directory in the file system."""
    made = shared / str(request.node.name)
    made.mkdir()
    yield made
    shutil.rmtree(made)


def one_line(outcome: Outcome, code: int = 2) -> str:
    """The message of a refused command: exit code 2, or of one that failed: 1. One line, nothing on
    stdout."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("entresol: ") and outcome.err.count("\n") == 1, outcome.err
    return outcome.err
