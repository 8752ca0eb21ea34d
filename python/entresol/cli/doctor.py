"""`entresol doctor`: what this machine's kernel can do, and what each missing thing costs."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import shutil
import sys
from dataclasses import asdict, dataclass

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from entresol.cli.options import JsonOption
from entresol.summary import to_text
from entresol.terminal import print_table

_IO_URING_SETUP = 425
"""The number of the system call, the same on all machines."""


@dataclass(frozen=True)
class Finding:
    """Something that a kernel may have."""

    name: str
    is_there: bool
    found: str
    cost: str
    """Of its not being there."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("doctor")(doctor)


def doctor(as_json: JsonOption = False) -> None:
    """Say what this machine can do for Entresol, and what each missing thing costs."""
    findings = [check() for check in (_fuse, _loop, _io_uring, _kvm)]
    if as_json:
        told = {
            "kernel": platform.release(),
            "processors": len(os.sched_getaffinity(0)),
            "findings": [asdict(finding) for finding in findings],
        }
        sys.stdout.write(to_text(told))
        return
    processors = len(os.sched_getaffinity(0))
    print(f"Linux {platform.release()}, {processors} processors")
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        said = finding.found
        if not finding.is_there:
            said += f"; without it {finding.cost}"
        table.add_row(finding.name, "yes" if finding.is_there else "no", Text(said))
    print_table(Console(highlight=False), table)


def _opened(path: str) -> str | None:
    """Why a file cannot be opened, if it cannot."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


def _fuse() -> Finding:
    cost = (
        "there is no entresol mount and no entresol device serve --fuse; NBD and shared memory work"
    )
    why = _opened("/dev/fuse")
    mounts = "root mounts by itself" if os.geteuid() == 0 else shutil.which("fusermount3")
    if why is None and mounts is None:
        why = "/dev/fuse opens, and only root mounts without fusermount3 (Debian package fuse3)"
    return Finding("FUSE", why is None, why or f"/dev/fuse opens; {mounts}", cost)


def _loop() -> Finding:
    cost = "file systems of the kernel (ext4, XFS) cannot be set on a served device's file"
    why = _opened("/dev/loop-control")
    if why is None and shutil.which("losetup") is None:
        why = "no losetup (Debian package mount)"
    return Finding("loop devices", why is None, why or "/dev/loop-control opens", cost)


def _io_uring() -> Finding:
    cost = "fio and QEMU use older engines on a mount (libaio, threads); nothing of ours needs it"
    libc = ctypes.CDLL(None, use_errno=True)
    parameters = (ctypes.c_char * 120)()
    file = libc.syscall(_IO_URING_SETUP, 1, parameters)
    if file >= 0:
        os.close(file)
        return Finding("io_uring", True, "a queue can be set up", cost)
    number = ctypes.get_errno()
    why = {errno.ENOSYS: "the kernel has none", errno.EPERM: "this machine forbids it"}
    return Finding("io_uring", False, why.get(number, os.strerror(number)), cost)


def _kvm() -> Finding:
    cost = "QEMU emulates the guests in which real ext4 and F2FS are measured, many times slower"
    why = _opened("/dev/kvm")
    return Finding("KVM", why is None, why or "/dev/kvm opens", cost)
