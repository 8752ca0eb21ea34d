"""A device alone, from the command line to the files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Entresol, one_line

SMALL = ("--machine", "demo", "--requests", "2000", "--qd", "8")
COLUMNS = {
    "time_us": [0, 10, 20],
    "offset": [0, 8192, 0],
    "size": [4096, 100, 4096],
    "op": ["R", "W", "R"],
}


def test_a_pattern_leaves_the_three_files_and_they_agree(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    words = ("--pattern", "randrw", *SMALL, "--design", "base-cssd,skybyte-w", "--audit")
    shown = entresol_command("replay", *words, "-o", tmp_path)
    assert shown.code == 0 and "skybyte-w" in shown.out, shown
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [run["design"] for run in summary["runs"]] == ["base-cssd", "skybyte-w"]
    rows = pq.read_table(tmp_path / "results.parquet").to_pylist()
    for run, row in zip(summary["runs"], rows, strict=True):
        assert run["kind"] == row["kind"] == "replay"
        throughput = run["statistics"]["throughput"]
        assert throughput["reads"] + throughput["writes"] == run["requests"] == 2000
        assert row["throughput_reads"] == throughput["reads"]
        assert row["write_latency_cdf_count"][-1] == throughput["writes"]
    page = (tmp_path / "report.html").read_text()
    assert _undefined(page) == {"design"}
    assert page.count("<svg") >= 4 and "http" not in page and "src=" not in page


def _undefined(page: str) -> set[str]:
    """Heads of columns that no definition names; parameters explain themselves elsewhere."""
    shown = page[: page.index('<section id="configuration"')]
    heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', shown)
    defined = [head for head in heads if "<a " in head]
    assert {re.sub("<.*?>", "", head) for head in defined} >= {"req/s", "WAF", "dies busy"}
    return set(heads) - set(defined)


def test_a_trace_without_a_request_is_refused(entresol_command: Entresol, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("time_us,offset,size,op\n")
    words = ("replay", tmp_path / "none.csv", "--machine", "demo", "-o", tmp_path / "out")
    assert "none.csv: holds no request." in one_line(entresol_command(*words))
    assert not (tmp_path / "out").exists()


def test_equal_replays_are_equal_files(entresol_command: Entresol) -> None:
    words = ("replay", "--pattern", "randwrite", *SMALL, "--json")
    first, second = entresol_command(*words), entresol_command(*words)
    assert first.code == 0 and first.out == second.out
    other = entresol_command(*words, "--seed", "2")
    assert other.out != first.out


def test_a_parquet_file_gives_what_its_columns_as_text_give(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    table = pa.table(COLUMNS)
    pq.write_table(table, tmp_path / "disk.parquet")
    lines = [
        ",".join(COLUMNS),
        *(",".join(map(str, row)) for row in zip(*COLUMNS.values(), strict=True)),
    ]
    (tmp_path / "disk.csv").write_text("\n".join(lines) + "\n")
    results = []
    for name in ("disk.parquet", "disk.csv"):
        outcome = entresol_command("replay", tmp_path / name, "--machine", "demo", "--json")
        assert outcome.code == 0, outcome
        results.append(json.loads(outcome.out)["runs"])
    assert results[0] == results[1]
    statistics = results[0][0]["statistics"]
    # 100 bytes at 8192 are a part of a page: it is read, then written.
    assert statistics["served"]["partial_page_writes"] == 1
    assert statistics["throughput"]["read_bytes"] == 8192


def test_a_file_without_a_column_names_it(entresol_command: Entresol, tmp_path: Path) -> None:
    columns = {name: values for name, values in COLUMNS.items() if name != "op"}
    pq.write_table(pa.table(columns), tmp_path / "disk.parquet")
    refused = one_line(entresol_command("replay", tmp_path / "disk.parquet", "--json"))
    assert "has no column op; it has time_us, offset, size" in refused


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a block trace or a --pattern"),
        (["--pattern", "randred"], "'randred' is not one of 'randread'"),
        (["--pattern", "randread", "--bs", "100B"], "must be a multiple of 64B"),
        (["--pattern", "randread", "--working-set", "1TiB"], "larger than the device"),
        (["--pattern", "randread", "--design", "dram-only"], "has no device"),
        (["--pattern", "randread", "--speedup", "2"], "a pattern has no arrival times"),
        (["none.csv"], "none.csv: no such block trace"),
        (["far.csv"], "far.csv: request 2 ends at byte"),
        (["wrong.csv"], "wrong.csv"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    entresol_command: Entresol,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    head = "time_ns,offset,size,op\n0,0,4096,R\n"
    (tmp_path / "far.csv").write_text(f"{head}5,{1 << 50},4096,R\n")
    (tmp_path / "wrong.csv").write_text(f"{head}5,0,none,R\n")
    refused = one_line(entresol_command("replay", *words, "--machine", "demo", "--json"))
    assert message in refused
    assert list(tmp_path.glob("results*")) == []


def test_firmware_in_the_loop_is_measured_and_its_recording_repeats_it(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    words = ("--pattern", "randrw", "--bs", "64B", *SMALL, "--design", "base-cssd,skybyte-w")
    looped = entresol_command("replay", *words, "--device", "loop", "-o", tmp_path / "loop")
    assert looped.code == 0, looped.err
    first = json.loads((tmp_path / "loop" / "summary.json").read_text())["runs"]
    assert (tmp_path / "loop" / "randrw.skybyte-w.times").stat().st_size > 2000
    assert "--device loop" in (tmp_path / "loop" / "report.html").read_text()
    fed = ("--device", f"recorded:{tmp_path / 'loop'}")
    again = json.loads(entresol_command("replay", *words, *fed, "--json").out)["runs"]
    modelled = json.loads(entresol_command("replay", *words, "--json").out)["runs"]
    for run, same, model in zip(first, again, modelled, strict=True):
        assert run["statistics"] == same["statistics"] != model["statistics"]
        assert run["device"]["work"] == same["device"]["work"]
        assert run["device"]["source"] == "loop" and "device" not in model
    one = f"recorded:{tmp_path / 'loop' / 'randrw.base-cssd.times'}"
    for device, part in (
        ("nvme:/dev/ng0n1", "`entresol run` asks an NVMe device"),
        (f"loop:{tmp_path / 'none'}", "no firmware can be reached there"),
        (one, "is one recording, and there are 2 runs"),
    ):
        refused = entresol_command("replay", *words, "--device", device, "-o", tmp_path / "out")
        assert refused.code in (1, 2) and part in refused.err, refused
        assert refused.err.count("\n") == 1 and not (tmp_path / "out").exists()
