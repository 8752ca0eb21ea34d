"""`entresol results gc --captures` and `--damaged`: what is of no use goes, and nothing else."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Entresol, one_line

from entresol import locks
from entresol.store import search
from entresol.store.result_store import Store

pytestmark = pytest.mark.usefixtures("fake")
HOUR = 3600.0
Put = Callable[[str, bytes, float], Path]


@pytest.fixture
def kept(own_store: Path) -> Store:
    return Store(own_store)


@pytest.fixture
def made(entresol_command: Entresol, capture_file: Path, kept: Store) -> list[str]:
    """The keys of two results of one capture."""
    words = ("run", capture_file, "--machine", "demo", "--json")
    entresol_command(*words, "--design", "base-cssd,skybyte-w")
    return [item.entry.key for item in search.items(kept, search.Filter())]


@pytest.fixture
def put(own_store: Path) -> Put:
    """Puts a capture into the store that was last used so many seconds ago."""

    def put(digit: str, content: bytes, age: float) -> Path:
        place = own_store / "captures" / (digit * 32)
        place.mkdir(parents=True)
        (place / "radix.etr").write_bytes(content)
        (place / "about.json").write_text("{}")
        then = time.time() - age
        os.utime(place / "about.json", (then, then))
        return place

    return put


def test_captures_that_no_result_is_of_go_when_told(
    entresol_command: Entresol, made: list[str], capture_file: Path, put: Put, kept: Store
) -> None:
    used = put("a", capture_file.read_bytes(), 2 * HOUR)
    unused = put("b", b"of no result", 2 * HOUR)
    words = ("results", "gc", "--captures", "unused")
    said = entresol_command(*words).out
    assert said.startswith("would remove 1 of 2 captures, 14\u00a0B of ") and unused.exists()
    assert entresol_command(*words, "--delete").out.startswith("removed 1 of 2 captures")
    assert used.exists() and not unused.exists()
    assert kept.list_keys() == sorted(made)
    assert [path.name for path in used.parent.iterdir()] == [used.name]


def test_all_captures_go_by_age_and_results_stay(
    entresol_command: Entresol, made: list[str], capture_file: Path, put: Put, kept: Store
) -> None:
    old = put("a", capture_file.read_bytes(), 40 * 24 * HOUR)
    young = put("b", b"young", 2 * HOUR)
    entresol_command("results", "gc", "--captures", "all", "--older", "30d", "--delete")
    assert young.exists() and not old.exists()
    entresol_command("results", "gc", "--captures", "all", "--delete")
    assert not young.exists() and kept.list_keys() == sorted(made)


def test_a_capture_of_the_last_hour_goes_only_if_its_age_is_named(
    entresol_command: Entresol, put: Put
) -> None:
    fresh = put("a", b"just recorded, not run yet", 60.0)
    said = entresol_command("results", "gc", "--captures", "unused", "--delete").out
    assert said.startswith("removed 0 of 1 captures") and "spared 1 that" in said
    assert fresh.exists()
    entresol_command("results", "gc", "--captures", "unused", "--older", "10s", "--delete")
    assert not fresh.exists()


def test_a_capture_that_is_being_made_or_used_is_spared(
    entresol_command: Entresol, put: Put, kept: Store
) -> None:
    words = ("results", "gc", "--captures", "all", "--older", "1s", "--delete")
    making = put("a", b"is made anew", 9 * HOUR)
    litter = making.with_name(f".new-{making.name}-x1")
    litter.mkdir()
    with locks.alone(making.with_name(f".{making.name}.lock")):
        said = entresol_command(*words).out
    assert "removed 0 of 1 captures" in said and "never finished" not in said
    assert making.exists() and litter.exists()
    with kept.in_use():
        used = put("b", b"asked for before the runs began", 10.0)
        said = entresol_command(*words).out
        assert used.exists() and not making.exists() and not litter.exists()
        assert "1 of 2 captures" in said and "1 file that was never finished" in said
        assert "spared 1 that" in said
    entresol_command(*words)
    assert not used.exists()


def test_a_capture_that_is_asked_for_is_young_again(
    entresol_command: Entresol, put: Put, capture_file: Path
) -> None:
    from entresol.workload import capture_cache

    place = put("a", capture_file.read_bytes(), 40 * 24 * HOUR)
    (place / "about.json").write_text('{"footprint": 1, "said": "ok"}')
    os.utime(place / "about.json", (0, 0))
    assert capture_cache._found(place, "radix") is not None
    entresol_command("results", "gc", "--captures", "all", "--older", "1d", "--delete")
    assert place.exists()


def test_damaged_files_go_and_those_of_another_version_stay(
    entresol_command: Entresol, made: list[str], kept: Store
) -> None:
    broken, foreign = (kept.path(key) for key in made)
    broken.write_bytes(broken.read_bytes()[:-40])
    foreign.write_bytes(foreign.read_bytes().replace(b'"version":1', b'"version":2', 1))
    whole = kept.path("f" * 64)
    words = ("results", "gc", "--damaged")
    assert ", and 1 file that was damaged; --delete does it." in entresol_command(*words).out
    assert broken.exists()
    with kept.in_use():
        entresol_command(*words, "--delete")
    assert broken.exists()  # Somebody may be about to replace it.
    entresol_command(*words, "--delete")
    assert not broken.exists() and foreign.exists() and not whole.exists()
    assert "0 files that were damaged" in entresol_command(*words).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--captures", "some"), "'some' is not one of 'unused', 'all'"),
        (("--captures", "all", "--keep", "1GiB"), "--captures: goes with --older alone"),
        (("--captures", "all", "--older", "soon"), "--older soon: is no span of time"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    entresol_command: Entresol, words: tuple[str, ...], said: str
) -> None:
    assert said in one_line(entresol_command("results", "gc", *words))


def test_a_store_without_captures_is_no_error(entresol_command: Entresol, own_store: Path) -> None:
    shutil.rmtree(own_store / "captures", ignore_errors=True)
    said = entresol_command("results", "gc", "--captures", "all", "--delete").out
    assert said == "removed 0 of 0 captures, 0\u00a0B of 0\u00a0B.\n"
