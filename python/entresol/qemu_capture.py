"""`entresol trace record`: runs a program under QEMU with the capture plugin."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from entresol import core
from entresol.atomic import OutputFile
from entresol.core import Json
from entresol.errors import UserError
from entresol.interruption import signal_name

QEMU = "qemu-x86_64"
CPU = "max,-erms,-fsrm"
"""Without `erms` and `fsrm`, libc copies with vector moves: half the events of `rep movs`."""
PLUGIN = "libtracer.so"
_ELF_X86_64 = 0x3E
_PT_INTERP = 3


@dataclass(frozen=True)
class Window:
    """Which instructions are captured."""

    roi: bool
    skip: int | None
    limit: int | None
    quiet: bool = False
    """Nothing is instrumented outside the region; only for programs known to stand it."""


@dataclass(frozen=True)
class Tools:
    """What captures are made with."""

    qemu: str
    plugin: Path
    version: str
    """`qemu-x86_64 version 7.2`, for the provenance."""

    def command(self, output: Path, window: Window, command: Sequence[str]) -> list[str]:
        """The words that run a program and capture it into `output`."""
        plugin = _plugin_argument(self.plugin, output, window, self.version)
        return [self.qemu, "-cpu", CPU, "-plugin", plugin, *command]


def tools() -> Tools:
    """Finds the tools. Raises `UserError` if one is missing."""
    qemu, plugin = _find_qemu(), _find_plugin()
    return Tools(qemu, plugin, _version(qemu))


def record(output: Path, window: Window, command: Sequence[str]) -> Json:
    """Captures a program into `output`, which appears when the capture is whole.

    Returns what `trace info` says of it. Ctrl-C goes to the program; a program that ends by it
    leaves a good capture, as a server does.
    """
    if output.suffix != ".etr":
        raise UserError(f"{output}: the name of a capture ends in .etr.")
    found = tools()
    program = _find_program(command[0])
    with OutputFile(output) as file:
        status = _run(found.command(file.temporary, window, [str(program), *command[1:]]))
        if not file.temporary.exists():
            raise UserError(f"{command[0]}: {_ending(status)} and nothing was captured.")
        info = core.trace_info(file.temporary)
        file.commit()
    if status != 0:
        print(f"note: {command[0]} {_ending(status)}; the capture is whole", file=sys.stderr)
    return info


def _version(qemu: str) -> str:
    said = subprocess.run([qemu, "--version"], capture_output=True, text=True, check=False).stdout
    return " ".join(said.partition("\n")[0].partition("(")[0].split())


def _plugin_argument(plugin: Path, output: Path, window: Window, emulator: str) -> str:
    options = [str(plugin), f"out={output}"]
    if emulator:
        options.append(f"emulator={emulator}")
    if window.roi:
        options.append("roi=on")
    if window.quiet:
        options.append("quiet=on")
    if window.skip is not None:
        options.append(f"skip={window.skip}")
    if window.limit is not None:
        options.append(f"limit={window.limit}")
    # QEMU separates options by commas and writes a comma within one twice.
    return ",".join(option.replace(",", ",,") for option in options)


def _run(arguments: Sequence[str]) -> int:
    # The terminal sends Ctrl-C to the whole group: the program decides, and we wait for it. A
    # handler, unlike SIG_IGN, is not inherited by the program.
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    at_end = signal.getsignal(signal.SIGTERM)
    try:
        child = subprocess.Popen(arguments)
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        return child.wait()
    except OSError as error:
        raise UserError(f"{arguments[0]}: cannot be started: {error.strerror}.") from error
    finally:
        signal.signal(signal.SIGINT, previous)
        signal.signal(signal.SIGTERM, at_end)


def _ending(status: int) -> str:
    if status < 0:
        return f"ended by signal {signal_name(-status)}"
    return f"ended with status {status}"


def _find_qemu() -> str:
    found = shutil.which(QEMU)
    if found is None:
        raise UserError(
            f"{QEMU} is not installed; run scripts/setup, or apt-get install qemu-user on Debian."
        )
    return found


def _find_plugin() -> Path:
    plugin = Path(__file__).parent / PLUGIN
    if plugin.is_file():
        return plugin.absolute()
    raise UserError(f"the capture plugin {PLUGIN} is not built; run make build.")


def _find_program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        reason = "is not executable" if Path(name).exists() else "no such program"
        raise UserError(f"{name}: {reason}; give the program and its arguments after --.")
    path = Path(found)
    try:
        with path.open("rb") as file:
            _check_program(name, file.read(4096))
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}.") from error
    return path


def _check_program(name: str, head: bytes) -> None:
    if head[:2] == b"#!":
        interpreter = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace").strip()
        raise UserError(f"{name}: is a script; capture its interpreter: -- {interpreter} {name}")
    if head[:4] != b"\x7fELF" or len(head) < 64:
        raise UserError(f"{name}: is not a Linux program (ELF).")
    machine = struct.unpack_from("<H", head, 18)[0]
    if head[4] != 2 or machine != _ELF_X86_64:
        raise UserError(f"{name}: is not a 64-bit x86 program; only x86-64 can be captured.")
    loader = _loader(head)
    if loader is not None and not os.path.exists(loader):  # noqa: PTH110 (bytes, not a Path)
        shown = loader.decode("utf-8", "replace")
        raise UserError(f"{name}: needs {shown}, which is not installed.")


def _loader(head: bytes) -> bytes | None:
    """Path of the dynamic loader, `None` for a static program."""
    offset = struct.unpack_from("<Q", head, 32)[0]
    entry_size, entries = struct.unpack_from("<HH", head, 54)
    for index in range(entries):
        start = offset + index * entry_size
        if start + 40 > len(head):
            return None
        if struct.unpack_from("<I", head, start)[0] == _PT_INTERP:
            place = struct.unpack_from("<Q", head, start + 8)[0]
            length = struct.unpack_from("<Q", head, start + 32)[0]
            return head[place : place + length].rstrip(b"\0") or None
    return None
