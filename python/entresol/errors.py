"""What the command line says when it will not do something."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

DEBUG = "ENTRESOL_DEBUG"
"""The variable that asks for tracebacks of internal errors, as `entresol --debug` does."""


class UserError(Exception):
    """Bad input. The message is one sentence: what, where, what to do."""


class Failed(Exception):
    """Something outside Entresol failed: a disk, a cluster. The message is one sentence."""


class InternalError(Exception):
    """A fault of ours, as a worker process reports it. The message is one sentence."""


class Stopped(Exception):
    """The user stopped a command. The message says what is kept of it."""


def did_you_mean(word: str, candidates: Sequence[str]) -> str:
    """` Did you mean …?` for the candidate nearest to a word, or nothing."""
    near = difflib.get_close_matches(str(word).lower(), candidates, n=1, cutoff=0.55)
    return f" Did you mean {near[0]}?" if near else ""
