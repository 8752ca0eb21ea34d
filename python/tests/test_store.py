"""The store: what is kept is found, what is damaged is not believed, and processes may share it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from entresol.errors import Failed
from entresol.store import location, result_store
from entresol.store.result_store import Store

INPUTS = {"design": "skybyte-full", "threads": 8, "config": {"ssd": {"dram": "1MiB"}}}
RESULT: Any = {"trace": "sort", "execution_time_ps": 10**15, "statistics": {"a": [1, 2]}}


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def kept(tmp_path: Path, said: list[str]) -> Store:
    return Store(tmp_path, said.append)


def _keep(kept: Store) -> Path:
    return kept.path(kept.keep(INPUTS, {"trace": "sort"}, RESULT))


def test_what_is_kept_is_found_with_its_keys_in_their_order(kept: Store) -> None:
    key = kept.keep(INPUTS, {"trace": "sort"}, RESULT)
    found = kept.find(key)
    assert found is not None and list(found) == list(RESULT) and found == RESULT
    assert kept.list_keys() == [key]
    (entry,) = kept.entries()
    assert (entry.key, entry.inputs, entry.label) == (key, INPUTS, {"trace": "sort"})


def test_a_result_of_an_older_version_has_the_names_of_now(kept: Store) -> None:
    config = {
        "ssd": {"dram": "4MiB", "write_log": "1MiB", "prefetcher": "none"},
        "ftl": {"gc": "x"},
    }
    inputs, result = INPUTS | {"config": config}, RESULT | {"config": config}
    now = {
        "ssd": {"dram": "4MiB"},
        "ssd.log": {"size": "1MiB"},
        "ssd.prefetch": {"kind": "none"},
        "ftl": {"gc": "x"},
    }
    key = kept.keep(inputs, {"trace": "sort"}, result)
    (entry,) = kept.entries()
    assert entry.key == key and entry.inputs["config"] == entry.result["config"] == now


def test_an_empty_store_has_nothing_and_makes_nothing(tmp_path: Path) -> None:
    kept = Store(tmp_path / "none")
    assert kept.find("0" * 64) is None and kept.list_keys() == [] and list(kept.entries()) == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "change", [("threads", 4), ("design", "skybyte-w"), ("config", {"ssd": {"dram": "2MiB"}})]
)
def test_every_input_is_part_of_the_key(change: tuple[str, Any]) -> None:
    assert result_store.key_of(INPUTS) != result_store.key_of(INPUTS | dict([change]))


def test_the_order_of_inputs_is_no_part_of_the_key() -> None:
    assert result_store.key_of(INPUTS) == result_store.key_of(dict(reversed(INPUTS.items())))


def test_the_file_is_one_json_object(kept: Store) -> None:
    whole = json.loads(_keep(kept).read_text())
    assert whole["entresol"] == "result" and whole["body"]["result"] == RESULT


def test_a_file_cut_anywhere_counts_as_absent_and_is_reported(kept: Store, said: list[str]) -> None:
    path = _keep(kept)
    whole = path.read_bytes()
    for length in (0, 1, 40, 150, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert kept.find(path.stem) is None
    assert len(said) == 6 and all(str(path) in line and "damaged" in line for line in said)
    assert list(kept.entries()) == [] and len(said) == 7
    kept.keep(INPUTS, {}, RESULT)
    assert kept.find(path.stem) == RESULT


def test_a_changed_byte_is_found_wherever_it_is(kept: Store, said: list[str]) -> None:
    path = _keep(kept)
    whole = path.read_bytes()
    for place_of in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[place_of] ^= 1
        path.write_bytes(bytes(changed))
        assert kept.find(path.stem) is None, place_of
    assert len(said) == len(range(0, len(whole), 7))


def test_a_result_under_another_name_is_not_believed(kept: Store, said: list[str]) -> None:
    path = _keep(kept)
    other = kept.path("ab" * 32)
    other.parent.mkdir(exist_ok=True)
    path.rename(other)
    assert kept.find("ab" * 32) is None
    assert "other inputs" in said[0]


def test_a_result_of_a_newer_version_is_not_believed(kept: Store, said: list[str]) -> None:
    path = _keep(kept)
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2'))
    assert kept.find(path.stem) is None
    assert "version 2" in said[0]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_is_one_sentence_and_leaves_the_store_as_it_was(
    kept: Store, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = _keep(kept)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os if step == "fsync" else Path, step, full)
    with pytest.raises(Failed, match="No space left on device") as caught:
        kept.keep(INPUTS | {"threads": 2}, {}, RESULT)
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    assert kept.list_keys() == [path.stem] and kept.find(path.stem) == RESULT
    assert [each for each in kept.root.rglob("*") if each.is_file()] == [path]


def test_a_store_that_cannot_be_written_is_not_called_full(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(Failed, match=r"Not a directory.*with --store DIR"):
        Store(tmp_path / "file").keep(INPUTS, {}, RESULT)


def test_who_is_at_work_is_known_to_others_and_is_forgotten_when_killed(
    kept: Store, tmp_path: Path
) -> None:
    code = (
        "import sys; from pathlib import Path; from entresol.store.result_store import Store\n"
        f"with Store(Path({str(tmp_path)!r})).in_use(): print('at work', flush=True);"
        "sys.stdin.read()"
    )
    package = Path(result_store.__file__).parents[2]
    other = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(package)},
    )
    assert other.stdout is not None and other.stdout.readline() == "at work\n"
    assert kept.in_use_since() is not None
    other.kill()
    other.communicate()
    assert kept.in_use_since() is None
    assert list((kept.root / result_store.IN_USE).iterdir()) == []


def test_the_directory_is_the_option_s_else_the_variable_s_else_the_cache_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENTRESOL_STORE", "/variable")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert location.store_directory(Path("/option")) == Path("/option")
    assert location.store_directory(None) == Path("/variable")
    monkeypatch.delenv("ENTRESOL_STORE")
    assert location.store_directory(None) == Path("/cache/entresol")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/elsewhere")
    assert location.store_directory(None) == Path("/elsewhere/.cache/entresol")
