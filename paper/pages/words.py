"""Figures and words as people read them; files for programs have all digits."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from paper.experiment import Claim, Picture, Result, Table, Verdict

MOST_ROWS = 60
"""Rows of a table that a page shows; the CSV file has all of them."""

MARKS = {Verdict.HOLDS: "✓", Verdict.CONDITION: "~", Verdict.FAILS: "✗"}
"""Beside the word, for who sees no colours."""


def shown(cell: object) -> str:
    """
    A cell of a table.

    >>> shown(3_000_000), shown(0.123456), shown(True), shown("m/2"), shown(86400.25)
    ('3,000,000', '0.1235', 'yes', 'm/2', '86,400')
    """
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return _figure(cell)
    return str(cell)


def _figure(number: float) -> str:
    if math.isnan(number):
        return "–"
    if math.isinf(number):
        return "no bound"
    if number == int(number) and abs(number) < 1e6:
        return f"{int(number):,}"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def stem(result: Result, part: Table | Picture) -> str:
    """
    The file name of a table or picture, without its ending: that of its experiment comes first.

    >>> stem(Result("fig3", "", ""), Table("supports", "", (), ()))
    'fig3-supports'
    """
    return part.name if part.name.startswith(result.name) else f"{result.name}-{part.name}"


def first_rows(table: Table) -> tuple[tuple[tuple[object, ...], ...], str]:
    """The rows that a page shows, and a word on those it leaves to the CSV file."""
    left = len(table.rows) - MOST_ROWS
    return table.rows[:MOST_ROWS], f"{left:,} more rows are in the CSV file." if left > 0 else ""


def is_figure(cell: object) -> bool:
    """Whether a cell is aligned to the right."""
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def tally(claims: Sequence[Claim]) -> str:
    """
    How many claims ended how.

    >>> tally([Claim("§1", "", "", Verdict.HOLDS), Claim("§2", "", "", Verdict.FAILS)])
    '2 claims: 1 holds, 0 hold under a condition, 1 does not hold'
    """
    counts = {verdict: sum(claim.verdict is verdict for claim in claims) for verdict in Verdict}
    holds, condition, fails = (counts[verdict] for verdict in Verdict)
    words = [
        f"{holds} {'holds' if holds == 1 else 'hold'}",
        f"{condition} {'holds' if condition == 1 else 'hold'} under a condition",
        f"{fails} {'does' if fails == 1 else 'do'} not hold",
    ]
    return f"{len(claims)} claim{'s' * (len(claims) != 1)}: {', '.join(words)}"


def of_the_paper(claims: Sequence[Claim]) -> list[Claim]:
    """Claims that stand in the paper, in its order; their place begins with a §."""
    return in_order([claim for claim in claims if claim.place.startswith("§")])


def of_reticent(claims: Sequence[Claim]) -> list[Claim]:
    """Claims of reticent's own, beside the paper's."""
    return [claim for claim in claims if not claim.place.startswith("§")]


def in_order(claims: Sequence[Claim]) -> list[Claim]:
    """Claims in the order of their places in the paper; those of one place stay as they are."""
    return sorted(claims, key=lambda claim: _place(claim.place))


def _place(place: str) -> tuple[int, ...]:
    found = re.search(r"\d+(?:\.\d+)*", place)
    return tuple(int(part) for part in found.group().split(".")) if found else (99,)


def duration(seconds: float) -> str:
    """
    A length of time.

    >>> duration(3.21), duration(204)
    ('3.2 s', '3 min 24 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"
