"""The figures: one function each, from panels (one per capture) to small multiples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from entresol import quantity, svg
from entresol.derived import AMAT_PARTS, BOUND_PARTS, REQUEST_KINDS, Panel, Run
from entresol.report import html, palette, reading, templates
from entresol.report.definitions import MAIN

_WRITES = (
    ("host_program_pages", "host", "write-back and compaction"),
    ("gc_program_pages", "gc", "garbage collection"),
)
_READS = (
    ("host_read_pages", "host", "host and prefetch"),
    ("coalescing_read_pages", "coalescing", "coalescing for compaction"),
    ("gc_read_pages", "gc", "garbage collection"),
)


TIME_PARTS = (
    ("compute_bound_ps", "compute"),
    ("flash_ps", "waiting for flash"),
    ("memory_bound_ps", "waiting for other memory"),
    ("switch_ps", "switching threads"),
    ("idle_ps", "idle"),
)
"""Where the execution time of a design goes."""
_FLASH_PARTS = ("flash_ps", "stall_ps")
"""Parts of an access that are for flash: waiting for it, and for room that it has not freed."""


def where_time_goes(panel: Panel) -> str:
    """Normalised execution time of each design by what the cores do, and why DRAM is ahead; nothing
    beside which to put one design."""
    if len(panel.runs) == 1:
        return ""
    fastest = min(panel.devices or panel.runs, key=lambda run: run.time_ps)
    rows = [_time_bar(panel, run, run is fastest) for run in panel.runs]
    title = f"Execution time relative to {panel.reference.design}"

    def draw(width: int, suffix: str) -> str:
        words = caption("time" + suffix, panel, title, rows)
        return svg.bars(words, rows, width, quantity.significant, mark=1.0)

    colours = {"memory_bound_ps": "link_ps"}
    chips = [
        (palette.component(colours.get(key, key)), label)
        for key, label in TIME_PARTS
        if any(_time_shares(run)[key] > 0 for run in panel.runs)
    ]
    return templates.render(
        "first_picture.html",
        legend=html.legend(chips),
        picture=html.picture(draw, html.ASIDE_WIDTH),
        title=title,
        why=reading.why_dram_is_ahead(panel, _named_shares),
    )


def _time_shares(run: Run) -> dict[str, float]:
    """Shares of core time. What is bound by memory is divided between flash and the rest as the
    average access is."""
    total = sum(run.parts("cores", BOUND_PARTS)) or 1
    shares = {key: run.count("cores", key) / total for key, _ in BOUND_PARTS}
    flash = sum(run.count("amat", key) for key in _FLASH_PARTS) / (run.amat_ps or 1)
    memory = shares["memory_bound_ps"]
    return shares | {"flash_ps": memory * flash, "memory_bound_ps": memory * (1 - flash)}


def _named_shares(run: Run) -> dict[str, float]:
    shares = _time_shares(run)
    return {label: shares[key] for key, label in TIME_PARTS}


def _time_bar(panel: Panel, run: Run, is_fastest: bool) -> svg.Bar:
    relative, shares = panel.normalised(run), _time_shares(run)
    note = f"{quantity.significant(relative, 2)} · {quantity.times(panel.speedup(run))}"
    if run is panel.reference:
        note = "1"
    colours = {"memory_bound_ps": "link_ps"}
    segments = tuple(
        svg.Segment(
            relative * shares[key],
            palette.component(colours.get(key, key)),
            f"{label}: {quantity.duration(run.time_ps * shares[key])}",
        )
        for key, label in TIME_PARTS
    )
    return svg.Bar(run.design, segments, note, is_fastest)


def amat(panels: Sequence[Panel]) -> str:
    """AMAT by component."""

    def picture(panel: Panel, width: int, suffix: str) -> str:
        rows = [
            _stack(
                run,
                AMAT_PARTS,
                run.parts("amat", AMAT_PARTS),
                quantity.duration,
                quantity.duration(run.amat_ps),
            )
            for run in panel.runs
        ]
        words = caption("amat" + suffix, panel, "Average memory access time by component", rows)
        return svg.bars(words, rows, width, quantity.duration)

    return _component_legend(AMAT_PARTS) + grid(panels, picture)


def requests(panels: Sequence[Panel]) -> str:
    """Where requests below L3 are served, as shares."""
    present = _present(panels, "requests", REQUEST_KINDS)

    def picture(panel: Panel, width: int, suffix: str) -> str:
        rows = [_shares(run, present, run.parts("requests", present)) for run in panel.runs]
        words = caption(
            "requests" + suffix, panel, "Share of requests by where they are served", rows
        )
        return svg.bars(words, rows, width, quantity.percent, 1.0)

    return _component_legend(present) + grid(panels, picture)


def boundedness(panels: Sequence[Panel]) -> str:
    """What the cores did with their time, as shares."""

    def picture(panel: Panel, width: int, suffix: str) -> str:
        rows = [_shares(run, BOUND_PARTS, run.parts("cores", BOUND_PARTS)) for run in panel.runs]
        words = caption("bound" + suffix, panel, "Share of core time by what bounds it", rows)
        return svg.bars(words, rows, width, quantity.percent, 1.0)

    return _component_legend(BOUND_PARTS) + grid(panels, picture)


def flash_programs(panels: Sequence[Panel]) -> str:
    """Pages programmed, by cause, with write amplification."""

    def note(run: Run) -> str:
        factor = quantity.milli(run.write_amplification)
        return f"{quantity.count(run.count('flash', 'program_pages'))} · WAF {factor}"

    return _flash(panels, _WRITES, "programs", "Flash pages programmed by cause", note)


def flash_reads(panels: Sequence[Panel]) -> str:
    """Pages read, by cause."""

    def note(run: Run) -> str:
        return quantity.count(run.count("flash", "read_pages"))

    return _flash(panels, _READS, "reads", "Flash pages read by cause", note)


def latency(panels: Sequence[Panel]) -> str:
    """Distribution of access latency."""

    def picture(panel: Panel, width: int, suffix: str) -> str:
        lines = [
            svg.Series(
                run.design,
                palette.design(run.design),
                palette.dash(run.design),
                tuple((float(value), share) for value, share in run.cdf),
            )
            for run in panel.runs
        ]
        words = "; ".join(
            f"{run.design}: half within {quantity.duration(run.number('amat', 'p50_ps'))}, "
            f"99 % within {quantity.duration(run.number('amat', 'p99_ps'))}"
            for run in panel.runs
        )
        caption = svg.Caption(
            _identity("cdf" + suffix, panel), f"{panel.trace}: access latency", words
        )
        return svg.tail(caption, lines, width, quantity.duration)

    designs = list(dict.fromkeys(run.design for panel in panels for run in panel.runs))
    return html.line_legend(designs) + grid(panels, picture)


def _flash(
    panels: Sequence[Panel],
    kinds: Sequence[tuple[str, str, str]],
    name: str,
    title: str,
    note: Callable[[Run], str],
) -> str:
    devices = [panel for panel in panels if panel.devices]

    def picture(panel: Panel, width: int, suffix: str) -> str:
        rows = [
            svg.Bar(
                run.design,
                tuple(
                    svg.Segment(
                        pages, palette.component(colour), f"{label}: {quantity.exact(pages)}"
                    )
                    for key, colour, label in kinds
                    for pages in (_pages(run, key),)
                ),
                note(run),
            )
            for run in panel.devices
        ]
        return svg.bars(caption(name + suffix, panel, title, rows), rows, width, quantity.count)

    chips = [(palette.component(colour), label) for _, colour, label in kinds]
    return html.legend(chips, MAIN) + grid(devices, picture)


def _pages(run: Run, key: str) -> int:
    # Coalescing reads are reads of the host; a stack shows each page once.
    pages = run.count("flash", key)
    return (
        pages - run.count("flash", "coalescing_read_pages") if key == "host_read_pages" else pages
    )


def _stack(
    run: Run,
    kinds: Sequence[tuple[str, str]],
    values: Sequence[float],
    show: Callable[[float], str],
    note: str,
) -> svg.Bar:
    segments = tuple(
        svg.Segment(value, palette.component(key), f"{label}: {show(value)}")
        for (key, label), value in zip(kinds, values, strict=True)
    )
    return svg.Bar(run.design, segments, note)


def _shares(run: Run, kinds: Sequence[tuple[str, str]], values: Sequence[int]) -> svg.Bar:
    total = sum(values) or 1
    return _stack(run, kinds, [value / total for value in values], quantity.percent, "")


def _present(
    panels: Sequence[Panel], section: str, kinds: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The kinds that occur at all, so that a legend names nothing that is not there."""
    runs = [run for panel in panels for run in panel.runs]
    return [kind for kind in kinds if any(run.count(section, kind[0]) for run in runs)]


def _component_legend(kinds: Sequence[tuple[str, str]]) -> str:
    return html.legend([(palette.component(key), label) for key, label in kinds], MAIN)


def grid(panels: Sequence[Panel], draw: Callable[[Panel, int, str], str]) -> str:
    """A picture per capture, each wide and, for a phone, narrow. `draw` takes a capture, a width
    and what to append to ids."""
    width = html.panel_width(max(len(panels), 1))

    def picture(panel: Panel) -> str:
        return html.picture(lambda wide, suffix: draw(panel, wide, suffix), width)

    return html.panels([(panel.trace, picture(panel)) for panel in panels])


def _identity(name: str, panel: Panel) -> str:
    return f"{name}-{''.join(c if c.isalnum() else '-' for c in panel.trace)}"


def caption(name: str, panel: Panel, title: str, rows: Sequence[svg.Bar]) -> svg.Caption:
    """What a picture of a capture is, and its numbers in words."""
    words = "; ".join(
        f"{row.label} {row.note}".strip()
        + (
            ""
            if len(row.segments) < 2
            else ": " + ", ".join(part.title for part in row.segments if part.value)
        )
        for row in rows
    )
    return svg.Caption(_identity(name, panel), f"{panel.trace}: {title}", words)
