"""The report as Markdown, for repositories and terminals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paper.errata import title as erratum_title
from paper.experiment import Claim, Result, Table
from paper.pages.heading import ABOUT, TITLE, costs, facts
from paper.pages.html import HEADS, OWN_HEADS, errata_of
from paper.pages.words import (
    MARKS,
    first_rows,
    is_figure,
    of_reticent,
    of_the_paper,
    shown,
    stem,
    tally,
)
from paper.run import Run


def page(run: Run) -> str:
    """The whole page."""
    return "\n".join(_lines(run)) + "\n"


def _lines(run: Run) -> Iterator[str]:
    yield from (f"# {TITLE}", "", ABOUT, "", f"**{tally(of_the_paper(run.claims))}.**", "")
    yield from (f"- {name}: {fact}" for name, fact in [*facts(run), *costs(run)])
    yield from ("", "## Claims of the paper", "")
    yield from claims_table(of_the_paper(run.claims))
    if own := of_reticent(run.claims):
        yield from ("", "## Claims of reticent", "")
        yield from claims_table(own, heads=OWN_HEADS)
    for result in run.results:
        yield from _result(result)
    yield from (
        "",
        "## Errata",
        "",
        "The full text of each is in docs/explanation/errata.md of reticent.",
        "",
    )
    yield from (f"- {erratum}: {erratum_title(erratum)}" for erratum in errata_of(run.claims))


def claims_table(claims: Sequence[Claim], errata: str = "", heads: Sequence[str] = HEADS) -> Iterator[str]:
    """Claims as a table; errata become links below the address `errata`, if one is given."""
    yield _row(heads)
    yield _row(["---"] * len(heads))
    for claim in claims:
        marks = ", ".join(
            f"[{each}]({errata}#{each.lower()})" if errata else each for each in errata_of([claim])
        )
        verdict = f"{MARKS[claim.verdict]} **{claim.verdict}**"
        yield _row([claim.place, claim.says, claim.measured, verdict, claim.condition, marks])


def _result(result: Result) -> Iterator[str]:
    yield from ("", f"## {result.title}", "", result.summary)
    for picture in result.pictures:
        yield from ("", f"![{picture.caption}]({stem(result, picture)}.png)", "", f"*{picture.title}*")
    for table in result.tables:
        yield from _table(table, stem(result, table))


def _table(table: Table, file: str) -> Iterator[str]:
    right = [any(is_figure(row[place]) for row in table.rows) for place in range(len(table.columns))]
    yield from ("", f"### {table.title} ([CSV]({file}.csv))", "")
    yield _row(table.columns)
    yield _row(["---:" if figure else "---" for figure in right])
    rows, rest = first_rows(table)
    yield from (_row([shown(cell) for cell in row]) for row in rows)
    if rest:
        yield from ("", rest)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
