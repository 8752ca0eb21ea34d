"""Results by content: a run whose inputs did not change is never repeated.

The name of a result's file is the digest of all its inputs. A file that is damaged, or is not what
its name says, is reported and counts as absent. Any number of processes may use a store at once.
"""

from __future__ import annotations

import errno
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

from entresol import atomic, core, locks
from entresol.atomic import TEMPORARY
from entresol.core import Json
from entresol.errors import Failed
from entresol.result_types import RunResult

VERSION = 1
_HEAD = re.compile(rb'\{"entresol":"result","version":(\d+),"sha256":"([0-9a-f]{64})","body":')
_KEY = re.compile(r"[0-9a-f]{64}")
PROBE_BYTES = 1 << 16
"""More than most results have."""
IN_USE = "in-use"
"""The directory of locks that say who is at work."""


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
    result: RunResult


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

    def find(self, key: str) -> RunResult | None:
        """The result of these inputs, if it is here and whole; notes that it was of use."""
        path = self.path(key)
        try:
            result = read(path).result
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, DamagedError) as error:
            self._doubt(path, _why(error))
            return None
        with suppress(OSError):  # A store that may only be read is of use all the same.
            os.utime(path)
        return result

    def _doubt(self, path: Path, why: str) -> None:
        self._report(f"{path}: {why}; this result counts as absent.")

    def keep(self, inputs: Json, label: Json, result: RunResult) -> str:
        """Stores a result so that it is there whole, power cuts included, or not at all.

        Raises `Failed` if that cannot be done; the store is then as it was.
        """
        key = key_of(inputs)
        path = self.path(key)
        with _explained(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write(path, to_bytes(inputs, label, result))
        return key

    def check(self) -> None:
        """Raises `Failed` if a result could not be kept now: to be asked before work for it."""
        with _explained(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / f"{TEMPORARY}{uuid.uuid4().hex}"
            try:
                atomic.create(probe, bytes(PROBE_BYTES))
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
        with locks.alone_now(self.root / IN_USE / uuid.uuid4().hex):
            yield

    def in_use_since(self) -> float | None:
        """When the first of those began who are at work now, in seconds since 1970; none if there
        are none."""
        began = []
        for path in (self.root / IN_USE).glob("*"):
            with suppress(FileNotFoundError):
                time = path.stat().st_mtime
                # Where nobody holds it its owner was killed, and with this it is gone.
                with locks.alone_now(path) as is_over:
                    if not is_over:
                        began.append(time)
        return min(began, default=None)


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
    # Of an older version: whoever looks for it knows parameters by their names of now.
    if "config" in entry.inputs:
        entry.inputs["config"] = core.with_names_of_now(entry.inputs["config"])
    if "config" in entry.result:
        entry.result["config"] = core.with_names_of_now(entry.result["config"])
    return entry


def to_bytes(inputs: Json, label: Json, result: RunResult) -> bytes:
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
