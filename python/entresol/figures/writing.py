"""The files of figures: pictures, numbers and the page."""

from __future__ import annotations

from collections.abc import Sequence

from entresol.atomic import OutputDirectory
from entresol.figures import ink, markdown, page
from entresol.figures.entry import Figure
from entresol.figures.paper import Paper
from entresol.figures.plan import Results


def check(paper: Paper, figures: Sequence[Figure]) -> None:
    """Finds published rows that are missing before anything runs. Raises `UserError`."""
    for figure in figures:
        figure.frame(Results(paper.settings(), {}))
    paper.check()


def write(
    directory: OutputDirectory,
    paper: Paper,
    figures: Sequence[Figure],
    results: Results,
    command: str,
) -> None:
    """All files of the figures, into a directory that fills in one step."""
    made = {}
    for figure in figures:
        frame = figure.frame(results)
        stem = directory.file(f"{figure.stem}.svg").with_suffix("")
        directory.file(f"{figure.stem}.pdf")
        ink.save(figure.draw(frame), stem)
        frame.write_csv(directory.file(f"{figure.stem}.csv"))
        made[figure.name] = (frame, stem.with_suffix(".svg").read_bytes())
    text = page.render(paper, figures, results, made, command)
    directory.file("index.html").write_text(text, encoding="utf-8")
    numbers = {name: frame for name, (frame, _) in made.items()}
    told = markdown.render(paper, figures, results, numbers, command)
    directory.file("tables.md").write_text(told, encoding="utf-8")
    directory.commit()
