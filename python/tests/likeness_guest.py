"""A guest of QEMU that runs programs on a real ext4 or F2FS over our NBD socket.

Debian's kernel, its modules and tools are taken as they are and packed with busybox into an initial
file system in memory; nothing is installed in this machine. `scripts/setup e2e` brings what is
needed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPTS = ROOT / "scripts" / "e2e-guest"
KERNEL = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "e2e" / "linux"
"""Debian's kernel package, unpacked."""
MODULES = ("crc32c_generic", "crc32_generic", "nvme", "ext4", "f2fs")
TOOLS = {"ext4": ("mkfs.ext4", "debugfs"), "f2fs": ("mkfs.f2fs",)}
PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "mkfs.ext4": "e2fsprogs",
    "debugfs": "e2fsprogs",
    "mkfs.f2fs": "f2fs-tools",
}
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
RESULTS = 128 << 20
"""Bytes of the disk that takes the results."""
MEMORY = "1G"
PROBE = 20
"""Seconds within which the kernel of a guest begins with KVM, which takes less than one."""
MINUTES = {"kvm": 10, "tcg": 60}
"""After these the guest is given up."""

_CREATE_VM = 0xAE01
_DEPENDS = re.compile(rb"\0depends=([^\0]*)")


class Missing(Exception):
    """Something is not there, or does not work; the text says what to do."""


def find(program: str) -> str:
    """Where a program of Debian's is."""
    path = shutil.which(program, path=PATH)
    if path is None:
        package = PACKAGES[program]
        raise Missing(f"{program} is not there: run scripts/setup e2e, or install {package}.")
    return path


def kernel() -> Path:
    """The kernel of the guest."""
    found = sorted(KERNEL.glob("boot/vmlinuz-*"))
    if not found:
        raise Missing("there is no kernel for the guest: run scripts/setup e2e, which fetches one.")
    return found[-1]


def why_no_kvm(path: Path = Path("/dev/kvm")) -> str | None:
    """Why guests cannot use the processor itself, if they cannot."""
    try:
        device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return f"{path}: {error.strerror}"
    try:
        os.close(fcntl.ioctl(device, _CREATE_VM, 0))
    except OSError as error:
        return f"{path} makes no machine: {error.strerror}"
    finally:
        os.close(device)
    return None


def why_no_fast_guest() -> str | None:
    """The same, tried: there are machines on which a guest is made and never gets on."""
    why = why_no_kvm()
    if why is None and "Linux version" not in said(machine("kvm", ""), PROBE, "Linux version"):
        why = f"/dev/kvm makes a machine, which does not get on within {PROBE} s"
    return why


def module_order(folder: Path, names: Sequence[str]) -> list[Path]:
    """Modules, each behind those that it needs, as their own information says."""
    known = {path.stem.replace("-", "_"): path for path in sorted(folder.rglob("*.ko"))}
    order: list[Path] = []

    def add(name: str) -> None:
        path = known.get(name.replace("-", "_"))
        if path is None:
            raise Missing(
                f"the kernel has no module {name}: remove {KERNEL}, run scripts/setup e2e."
            )
        if path in order:
            return
        match = _DEPENDS.search(path.read_bytes())
        for need in match.group(1).decode().split(",") if match else ():
            if need:
                add(need)
        order.append(path)

    for name in names:
        add(name)
    return order


def libraries(program: str) -> list[Path]:
    """What a program is linked with, the loader too; none of a static one."""
    done = subprocess.run(("ldd", program), capture_output=True, text=True, check=False)
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", done.stdout)]


def pack(folder: Path) -> Path:
    """The guest's initial file system."""
    tools = [tool for tools in TOOLS.values() for tool in tools]
    return pack_tree(folder, MODULES, tools, {"init": "init", "programs.sh": "programs.sh"})


