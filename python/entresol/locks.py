"""Locks between processes: each is a file, and ends with its process however that ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

NO_WAIT = 0.0
FOR_EVER = -1.0


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Waits until no other process has the lock at `path`, and has it meanwhile.

    Raises `OSError` where the file cannot be made.
    """
    lock = FileLock(path, timeout=FOR_EVER, thread_local=False)
    with lock:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # Who waited for this file sees that it is gone.


@contextmanager
def alone_now(path: Path) -> Iterator[bool]:
    """Whether no other process has the lock at `path`; then this one has it meanwhile.

    It only keeps others out: where there are no locks it is true, so that all goes on.
    """
    lock = FileLock(path, timeout=NO_WAIT, thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        yield False
        return
    except (OSError, NotImplementedError):
        yield True
        return
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)
        lock.release()
