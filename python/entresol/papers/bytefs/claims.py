"""The numbers in the paper's text: how each is computed from our runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from entresol.figures import frames
from entresol.figures.claims import SIMULATED, Claim, Rule, read
from entresol.figures.plan import Bench, Results, Settings, quotient
from entresol.papers.bytefs import recovery, runs, traffic
from entresol.papers.bytefs.runs import BYTEFS, EXT4, MACRO, MICRO, YCSB, bench, published

Number = Callable[[Results, Bench], float | None]
Ours = Callable[[Results], float | None]

F2FS, NOVA, PMFS = "f2fs-like", "nova-like", "pmfs-like"
SYSTEMS = {"Ext4": EXT4, "F2FS": F2FS, "NOVA": NOVA, "PMFS": PMFS}
FILES = (*MICRO, *MACRO)
TITLES = dict(zip(MACRO, ("Varmail", "Fileserver", "Webproxy", "Webserver", "OLTP"), strict=True))


FIGURES = {
    "6": (
        "create: throughput over Ext4", "create: throughput over F2FS",
        "Varmail: throughput over F2FS", "Fileserver: throughput over Ext4 (at least)",
        "Fileserver: throughput over F2FS", "Webproxy: throughput over Ext4",
        "OLTP: throughput over Ext4",
        "micro-benchmarks: throughput over Ext4 (average)",
        "micro-benchmarks: throughput over F2FS (average)",
        "mkdir and rmdir: throughput over F2FS (least)",
        "mkdir and rmdir: throughput over F2FS (most)", "YCSB: throughput over F2FS (most)",
    ),
    "7": tuple(f"YCSB A and F: {way} latency less than F2FS ({which})"
               for way in ("read", "write") for which in ("mean", "95 %")),
    "8": (
        *(f"micro-benchmarks: metadata less than {other} ({which})"
          for other in ("Ext4", "F2FS") for which in ("average", "most")),
        "micro-benchmarks: metadata read, of what NOVA does (average)",
    ),
    "9": (
        *(f"OLTP: data written less than {other}" for other in ("NOVA", "PMFS")),
        *(f"Webserver and Webproxy: data less than {other} (most)" for other in ("NOVA", "PMFS")),
    ),
    "10 and 11": tuple(f"flash traffic less than {other} (average)" for other in SYSTEMS),
}  # fmt: skip
"""Which claims are numbers of a figure."""


def benches(settings: Settings) -> list[Bench]:
    """The loads that the claims are computed from."""
    loads = [bench(load, name) for load in runs.loads(settings, FILES) for name in runs.systems()]
    stores = [bench(load, name) for load in runs.loads(settings, YCSB) for name in (BYTEFS, F2FS)]
    return [*loads, *stores, recovery.bench(recovery.FULL)]


def _counted(counters: Sequence[str]) -> Number:
    return lambda results, item: runs.counted(results, item, *counters)


METADATA = _counted(traffic.METADATA)
METADATA_READ = _counted(traffic.CLASSES["metadata_read"])
WRITTEN = _counted(traffic.CLASSES["data_written"])
DATA = _counted((*traffic.CLASSES["data_read"], *traffic.CLASSES["data_written"]))
FLASH = _counted(traffic.EVERY_FLASH)


def _all(values: Sequence[float | None]) -> list[float]:
    """Those values; none of them if one is not known: a mean of fewer is another number."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _mean(values: Sequence[float | None]) -> float | None:
    known = _all(values)
    return frames.mean(frames.ARITHMETIC, known) if known else None


def _most(values: Sequence[float | None]) -> float | None:
    return max(_all(values), default=None)


def _least(values: Sequence[float | None]) -> float | None:
    return min(_all(values), default=None)


def _over(of: Number, load: str, one: str, other: str) -> Ours:
    return lambda results: runs.over(of, results, load, one, other)


def _each(of: Number, loads: Sequence[str], one: str, other: str, results: Results) -> list[
    float | None
]:  # fmt: skip
    wanted = runs.loads(results.settings, loads)
    # Of a part of the loads there is no such mean.
    return [runs.over(of, results, load, one, other) for load in wanted
            ] if len(wanted) == len(loads) else [None]  # fmt: skip