def pack_tree(
    folder: Path, modules: Sequence[str], tools: Sequence[str], scripts: dict[str, str]
) -> Path:
    """An initial file system of modules, programs of this machine and scripts of ours."""
    tree = folder / "tree"
    busybox = find("busybox")
    programs = [find(tool) for tool in tools]
    (tree / "modules").mkdir(parents=True)
    order = module_order(KERNEL / "lib" / "modules", modules)
    for module in order:
        shutil.copy(module, tree / "modules")
    (tree / "modules" / "order").write_text("".join(f"{module.name}\n" for module in order))
    for program in programs:
        _copy(Path(program), tree / "sbin" / Path(program).name)
    _copy(Path(busybox), tree / "bin" / "busybox")
    for library in {path for program in (busybox, *programs) for path in libraries(program)}:
        _copy(library, tree / library.relative_to("/"))
    settings = Path("/etc/mke2fs.conf")
    if settings.exists():
        _copy(settings, tree / "etc" / "mke2fs.conf")
    for name, script in scripts.items():
        _copy(SCRIPTS / script, tree / name)
    (tree / "init").chmod(0o755)
    names = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
    packed = folder / "initrd"
    with packed.open("wb") as out:
        subprocess.run(
            (busybox, "cpio", "-o", "-H", "newc"),
            input=names.encode(), stdout=out, stderr=subprocess.DEVNULL, cwd=tree, check=True,
        )  # fmt: skip
    shutil.rmtree(tree)
    return packed


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


@dataclass(frozen=True)
class Machine:
    """How a guest was run."""

    accelerator: str
    kernel: str
    seconds: float


def run(kind: str, socket: Path, initrd: Path, results: Path, accelerator: str) -> Machine:
    """Runs all programs on a file system; what the guest has kept is in `results` then."""
    disk = results.with_suffix(".disk")
    with disk.open("wb") as out:
        out.truncate(RESULTS)
    blocks = "logical_block_size=4096,physical_block_size=4096"
    command = (
        *machine(accelerator, f"likeness.fs={kind}"), "-initrd", str(initrd),
        "-drive", f"file=nbd+unix:///?socket={socket},format=raw,if=none,id=ours,cache=none",
        "-device", f"nvme,drive=ours,serial=ours,{blocks}",
        "-drive", f"file={disk},format=raw,if=none,id=results",
        "-device", f"nvme,drive=results,serial=results,{blocks}",
    )  # fmt: skip
    started = time.monotonic()
    minutes = MINUTES[accelerator]
    words = said(command, 60 * minutes)
    if "likeness: complete" not in words:
        raise Missing(
            f"the guest with {kind} did not get to its end within {minutes} min; {last(words)}"
        )
    results.mkdir()
    with tarfile.open(disk, "r:") as packed:
        packed.extractall(results, filter="data")
    disk.unlink()
    release = (results / "kernel").read_text().strip()
    return Machine(accelerator, release, time.monotonic() - started)


def machine(accelerator: str, words: str) -> tuple[str, ...]:
    """The command of a guest without disks and network."""
    return (
        find("qemu-system-x86_64"), "-nodefaults", "-no-user-config", "-display", "none",
        "-accel", accelerator, "-cpu", "host" if accelerator == "kvm" else "max",
        # One processor: its trace has everything in the order in which it happened.
        "-smp", "1", "-m", MEMORY, "-no-reboot", "-serial", "stdio", "-kernel", str(kernel()),
        "-append", f"console=ttyS0 panic=-1 {words}",
    )  # fmt: skip


def said(
    command: Sequence[str],
    seconds: float,
    until: str | None = None,
    watch: Callable[[str], None] = lambda _: None,
) -> str:
    """What a guest writes to its console until it ends, says a word, or has had its time. `watch`
    hears all of it again and again meanwhile."""
    with tempfile.TemporaryFile() as log:
        guest = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + seconds
        try:
            while True:
                ended = guest.poll() is not None
                words = os.pread(log.fileno(), 1 << 22, 0).decode(errors="replace")
                watch(words)
                if ended or time.monotonic() > deadline or (until is not None and until in words):
                    return words
                time.sleep(0.1)
        finally:
            guest.kill()
            guest.wait()


def last(words: str) -> str:
    """The end of what a guest has written."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return "it said: " + " | ".join(lines[-8:]) if lines else "it said nothing."
