"""Digests of files, which are inputs of results."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path


def file_digest(path: Path) -> str:
    """SHA-256 of a file; read again only when its size, its date or its place changes."""
    status = path.stat()
    return _file_digest(path, status.st_size, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=4096)
def _file_digest(path: Path, *_status: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=16)
def core_digest(library: Path) -> str:
    """SHA-256 of the core that this process runs: of its file when first asked for. A file that
    was rebuilt since is another core, and not the one that was loaded."""
    return file_digest(library)