def _of_all(
    which: Callable[[Sequence[float | None]], float | None], of: Number, loads: Sequence[str],
    one: str, other: str,
) -> Ours:  # fmt: skip
    return lambda results: which(_each(of, loads, one, other, results))


def _part(one: str, other: str, of: Number, loads: Sequence[str], results: Results) -> float | None:
    """What one moves, in percent of what the other does: the mean."""
    ratio = _mean(_each(of, loads, one, other, results))
    return None if ratio is None else 100 * ratio


_LATENCIES = {"ycsb-a": {"read": "read", "write": "update"},
              "ycsb-f": {"read": "read", "write": "read_modify_write"}}  # fmt: skip
"""What the paper's reads and writes are called in a load."""


def _latency(way: str, what: str, results: Results) -> float | None:
    ratios = []
    for load, kinds in _LATENCIES.items():
        times = [runs.latency(results, bench(load, name), kinds[way], what)
                 for name in (F2FS, BYTEFS)]  # fmt: skip
        ratios.append(quotient(*times))
    return _mean(ratios)


def _journal(results: Results) -> float | None:
    every = [name for names in traffic.CLASSES.values() for name in names]
    shares = []
    for load in FILES:
        item = bench(load, EXT4)
        written = runs.counted(results, item, *traffic.CLASSES["journal_written"])
        shares.append(quotient(written, runs.counted(results, item, *every)))
    share = _mean(shares)
    return None if share is None else 100 * share


def _share(name: str, part: str, way: str, of: Sequence[str], results: Results) -> float | None:
    shares = [traffic.share(results, bench(load, name), part, way) for load in of]
    mean = _mean(shares)
    return None if mean is None else 100 * mean


def _share_most(
    name: str, part: str, way: str, of: Sequence[str], results: Results
) -> float | None:
    share = _most([traffic.share(results, bench(load, name), part, way) for load in of])
    return None if share is None else 100 * share


def _amplification(load: str, name: str, of: str, results: Results) -> float | None:
    item = bench(load, name)
    run = results.benches.get(item)
    parts = [part for part in traffic.CLASSES if part.endswith(of)]
    counters = [counter for part in parts for counter in traffic.CLASSES[part]]
    asked = None if run is None else float(run[f"application_{of}_bytes"])
    return quotient(runs.counted(results, item, *counters), asked)


def _recovery(results: Results) -> float | None:
    return recovery.seconds(results, recovery.FULL, "scan", "flush")


