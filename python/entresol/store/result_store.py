"""Results by content: a run whose inputs did not change is never repeated.

The name of a result's file is the digest of all its inputs. A file that is damaged, or is not what
its name says, is reported and counts as absent. Any number of processes may use a store at once.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from entresol.core import Json
from entresol.errors import Failed

VERSION = 1
_HEAD = re.compile(rb'\{"entresol":"result","version":(\d+),"sha256":"([0-9a-f]{64})","body":')
_KEY = re.compile(r"[0-9a-f]{64}")
TEMPORARY = ".new-"
PROBE_BYTES = 1 << 16
"""More than most results have."""
USER = "user-"


def key_of(inputs: Json) -> str:
    """The name of the result that these inputs have."""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Entry:
    """A stored result: its inputs, what it was called when it was made, and the result itself."""

    key: str
    inputs: Json
    label: Json
    result: Json


class DamagedError(Exception):
    """A file of the store cannot be believed. The message says why."""


class ForeignError(DamagedError):
    """A file of another version: nothing to this program, and whole for another."""


def _why(error: OSError | DamagedError) -> str:
    return getattr(error, "strerror", None) or str(error)


def complain(sentence: str) -> None:
    """Says on stderr what a store found wrong."""
    print(f"entresol: {sentence}", file=sys.stderr)


class Store:
    """The results below a directory. Nothing is made there before the first result is kept."""

    def __init__(self, directory: Path, report: Callable[[str], None] = complain) -> None:
        self.root = directory / "results"
        self._report = report

    def path(self, key: str) -> Path:
        """Where the result of this key is, or would be."""
        return self.root / key[:2] / f"{key}.json"

    def find(self, key: str, *, again: bool = False) -> Json | None:
        """The result of these inputs, if it is here and whole; notes that it was of use. Who looks
        `again` has heard already what is wrong with it."""
        path = self.path(key)
        try:
            result = read(path).result
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, DamagedError) as error:
            if not again:
                self._doubt(path, _why(error))
            return None
        with suppress(OSError):  # A store that may only be read is of use all the same.
            os.utime(path)
        return result

    def _doubt(self, path: Path, why: str) -> None:
        self._report(f"{path}: {why}; this result counts as absent.")

    def keep(self, inputs: Json, label: Json, result: Json) -> str:
        """Stores a result so that it is there whole, power cuts included, or not at all.

        Raises `Failed` if that cannot be done; the store is then as it was.
        """
        key = key_of(inputs)
        path = self.path(key)
        with _explained(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, to_bytes(inputs, label, result))
        return key

    def check(self) -> None:
        """Raises `Failed` if a result could not be kept now: to be asked before work for it."""
        with _explained(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / f"{TEMPORARY}{uuid.uuid4().hex}"
            try:
                _put(probe, bytes(PROBE_BYTES))
            finally:
                probe.unlink(missing_ok=True)

    def list_keys(self) -> list[str]:
        """The keys of all files, whole or not, in order."""
        if not self.root.is_dir():
            return []
        names = (path.stem for path in self.root.glob("??/*.json"))
        return sorted(name for name in names if _KEY.fullmatch(name))

    def entries(self) -> Iterator[Entry]:
        """All results in order of their keys; what is damaged is reported and left out."""
        for key in self.list_keys():
            try:
                yield read(self.path(key))
            except FileNotFoundError:
                continue  # Removed meanwhile.
            except (OSError, DamagedError) as error:
                self._doubt(self.path(key), _why(error))

    def damaged(self) -> list[Path]:
        """The files that cannot be believed, in order; not those of another version."""
        found = []
        for key in self.list_keys():
            try:
                read(self.path(key))
            except ForeignError:
                continue
            except DamagedError:
                found.append(self.path(key))
            except OSError:
                continue  # Removed meanwhile, or not ours to read.
        return found

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Says, until it ends, that somebody is at work who may need what he uses."""
        claim = self.claim(f"{USER}{uuid.uuid4().hex}")
        try:
            yield
        finally:
            if claim is not None:
                claim.release()

    def in_use_since(self) -> float | None:
        """When the first of those began who are at work now; none if there are none."""
        began = []
        for path in (self.root / "claims").glob(f"{USER}*"):
            with suppress(FileNotFoundError):
                time = path.stat().st_mtime
                if (claim := self.claim(path.name)) is None:
                    began.append(time)
                else:
                    claim.release()  # Its owner was killed; with this it is gone.
        return min(began, default=None)

    def claim(self, key: str) -> Claim | None:
        """The right to compute a result, so that no two processes do; none while another has it.

        It ends with the process, however that ends.
        """
        return Claim.take(self.root / "claims", key)


def read(path: Path) -> Entry:
    """A result as it was stored. Raises `DamagedError`, or `OSError` if it cannot be read."""
    text = path.read_bytes()
    head = _HEAD.match(text)
    if head is None or not text.endswith(b"}\n"):
        raise DamagedError("is damaged or no result of Entresol")
    if int(head[1]) != VERSION:
        raise ForeignError(f"has version {int(head[1])}, and this program reads {VERSION}")
    body = text[head.end() : -2]
    if hashlib.sha256(body).hexdigest().encode() != head[2]:
        raise DamagedError("is damaged: its content does not have its digest")
    parts = json.loads(body)
    entry = Entry(path.stem, parts["inputs"], parts["label"], parts["result"])
    if key_of(entry.inputs) != entry.key:
        raise DamagedError("holds the result of other inputs than its name says")
    return entry


def to_bytes(inputs: Json, label: Json, result: Json) -> bytes:
    """The file of a result: one JSON object, with the digest of its body before it."""
    parts = {"inputs": inputs, "label": label, "result": result}
    body = json.dumps(parts, separators=(",", ":")).encode()
    digest = hashlib.sha256(body).hexdigest()
    head = f'{{"entresol":"result","version":{VERSION},"sha256":"{digest}","body":'
    return head.encode() + body + b"}\n"


@contextmanager
def _explained(place: Path) -> Iterator[None]:
    """Says of a write that failed what is kept and what to do."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hope = "when there is room" if is_full else "when it can be written, or with --store DIR"
        raise Failed(
            f"{place}: a result cannot be stored: {_why(error)}; "
            f"everything stored before is kept, so repeat the command {hope}."
        ) from error


def _put(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")
    try:
        _put(temporary, content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class Claim:
    """A lock on a file that only means that somebody is at work on a result."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self._path = path
        self._descriptor = descriptor

    @staticmethod
    def take(directory: Path, key: str) -> Claim | None:
        """The claim on a key, or none while another process has it."""
        path = directory / key
        while True:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError:
                # It keeps others from doing the same work, no more: without it all goes on.
                return Claim(path, None)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(descriptor, path):
                    return Claim(path, descriptor)
            except BlockingIOError:
                os.close(descriptor)
                return None
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                    raise
                os.close(descriptor)
                return Claim(path, None)
            os.close(descriptor)  # The one before us has just removed it.

    def release(self) -> None:
        """Lets others have it."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
