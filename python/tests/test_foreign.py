"""Foreign traces from the command line, with the real core."""

from __future__ import annotations

import gzip
import json
import re
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from conftest import Entresol

TRACES = Path(__file__).parents[2] / "traces"
DESIGNS = ("--design", "base-cssd", "--machine", "demo", "--json")


def _exported(entresol_command: Entresol, destination: Path, *options: str) -> Path:
    done = entresol_command(
        "trace", "export", str(TRACES / "sort.etr"), "-o", str(destination), *options
    )
    assert done.code == 0, done.err
    return destination


def test_a_capture_goes_to_macsim_and_runs_from_there(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    directory = _exported(
        entresol_command, tmp_path / "sort", "--format", "macsim", "--limit", "2%"
    )
    head = (directory / "trace.txt").read_text().split()
    assert head[:2] == ["x86", "1.3"]
    threads = int(head[2])
    records = [
        len(gzip.decompress((directory / f"trace_{n}.raw").read_bytes())) for n in range(threads)
    ]
    assert all(size % 80 == 0 for size in records)
    info = json.loads(entresol_command("trace", "info", str(directory), "--json").out)
    # Each thread ends with 3000 instructions that do nothing, which an import leaves out. A thread
    # that is created where the first one makes no system call costs one made up.
    kept = sum(records) // 80 - 3000 * threads
    assert kept <= info["instructions"] <= kept + threads
    assert info["provenance"]["command"] == ["import", "macsim", "sort"]
    (note, *_) = info["provenance"]["notes"]
    assert "form an address" in note
    result = json.loads(entresol_command("run", str(directory), *DESIGNS).out)
    assert result["runs"][0]["trace"] == "sort"
    assert 0 < result["runs"][0]["instructions"] <= info["instructions"]


def test_a_macsim_trace_is_measured_behind_what_warms_it(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    first = ("--format", "pinatrace", "--limit", "1%")
    warms = _exported(entresol_command, tmp_path / "warms", *first)
    rest = ("--format", "macsim", "--skip", "1%", "--limit", "2%")
    measured = _exported(entresol_command, tmp_path / "measured", *rest)
    joined = tmp_path / "joined.etr"
    words = ("trace", "import", str(measured), "--warm-with", str(warms), "-o", str(joined))
    shown = entresol_command(*words)
    assert shown.code == 0, shown.err
    info = json.loads(entresol_command("trace", "info", str(joined), "--json").out)
    warming = sum(info["provenance"]["warms"])
    assert "only warm" in shown.out and 0 < warming < info["instructions"]
    for share, mode in (("0%", "detailed"), ("0%", "fast"), ("50%", "detailed")):
        options = (*DESIGNS, "--set", f"run.warmup={share}", "--mode", mode)
        run = json.loads(entresol_command("run", str(joined), *options).out)["runs"][0]
        assert run["instructions"] + run["warmup_instructions"] == info["instructions"]
        if share == "0%":
            assert run["warmup_instructions"] == warming
        else:
            half = (info["instructions"] + warming) / 2
            assert abs(run["warmup_instructions"] - half) <= info["threads"]
    refused = entresol_command(*words[:2], str(warms), "--format", "pinatrace", *words[3:])
    assert refused.code == 2 and "--warm-with is for macsim" in refused.err
    missing = entresol_command(*words[:4], str(tmp_path / "none"), *words[5:])
    assert missing.code == 2 and f"{tmp_path / 'none'}" in missing.err


def test_what_has_no_mark_asks_for_its_name(entresol_command: Entresol, tmp_path: Path) -> None:
    trace = tmp_path / "one.bin"
    record = struct.pack("<QBB2B4B2Q4Q", 0x401000, 0, 0, 10, 0, 3, 0, 0, 0, 0, 0, 0x7000, 0, 0, 0)
    trace.write_bytes(record * 5)
    refused = entresol_command("run", str(trace), *DESIGNS)
    assert refused.code == 2
    assert re.search(r"one\.bin: is in no format .* --format .*champsim", refused.err)
    info = entresol_command("trace", "info", str(trace), "--json", "--format", "champsim")
    assert json.loads(info.out)["loads"] == 5
    shown = entresol_command("trace", "info", str(trace), "--format", "champsim").out
    assert "assumed" in shown and "8 bytes each" in shown


def test_a_damaged_record_is_named(entresol_command: Entresol, tmp_path: Path) -> None:
    trace = tmp_path / "pinatrace.out.0"
    good = struct.pack("<QQ2s", 10, 0x7000, b"R\x08")
    trace.write_bytes(good * 3 + struct.pack("<QQ2s", 10, 0x7000, b"Q\x08"))
    options = ("--format", "pinatrace", "-o", str(tmp_path / "x.etr"))
    done = entresol_command("trace", "import", str(trace), *options)
    assert done.code == 2
    assert "pinatrace.out.0: record 4 at byte 54 is of kind 0x51" in done.err
    assert not (tmp_path / "x.etr").exists()


def test_one_foreign_format_becomes_another(entresol_command: Entresol, tmp_path: Path) -> None:
    warm = _exported(entresol_command, tmp_path / "warm", "--format", "pinatrace", "--limit", "1%")
    out = tmp_path / "again"
    done = entresol_command(
        "trace", "convert", str(warm), "--format", "pinatrace", "--to", "macsim", "-o", str(out)
    )
    assert done.code == 0, done.err
    kept = json.loads(entresol_command("trace", "info", str(out), "--json").out)
    records = [file.read_bytes() for file in sorted(warm.iterdir())]
    written = b"".join(records)
    kinds = [written[at + 16] for at in range(0, len(written), 18)]
    assert (kept["loads"], kept["stores"]) == (kinds.count(ord("R")), kinds.count(ord("W")))


def test_the_formats_are_listed(entresol_command: Entresol) -> None:
    shown = entresol_command("trace", "formats").out
    for name in ("macsim", "pinatrace", "champsim"):
        assert name in shown


def test_parquet_holds_what_the_table_as_text_holds(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    text = _exported(entresol_command, tmp_path / "s.csv", "--format", "csv", "--limit", "1%")
    table = _exported(
        entresol_command, tmp_path / "s.parquet", "--format", "parquet", "--limit", "1%"
    )
    rows = [",".join(map(str, row.values())) for row in pq.read_table(table).to_pylist()]
    assert text.read_text().splitlines() == ["thread,instructions,address,size,op", *rows]
    assert len(rows) > 1000
    infos = [
        json.loads(entresol_command("trace", "info", str(path), "--json").out)
        for path in (text, table)
    ]
    assert infos[1]["provenance"]["command"] == ["import", "csv", "s.parquet"]
    for key in ("instructions", "loads", "stores", "footprint_pages"):
        assert infos[0][key] == infos[1][key] > 0
    run = entresol_command("run", str(table), *DESIGNS)
    assert run.code == 0, run.err
    shown = entresol_command("trace", "formats").out
    assert re.search(r"^parquet +yes +yes +yes", shown, re.MULTILINE)


def test_a_parquet_file_that_is_no_table_says_what_is_wrong(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    columns = {"thread": [0, 0], "time_ns": [5, 4], "address": [0, 64], "size": [8, 8]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    done = entresol_command("run", str(tmp_path / "a.parquet"), *DESIGNS)
    assert done.code == 2
    assert "a.parquet: has no column op; it has thread, time_ns, address, size." in done.err
    pq.write_table(pa.table({**columns, "op": ["R", "W"]}), tmp_path / "b.parquet")
    done = entresol_command("run", str(tmp_path / "b.parquet"), *DESIGNS)
    assert done.code == 2
    assert re.search(rf"{tmp_path}/b\.parquet: record 3 at byte \d+ is earlier", done.err)
    (tmp_path / "c.csv").write_text("thread,instructions,address,size,op\n")
    done = entresol_command("run", str(tmp_path / "c.csv"), *DESIGNS, "--format", "parquet")
    assert done.code == 2 and "c.csv: is not a Parquet file" in done.err


def test_traces_of_accesses_run_as_they_are(entresol_command: Entresol) -> None:
    samples = Path(__file__).parents[2] / "crates/trace/tests/foreign"
    for name in ("tiny.lackey", "tiny.drmemtrace", "tiny.mqsim", "tiny.tsv"):
        run = entresol_command("run", str(samples / name), *DESIGNS)
        assert run.code == 0, run.err
        assert json.loads(run.out)["runs"][0]["instructions"] > 0
