"""The lab of killed servers: `kill -9` under load, again and again, and what is found afterwards.

A life: a server starts, every block that was ever written is read and compared with the model, then
a client keeps a number of random writes, trims, flushes and reads under way until the server is
killed at a random moment; sometimes it is killed while it starts, that is while it recovers.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import nbd_client
from kill_model import Model
from nbd_client import FLUSH, FUA, NO_HOLE, READ, TRIM, WRITE, WRITE_ZEROES, Client

from entresol.cli import main as command_line

DEPTH = 24
"""Requests under way."""
BLOCKS = 1500
"""Blocks that are written to, spread over the device in runs."""
RUN = 50
LONGEST = 12
"""Blocks of one request."""
MOST_ANSWERS = 500
START = 60.0
"""Seconds within which a server listens."""
SHARE_KILLED_AT_START = 0.15


class Wrong(Exception):
    """The device did what it must not."""


@dataclass
class Request:
    """A request under way."""

    kind: int
    blocks: range
    version: int = 0
    durable: bool = False
    promises: dict[int, int] = field(default_factory=dict)


class Server:
    """A process that serves an image at a socket."""

    def __init__(self, command: Sequence[str], socket: Path) -> None:
        self._socket = socket
        socket.unlink(missing_ok=True)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [word.replace("SOCKET", str(socket)) for word in command],
            stdout=self._log,
            stderr=self._log,
        )

    def connect(self) -> Client:
        """A client, as soon as there can be one."""
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise Wrong(f"the server does not start: {self.said()}")
            try:
                return Client(self._socket)
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(0.005)
        raise Wrong(f"the server does not listen: {self.said()}")

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self._process.kill()
        if self._process.wait() != -signal.SIGKILL:
            raise Wrong(f"the server ended by itself: {self.said()}")

    def kill_if_alive(self) -> None:
        """Leaves nothing behind."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ends it as a user would."""
        self._process.terminate()
        if self._process.wait(START) != 0:
            raise Wrong(f"the server does not end well: {self.said()}")

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        self._process.send_signal(number)

    def ignores(self, number: int) -> bool:
        """Whether it has no ear for a signal."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        (ignored,) = re.findall(r"^SigIgn:\s*([0-9a-f]+)$", status, re.MULTILINE)
        return int(ignored, 16) >> (number - 1) & 1 == 1

    def end_with(self, number: int) -> int:
        """Ends it with a signal; its exit code."""
        self.signal(number)
        return self._process.wait(START)

    def said(self) -> str:
        """Everything it wrote."""
        # The server writes where the file's offset is: it must not move.
        log = self._log.fileno()
        return os.pread(log, os.fstat(log).st_size, 0).decode(errors="replace").strip()


class Lab:
    """Lives of a server of one image."""

    def __init__(self, command: Sequence[str], seed: int, *, volatile: bool, folder: Path) -> None:
        self._command = command
        self._socket = folder / "nbd"
        self._random = random.Random(seed)
        self._volatile = volatile
        self._seed = seed
        self._places: list[int] = []
        self.model: Model | None = None
        self.kills = 0
        self.answers = 0

    def live(self, sabotage: Callable[[], None] | None = None) -> None:
        """One life, from a start to a kill. `sabotage` meddles with the image of the dead."""
        server = Server(self._command, self._socket)
        if self._random.random() < SHARE_KILLED_AT_START:
            time.sleep(self._random.uniform(0.0, 0.6))
            server.kill()
            server = Server(self._command, self._socket)
            self.kills += 1
        client = server.connect()
        try:
            self._verify(client)
            self._load(client)
        except OSError as error:
            raise Wrong(f"before kill {self.kills + 1}, {error}: {server.said()}") from error
        finally:
            server.kill()
            client.abandon()
        self.kills += 1
        if sabotage is not None:
            sabotage()

    def end(self) -> None:
        """A last look, and a server that ends as it should."""
        server = Server(self._command, self._socket)
        client = server.connect()
        self._verify(client)
        client.close()
        server.stop()

    def _prepare(self, client: Client) -> Model:
        """Runs of blocks all over the device, its ends among them."""
        if self.model is None:
            self.model = Model(client.block, self._seed)
            last = client.size // client.block - RUN
            starts = [0, last, *(self._random.randrange(last) for _ in range(BLOCKS // RUN - 2))]
            self._places = starts
        return self.model

    def _verify(self, client: Client) -> None:
        model = self._prepare(client)
        for start in self._places:
            data = client.read(start * client.block, RUN * client.block)
            for index in range(RUN):
                block = data[index * client.block : (index + 1) * client.block]
                problem = model.found(start + index, block)
                if problem is not None:
                    raise Wrong(f"after kill {self.kills}, {problem}")
        # What was found is what the next life starts from.
        if client.flush():
            raise Wrong("a flush fails")

    def _load(self, client: Client) -> None:
        """Requests, until so many were answered that it is time for a kill."""
        under_way: dict[int, Request] = {}
        busy: set[int] = set()
        for _ in range(self._random.randrange(MOST_ANSWERS)):
            while len(under_way) < DEPTH:
                request = self._next(busy)
                under_way[self._send(client, request)] = request
                busy.update(request.blocks)
            answer = client.receive()
            request = under_way.pop(answer.cookie)
            busy.difference_update(request.blocks)
            self._answered(request, answer)
            self.answers += 1

    def _next(self, busy: set[int]) -> Request:
        """A request for blocks of which nothing is under way."""
        while True:
            kinds = (WRITE, READ, TRIM, WRITE_ZEROES, FLUSH)
            (kind,) = self._random.choices(kinds, (70, 10, 8, 4, 8))
            if kind == FLUSH:
                return Request(FLUSH, range(0), promises=self._model().pending())
            first = self._random.choice(self._places) + self._random.randrange(RUN - LONGEST)
            blocks = range(first, first + self._random.randint(1, LONGEST))
            if busy.isdisjoint(blocks):
                return Request(kind, blocks, durable=self._random.random() < 0.2)

    def _model(self) -> Model:
        assert self.model is not None, "made by the first look"
        return self.model

    def _send(self, client: Client, request: Request) -> int:
        model, size = self._model(), client.block
        data = b""
        flags = FUA if request.durable else 0
        if request.kind in (WRITE, TRIM, WRITE_ZEROES):
            is_write = request.kind == WRITE
            request.version = model.write(request.blocks, zeroes=not is_write)
            if is_write:
                data = b"".join(model.content(block, request.version) for block in request.blocks)
            elif request.kind == WRITE_ZEROES and self._random.random() < 0.5:
                flags |= NO_HOLE
        at, length = request.blocks.start * size, len(request.blocks) * size
        return client.send(request.kind, at, length, flags=flags, data=data)

    def _answered(self, request: Request, answer: nbd_client.Answer) -> None:
        if answer.error:
            raise Wrong(f"request {request.kind} fails with error {answer.error}")
        model = self._model()
        if request.kind == FLUSH:
            model.flushed(request.promises)
        elif request.kind == READ:
            for index, block in enumerate(request.blocks):
                data = answer.data[index * model.size : (index + 1) * model.size]
                problem = model.read(block, data)
                if problem is not None:
                    raise Wrong(f"before kill {self.kills + 1}, {problem}")
        else:
            durable = request.durable or not self._volatile
            model.answered(request.blocks, request.version, durable=durable)

    def report(self) -> str:
        """What was seen, in one line."""
        tally = self._model().tally
        return (
            f"{self.kills} kills, {self.answers:,} requests answered, {tally.checked:,} blocks "
            f"compared; {tally.in_doubt:,} of them had an unpromised write, which was there in "
            f"{tally.kept:,}"
        )


def make_image(image: Path, preset: str, overrides: Sequence[str]) -> None:
    """Makes a device; `overrides` are those of `--set`."""
    sets = [word for value in overrides for word in ("--set", value)]
    create = ("device", "create", str(image), "--preset", preset, *sets)
    # In this process: each test has its own device, and to start the command takes longer.
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = command_line.main(create)
    if code:
        raise Wrong(f"no device can be made: {said.getvalue().strip()}")


def serve_command(image: Path, *ports: str) -> list[str]:
    """The command that serves an image, over NBD unless told; SOCKET stands for the path."""
    serve = ("device", "serve", str(image), *(ports or ("--nbd", "unix:SOCKET")))
    return [sys.executable, "-m", "entresol", *serve]


def main() -> int:
    """`make killlab KILLS=N`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--preset", default="cxl")
    parser.add_argument(
        "--volatile", action="store_true", help="expect only what a flush or FUA promised"
    )
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    options = parser.parse_args()
    sets = " ".join(f"--set {value}" for value in options.overrides)
    repeat = f"--seed {options.seed} --preset {options.preset} {sets}".rstrip()
    print(f"kill lab: {repeat}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="entresol-kill-"))
    image = folder / "image"
    lab = Lab(serve_command(image), options.seed, volatile=options.volatile, folder=folder)
    is_shown = os.isatty(sys.stdout.fileno())
    next_line = 0
    try:
        make_image(image, options.preset, options.overrides)
        while lab.kills < options.kills:
            lab.live()
            if is_shown:
                print(lab.report(), end="\r", flush=True)
            elif lab.kills >= next_line:
                print(lab.report(), flush=True)
                next_line += 50
        lab.end()
    except Wrong as error:
        print(f"\nkill lab: {error}; the image is {image}; {repeat}", file=sys.stderr)
        return 1
    print(lab.report())
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
