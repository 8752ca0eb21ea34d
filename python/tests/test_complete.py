"""What the shell offers for a word that is not finished."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from entresol import core
from entresol.cli import complete


def _offered(words: str, index: int) -> list[str]:
    asked = {"_ENTRESOL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    done = subprocess.run(
        [sys.executable, "-c", "from entresol.__main__ import entry; entry()"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | asked,
    )
    return done.stdout.split()


def test_the_shell_completes_commands_words_and_names() -> None:
    assert _offered("entresol sw", 1) == ["sweep"]
    assert _offered("entresol run --mode ", 3) == ["detailed", "fast"]
    assert "skybyte-full" in _offered("entresol run --design sky", 3)


@pytest.mark.parametrize(
    ("offer", "typed", "offered"),
    [
        (complete.designs, "base-cssd,skybyte-fu", ["base-cssd,skybyte-full"]),
        (complete.machines, "de", ["demo"]),
        (complete.figures, "sk", ["skybyte"]),
        (complete.figures, "14,tab", ["14,table3", "14,table2", "14,table5"]),
        (complete.rooms, "", ["skybyte", "bytefs", "opencxd", "dax", "entresol"]),
        (complete.parameters, "ssd.log.size", ["ssd.log.size="]),
        (complete.fidelity, "art", ["artifact"]),
        (complete.formats, "parq", ["parquet"]),
        (complete.workloads, "ycs", ["ycsb"]),
    ],
)
def test_names_are_those_of_the_core(offer: object, typed: str, offered: list[str]) -> None:
    assert callable(offer) and offer(typed) == offered
    assert complete.nand_types("") == [nand.name for nand in core.nand_types()]
