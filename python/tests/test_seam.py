"""The seam to Rust: every name is stubbed and wrapped, and the errors have their classes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import fake_core
import pytest
from conftest import Entresol

from entresol import _core, core

PACKAGE = Path(core.__file__).parent
WRAPPERS = ("core.py", "crash_labs.py")
FUNCTIONS = (
    "version",
    "designs",
    "machines",
    "nand_types",
    "fidelity_switches",
    "parameters",
    "renamed_parameters",
    "log_index",
)


def _public(module: object) -> set[str]:
    return {name for name in dir(module) if not name.startswith("_")}


def test_every_name_of_the_core_is_in_the_stub_and_no_other() -> None:
    tree = ast.parse((PACKAGE / "_core.pyi").read_text())
    stubbed = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert stubbed == _public(_core)


def test_every_name_of_the_core_is_wrapped_in_two_modules() -> None:
    text = "".join((PACKAGE / name).read_text() for name in WRAPPERS)
    for name in _public(_core):
        assert f"_core.{name}" in text, name
    for path in PACKAGE.rglob("*.py"):
        if path.name not in WRAPPERS:
            assert not re.search(r"\b_core\b", path.read_text().replace("entresol._core", "")), path


def test_the_stand_in_has_the_names_of_the_core() -> None:
    assert _public(_core) <= _public(fake_core)


def test_errors_form_one_family() -> None:
    for error in (core.TraceError, core.ConfigError, core.SimulationError, core.Interrupted):
        assert issubclass(error, core.EntresolError)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lists_of_the_core_become_values(name: str) -> None:
    assert getattr(core, name)()


def test_the_lists_are_shown(entresol_command: Entresol) -> None:
    for design in core.designs():
        assert design.name in entresol_command("designs").out
    shown = entresol_command("config", "presets").out
    for preset in (*core.machines(), *core.nand_types()):
        assert preset.name in shown
    assert entresol_command("--version").out == f"entresol {core.version()}\n"
    assert "Usage" in entresol_command().out