def _rules() -> dict[str, tuple[str, Ours]]:
    found: dict[str, tuple[str, Ours]] = {}
    own = "ByteFS ÷ the other"
    less = "the other ÷ ByteFS"
    for load, title, other, note in (
        ("create", "create", "Ext4", ""), ("fileserver", "Fileserver", "Ext4", " (at least)"),
        ("webproxy", "Webproxy", "Ext4", ""), ("oltp", "OLTP", "Ext4", ""),
        ("create", "create", "F2FS", ""), ("varmail", "Varmail", "F2FS", ""),
        ("fileserver", "Fileserver", "F2FS", ""),
    ):  # fmt: skip
        ours = _over(runs.throughput, load, BYTEFS, SYSTEMS[other])
        found[f"{title}: throughput over {other}{note}"] = (own, ours)
    mean = "arithmetic mean of the four"
    for other in ("Ext4", "F2FS"):
        system, head = SYSTEMS[other], "micro-benchmarks:"
        found[f"{head} throughput over {other} (average)"] = (
            mean, _of_all(_mean, runs.throughput, MICRO, BYTEFS, system))  # fmt: skip
        found[f"{head} metadata less than {other} (average)"] = (
            f"{mean}, journal included",
            _of_all(_mean, METADATA, MICRO, system, BYTEFS))  # fmt: skip
        found[f"{head} metadata less than {other} (most)"] = (
            "largest of the four, journal included",
            _of_all(_most, METADATA, MICRO, system, BYTEFS))  # fmt: skip
    pair = ("mkdir", "rmdir")
    for which, extreme in (("least", _least), ("most", _most)):
        found[f"mkdir and rmdir: throughput over F2FS ({which})"] = (
            f"{'smaller' if which == 'least' else 'larger'} of the two",
            _of_all(extreme, runs.throughput, pair, BYTEFS, F2FS))  # fmt: skip
    found["YCSB: throughput over F2FS (most)"] = (
        "largest of the six; the text does not say which it is",
        _of_all(_most, runs.throughput, YCSB, BYTEFS, F2FS))  # fmt: skip
    for way in ("read", "write"):
        for which, what in (("mean", "mean"), ("95 %", "p95")):
            found[f"YCSB A and F: {way} latency less than F2FS ({which})"] = (
                "arithmetic mean of the two; F's writes are read-modify-writes",
                partial(_latency, way, what))  # fmt: skip
    found["micro-benchmarks: metadata read, of what NOVA does (average)"] = (
        f"{mean}; the text: nearly 43 % less",
        partial(_part, BYTEFS, NOVA, METADATA_READ, MICRO))  # fmt: skip
    for other in ("NOVA", "PMFS"):
        found[f"Webserver and Webproxy: data less than {other} (most)"] = (
            "larger of the two, read and written",
            _of_all(_most, DATA, ("webserver", "webproxy"), SYSTEMS[other], BYTEFS))  # fmt: skip
        found[f"OLTP: data written less than {other}"] = (
            less, _over(WRITTEN, "oltp", SYSTEMS[other], BYTEFS))  # fmt: skip
    for other, system in SYSTEMS.items():
        found[f"flash traffic less than {other} (average)"] = (
            "arithmetic mean over Figures 10 and 11",
            _of_all(_mean, FLASH, FILES, system, BYTEFS))  # fmt: skip
    found["journal's share of Ext4's traffic (average)"] = (
        "arithmetic mean over the loads of Figure 1", _journal)  # fmt: skip
    for part, way, among, note in (
        ("superblock", "written", FILES, " (average)"), ("superblock", "read", FILES, " (average)"),
        ("inodes", "written", FILES, " (average)"), ("entries", "read", FILES, " (average)"),
        ("entries", "written", MICRO, ": micro-benchmarks (average)"),
        ("inodes", "read", MICRO, ": micro-benchmarks (average)"),
        ("inodes", "read", MACRO, ": macro-benchmarks (average)"),
    ):  # fmt: skip
        for other in ("Ext4", "F2FS"):
            does = "writes" if way == "written" else "reads"
            over = {MICRO: "the four", MACRO: "the five"}.get(among, "the loads of Figure 1")
            own_s = "'" if part.endswith("s") else "'s"
            found[f"{part}{own_s} share of what {other} {does}{note}"] = (
                f"arithmetic mean over {over}",
                partial(_share, SYSTEMS[other], part, way, among))  # fmt: skip
    making = ("mkdir", "rmdir", "create")
    found["bitmaps' share of what Ext4 writes: mkdir, rmdir, create (average)"] = (
        "arithmetic mean over the three",
        partial(_share, EXT4, "bitmaps", "written", making))  # fmt: skip
    found["bitmaps' share of what Ext4 reads: mkdir, rmdir, create (most)"] = (
        "largest of the three", partial(_share_most, EXT4, "bitmaps", "read", making))  # fmt: skip
    for way, does in (("written", "writes"), ("read", "reads")):
        found[f"pointers' share of what F2FS {does} (most)"] = (
            "largest of the loads of Figure 1",
            partial(_share_most, F2FS, "pointers", way, FILES))  # fmt: skip
    found["recovery with a full log: scan and flush"] = (
        "accounted; both halves of 256 MiB are full", _recovery)  # fmt: skip
    for load, title in TITLES.items():
        for other in ("Ext4", "F2FS"):
            for what, of in (("write", "written"), ("read", "read")):
                found[f"{title}: {what} amplification of {other}"] = (
                    "bytes between host and device ÷ the application's",
                    partial(_amplification, load, SYSTEMS[other], of))  # fmt: skip
    return found


def claims() -> list[Claim]:
    """All claims, in the order of the file. Raises `UserError` for one nobody knows to compute."""
    rules = {name: Rule(SIMULATED, how, ours) for name, (how, ours) in _rules().items()}
    return read(published, rules)
