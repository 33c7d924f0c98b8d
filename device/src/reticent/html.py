"""
Small HTML tables for notebooks (`_repr_html_`), with all text escaped.

Each is self-contained: no style sheet, no script, no background. Text and bars take the colour of the page, so light
and dark both work; captions and header scopes serve screen readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import isnan

__all__ = ["Safe", "bar", "details", "note", "page", "safe", "table", "under"]

_LINE = "1px solid rgba(128,128,128,.5)"
_CAPTION = "text-align:left;font-weight:bold;padding:2px 0;white-space:nowrap"
_BAR_WIDTH, _BAR_HEIGHT = 160, 12


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


def under(name: object, more: object) -> Safe:
    """A name with a line of small print below, if there is any."""
    small = f'<br><small style="font-weight:normal">{safe(more)}</small>' if more else ""
    return Safe(safe(name) + small)


def bar(value: float, lower: float, upper: float, scale: tuple[float, float]) -> Safe:
    """
    A value as a bar from 0, with its interval as a line across it; bars of one `scale` compare.

    It is hidden from screen readers: the figures stand in the same row.
    """
    low, high = min(scale[0], 0.0), max(scale[1], 0.0)
    unit = (_BAR_WIDTH - 2) / ((high - low) or 1.0)

    def place(number: float) -> float:
        return 1 + (min(max(number, low), high) - low) * unit

    left, right = sorted((place(0.0), place(0.0 if isnan(value) else value)))
    middle = _BAR_HEIGHT / 2
    ends = (place(lower), place(upper))
    path = f"M{ends[0]:.1f} {middle:g}H{ends[1]:.1f}" + "".join(f"M{end:.1f} 2V10" for end in ends)
    return Safe(
        f'<svg width="{_BAR_WIDTH}" height="{_BAR_HEIGHT}" aria-hidden="true"'
        ' style="display:block;max-width:none">'
        f'<rect x="{left:.1f}" y="3" width="{right - left:.1f}" height="6" fill="currentColor"'
        ' fill-opacity=".35"/>'
        f'<path d="{path}" stroke="currentColor" stroke-width="1.5" fill="none"/></svg>'
    )


def _row(cells: Sequence[object]) -> str:
    first = _cell("th", cells[0], 0, ' scope="row"')
    return f"<tr>{first}{''.join(_cell('td', cell, 1) for cell in cells[1:])}</tr>"


def _cell(tag: str, content: object, place: int, scope: str = "") -> str:
    align = "right" if place else "left"
    return f'<{tag}{scope} style="text-align:{align};padding:1px 10px 1px 0">{safe(content)}</{tag}>'
