"""The figures of our own design."""

from __future__ import annotations

from entresol.figures.entry import NO_MEAN, Figure
from entresol.papers.entresol import costs, mechanisms, steadily
from entresol.papers.entresol.runs import CHOSEN_ON, FULL_SIZE, HELD_OUT

STEADY = (
    "Windows in the steady state, in brackets what 95 of 100 repetitions at other places give; "
    "paid: if every design had paid at the end of each window what it owes more than at its "
    "beginning."
)

FIGURES = (
    Figure("steady", "Programs on which parameters were chosen",
           f"{STEADY} Above 1 ours is faster.", NO_MEAN,
           steadily.of(CHOSEN_ON), steadily.draw, steady=steadily.wants(CHOSEN_ON),
           label="Steady"),
    Figure("held-out", "Programs on which nothing was chosen",
           f"{STEADY} Captures of scripts/record-held-out; pbzip2 over four placements.", NO_MEAN,
           steadily.of(HELD_OUT), steadily.draw, steady=steadily.wants(HELD_OUT),
           label="Held out"),
    Figure("full-size", "Programs at the paper's sizes",
           f"{STEADY} Machine table2.", NO_MEAN,
           steadily.of(FULL_SIZE), steadily.draw,
           steady=steadily.wants(FULL_SIZE, "paper"), lacks=steadily.lacks,
           label="Full size"),
    Figure("costs", "What its mechanisms still cost",
           "SkyByte-Full's time ÷ ours: as it is, with each of these taken away, and without all: "
           "what takes time in programs and erases, in moves of pages, in switches of threads, in "
           "lookups, and on the channels. Reads of flash stay, and so does that no policy knows "
           "which pages are used again. Windows in the steady state, those of figure steady, or at "
           "the paper's scale of full-size.", NO_MEAN,
           costs.costs, costs.draw, steady=costs.wants, label="Costs"),
    Figure("worth", "What each mechanism is worth",
           "Factors of time ÷ DRAM-Only's, the shipped captures as a whole in detail; below 1 it "
           "makes the design faster. As entresol decisions --of entresol --design skybyte-full.",
           NO_MEAN, mechanisms.worth, mechanisms.draw_worth, wants=mechanisms.worth_wants,
           label="Worth"),
    Figure("sensitivity", "On what the gain hangs",
           "Time of SkyByte-Full ÷ ours, both varied alike, the shipped captures as a whole in "
           "detail; above 1 ours is faster. Machine demo has a log of 512 KiB, device DRAM and "
           "promoted pages of 4 MiB each, ULL flash and a link of 40 ns.", NO_MEAN,
           mechanisms.sensitivity, mechanisms.draw_sensitivity, wants=mechanisms.sensitivity_wants,
           label="Sensitivity"),
    Figure("log", "A log that costs nothing where it saves nothing",
           "SkyByte-W's time ÷ Base-CSSD's, 24 threads; at scale small the last 15 % of each "
           "program. Every written line goes to the log, or those of pages that are not cached.",
           NO_MEAN, mechanisms.log, mechanisms.draw_log, wants=mechanisms.log_wants,
           label="Log"),
)  # fmt: skip
