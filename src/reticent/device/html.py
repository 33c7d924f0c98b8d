"""A receipt in a notebook: the same words and figures as its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reticent.html import Safe, figure, folded, note, page, table

if TYPE_CHECKING:
    from reticent.device.receipt import Receipt, Told

SHOWN = 12
"""So many of the latest reports are in sight; the earlier ones unfold."""


def receipt_html(receipt: Receipt) -> Safe:
    """What was sent, then what that may have told. No report is left out: the older ones unfold."""
    count = len(receipt.reports)
    title = f"Receipt for plan {receipt.plan}: {count} report{'s' * (count != 1)}"
    return page(
        *([note(receipt.problem)] if receipt.problem else []),
        _reports(title, receipt.reports[-SHOWN:]),
        *_earlier(receipt.reports[:-SHOWN]),
        _losses(receipt),
        *(
            note(f"Epoch {epoch.number} began in round {epoch.began_in}: {epoch.reason}")
            for epoch in receipt.epochs
        ),
    )


def _earlier(reports: Sequence[Told]) -> list[Safe]:
    if not reports:
        return []
    title = f"{len(reports)} earlier report{'s' * (len(reports) > 1)}"
    return [folded(title, _reports(title, reports))]


def _reports(title: str, reports: Sequence[Told]) -> Safe:
    """One row per report, one column per metric; a metric that a version did not ask about is left blank."""
    metrics = list(dict.fromkeys(name for told in reports for name in told.bits))
    rows = (
        [
            told.round,
            f"v{told.version}",
            told.state + (f" ({told.code})" if told.code else ""),
            *(told.bits.get(name, "") for name in metrics),
        ]
        for told in reports
    )
    return table(title, ["round", "version", "state", *metrics], rows)


def _losses(receipt: Receipt) -> Safe:
    rows = (
        [
            entry.metric,
            entry.epoch,
            figure(entry.loss),
            figure(entry.lifetime),
            "all, its file was lost" if entry.lost else entry.classes_seen,
        ]
        for entry in receipt.losses
    )
    return table(
        "What they may have told",
        ["metric", "epoch", "loss so far", "at most", "remembered answers used"],
        rows,
        totals=[["together", "", figure(receipt.total_loss), figure(receipt.total_lifetime), ""]],
    )
