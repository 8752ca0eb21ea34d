"""Bad input: one line, exit code 2, nothing written, nothing run."""

from __future__ import annotations

from pathlib import Path

import fake_core
import pytest
from conftest import Entresol, one_line

from entresol import study
from entresol.errors import UserError

pytestmark = pytest.mark.usefixtures("fake")


@pytest.fixture(autouse=True)
def nothing_runs_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capture_file: Path
) -> object:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "foreign.etr").write_bytes(b"PK\x03\x04")
    (tmp_path / "broken.toml").write_text("[nand\n")
    before = sorted(tmp_path.rglob("*"))

    def never(_run: fake_core.Run) -> str:
        raise AssertionError("a run was started")

    monkeypatch.setattr(fake_core.Run, "execute", never)
    yield None
    assert sorted(tmp_path.rglob("*")) == before
    assert capture_file.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "sort.etr", "--design", "skybite-full"], "Did you mean skybyte-full?"),
        (["run", "sort.etr", "--design", "zzz"], "Choose from base-cssd"),
        (["run", "sort.etr", "--machine", "dema"], "Did you mean demo?"),
        (["run", "missing.etr"], "missing.etr: no such capture"),
        (["run", "foreign.etr"], "foreign.etr: is not a capture"),
        (["run", "sort.etr", "foreign.etr"], "foreign.etr: is not a capture"),
        (["run", "sort.etr", "./sort.etr"], "two captures are called sort"),
        (["run", "sort.etr+missing.etr"], "missing.etr: no such capture"),
        (["run", "sort.etr", "--set", "nand.t_x=3us"], "unknown key nand.t_x"),
        (["run", "sort.etr", "--config", "broken.toml"], "broken.toml: is not TOML"),
        (["run", "sort.etr", "--config", "bin.txt"], "bin.txt: is not text; a config"),
        (["run", "sort.etr", "--config", "none.toml"], "none.toml: cannot be read"),
        (["run", "sort.etr", "--threads", "9"], "threads: 9 wanted, but sort has 8"),
        (["run", "sort.etr", "--threads", "0"], "'--threads'"),
        (["run", "sort.etr", "--jobs", "many"], "'--jobs'"),
        (["run", "sort.etr", "-o", "sort.etr/out"], "is not a directory"),
        (["run", "sort.etr", "-o", "sort.etr"], "is not a directory"),
        (["run", "sort.etr", "-o", "/proc/none/out"], "/proc/none/out: cannot be written"),
        (["run"], "Missing argument 'TRACE…'; entresol run --help says what there is."),
        (["run", "sort.etr", "--color"], "--color (Possible options: --cost); entresol run --help"),
        (["steady", "sort.etr", "--mode", "fast"], "steady --help says what there is."),
        (["fly"], "No such command 'fly'; entresol --help says what there is."),
        (["runn"], "Did you mean 'run'?"),
        (["config", "explain", "nand.t_reed"], "unknown parameter nand.t_reed"),
        (["config", "explain", "ssd.mshr_count"], "is called ssd.cache.mshr_count now"),
        (["config", "show", "--design", "all"], "one design"),
        (["trace", "info", "foreign.etr"], "is not a capture"),
        (["trace", "head", "sort.etr", "--thread", "8"], "has no thread 8"),
        (["run", "sort.etr", "--format", "mcasim"], "Did you mean macsim?"),
        (["run", "sort.etr", "--dependencies", "some"], "'some' is not one of 'none', 'chain'"),
        (["run", "sort.etr", "--slowdown", "0"], "'--slowdown'"),
        (["run", "sort.etr", "--slowdown", "1.2345"], "more than three decimals"),
        (["run", "broken.toml"], "broken.toml: is in no format"),
        (["trace", "import", "broken.toml", "-o", "x.etr"], "broken.toml: is in no format"),
        (["trace", "import", "sort.etr", "-o", "x.etr"], "is a capture already"),
        (["trace", "import", "broken.toml", "-o", "x.raw"], "x.raw: the name of a capture ends"),
        (["trace", "export", "sort.etr", "-o", "x", "--format", "champsm"], "Did you mean champs"),
        (["trace", "export", "sort.etr", "-o", "no/x", "--format", "macsim"], "no such directory"),
        (["trace", "convert", "sort.etr", "-o", "x", "--to", "zzz"], "can be written. Choose"),
        (["trace", "import", "no.csv", "-o", "x.etr"], "no.csv: no such file or directory"),
        (["trace", "export", "no.etr", "-o", "x", "--format", "macsim"], "no.etr: no such file"),
        (["trace", "export", "sort.etr", "-o", ".", "--format", "macsim"], "is a directory"),
        (["trace", "info", "sort.etr+sort.etr"], "names several captures"),
        (["trace", "head", "sort.etr+sort.etr"], "names several captures"),
        (["run", "sort.etr+"], "a program is missing beside the +"),
        (["run", ""], "name at least one capture"),
        (["trace", "head", "sort.etr", "--thread", "9" * 20], "--thread 9999"),
        (["sample", "sort.etr", "--seeds", "100000"], "'--seeds'"),
        (["sample", "sort.etr", "--window", "7"], "less than one for each of 8 threads; choose"),
        (
            ["explain-gain", "sort.etr", "--design", "base-cssd"],
            "gain is over base-cssd; name another",
        ),
        (["sample", "sort.etr", "--format", "mcasim"], "Did you mean macsim?"),
        (["why", "sort.etr", "--rank", "100000"], "'--rank'"),
        (["why", "sort.etr", "--dependencies", "some"], "'some' is not one of 'none', 'chain'"),
        (["timeline", "sort.etr", "-o", "x", "--for", "0us"], "--for 0us: is no length"),
        (["timeline", "sort.etr", "-o", "x", "--from", "9999999s"], "--from 9999999s: is too long"),
        (["timeline", "sort.etr", "-o", "x", "--format", "mcasim"], "Did you mean macsim?"),
        (["explain-gain", "sort.etr", "--switch", "paper"], "turns nothing on"),
        (["explain-gain", "sort.etr", "--by", "mechanisms", "--switch", "x"], "belongs to --by"),
        (["explain-gain", "sort.etr", "--orders", "100000"], "'--orders'"),
        (["explain-gain", "sort.etr", "--format", "mcasim"], "Did you mean macsim?"),
        (["replay", "."], "is a directory; name a block trace"),
        (["replay", "sort.etr"], "is a capture of a program; entresol run takes those"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    entresol_command: Entresol, words: list[str], message: str
) -> None:
    assert message in one_line(entresol_command(*words))


def test_programs_of_one_name_that_are_not_the_same_are_refused() -> None:
    def capture(name: str, digest: str, *parts: study.Capture) -> study.Capture:
        path = Path(f"{digest}/{name}.etr")
        return study.Capture(name, path, {"digest": digest}, path, parts)

    one, twin, other = capture("x", "1"), capture("x", "2"), capture("y", "3")
    twice = capture("x+x", "1+1", one, one)
    assert study.with_parts([twice]) == (one, twice)
    for captures in ([capture("x+x", "1+2", one, twin)], [one, capture("x+y", "2+3", twin, other)]):
        with pytest.raises(UserError, match="two captures are called x; rename one"):
            study.with_parts(captures)
