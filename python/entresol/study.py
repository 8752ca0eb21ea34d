"""Captures × designs: opened and checked as a whole before anything runs."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from entresol import core, foreign_traces, papers
from entresol.core import Json, Setup
from entresol.derived import BASE
from entresol.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Capture:
    """A capture that was opened and found good."""

    name: str
    path: Path
    info: Json
    source: Path
    """What the user named: the capture, or the foreign trace it was made from."""
    parts: tuple[Capture, ...] = ()
    """The programs of a co-run; none of a single capture."""


@dataclass(frozen=True)
class Study:
    """What to run: each capture on each design, with the same work in all."""

    captures: tuple[Capture, ...]
    designs: tuple[str, ...]
    setup: Setup
    threads: int | None
    audit: bool


VARIED = {"run.seed": (1, "--seed and --seeds"), "ftl.placement": (0, "--placements")}
"""What commands vary from window to window: the first value, and the options that say how often."""


def check_varied(setup: Setup) -> None:
    """Raises `UserError` for a value of what a command itself varies, and so would not use."""
    given = [tuple(override.split("=", 1)) for override in setup.overrides]
    for _, text in setup.files:
        for section, values in tomllib.loads(text).items():
            if isinstance(values, dict):
                given += [(f"{section}.{key}", str(value)) for key, value in values.items()]
    for key, (first, options) in VARIED.items():
        # A report's file of all parameters says what they are if nobody varies them.
        if any(pair[0].strip() == key and pair[-1].strip() != str(first) for pair in given):
            raise UserError(f"{key}: this command varies it; leave it out, and see {options}.")


def say_unread(wanted: Study, say: Callable[[str], None]) -> None:
    """Says what was set that a design does not read."""
    for design in wanted.designs:
        if unread := core.unread_keys(wanted.setup, design):
            say(f"{design}: set, and not read by this design: {', '.join(unread)}")


def check_seeds(wanted: Study, seeds: Sequence[int]) -> None:
    """Raises `UserError` for seeds that none of the designs draws anything from."""
    if tuple(seeds) == (1,):
        return
    named = replace(wanted.setup, overrides=(*wanted.setup.overrides, f"run.seed={seeds[0]}"))
    if all("run.seed" in core.unread_keys(named, design) for design in wanted.designs):
        scheduler = core.effective_config(wanted.setup, wanted.designs[0])["os"]["scheduler"]
        raise UserError(
            f"with os.scheduler = {scheduler} nothing is drawn at random, so a run of another seed "
            "is the same run; leave --seed and --seeds out, or vary where pages lie with "
            "--placements."
        )


def open_captures(
    paths: Sequence[Path],
    *,
    blocks: bool = False,
    reading: core.ForeignReading | None = None,
) -> tuple[Capture, ...]:
    """Opens every capture. Raises `UserError` or `TraceError` for the first that is no good.

    `blocks`: with what ran most, which takes a walk through the whole capture. A foreign trace is
    read as `reading` says and becomes a capture.
    """
    captures: list[Capture] = []
    for path in paths:
        captures.append(_open_capture(path, blocks, reading or core.ForeignReading()))
        names = [capture.name for capture in captures]
        if len(set(names)) != len(names):
            raise UserError(_namesakes(captures[-1]))
    return tuple(captures)


def _open_capture(path: Path, blocks: bool, reading: core.ForeignReading) -> Capture:
    if is_co_run(path):
        parts = str(path).split("+")
        if not all(parts):
            raise UserError(f"{path}: a program is missing beside the +; write A.etr+B.etr.")
        return _co_run([_open_capture(Path(part), blocks, reading) for part in parts])
    if not path.exists():
        raise UserError(f"{path}: no such capture; captures end in .etr.")
    made = foreign_traces.as_capture(path, reading)
    name = path.stem or path.name
    return Capture(name, made, core.trace_info(made, blocks=blocks), path)


def is_co_run(path: Path) -> bool:
    """Whether a word names several programs: `A.etr+B.etr`, and no file is called so."""
    return "+" in str(path) and not path.exists()


def _co_run(parts: Sequence[Capture]) -> Capture:
    """Programs that run together in disjoint address spaces (D3)."""
    info: Json = {
        "threads": sum(part.info["threads"] for part in parts),
        "instructions": sum(part.info["instructions"] for part in parts),
        "digest": "+".join(part.info["digest"] for part in parts),
    }

    def joined(paths: Sequence[Path]) -> Path:
        return Path("+".join(map(str, paths)))

    files, sources = [part.path for part in parts], [part.source for part in parts]
    name = "+".join(part.name for part in parts)
    return Capture(name, joined(files), info, joined(sources), tuple(parts))


def with_parts(captures: Sequence[Capture]) -> tuple[Capture, ...]:
    """The captures, and before each co-run its programs alone, which its slowdowns need.

    Raises `UserError` for two of one name that are not the same program."""
    found: dict[str, Capture] = {}
    for capture in captures:
        for each in (*capture.parts, capture):
            other = found.setdefault(each.name, each)
            if other.info["digest"] != each.info["digest"]:
                raise UserError(_namesakes(each))
    return tuple(found.values())


def _namesakes(capture: Capture) -> str:
    return f"{capture.source}: two captures are called {capture.name}; rename one of them."


def choose_designs(names: Sequence[str]) -> tuple[str, ...]:
    """Designs by name, in the order of reports; `all` is every one, `PAPER/all` those of a paper.

    Raises `UserError` for a name that is none."""
    known = [design.name for design in core.designs()]
    names = papers.designs(names)
    for name in names:
        if name != "all" and name not in known:
            hint = did_you_mean(name, known) or f" Choose from {', '.join(known)}, or all."
            raise UserError(f"unknown design {name}.{hint}")
    return tuple(name for name in known if name in names or "all" in names)


def check_machine(name: str) -> None:
    """Raises `UserError` for a machine that does not exist."""
    known = [machine.name for machine in core.machines()]
    if name not in known:
        hint = did_you_mean(name, known) or f" Choose from {', '.join(known)}."
        raise UserError(f"unknown machine {name}.{hint}")


def read_config_files(paths: Sequence[Path]) -> tuple[tuple[str, str], ...]:
    """Names and texts of configuration files, each known to be TOML."""
    found: list[tuple[str, str]] = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
            tomllib.loads(text)
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError:
            raise UserError(f"{path}: is not text; a configuration is TOML.") from None
        except ValueError as error:
            raise UserError(f"{path}: is not TOML: {error}.") from error
        found.append((path.name, text))
    return tuple(found)


def setup_of(
    machine: str,
    nand: str | None,
    config: Sequence[Path] | None,
    overrides: Sequence[str] | None,
    fidelity: str,
    mode: str = "detailed",
) -> Setup:
    """What the options say a run runs on."""
    check_machine(machine)
    files = read_config_files(config or [])
    return Setup(machine, nand, files, tuple(overrides or []), fidelity, mode)


def study_of(
    traces: Sequence[str],
    design: Sequence[str] | None,
    setup: Setup,
    threads: int | None,
    audit: bool,
    reading: core.ForeignReading | None = None,
) -> Study:
    """The captures and designs of a command, opened and checked; co-runs with their programs."""
    names = [name for text in design or ["all"] for name in text.split(",")]
    paths, names = _split_designs(traces, names)
    designs = choose_designs(names)
    captures = with_parts(open_captures(paths, reading=reading))
    for capture in captures:
        if (problem := threads_problem(capture, threads)) is not None:
            raise UserError(problem)
    _check_designs(setup, designs)
    return Study(captures, designs, setup, threads, audit)


def _check_designs(setup: Setup, designs: Sequence[str]) -> None:
    """Raises `UserError` with the name of a design that the settings do not suit, of several:
    switches of one paper may take away what a design of another room goes by."""
    for design in designs:
        try:
            core.effective_config(setup, design)
        except core.ConfigError as error:
            others = papers.of_design(BASE)
            if len(designs) == 1 or papers.of_design(design) == others:
                raise
            raise UserError(
                f"design {design}: {error}; name designs without it, for example --design "
                f"{others}/all"
            ) from error


def threads_problem(capture: Capture, threads: int | None) -> str | None:
    """A sentence, if a capture has not so many threads."""
    for part in capture.parts or (capture,):
        if threads is not None and threads > part.info["threads"]:
            return f"threads: {threads} wanted, but {part.name} has {part.info['threads']}."
    return None


def command(study: Study, more: Sequence[str] = (), verb: str = "run") -> str:
    """The `entresol run`, or other command, that repeats a study, `more` being its other options:
    names without their places, so that it is the same here and elsewhere."""
    setup = study.setup
    sources = [
        "+".join(part.source.name for part in capture.parts or (capture,))
        for capture in study.captures
    ]
    everything = len(study.designs) == len(core.designs())
    words = ["entresol", verb, *sources]
    words += ["--design", "all" if everything else ",".join(study.designs)]
    words += ["--machine", setup.machine]
    words += [] if study.threads is None else ["--threads", str(study.threads)]
    words += [] if setup.nand is None else ["--nand", setup.nand]
    fidelity = setup.fidelity.replace(" ", "")
    words += [] if fidelity == "paper" else ["--fidelity", fidelity]
    words += [] if setup.mode == "detailed" else ["--mode", setup.mode]
    words += [word for name, _ in setup.files for word in ("--config", Path(name).name)]
    words += [word for override in setup.overrides for word in ("--set", override)]
    return shlex.join([*words, *(["--audit"] if study.audit else []), *more])


def _split_designs(words: Sequence[str], names: list[str]) -> tuple[list[Path], list[str]]:
    # `--design a b` leaves `b` among the captures; a word that names a design and no file is one.
    known = {item.name for item in core.designs()}
    known |= {f"{papers.of_design(name)}/{name}" for name in known}
    extra = [word for word in words if word in known and not Path(word).exists()]
    paths = [Path(word) for word in words if word not in extra]
    if not paths or "" in words:
        raise UserError("name at least one capture.")
    return paths, names + extra
