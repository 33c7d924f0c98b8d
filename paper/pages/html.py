"""The report as one HTML page: styles inline, pictures beside it, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from paper.errata import title as erratum_title
from paper.experiment import Claim, Picture, Result, Table, Verdict
from paper.pages.heading import ABOUT, TITLE, costs, facts
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

CLASSES = {Verdict.HOLDS: "holds", Verdict.CONDITION: "condition", Verdict.FAILS: "fails"}
HEADS = ("Place", "The paper says", "Measured", "Verdict", "Condition", "Erratum")
OWN_HEADS = ("Place", "reticent says", *HEADS[2:])


def page(run: Run) -> str:
    """The whole page."""
    style = files("paper.pages").joinpath("report.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(TITLE)}</title>",
            f"<style>\n{style}</style>",
            "</head>",
            "<body>",
            "<main>",
            *_body(run),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _body(run: Run) -> Iterator[str]:
    yield f"<h1>{escape(TITLE)}</h1>"
    yield f"<p>{escape(ABOUT)}</p>"
    yield f"<p><strong>{escape(tally(of_the_paper(run.claims)))}.</strong></p>"
    yield "<dl>"
    for name, fact in [*facts(run), *costs(run)]:
        yield f"<dt>{escape(name)}</dt><dd>{escape(fact)}</dd>"
    yield "</dl>"
    yield from _contents(run)
    yield '<h2 id="claims">Claims of the paper</h2>'
    yield from _claims(of_the_paper(run.claims))
    if own := of_reticent(run.claims):
        yield '<h2 id="own">Claims of reticent</h2>'
        yield from _claims(own, OWN_HEADS)
    for result in run.results:
        yield from _result(result)
    yield from _errata(run.claims)


def _contents(run: Run) -> Iterator[str]:
    yield '<nav aria-label="Contents"><ul>'
    yield '<li><a href="#claims">Claims of the paper</a></li>'
    if of_reticent(run.claims):
        yield '<li><a href="#own">Claims of reticent</a></li>'
    for result in run.results:
        yield f'<li><a href="#{escape(result.name)}">{escape(result.title)}</a></li>'
    yield '<li><a href="#errata">Errata</a></li>'
    yield "</ul></nav>"


def _claims(claims: Sequence[Claim], heads: Sequence[str] = HEADS) -> Iterator[str]:
    yield '<table class="claims"><thead><tr>'
    yield "".join(f'<th scope="col">{head}</th>' for head in heads)
    yield "</tr></thead><tbody>"
    for claim in claims:
        cells = (
            escape(claim.place),
            escape(claim.says),
            escape(claim.measured),
            _verdict(claim.verdict),
            escape(claim.condition),
            ", ".join(_erratum(each) for each in errata_of([claim])),
        )
        yield (
            "<tr>"
            + "".join(f'<td data-label="{head}">{cell}</td>' for head, cell in zip(heads, cells, strict=True))
            + "</tr>"
        )
    yield "</tbody></table>"


def _verdict(verdict: Verdict) -> str:
    return f'<span class="verdict {CLASSES[verdict]}">{MARKS[verdict]} {escape(verdict)}</span>'


def _erratum(erratum: str) -> str:
    return f'<a href="#{escape(erratum.lower())}">{escape(erratum)}</a>'


def _result(result: Result) -> Iterator[str]:
    yield f'<section><h2 id="{escape(result.name)}">{escape(result.title)}</h2>'
    yield f"<p>{escape(result.summary)}</p>"
    for picture in result.pictures:
        yield from _picture(picture, stem(result, picture))
    for table in result.tables:
        yield from _table(table, stem(result, table))
    yield "</section>"


def _picture(picture: Picture, file: str) -> Iterator[str]:
    name, title, caption = escape(file), escape(picture.title), escape(picture.caption)
    yield f'<figure><a href="{name}.svg"><img src="{name}.png" alt="{caption}"></a>'
    yield f"<figcaption><strong>{title}.</strong> {caption}</figcaption></figure>"


def _table(table: Table, file: str) -> Iterator[str]:
    right = [any(is_figure(row[place]) for row in table.rows) for place in range(len(table.columns))]
    yield f'<h3>{escape(table.title)} <a class="soft" href="{escape(file)}.csv">CSV</a></h3>'
    yield '<div class="scroll" tabindex="0"><table><thead><tr>'
    yield _cells("th scope=col", table.columns, right)
    yield "</tr></thead><tbody>"
    rows, rest = first_rows(table)
    for row in rows:
        yield f"<tr>{_cells('td', [shown(cell) for cell in row], right)}</tr>"
    yield "</tbody></table></div>"
    if rest:
        yield f'<p class="soft">{rest}</p>'


def _cells(tag: str, texts: Iterable[str], right: Sequence[bool]) -> str:
    name = tag.split(maxsplit=1)[0]
    return "".join(
        f"<{tag}{' class=figure' if figure else ''}>{escape(text)}</{name}>"
        for text, figure in zip(texts, right, strict=True)
    )


def errata_of(claims: Sequence[Claim]) -> list[str]:
    """The errata that claims refer to, in order."""
    found = {each.strip() for claim in claims for each in claim.erratum.split(",") if each.strip()}
    return sorted(found, key=lambda each: int(each.removeprefix("E")))


def _errata(claims: Sequence[Claim]) -> Iterator[str]:
    yield '<section><h2 id="errata">Errata</h2>'
    yield "<p>The full text of each is in docs/explanation/errata.md of reticent.</p><dl>"
    for erratum in errata_of(claims):
        yield f'<dt id="{erratum.lower()}">{erratum}</dt><dd>{escape(erratum_title(erratum))}</dd>'
    yield "</dl></section>"
