"""`gain.html`: the waterfall from the speedup without the choices to the one with all of them."""

from __future__ import annotations

from html import escape

from entresol import quantity, svg
from entresol.report import document, glossary, html
from entresol.report.cells import Cell
from entresol.report.html import Section
from entresol.result_types import Gain, GainShare

_SMALL = 0.002
"""Factors nearer to one than this share a bar."""


def render(result: Gain) -> str:
    """The whole page: a pure function of the result."""
    title = f"What the gain of {result['design']} on {result['trace']} is made of"
    words = glossary.of_pairs(_terms(result))
    sections = [
        Section(
            "waterfall",
            "Waterfall",
            f"Speedup over {result['reference']}, from left to right; each bar is a factor, the "
            "mean over orders in which the choices come in (Shapley).",
            _waterfall(result),
        ),
        Section(
            "shares",
            "Shares",
            "First in: the factor of the choice alone. Last in: its factor when all others are on. "
            "A factor of 1 is no effect.",
            _shares(result, words),
        ),
        Section("definitions", "Definitions", "", words.render()),
        Section(
            "configurations",
            "Configurations",
            "Each is an ordinary run; the command repeats it. On: how many of the choices. Times "
            "are simulated, from the end of the warm-up to the end of the last thread.",
            html.details("All of them", _configurations(result)),
        ),
    ]
    return document.document(
        title, escape(conclusion(result)), sections, str(result["provenance"]["entresol"])
    )


def _terms(result: Gain) -> list[tuple[str, str]]:
    exact = result["provenance"]["is_exact"]
    count = result["provenance"]["orders"]
    orders = "every order" if exact else f"{count} random orders, half of them reverses,"
    interval = (
        "Every order was tried, so the value is exact."
        if exact
        else (
            "Student's interval of the Shapley value over pairs of an order and its reverse; one "
            "pair has none."
        )
    )
    return [
        (
            "speedup",
            f"Simulated time of {result['reference']} divided by that of the design, both "
            "with the same choices on.",
        ),
        ("factor", "What a choice multiplies the speedup by: 1 is no effect, less is a loss."),
        ("first in", "The factor of the choice when it is turned on alone."),
        ("last in", "Its factor when all others are on already."),
        (
            "Shapley",
            f"The geometric mean of its factor over {orders} in which the choices are "
            "turned on one after the other. These factors multiply to the whole.",
        ),
        ("95 % interval", interval),
        (
            "interaction",
            "What all choices together give, divided by the product of what each gives alone.",
        ),
    ]


def by_worth(result: Gain) -> list[GainShare]:
    """The shares, largest effect first."""
    return sorted(result["shares"], key=lambda share: -_distance(share["shapley_micro"]))


def factor(micro: int) -> str:
    """`×1.23`."""
    return f"×{micro / 1e6:.3f}"


def interval(share: GainShare, result: Gain) -> str:
    """`1.20 – 1.26`, or a dash where there is none; no error where every order was tried."""
    if result["provenance"]["is_exact"]:
        return "exact"
    low, high = share["shapley_low_micro"], share["shapley_high_micro"]
    return (
        quantity.NOTHING if low is None or high is None else f"{low / 1e6:.3f} – {high / 1e6:.3f}"
    )


def speedups(result: Gain) -> tuple[float, float]:
    """Without the choices, and with all of them."""
    return result["speedup_without_micro"] / 1e6, result["speedup_with_all_micro"] / 1e6


def conclusion(result: Gain) -> str:
    """One paragraph for whoever reads no table."""
    without, with_all = speedups(result)
    is_switches = result["provenance"]["by"] == "switch"
    before, after = ("as the paper describes it", "with all of these switches on")
    if result["provenance"]["is_artifact"]:
        after = "as the artifact computes it"
    if not is_switches:
        before, after = ("without its mechanisms", "with all of them")
    text = (
        f"{result['design']} is {quantity.times(without)} as fast as {result['reference']} "
        f"{before}, and {quantity.times(with_all)} {after}."
    )
    largest = by_worth(result)[:3]
    named = [
        f"{share['title'].lower()} ({factor(share['shapley_micro'])})"
        for share in largest
        if _distance(share["shapley_micro"]) > _SMALL
    ]
    if named:
        text += f" Most of what lies between: {'; '.join(named)}."
    text += f" Interaction beyond each alone: {factor(result['interaction_micro'])}."
    error = result["provenance"]["mode_error_milli"]
    if error:
        text += (
            f" Fast mode: nine of ten ratios of times are within {error / 10:.1f} % of the "
            "detailed mode's, so factors nearer to one than that say nothing."
        )
    return text


def _distance(micro: int) -> float:
    # The distance of a factor from one, alike for gains and losses.
    value = micro / 1e6
    return max(value, 1 / value) - 1 if value else float("inf")


def _waterfall(result: Gain) -> str:
    large = [share for share in by_worth(result) if _distance(share["shapley_micro"]) > _SMALL]
    small = [share for share in result["shares"] if share not in large]
    steps = [(share["title"], share["shapley_micro"] / 1e6) for share in large]
    if small:
        product = 1.0
        for share in small:
            product *= share["shapley_micro"] / 1e6
        steps.append((f"{len(small)} other{'s' if len(small) > 1 else ''}", product))
    ends = speedups(result)
    names = ("paper", "artifact" if result["provenance"]["is_artifact"] else "with all of these")
    if result["provenance"]["by"] != "switch":
        names = ("no mechanism", "all")
    words = "; ".join(f"{title}: factor {value:.3f}" for title, value in steps)

    def draw(width: int, suffix: str) -> str:
        title = f"Speedup of {result['design']} over {result['reference']}"
        caption = svg.Caption("waterfall" + suffix, title, words)
        return svg.waterfall(caption, names, ends, steps, width)

    return html.panels([("", html.picture(draw, html.panel_width(1)))])


def _shares(result: Gain, words: glossary.Glossary) -> str:
    heads = ("choice", "what", "first in", "last in", "Shapley", "95 % interval")
    rows = [
        html.Row(
            share["name"],
            (
                Cell(share["title"], prose=True),
                Cell(factor(share["first_in_micro"])),
                Cell(factor(share["last_in_micro"])),
                Cell(factor(share["shapley_micro"])),
                Cell(interval(share, result)),
            ),
        )
        for share in by_worth(result)
    ]
    return html.table("Shares of the gain", heads, rows, words)


def _configurations(result: Gain) -> str:
    heads = ("on", result["reference"], result["design"], "speedup", "command")
    total = len(result["shares"])
    rows = [
        html.Row(
            f"{len(item['on'])} of {total}",
            (
                Cell(quantity.duration(item["reference_ps"])),
                Cell(quantity.duration(item["design_ps"])),
                Cell(quantity.times(item["reference_ps"] / (item["design_ps"] or 1))),
                Cell(item["command"], prose=True),
            ),
        )
        for item in result["configurations"]
    ]
    return html.table("Configurations", heads, rows)
