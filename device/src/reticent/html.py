"""
Small HTML tables for notebooks (`_repr_html_`), with all text escaped.

Each is self-contained: no style sheet, no script, no background. Text takes the colour of the page, so light and
dark both work; captions and header scopes serve screen readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_LINE = "1px solid rgba(128,128,128,.5)"
_CAPTION = "text-align:left;font-weight:bold;padding:2px 0;white-space:nowrap"


class Safe(str):
    """Text that is HTML already; all other text is escaped."""

    __slots__ = ()


def safe(piece: object) -> Safe:
    """
    A piece as HTML.

    >>> safe("<script>"), safe(Safe("<b>bold</b>"))
    ('&lt;script&gt;', '<b>bold</b>')
    """
    return piece if isinstance(piece, Safe) else Safe(escape(str(piece)))


def table(
    caption: object,
    columns: Sequence[object],
    rows: Iterable[Sequence[object]],
    totals: Iterable[Sequence[object]] = (),
) -> Safe:
    """
    A table: the first cell of a row is its header, the others are figures; `totals` stand below a line.

    Without `columns` there is no head.

    >>> print(table("Heights", ["who", "cm"], [["Ada", 165]]).count('scope="row"'))
    1
    """
    names = "".join(_cell("th", column, place, ' scope="col"') for place, column in enumerate(columns))
    head = f'<thead><tr style="border-bottom:{_LINE}">{names}</tr></thead>' if names else ""
    last = "".join(map(_row, totals))
    foot = f'<tfoot style="border-top:{_LINE}">{last}</tfoot>' if last else ""
    return Safe(
        '<table style="border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.3em 0">'
        f'<caption style="{_CAPTION}">{safe(caption)}</caption>'
        f"{head}<tbody>{''.join(map(_row, rows))}</tbody>{foot}</table>"
    )


def page(*parts: Safe) -> Safe:
    """Tables and notes, one below the other."""
    return Safe(f"<div>{''.join(parts)}</div>")


def note(text: object) -> Safe:
    """A line of small print."""
    return Safe(f'<p style="margin:.3em 0"><small>{safe(text)}</small></p>')


def details(summary: object, inside: Safe) -> Safe:
    """Content that opens on a click."""
    return Safe(f'<details><summary style="cursor:pointer">{safe(summary)}</summary>{inside}</details>')


def _row(cells: Sequence[object]) -> str:
    first = _cell("th", cells[0], 0, ' scope="row"')
    return f"<tr>{first}{''.join(_cell('td', cell, 1) for cell in cells[1:])}</tr>"


def _cell(tag: str, content: object, place: int, scope: str = "") -> str:
    align = "right" if place else "left"
    return f'<{tag}{scope} style="text-align:{align};padding:1px 10px 1px 0">{safe(content)}</{tag}>'


# A page that a program opens for its user: one file, no script, nothing loaded, light or dark

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5a6675; --line: #d9dee5; --card: #fff; --ground: #f5f6f8;
  --mark: #1f5fbf; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8ebf0; --soft: #a3adba; --line: #333c48; --card: #1b212a; --ground: #12161c; --mark: #8db8ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p { margin: .4rem 0; max-width: 46rem; }
.soft { color: var(--soft); }
.cards { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fit, minmax(min(18rem, 100%), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem; }
.card h3 { font-size: 1rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
.card p { margin: .2rem 0; font-size: .92rem; }
.bits { font: 600 1.05rem ui-monospace, Menlo, Consolas, monospace; color: var(--mark); overflow-wrap: anywhere; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem;
  margin: .6rem 0; white-space: pre-wrap; overflow-wrap: anywhere;
  font: .88rem/1.5 ui-monospace, Menlo, Consolas, monospace; }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .45rem .8rem; border-top: 1px solid var(--line); white-space: nowrap; }
thead th { border-top: 0; color: var(--soft); font-weight: 600; }
tbody th { font-weight: 500; }
@media (max-width: 40rem) { tbody th { white-space: normal; min-width: 8rem; } }
details { margin-top: .6rem; } summary { cursor: pointer; color: var(--mark); }
"""


def document(title: object, introduction: Iterable[object], *parts: Safe) -> str:
    """A whole page."""
    lead = "".join(f'<p class="soft">{safe(line)}</p>' for line in introduction)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{safe(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{safe(title)}</h1>{lead}{''.join(parts)}</main></body></html>\n"
    )


def section(heading: object, *parts: Safe) -> Safe:
    """A part of the page under its heading."""
    return Safe(f"<section><h2>{safe(heading)}</h2>{''.join(parts)}</section>")


def paragraph(text: object) -> Safe:
    """A paragraph."""
    return Safe(f"<p>{safe(text)}</p>")


def literal(text: object) -> Safe:
    """Text as it is, in letters of one width."""
    return Safe(f"<pre>{safe(text)}</pre>")


def cards(entries: Iterable[tuple[object, str, Sequence[object]]]) -> Safe:
    """Boxes side by side, each with a heading, optional bits, and lines of text."""
    boxes = []
    for heading, bits, lines in entries:
        of_bits = f'<p class="bits">{safe(bits)}</p>' if bits else ""
        text = "".join(f"<p>{safe(line)}</p>" for line in lines)
        boxes.append(f'<article class="card"><h3>{safe(heading)}</h3>{of_bits}{text}</article>')
    return Safe(f'<div class="cards">{"".join(boxes)}</div>')


def wide(inside: Safe) -> Safe:
    """Tables that scroll by themselves where they are wider than the page."""
    return Safe(f'<div class="wide" tabindex="0">{inside}</div>')
