"""A room for each paper: its designs, fidelity switches, published values, claims, causes and
figures. What belongs to all papers is in `entresol.figures`.

`papers.toml` names the rooms. A room is a folder with a `paper.toml`: its designs and switches are
compiled into the core, its Python, if it has any, gives a `PAPER`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module, resources
from importlib.resources.abc import Traversable
from typing import Any

from entresol.errors import UserError, did_you_mean
from entresol.figures import entry
from entresol.figures.paper import Paper

MANIFEST = "paper.toml"


@dataclass(frozen=True)
class Look:
    """How a design is named and drawn."""

    title: str
    """Its name in the paper."""
    code: str
    """A short name, for below a bar."""
    colour: str
    """As `#rrggbb`."""


@cache
def names() -> tuple[str, ...]:
    """The rooms, in the order of `papers.toml`."""
    text = resources.files(__package__).joinpath("papers.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["rooms"])


def room(name: str) -> Traversable:
    """The folder of a paper."""
    return resources.files(__package__).joinpath(name)


@cache
def manifest(name: str) -> Mapping[str, Any]:
    """What `paper.toml` says: `title`, and names of `designs` and `switches` in order."""
    text = room(name).joinpath(MANIFEST).read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def find(name: str) -> Paper:
    """What a room gives to the figures. A room without Python has neither figures nor claims.

    Raises `UserError` for a name that is none.
    """
    if name not in names():
        hint = did_you_mean(name, names()) or f" There are {', '.join(names())}."
        raise UserError(f"unknown paper {name}.{hint}")
    found = getattr(import_module(f"{__package__}.{name}"), "PAPER", None)
    return found if isinstance(found, Paper) else Paper(name, manifest(name)["title"])


def every() -> list[Paper]:
    """All rooms."""
    return [find(name) for name in names()]


def of_words(words: Sequence[str]) -> tuple[Paper, list[str]]:
    """The paper that words mean, and the words for its figures: `skybyte 14`, or `14` alone where
    one paper only has it. Raises `UserError` that lists what there is."""
    first, *rest = words
    if first in names():
        paper = find(first)
        if rest and not paper.figures:
            raise UserError(f"{first}: has no figures.")
        return paper, rest
    having = [paper for paper in every() if paper.figures and _has(paper, words)]
    if len(having) == 1:
        return having[0], list(words)
    if having:
        listed = " and ".join(paper.name for paper in having)
        raise UserError(f"{first}: {listed} have it; say entresol figure {having[0].name} "
                        f"{' '.join(words)}.")  # fmt: skip
    return _refuse(words)


def with_claims(name: str | None) -> Paper:
    """The paper of that name; without one the only paper that has claims. Raises `UserError`."""
    if name is not None:
        return find(name)
    having = [paper for paper in every() if paper.text is not None]
    if len(having) != 1:
        listed = ", ".join(paper.name for paper in having)
        raise UserError(f"which paper? There are {listed}.")
    return having[0]


def _has(paper: Paper, words: Sequence[str]) -> bool:
    return all(
        name.lower() == "all" or any(figure.goes_by(name) for figure in paper.figures)
        for name in entry.split(words)
    )


def _refuse(words: Sequence[str]) -> tuple[Paper, list[str]]:
    having = [paper for paper in every() if paper.figures]
    for name in entry.split(words):
        if not any(_has(paper, [name]) for paper in having):
            known = [figure.name for paper in having for figure in paper.figures]
            hint = "" if name.isdigit() else did_you_mean(name.lower(), [*names(), *known])
            raise UserError(f"unknown paper or figure {name or repr(name)}.{hint}{_listed(having)}")
    raise UserError(f"no paper has all of {', '.join(words)}.{_listed(having)}")


def _listed(having: Sequence[Paper]) -> str:
    """What there is, as ` There are skybyte 2, 3, …, or all.`"""
    each = (f"{paper.name} {', '.join(figure.name for figure in paper.figures)}, or all"
            for paper in having)  # fmt: skip
    return f" There are {'; '.join(each)}."


def designs(words: Sequence[str]) -> list[str]:
    """Names of designs without their papers: `skybyte/skybyte-full` is `skybyte-full`, which no
    other paper has, and `skybyte/all` is all of that paper. Other words stay as they are.

    Raises `UserError` for a paper or a design of it that does not exist.
    """
    return [name for word in words for name in _within(word, "designs")]


def switch(word: str) -> str:
    """The name of a fidelity switch without its paper. Raises `UserError` as `designs` does."""
    (name,) = _within(word, "switches")
    return name


def _within(word: str, listed: str) -> list[str]:
    paper, slash, name = word.partition("/")
    if not slash:
        return [word]
    known = manifest(find(paper).name).get(listed, [])
    if name == "all" and listed == "designs":
        return list(known)
    if name not in known:
        hint = did_you_mean(name, known) or f" There are {', '.join(known)}."
        raise UserError(f"{word}: the paper has no such name among its {listed}.{hint}")
    return [name]


def artifact(name: str) -> str:
    """The fidelity that turns on all switches of a paper: `artifact`, and with the paper's name
    before it where several papers have switches."""
    return "artifact" if _with_switches() == [name] else f"{name}/artifact"


def artifacts() -> list[str]:
    """The fidelities that turn on all switches of a paper, for each that has some."""
    return [artifact(name) for name in _with_switches()]


def _with_switches() -> list[str]:
    return [name for name in names() if manifest(name).get("switches")]


def of_design(design: str) -> str:
    """The paper that a design is of; empty for one of no room."""
    return next((name for name in names() if design in manifest(name).get("designs", ())), "")


@cache
def looks() -> Mapping[str, Look]:
    """How the designs of all rooms are named and drawn, by name."""
    return {design: _look(name, design) for name in names()
            for design in manifest(name).get("designs", ())}  # fmt: skip


def _look(name: str, design: str) -> Look:
    path = room(name).joinpath("designs", f"{design.replace('-', '_')}.toml")
    about = tomllib.loads(path.read_text(encoding="utf-8"))["about"]
    return Look(about["title"], about["code"], about["colour"])
