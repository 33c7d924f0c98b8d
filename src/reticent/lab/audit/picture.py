"""A picture of an audit: what each attack found, as a share of its claim."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reticent.lab.audit.auditing import Audit
from reticent.plots import COLOURS, drawing, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDEST = 1.6
"""Where bars are cut off, in claims."""


@drawing
def draw(found: Audit) -> Figure:
    """
    Each attack on answer bits: the exact loss, and the estimate between its two bounds, over the claim.

    A left end to the right of 1 is proof, at the audit's confidence, that the claim is broken. Attacks
    without a finite claim are left out.
    """
    rows = [each for each in found.attacks if each.exact is not None and 0 < each.claim < math.inf][::-1]
    figure, (axes,) = panels(width=8.0, height=1.4 + 0.22 * len(rows))
    widest = max([_WIDEST, *(1.1 * row.lower / row.claim for row in rows)])
    for place, row in enumerate(rows):
        lower, middle, upper = (
            min(max(share, 0.0), widest)
            for share in (row.lower / row.claim, row.estimate / row.claim, row.upper / row.claim)
        )
        axes.errorbar(
            middle, place, xerr=[[middle - lower], [upper - middle]], capsize=2,
            fmt="o", markersize=4, color=COLOURS[1] if row.above else COLOURS[0],
            label="attack: estimate between its bounds" if place == 0 else None,
        )  # fmt: skip
    axes.scatter(
        [(row.exact or 0.0) / row.claim for row in rows], range(len(rows)),
        marker="x", s=26, color=COLOURS[2], label="exact, by enumeration", zorder=4,
    )  # fmt: skip
    axes.axvline(1, color=COLOURS[7], linewidth=1, label="claim")
    labels = [f"{row.subject}: {row.what}  ({row.claim:.3g})" for row in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=8)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlim(0, widest)
    axes.set_xlabel("loss as a share of its claim (the claim, in epsilon, stands in brackets)")
    axes.grid(visible=False, axis="y")
    figure.suptitle(
        f"{found.plan} (version {found.version}), {found.reports:,} reports. "
        f"All bounds hold together with confidence 1 - {found.false_alarm:g}",
        fontsize=10,
    )
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure
