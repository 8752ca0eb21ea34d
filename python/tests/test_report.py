"""The report: complete, self-contained, accessible, and equal for equal studies."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
import synthetic
from conftest import ROOT

from entresol import core, quantity, report, svg, units
from entresol.derived import AMAT_PARTS, BOUND_PARTS, REQUEST_KINDS, panels
from entresol.report import definitions, figures, reading, tables

pytestmark = pytest.mark.usefixtures("fake")
VOID = {"meta"}


def render(summary: Any, command: str = "entresol run a.etr") -> str:
    setup = core.Setup("demo")
    presets = {design.name: core.effective_config(setup, design.name) for design in core.designs()}
    return report.render(summary, command, presets, core.designs(), core.parameters())


class Structure(HTMLParser):
    """Collects ids, references and tags, and checks that tags nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.anchors: list[str] = []
        self.labels: list[str] = []
        self.tags: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.ids += [values["id"]] if "id" in values else []
        self.anchors += [values["href"][1:]] if tag == "a" else []
        self.labels += values.get("aria-labelledby", "").split()
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def structure(page: str) -> Structure:
    parser = Structure()
    parser.feed(page)
    assert parser.open == []
    return parser


@pytest.mark.parametrize(
    "traces", [("one",), ("one", "two"), ("a.b", "b", "c"), ("a", "b", "c", "d")]
)
def test_every_reference_inside_the_page_resolves(traces: tuple[str, ...]) -> None:
    page = structure(render(synthetic.summary(traces)))
    assert len(set(page.ids)) == len(page.ids)
    assert set(page.anchors) | set(page.labels) <= set(page.ids)
    assert page.tags["svg"] >= 7 * len(traces)


def test_the_page_needs_nothing_else() -> None:
    page = render(synthetic.summary())
    assert "src=" not in page and "<link" not in page and "<img" not in page
    assert "import(" not in page and "fetch(" not in page and "@import" not in page
    assert "http:" not in page and "https:" not in page and "url(" not in page


def test_equal_studies_have_equal_reports() -> None:
    assert render(synthetic.summary()) == render(synthetic.summary())


def test_text_from_outside_is_escaped() -> None:
    summary = synthetic.summary(("<b>&x",))
    summary["runs"][0]["warnings"] = ["<script>alert(1)</script>"]
    page = render(summary, "entresol run '<i>.etr'")
    assert "<script>alert" not in page and "<i>.etr" not in page and "<b>&x" not in page
    structure(page)


def test_every_colour_that_is_used_is_defined_for_light_and_dark() -> None:
    page = render(synthetic.summary())
    style, body = page.split("</style>")
    for name in set(re.findall(r"var\(--([dc]-[\w-]+)\)", body)):
        assert style.count(f"--{name}: light-dark(") == 1, name


def test_the_reading_is_computed_from_the_numbers() -> None:
    summary = synthetic.summary(("kv",))
    times = {"base-cssd": 8, "skybyte-full": 2, "dram-only": 1}
    for run in summary["runs"]:
        run["execution_time_ps"] = times.get(run["design"], 4) * 10**9
    text = reading.paragraph(panels(summary)[0])
    assert "<b>skybyte-full</b> is the fastest device design" in text
    assert "4.0 times as fast as base-cssd" in text
    assert "a factor of 2.0" in text
    assert "Together they give 4.00×, less than their product (8.00×)" in text
    assert "<code>--design skybyte-full</code> halves and doubles each such value" in text


def test_the_reading_says_nothing_about_designs_that_did_not_run() -> None:
    summary = synthetic.summary(("kv",))
    summary["runs"] = [run for run in summary["runs"] if run["design"] == "skybyte-c"]
    text = reading.paragraph(panels(summary)[0])
    assert "base-cssd" not in text and "dram-only" not in text
    assert "assumptions" not in text
    structure(render(summary))


def test_a_run_of_dram_alone_has_a_report() -> None:
    summary = synthetic.summary(("kv",))
    summary["runs"] = [run for run in summary["runs"] if run["design"] == "dram-only"]
    structure(render(summary))


def test_a_run_without_any_access_has_a_report() -> None:
    summary = synthetic.summary(("kv",))
    for run in summary["runs"]:
        for section in run["statistics"].values():
            if isinstance(section, dict):
                section.update(dict.fromkeys(section, 0))
        run["statistics"]["latency_cdf"] = []
    structure(render(summary))


def test_zeros_of_judged_mechanisms_stand_out() -> None:
    summary = synthetic.summary(("kv",))
    before = render(summary).count('class="zero"')
    full = next(run for run in summary["runs"] if run["design"] == "skybyte-full")
    full["statistics"]["activity"]["log_fills"] = 0
    full["statistics"]["activity"]["promotions"] = 0
    assert render(summary).count('class="zero"') == before + 2
    # A design is judged by its mechanisms, not by its name.
    full["design"] = "entresol"
    (panel,) = panels(summary)
    (row,) = re.findall(r"<tr.*?entresol.*?</tr>", tables.activity(panel), re.S)
    assert row.rpartition("<tr")[2].count('class="zero"') == 2


def test_changed_parameters_are_listed_against_their_preset() -> None:
    summary = synthetic.summary(("kv",))
    assert "Every parameter has the value of its preset" in render(summary)
    for run in summary["runs"]:
        run["config"]["nand"]["t_r"] = "25us"
    page = render(summary)
    assert "Changed from the presets" in page
    plain = re.sub(r"<td[^>]*>", "<td>", page)
    assert "<td>3us</td><td>25us</td><td>all</td>" in plain


def test_warnings_are_in_the_report() -> None:
    assert "garbage collection never ran (skybyte-wp)" in render(synthetic.summary())


def test_every_column_has_its_terms_defined() -> None:
    page = render(synthetic.summary())
    shown = page[: page.index('<section id="configuration"')]
    heads = {
        unescape(re.sub("<[^>]*>", "", head))
        for head in re.findall(r'<th scope="col"[^>]*>(.*?)</th>', shown)
    }
    assert heads >= {"useful", "squashed instructions", "gc read"}
    names = {design for design, *_ in synthetic.DESIGNS}
    plain = {"design", "thread"}
    assert not {head for head in heads - names - plain if definitions.MAIN.find(head) is None}


def test_a_chart_of_nothing_has_no_scale() -> None:
    caption = svg.Caption("x", "x", "x")
    rows = [svg.Bar("a", (svg.Segment(0, "c", "0"),), "0")]
    assert svg.bars(caption, rows, 500, quantity.count).count('class="tick"') == 1


def test_every_figure_has_its_terms_defined() -> None:
    kinds = (*AMAT_PARTS, *REQUEST_KINDS, *BOUND_PARTS)
    assert not [label for _, label in kinds if definitions.MAIN.find(label) is None]


def test_the_stacks_of_flash_reads_add_up_to_all_reads() -> None:
    summary = synthetic.summary(("kv",))
    flash = next(run for run in summary["runs"] if run["design"] == "skybyte-w")
    flash["statistics"]["flash"] |= {
        "read_pages": 150,
        "host_read_pages": 100,
        "coalescing_read_pages": 30,
        "gc_read_pages": 50,
    }
    page = figures.flash_reads(panels(summary))
    for title in ("host and prefetch: 70", "coalescing for compaction: 30"):
        assert f"<title>{title}</title>" in page
    assert "<title>garbage collection: 50</title>" in page


def test_every_key_that_a_definition_names_is_in_the_page_on_result_files() -> None:
    text = (ROOT / "docs" / "formats" / "result.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^### |^## |\Z)", text, re.M | re.S))
    for term in definitions.TERMS:
        for key in term.keys:
            section, _, name = key.rpartition(".")
            assert f"| `{name}` |" in sections[section or "run"] or name == "slowdown_milli", key


def test_a_report_of_one_run_compares_with_nothing() -> None:
    summary = synthetic.summary(("kv",))
    summary["runs"] = [run for run in summary["runs"] if run["design"] == "skybyte-full"]
    page = render(summary)
    structure(page)
    assert "kv on skybyte&#8209;full" in page and "fastest" not in page[page.index("<main") :]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8MiB", 8 << 20),
        ("12.5%", 0.125),
        ("1/8", 0.125),
        ("12,300", 12300),
        ("1.5\u00a0µs", 1.5e6),
        ("×1.2", 1.2),
        ("3/0", None),
        ("lru", None),
        ("first 25%", None),
        ("", None),
    ],
)
def test_a_cell_is_sorted_by_the_quantity_that_it_shows(text: str, value: float | None) -> None:
    assert units.magnitude(text) == value


def test_the_first_picture_says_where_the_time_goes_and_why_dram_is_ahead() -> None:
    summary = synthetic.summary(("kv",))
    for run in summary["runs"]:
        ideal = run["design"] == "dram-only"
        run["execution_time_ps"] = (1 if ideal else 10) * 10**9
        run["statistics"]["cores"] |= {
            "compute_bound_ps": 100,
            "memory_bound_ps": 800,
            "switch_ps": 60,
            "idle_ps": 40,
        }
        run["statistics"]["amat"] |= {"paper_ps": 1000, "flash_ps": 0 if ideal else 700}
        run["statistics"]["amat"]["stall_ps"] = 0 if ideal else 50
    (panel,) = panels(summary)
    picture = figures.where_time_goes(panel)
    # Of 10 ms, 80 % are bound by memory, and three quarters of an access are for flash.
    assert "<title>waiting for flash: 6.00\u00a0ms</title>" in picture
    assert "<title>waiting for other memory: 2.00\u00a0ms</title>" in picture
    assert "<title>waiting for other memory: 800\u00a0µs</title>" in picture
    assert "dram-only is ahead since nothing in it waits for flash. Of the core time of" in picture
    assert "base-cssd: 60\u00a0% waiting for flash, 20\u00a0% waiting for other memory" in picture
    structure(picture)


def test_the_line_to_compare_with_strikes_no_note() -> None:
    caption = svg.Caption("x", "x", "x")
    rows = [
        svg.Bar("a", (svg.Segment(1.0, "c", "1"),), "1"),
        svg.Bar("b", (svg.Segment(0.97, "c", "0.97"),), "0.97 · 1.03×"),
        svg.Bar("c", (svg.Segment(0.1, "c", "0.1"),), "0.1 · 10×"),
        svg.Bar("d", (svg.Segment(2.0, "c", "2"),), "2"),
    ]
    drawn = svg.bars(caption, rows, 440, quantity.significant, mark=1.0)
    spans = re.findall(r'class="mark"[^>]* y1="(\d+)" y2="(\d+)"', drawn)
    assert spans == [("0", "25"), ("50", "100")]
