"""Latency logs of fio as tables of times: `entresol nand fit`.

A log is what fio writes with `write_lat_log`: a line for each request with when it ended (ms), what
it took (ns), its direction (0 read, 1 write, 2 trim), its size and its offset.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from entresol.errors import UserError

READ, WRITE = 0, 1
OPERATIONS = {READ: "read", WRITE: "program"}
COLUMNS = 5
"""At least: newer versions of fio add more."""
LEAST = 100
"""Requests of a direction that say something of a distribution."""
NANOS_MOST = 1_000_000_000
SHARES = (
    0, 0.1, 0.5, 1, 2, 3, 5, 7.5, *range(10, 95, 5), 92.5, 95, 96, 97, 98, 99, 99.5, 99.9, 99.95,
    99.99, 100,
)  # fmt: skip
"""Percent: where a table has its points at least."""
BENT = 0.002
"""Of the mean: a straight line that is further from the times between its ends is divided."""
DIVISIONS = 8


@dataclass(frozen=True)
class Times:
    """What the requests of one direction took, in nanoseconds, ascending."""

    depth: int
    nanos: Sequence[int]

    @property
    def mean(self) -> float:
        """In nanoseconds."""
        return sum(self.nanos) / len(self.nanos)

    @property
    def deviation(self) -> float:
        """The standard deviation in nanoseconds."""
        mean = self.mean
        return math.sqrt(sum((each - mean) ** 2 for each in self.nanos) / len(self.nanos))

    def places(self) -> list[int]:
        """Places in the order of the times between which these go straight, about."""
        last = len(self.nanos) - 1
        ends = sorted({round(last * share / 100) for share in SHARES})
        most = BENT * self.mean
        for _ in range(DIVISIONS):
            halves = [self._half(one, other, most) for one, other in pairwise(ends)]
            more = [half for half in halves if half is not None]
            if not more:
                break
            ends = sorted([*ends, *more])
        return ends

    def _half(self, one: int, other: int, most: float) -> int | None:
        half = (one + other) // 2
        if half == one:
            return None
        ends = self.nanos[one], self.nanos[other]
        straight = ends[0] + (ends[1] - ends[0]) * (half - one) / (other - one)
        return half if abs(self.nanos[half] - straight) > most else None


def of_word(word: str) -> tuple[Path, int]:
    """A log and its queue depth: `LOG`, of one request in flight, or `LOG:8`."""
    name, colon, depth = word.rpartition(":")
    if colon and depth.isdigit() and not Path(word).exists():
        if not 1 <= int(depth) <= 65536:
            raise UserError(f"{word}: {depth} is no queue depth; write 1 to 65536.")
        return Path(name), int(depth)
    return Path(word), 1


def read(path: Path, depth: int) -> dict[str, Times]:
    """The times of a log by operation. Raises `UserError`."""
    try:
        text = path.read_text(encoding="ascii")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text; a log is what fio's write_lat_log writes.") from None
    found: dict[int, list[int]] = {READ: [], WRITE: []}
    sizes: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) < COLUMNS or not all(cell.isdigit() for cell in cells[:4]):
            raise UserError(
                f"{path}, line {number}: is no line of a latency log of fio (time, latency, "
                "direction, size, offset); write one with write_lat_log."
            )
        nanos, direction = int(cells[1]), int(cells[2])
        if direction not in found:
            continue
        if not 0 < nanos <= NANOS_MOST:
            raise UserError(
                f"{path}, line {number}: a request took {nanos} ns; a time must be 1 ns to 1 s."
            )
        sizes.add(cells[3])
        found[direction].append(nanos)
    if len(sizes) > 1:
        raise UserError(
            f"{path}: has requests of {len(sizes)} sizes, whose times are no one distribution; "
            "write it with one block size."
        )
    times = {
        OPERATIONS[direction]: Times(depth, sorted(values))
        for direction, values in found.items()
        if len(values) >= LEAST
    }
    if not times:
        most = max(map(len, found.values()))
        raise UserError(
            f"{path}: has {most} reads or writes, of which no distribution comes; {LEAST} are the "
            "least."
        )
    return times


def preset(logs: Sequence[tuple[Path, int]], overhead_ns: int) -> str:
    """The preset of some logs, as TOML. Raises `UserError`.

    `overhead_ns` is what host and controller take of each request: that is taken off its time and
    becomes `nand.empirical.overhead`.
    """
    rows: dict[str, dict[int, Times]] = {}
    for path, depth in logs:
        for operation, times in read(path, depth).items():
            if depth in rows.setdefault(operation, {}):
                raise UserError(
                    f"{path}: another log has {operation}s of depth {depth} already; name each "
                    "depth once."
                )
            if times.nanos[0] <= overhead_ns:
                raise UserError(
                    f"{path}: a {operation} took {times.nanos[0]} ns, which is not more than "
                    f"--overhead; it must be less than the quickest request."
                )
            rows[operation][depth] = times
    return _text(logs, rows, overhead_ns)


def _text(
    logs: Sequence[tuple[Path, int]], rows: Mapping[str, Mapping[int, Times]], overhead_ns: int
) -> str:
    names = ", ".join(f"{path.name} (depth {depth})" for path, depth in logs)
    lines = [f"# Times drawn from a drive's: entresol nand fit of {names}."]
    nand = []
    tables = []
    for operation, by_depth in rows.items():
        for depth, times in sorted(by_depth.items()):
            lines.append(
                f"# {operation}, depth {depth}: {len(times.nanos)} requests, mean "
                f"{times.mean / 1e3:.3f} us, standard deviation {times.deviation / 1e3:.3f} us."
            )
        first = by_depth[min(by_depth)]
        key = {"read": "t_r", "program": "t_prog"}[operation]
        nand.append(f'{key} = "{round(first.mean) - overhead_ns}ns"')
        table = ";\n".join(
            "\n   ".join(_wrapped(f"{depth}:", _points(times, overhead_ns)))
            for depth, times in sorted(by_depth.items())
        )
        tables.append(f'{operation} = """\n{table}\n"""')
    lines += [
        "# What was measured has transfers in it, so the bus takes no time.",
        "[nand]", *nand, 'channel_bandwidth = "unlimited"', "", "[nand.empirical]",
        f'overhead = "{overhead_ns}ns"', *tables, "",
    ]  # fmt: skip
    return "\n".join(lines)


def _points(times: Times, overhead_ns: int) -> list[str]:
    last = len(times.nanos) - 1
    points = {f"{100 * place / last:.6f}".rstrip("0").rstrip("."): times.nanos[place]
              for place in times.places()}  # fmt: skip
    return [f"{share}%={nanos - overhead_ns}ns" for share, nanos in points.items()]


def _wrapped(head: str, words: Sequence[str]) -> list[str]:
    lines = [head]
    for word in words:
        if len(lines[-1]) + len(word) > 90:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return lines
