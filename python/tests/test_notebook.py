"""The notebook of the documentation: it runs, and its outputs are those of this version."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import ROOT

import entresol


def _texts(book: Any) -> list[str]:
    """What cells print and show, without pictures."""
    found = []
    for cell in book.cells:
        for output in cell.get("outputs", []):
            found.append(output.get("text") or output["data"]["text/plain"])
    return found


def test_its_outputs_are_those_of_this_version(
    monkeypatch: pytest.MonkeyPatch, own_store: Path
) -> None:
    package = str(Path(entresol.__file__).parents[1])
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [package, before])))
    read: Any = nbformat.read
    stored = read(ROOT / "docs" / "notebook.ipynb", as_version=4)
    executed = runpy.run_path(str(ROOT / "scripts" / "notebook"))["executed"]()
    assert _texts(executed) == _texts(stored), "scripts/notebook writes it anew"
    assert sum("image/png" in str(cell) for cell in executed.cells) == 1
    assert not any(
        output.get("name") == "stderr"
        for cell in executed.cells
        for output in cell.get("outputs", [])
    )
    assert len(list(own_store.rglob("*.json"))) == 12
