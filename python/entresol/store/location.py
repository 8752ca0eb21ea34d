"""Where results and captures are kept."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ENTRESOL_STORE"


def store_directory(option: Path | None) -> Path:
    """The directory of `--store`, else `$ENTRESOL_STORE`, else `entresol` in the user's cache."""
    if option is not None:
        return option
    if named := os.environ.get(VARIABLE):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "entresol"
