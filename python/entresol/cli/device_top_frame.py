"""One frame of `entresol device top`: what a device does, as a person reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.align import Align
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from entresol import quantity
from entresol.cli import device_latencies
from entresol.core import Json

NARROW = 118
"""Below so many columns the panels stand one above the other."""
WIDE_HEAD = 90
"""From so many columns on the head has its size in the middle and its clock at the end."""
BAR = 20
SHORT_BAR = 12
"""Of a terminal that is too low for panels."""
BESIDE = 76
"""From so many columns on two such bars stand beside each other."""
SPARKS = "▁▂▃▄▅▆▇█"
HISTORY = 16
"""Looks that a spark line shows."""
HITS = (
    ("log", "served_log", "cyan"),
    ("cache", "served_cache", "green"),
    ("buffer", "served_buffer", "blue"),
    ("flash", "served_flash", "yellow"),
    ("in flight", "served_merged", "magenta"),
    ("unwritten", "served_unmapped", "bright_black"),
)


@dataclass(frozen=True)
class Look:
    """What was seen at a time of the wall clock, in seconds."""

    at: float
    about: Json

    def number(self, name: str) -> int:
        """One of the statistics."""
        value: int = self.about["statistics"][name]
        return value


@dataclass(frozen=True)
class View:
    """The latest look and some before it, oldest first."""

    looks: Sequence[Look]

    @property
    def now(self) -> Look:
        """The latest."""
        return self.looks[-1]

    def number(self, name: str) -> int:
        """How much it is now."""
        return self.now.number(name)

    def recent(self, name: str) -> int:
        """How much came since the look before; everything at the first look."""
        before = self.looks[-2].number(name) if len(self.looks) > 1 else 0
        return self.number(name) - before

    def rates(self, name: str) -> list[float]:
        """How much came in a second of the wall clock, from look to look."""
        pairs = zip(self.looks, self.looks[1:], strict=False)
        return [
            (later.number(name) - earlier.number(name)) / (later.at - earlier.at)
            for earlier, later in pairs
            if later.at > earlier.at
        ]


def frame(view: View, width: int) -> RenderableType:
    """Everything, for a terminal of so many columns."""
    log = _panel("write log and cache", _memories(view))
    flash = _panel("flash", _flash(view))
    traffic = _panel("traffic", _traffic(view))
    spans = _panel(_latency_title(view), _latencies(view))
    if width < NARROW:
        return Group(_head(view, width), log, traffic, spans, flash)
    columns = Table.grid(expand=True, padding=0)
    columns.add_column(ratio=9)
    columns.add_column(ratio=11)
    columns.add_row(Group(log, flash), Group(traffic, spans))
    return Group(_head(view, width), columns)


def fitted(view: View, console: Console, foot: Text) -> RenderableType:
    """For a terminal: panels if all fit, else the same without them; the last line is the foot.

    What does not fit even so is left out at the end, and the foot begins with how much it is.
    """
    size = console.size
    room, options = size.height - 1, console.options.update(height=None)
    for made in (frame(view, size.width), dense(view, size.width)):
        lines = console.render_lines(made, options, pad=False)
        if len(lines) <= room:
            break
    more = len(lines) - room
    if more > 0:
        words = "1 line more" if more == 1 else f"{more} lines more"
        foot = Text.assemble((f" {words} ·", "yellow"), foot)
    foot.no_wrap, foot.overflow = True, "ellipsis"
    kept = [part for line in lines[: max(room, 0)] for part in (*line, Segment.line())]
    return Group(Segments(kept), foot)


def dense(view: View, width: int) -> RenderableType:
    """The most important of it all in as few lines as can be read, for a terminal of 80 by 24."""
    bars = (_fullness(view, SHORT_BAR), _room(view, SHORT_BAR))
    fullness: RenderableType = Group(*bars)
    if width >= BESIDE:
        beside = Table.grid(padding=(0, 2))
        beside.add_row(*bars)
        fullness = beside
    compacted, _, transactions = _log_facts(view)
    lines = (compacted, transactions, _gc(view), _failures(view))
    facts = [Text.assemble(line, no_wrap=True, overflow="ellipsis") for line in lines]
    return Group(
        _head_line(view),
        fullness,
        _legend(view),
        *facts,
        _traffic_table(view),
        _amplification(view, "; "),
        _latencies(view),
    )


def _panel(title: str, content: RenderableType) -> Panel:
    return Panel(
        content,
        title=f"[bold]{title}[/]",
        title_align="left",
        border_style="bright_black",
        box=box.ROUNDED,
        padding=(0, 1),
    )


def _head(view: View, width: int) -> Panel:
    line: RenderableType = _head_line(view)
    if width >= WIDE_HEAD:
        grid = Table.grid(expand=True, padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(justify="center", no_wrap=True, overflow="ellipsis")
        grid.add_column(justify="right", no_wrap=True)
        grid.add_row(_state(view), Text(_sizes(view)), Text(_clock(view)))
        line = grid
    return Panel(line, border_style="bright_black", box=box.ROUNDED, padding=(0, 1))


def _head_line(view: View) -> Text:
    words = (_state(view), f"  {_sizes(view)}  {_clock(view)}")
    return Text.assemble(*words, no_wrap=True, overflow="ellipsis")


def _state(view: View) -> Text:
    if not view.now.about["is_open"]:
        return Text("○ at rest: no process has it", style="bright_black")
    if view.number("is_stopped"):
        return Text("● stopped: the disk is full", style="bold red")
    if view.number("is_read_only"):
        return Text("● read-only: too many blocks are lost", style="bold red")
    return Text("● at work", style="bold green")


def _sizes(view: View) -> str:
    about = view.now.about
    return f"{quantity.size(about['capacity_bytes'])}, {quantity.size(about['disk_bytes'])} on disk"


def _clock(view: View) -> str:
    clock = f"device time {quantity.duration(view.number('clock_ps'))}"
    rates = view.rates("clock_ps")
    return f"{clock}, {quantity.times(rates[-1] / 1e12)} the wall's" if rates else clock


def _rows(bar: int) -> Table:
    rows = Table.grid(padding=(0, 1))
    rows.add_column(style="bright_black", no_wrap=True, min_width=11)
    rows.add_column(no_wrap=True, min_width=bar)
    rows.add_column(no_wrap=True, overflow="ellipsis")
    return rows


def _memories(view: View) -> RenderableType:
    facts = [Text(fact) for fact in _log_facts(view)]
    return Group(_fullness(view, BAR), _legend(view), Text(), *facts)


def _fullness(view: View, bar: int) -> Table:
    rows = _rows(bar)
    slots = view.number("log_slots")
    if slots:
        note = "compacting" if view.number("is_compacting") else ""
        filled = _bar(view.number("log_used_slots"), slots, bar)
        rows.add_row("log", filled, _share(view, "log", note))
    frames = view.number("cache_frames")
    if frames > 0 and view.now.about["configuration"]["ssd.cache"]["policy"] != "none":
        filled = _bar(view.number("cache_used_frames"), frames, bar)
        rows.add_row("cache", filled, _share(view, "cache"))
    used, buffers = view.number("page_buffers_used"), view.number("page_buffers")
    rows.add_row("buffers", _bar(used, buffers, bar), Text(f"{used} of {buffers}"))
    rows.add_row("reads from", _stack(view, bar), "")
    return rows


def _log_facts(view: View) -> tuple[str, str, str]:
    """Compactions, writes that waited for them, transactions."""
    compactions = view.number("compactions")
    mean = view.number("compaction_time_ps") / compactions if compactions else None
    return (
        f"{quantity.count(compactions)} compactions of {quantity.duration(mean)}, "
        f"{quantity.count(view.number('compacted_pages'))} pages",
        f"{quantity.count(view.number('log_stalls'))} writes waited for room in the log",
        f"{view.number('open_transactions'):,} open transactions, "
        f"{quantity.count(view.number('commits'))} committed, "
        f"{quantity.count(view.number('aborts'))} aborted",
    )


def _share(view: View, what: str, note: str = "") -> Text:
    used, all_of = {
        "log": ("log_used_slots", "log_slots"),
        "cache": ("cache_used_frames", "cache_frames"),
    }[what]
    share = quantity.percent(view.number(used) / view.number(all_of))
    return Text.assemble(share, " ", (note, "yellow"))


def _bar(used: int, all_of: int, bar: int, *, is_good_when_full: bool = False) -> Text:
    share = min(1.0, used / all_of) if all_of else 0.0
    left = 1 - share if is_good_when_full else share
    style = "green" if left < 0.7 else "yellow" if left < 0.9 else "red"
    eighths = round(share * bar * 8)
    whole, part = divmod(eighths, 8)
    filled = "█" * whole + (" ▏▎▍▌▋▊▉"[part] if part else "")
    return Text.assemble((filled, style), ("·" * (bar - len(filled)), "bright_black"))


def _served(view: View) -> list[tuple[str, int, str]]:
    """Recent reads by where they came from; of the whole life where there was none recently."""
    recent = [(name, view.recent(key), style) for name, key, style in HITS]
    if any(count for _, count, _ in recent):
        return recent
    return [(name, view.number(key), style) for name, key, style in HITS]


def _stack(view: View, bar: int) -> Text:
    served = _served(view)
    total = sum(count for _, count, _ in served)
    if not total:
        return Text("·" * bar, style="bright_black")
    made, drawn, seen = Text(), 0, 0
    for _, count, style in served:
        seen += count
        upto = round(bar * seen / total)
        made.append("█" * (upto - drawn), style=style)
        drawn = upto
    return made


def _legend(view: View) -> Text:
    served = _served(view)
    total = sum(count for _, count, _ in served)
    words = Text()
    for name, count, style in served:
        if count:
            words.append("■\u00a0", style=style)
            # A name stays with its colour and its number.
            words.append(f"{name} {quantity.percent(count / total)}".replace(" ", "\u00a0"))
            words.append("  ")
    return words if total else Text("no reads yet", style="bright_black")


def _traffic(view: View) -> RenderableType:
    return Group(_traffic_table(view), Text(), _amplification(view, "\n"))


def _traffic_table(view: View) -> Table:
    table = Table(
        box=None, pad_edge=False, padding=(0, 1), expand=True, header_style="bright_black"
    )
    table.add_column("", no_wrap=True)
    table.add_column("per second", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, width=HISTORY)
    table.add_column("in all", justify="right", no_wrap=True)
    for title, name, style in (
        ("byte port, in", "byte_port_to_device_bytes", "cyan"),
        ("byte port, out", "byte_port_to_host_bytes", "cyan"),
        ("block port, in", "block_port_to_device_bytes", "green"),
        ("block port, out", "block_port_to_host_bytes", "green"),
        ("flash programs", "flash_programmed_bytes", "yellow"),
        ("flash reads", "flash_read_bytes", "yellow"),
    ):
        rates = view.rates(name)
        rate = f"{quantity.size(round(rates[-1]))}/s" if rates else quantity.NOTHING
        table.add_row(
            title, rate, Text(_sparks(rates), style=style), quantity.size(view.number(name))
        )
    return table


def _amplification(view: View, between: str) -> Text:
    inwards = ("byte_port_to_device_bytes", "block_port_to_device_bytes")
    life = _ratio(view.number("flash_programmed_bytes"), sum(map(view.number, inwards)))
    lately = _ratio(view.recent("flash_programmed_bytes"), sum(map(view.recent, inwards)))
    under_way = f"{view.number('requests_under_way'):,} requests under way"
    return Text.assemble(
        "write amplification ", (life, "bold"), f", of late {lately}{between}{under_way}"
    )


def _ratio(over: int, under: int) -> str:
    return quantity.significant(over / under) if under else quantity.NOTHING


def _sparks(rates: Sequence[float]) -> str:
    shown = rates[-HISTORY:]
    most = max(shown, default=0.0)
    if most <= 0:
        return ""
    return "".join(SPARKS[min(7, int(rate / most * 7.999))] if rate else " " for rate in shown)


def _latency_title(view: View) -> str:
    return "latency, since the last look" if _is_recent(view) else "latency, whole life"


def _is_recent(view: View) -> bool:
    recent: Json | None = view.now.about["recent"]
    return recent is not None and any(kind["requests"] for kind in recent.values())


def _latencies(view: View) -> RenderableType:
    shown: Json = (
        view.now.about["recent"] if _is_recent(view) else view.now.about["statistics"]["latencies"]
    )
    seen = {kind: latency for kind, latency in shown.items() if latency["requests"]}
    if not seen:
        return Align.left(Text("no requests yet", style="bright_black"))
    return device_latencies.table(seen, style="bright_black", is_small=True)


def _flash(view: View) -> RenderableType:
    wear = (
        f"erases of a block: {view.number('least_wear_erases')} to "
        f"{view.number('most_wear_erases')}, {view.number('average_wear_erases')} on average"
    )
    cuts = f"power cuts: {view.number('unsafe_shutdowns'):,}"
    gc, failures = Text(_gc(view)), Text.assemble(_failures(view))
    return Group(_room(view, BAR), Text(), gc, Text(wear), failures, Text(cuts))


def _room(view: View, bar: int) -> Table:
    rows = _rows(bar)
    free, blocks = view.number("free_blocks"), view.number("blocks")
    rows.add_row(
        "free blocks",
        _bar(free, blocks, bar, is_good_when_full=True),
        Text(f"{quantity.count(free)} of {quantity.count(blocks)}"),
    )
    spare = view.number("available_spare_percent")
    filled = _bar(spare, 100, bar, is_good_when_full=True)
    rows.add_row("spare", filled, Text(f"{spare}\u00a0%"))
    return rows


def _gc(view: View) -> str:
    return (
        f"GC: {quantity.count(view.number('gc_victims'))} blocks, "
        f"{quantity.count(view.number('gc_programmed_pages'))} pages moved"
    )


def _failures(view: View) -> tuple[str, str]:
    """What has failed, and how it looks."""
    words = (
        f"failed: {view.number('program_failures')} programs, {view.number('erase_failures')} "
        f"erases, {view.number('media_errors')} reads; retired blocks: "
        f"{view.number('retired_blocks')}"
    )
    has_failed = any(
        map(view.number, ("program_failures", "erase_failures", "media_errors", "retired_blocks"))
    )
    return words, "yellow" if has_failed else ""
