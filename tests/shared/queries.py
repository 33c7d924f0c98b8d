"""What a query of `reticent sql` has to come to, worked out from counts without SQL."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from reticent.plan import Plan
from reticent.reports import Report
from reticent_collector.estimates import estimate
from reticent_collector.stores import folded
from reticent_lake.frames import to_arrow


def raw(reports: list[Report], plan: Plan) -> pa.Table:
    """Reports as a lake's files and paths have them, after rows of another plan and of another version."""
    table = to_arrow(reports, plan)
    names, versions = [plan.name] * len(table), [plan.version] * len(table)
    others = table.slice(0, 20)
    place = others.schema.get_field_index("id_low")
    others = others.set_column(place, "id_low", pc.bit_wise_xor(others["id_low"], pa.scalar(1)))
    table = pa.concat_tables([table, others.cast(table.schema)])
    names, versions = [*names, *["other"] * 10, *names[:10]], [*versions, *versions[:10], *[9] * 10]
    return table.append_column("plan", pa.array(names)).append_column("version", pa.array(versions))


def expected(plan: Plan, counts: dict[Any, Any]) -> dict[Any, Any]:
    """By round, segment, metric and bucket: hits, reports and value, from counts folded as for all readers."""
    by_round: dict[int, Any] = {}
    for (number, tags), by_metric in counts.items():
        by_round.setdefault(number, {})[tags] = by_metric
    figures = {}
    for number, by_tags in by_round.items():
        shown = folded(plan, by_tags)
        totals: dict[tuple[str, str], Any] = {}
        for tags, by_metric in shown.items():
            named = zip([segment.name for segment in plan.segments], tags, strict=True)
            for segment in ({}, *({name: tag} for name, tag in named)):
                for metric, total in by_metric.items():
                    cell = json.dumps(segment, separators=(",", ":")), metric
                    totals[cell] = totals[cell] + total if cell in totals else total
        for (segment, name), total in totals.items():
            if not total.devices:
                continue
            metric = plan.by_name[name]
            hits, reports = metric.mechanism.hits(*zip(*(row[1:] for row in total.rows()), strict=True))
            values = estimate(metric, total)
            numbers = values.buckets if metric.mechanism.buckets else (values,)  # type: ignore[union-attr]
            for bucket, one in enumerate(numbers):
                place = bucket if metric.mechanism.buckets else None
                value = pytest.approx(one.value, rel=1e-9, abs=1e-12) if one.reports else None
                figures[number, segment, name, place] = int(hits[bucket]), int(reports[bucket]), value
    return figures


def found(rows: list[dict[str, Any]]) -> dict[Any, Any]:
    return {
        (row["round"], row["segment"], row["metric"], row["bucket"]): (
            row["hits"],
            row["reports"],
            row["value"],
        )
        for row in rows
    }
