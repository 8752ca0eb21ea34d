"""A drive behind firmware in the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Drive:
    """A file or a block device that is the flash of firmware in the loop."""

    path: Path
    size: str | None
    """How much of it, from its beginning; all if left out."""
    overwrites_device: bool
    """Whether it may be a block device, on which everything is lost."""
