"""The modules of the package depend on each other in one direction only."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "entresol"


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_import_leads_back() -> None:
    files = {_name(path): path for path in PACKAGE.rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        wanted: set[str] = set()
        # Wherever the import stands: in a function it hides a cycle, it does not undo it.
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                wanted |= {item if item in files else node.module for item in inner}
        graph[name] = {item for item in wanted if item in files and item != name}
    assert "entresol.study" in graph["entresol.cli.run"]
    order = list(TopologicalSorter(graph).static_order())
    assert set(order) == set(files)
