"""`import entresol as es`: the commands as functions, designs as values, results as frames."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars
import pyarrow.parquet as pq
import pytest
import typer
from conftest import ROOT, Entresol

import entresol as es
from entresol import core
from entresol.cli import main as cli

XZ = ROOT / "traces" / "xz.etr"
PACKAGE = Path(core.__file__).parent


def test_importing_loads_nothing_until_a_name_is_used() -> None:
    code = (
        "import sys, entresol; assert 'entresol.core' not in sys.modules;"
        "assert set(entresol.__all__) <= set(dir(entresol));"
        "entresol.run; assert 'polars' not in sys.modules; assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent)


def test_the_command_line_loads_no_frames_and_no_pictures() -> None:
    code = (
        "import sys; from entresol.cli import main; main.application();"
        "heavy = {'polars', 'pyarrow', 'pandas', 'matplotlib', 'distributed', 'numpy'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent)


def test_a_command_is_found_without_the_modules_of_others() -> None:
    named = [
        (importlib.import_module(f"entresol.cli.{module}"), commands)
        for module, commands in cli.COMMANDS.items()
    ]
    for module, commands in named:
        own = typer.Typer()
        own.callback()(lambda: None)
        module.register(own)
        assert set(typer.main.get_group(own).commands) == set(commands)
    code = (
        "import sys; from entresol.cli import main; assert main.main(['--debug', 'designs']) == 0;"
        "assert not {'entresol.cli.run', 'entresol.report'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent)


def test_every_public_name_is_typed_and_there() -> None:
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    names = {
        alias.asname
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert names == set(es.__all__)
    assert all(getattr(es, name) is not None for name in es.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        es.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_a_run_is_what_the_command_writes(entresol_command: Entresol, tmp_path: Path) -> None:
    runs = es.run(XZ, ["dram-only", "base-cssd"], machine="demo", threads=1, progress=False)
    words = ("--design", "dram-only,base-cssd", "--machine", "demo", "--threads", "1")
    command = entresol_command("run", XZ, *words, "-o", tmp_path)
    assert command.err.count("from the store") == 2
    table = polars.from_arrow(pq.read_table(tmp_path / "results.parquet"))
    assert isinstance(table, polars.DataFrame)
    mine = runs.frame().select(table.columns)
    assert mine.equals(table)
    runs.write(tmp_path / "mine")
    files = sorted(path.name for path in (tmp_path / "mine").iterdir())
    assert files == ["report.html", "results.parquet", "summary.json"]
    for name in files:
        assert (tmp_path / "mine" / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_a_sweep_is_what_the_command_writes(entresol_command: Entresol, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        f'trace = "{XZ}"\ndesign = "skybyte-w"\nmachine = "demo"\nthreads = 1\n'
        'ssd.log.size = ["64KiB", "128KiB"]\n'
    )
    assert entresol_command("sweep", file, "-o", tmp_path / "out").code == 0
    grid = {
        "trace": str(XZ),
        "design": "skybyte-w",
        "machine": "demo",
        "threads": 1,
        "ssd.log.size": ["64KiB", "128KiB"],
    }
    written = (tmp_path / "out" / "results.parquet").read_bytes()
    for what in (grid, file, str(file)):
        es.sweep(what, progress=False).write(tmp_path / "mine")
        assert (tmp_path / "mine" / "results.parquet").read_bytes() == written


def test_a_design_is_a_value() -> None:
    plain = es.design("skybyte-full")
    big = plain.with_(**{"ssd.log.size": "8MiB"}).with_({"os.switch_cost": "1us"})
    assert plain.parameters == () and plain == es.design("skybyte-full")
    assert big.config()["ssd.log"]["size"] == "8MiB"
    assert big.config()["os"]["switch_cost"] == "1us"
    assert "8MiB" in big._repr_html_() and "SkyByte-Full" in big._repr_html_()
    assert [design.name for design in es.designs()] == [item.name for item in core.designs()]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("ssd.log.siz", "8MiB", "unknown key ssd.log.siz. Did you mean ssd.log.size?"),
        ("ssd.write_log", "8MiB", "skybyte-full: ssd.write_log is called ssd.log.size now"),
        ("ssd.log.size", "8MB!", "is not a size"),
        ("ssd.log.size", 1.5, "1.5 is not text with a unit"),
        ("design.write_log", "perhaps", "design.write_log=perhaps"),
    ],
)
def test_a_design_refuses_what_no_machine_takes(key: str, value: str, said: str) -> None:
    with pytest.raises(es.UserError, match=said):
        es.design("skybyte-full").with_(**{key: value})


def test_what_is_wrong_is_a_sentence_before_anything_runs(own_store: Path) -> None:
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: es.design("skybite-full"), "Did you mean skybyte-full?"),
        (lambda: es.run("none.etr"), "none.etr: no such capture"),
        (lambda: es.run(XZ, "zzz"), "unknown design zzz"),
        (lambda: es.run(XZ, machine="dema"), "Did you mean demo?"),
        (lambda: es.run(XZ, parameters={"ssd.x": 1}), "unknown key ssd.x"),
        (lambda: es.sweep({"desing": "all"}), "Did you mean design?"),
        (lambda: es.sweep("none.toml"), "cannot be read"),
        (lambda: es.sweep(None), "neither a mapping nor the path"),  # type: ignore[arg-type]
        (lambda: es.sweep({"trace": XZ, "points": [3]}), "no list of mappings"),
        (lambda: es.sweep({"trace": XZ, 3: 4}), "unknown key 3"),  # type: ignore[dict-item]
        (lambda: es.run(XZ, []), "design: has no value"),
        (lambda: es.run(XZ, jobs=0), "jobs: 0 is not a number from 1"),
        (lambda: es.run(XZ, jobs=-1), "jobs: -1 is not a number from 1"),
        (lambda: es.run(XZ, store=True), "store: True is no directory"),  # type: ignore[arg-type]
        (lambda: es.run(XZ, parameters={"machine": "demo"}), "machine is no parameter"),
        (lambda: es.run(XZ, parameters=["a=b"]), "no mapping"),  # type: ignore[arg-type]
        (lambda: es.design("base-cssd").with_("a"), "no mapping"),  # type: ignore[arg-type]
        (lambda: es.design("base-cssd").config(5), "machine: 5 is not text"),  # type: ignore[arg-type]
        (lambda: es.workload.capture("ycsb", store=5), "store: 5 is no directory"),  # type: ignore[arg-type]
    ]
    for call, said in wrong:
        with pytest.raises(es.UserError, match=said):
            call()
    assert list(own_store.iterdir()) == []


def test_designs_with_parameters_of_their_own_are_rows_like_any_other() -> None:
    small = es.design("skybyte-w").with_(**{"ssd.log.size": "64KiB"})
    runs = es.run(XZ, ["base-cssd", small, "skybyte-w"], machine="demo", threads=1, progress=False)
    frame = runs.frame()
    assert frame["design"].to_list() == ["base-cssd", "skybyte-w", "skybyte-w"]
    assert frame["ssd.log.size"].to_list() == ["512KiB", "64KiB", "512KiB"]
    assert runs.varied == ("design", "ssd.log.size")
    with pytest.raises(es.UserError, match=r"has a ssd\.log\.size of its own"):
        es.run(XZ, small, parameters={"ssd.log.size": "1MiB"})


def test_a_comparison_is_with_the_reference_that_fits() -> None:
    results = es.sweep(
        {
            "trace": str(XZ),
            "machine": "demo",
            "threads": 1,
            "nand": ["ull", "slc"],
            "points": [
                {"design": "base-cssd"},
                {"design": "skybyte-w", "ssd.log.size": ["64KiB", "128KiB"]},
            ],
        },
        progress=False,
    )
    table = results.compare("base-cssd")
    times = dict(
        zip(zip(table["nand"], table["ssd.log.size"], strict=True), table["time_ps"], strict=True)
    )
    for row in table.iter_rows(named=True):
        expected = row["time_ps"] / times[row["nand"], None]
        assert row["normalised"] == pytest.approx(expected)
        assert row["speedup"] == pytest.approx(1 / expected)
    with pytest.raises(es.UserError, match="dram-only: was not run"):
        results.compare("dram-only")


def test_a_fast_run_is_not_compared_with_a_detailed_one() -> None:
    points = [{"design": "base-cssd"}, {"design": "skybyte-w", "mode": "fast"}]
    grid = {"trace": str(XZ), "machine": "demo", "threads": 1, "points": points}
    frame = es.sweep(grid, progress=False).compare()
    assert frame["normalised"].to_list() == [1.0, None]
    points.append({"design": "base-cssd", "mode": "fast"})
    assert es.sweep(grid, progress=False).compare()["normalised"].null_count() == 0


def test_failures_of_a_sweep_are_told_and_those_of_a_run_are_raised() -> None:
    grid = {
        "trace": str(XZ),
        "machine": "demo",
        "threads": 1,
        "design": ["base-cssd", "skybyte-w"],
        "ssd.log.size": ["64KiB", "8MiB"],
    }
    results = es.sweep(grid, progress=False)
    ((label, why),) = results.failures.items()
    assert label == "xz · skybyte-w · ssd.log.size=8MiB" and "has no room" in why
    assert len(results) == 4 and len(list(results)) == 3
    assert repr(results) == "<Results: 4 points over design, ssd.log.size, 1 failed>"
    page = results._repr_html_()
    assert page.count("<tr>") == 5 and "has no room" in page
    assert results.frame()["error"].null_count() == 3
    big = {"ssd.log.size": "8MiB"}
    with pytest.raises((es.Failed, es.UserError), match="has no room"):
        es.run(XZ, ["skybyte-w"], machine="demo", threads=1, parameters=big, progress=False)


def test_pandas_gets_the_same_frame() -> None:
    runs = es.run(XZ, "dram-only", machine="demo", threads=1, progress=False)
    pandas = runs.to_pandas()
    assert list(pandas.columns) == runs.frame().columns
    assert pandas["execution_time_ps"][0] == runs.frame()["execution_time_ps"][0]


def test_without_a_store_nothing_is_kept(own_store: Path) -> None:
    es.run(XZ, "dram-only", machine="demo", threads=1, store=False, progress=False)
    assert list(own_store.iterdir()) == []


def test_parameters_are_a_frame() -> None:
    frame = es.parameters()
    assert frame.columns == ["key", "kind", "range", "source", "doc"]
    assert "ssd.log.size" in frame["key"].to_list()
