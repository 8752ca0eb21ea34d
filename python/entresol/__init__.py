"""Entresol: a simulator laboratory for memory-semantic (CXL) SSDs.

    import entresol as es
    results = es.run("sort.etr", ["base-cssd", "skybyte-full"], machine="demo")
    results.frame()

The Rust core is `entresol._core`; it is imported in `entresol.core` and `entresol.crash_labs` and
nowhere else. Names are loaded when they are first used, so that `import entresol` costs nothing.
"""

import importlib

_HOMES = {
    "Design": "entresol.api.design",
    "Results": "entresol.api.results",
    "design": "entresol.api.design",
    "designs": "entresol.api.design",
    "parameters": "entresol.api.design",
    "run": "entresol.api.run",
    "sweep": "entresol.api.run",
    "EntresolError": "entresol.core",
    "Failed": "entresol.errors",
    "UserError": "entresol.errors",
    "figures": "",
    "workload": "",
}
"""Where each public name is; those without a home are modules."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not home:
        return importlib.import_module(f"{__name__}.{name}")
    found = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
