"""Reports to estimates as one SQL query, for engines in which reticent does not run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log
from typing import Any

import numpy as np

from reticent.errors import ParameterError
from reticent.mechanisms import COHORTS
from reticent.plan import Plan
from reticent_collector.stores import FEW
from reticent_lake.store import Columns, asked_place, bit_place

RULE = "hoeffding"  # SQL has no beta quantile, so no Clopper-Pearson interval

_TIMES = {
    "duckdb": ("EPOCH(CURRENT_TIMESTAMP)", "MAKE_TIMESTAMP(({}) * 1000000)"),
    "postgres": ("EXTRACT(EPOCH FROM CURRENT_TIMESTAMP)", "TO_TIMESTAMP({})"),
    "spark": ("UNIX_TIMESTAMP()", "TIMESTAMP_SECONDS({})"),
    "bigquery": ("UNIX_SECONDS(CURRENT_TIMESTAMP())", "TIMESTAMP_SECONDS({})"),
    "snowflake": ("DATE_PART(EPOCH_SECOND, CURRENT_TIMESTAMP())", "TO_TIMESTAMP_TZ({})"),
}
# By dialect: the current unix seconds, and the time of unix seconds. sqlglot translates the rest.
DIALECTS = tuple(_TIMES)

_DIGITS = 3  # of a row's number inside a string
_MOST_ROWS = 10**_DIGITS


def counting_query(
    plan: Plan, dialect: str = "duckdb", table: str = "reports", confidence: float = 0.95
) -> str:
    """
    The query that turns a table of raw reports on `plan` into estimates, a row per number.

    `table` is a table, or anything else that can follow FROM in the dialect, with the columns of a lake
    (`docs/reference/lake.md`): those of its files, and `plan`, `version` and `round` of its paths. It counts the
    rounds whose grace is over, each id once by its smallest row, as a seal does. Groups of fewer than
    `min_reports` reports join others as for every reader, and a round with fewer has no figure.

    Values are those of `reticent_collector.estimates.estimate`, from the same integers. Intervals are Hoeffding's,
    simultaneous for all buckets of a histogram, and hold for any number of reports. They are about 1.2 to 1.6
    times as wide as those of `estimate`.
    """
    import sqlglot
    from sqlglot import exp

    if dialect not in DIALECTS:
        raise ParameterError("dialect", f"one of {', '.join(DIALECTS)}", dialect)
    if not 0 < confidence < 1:
        raise ParameterError("confidence", "a number between 0 and 1, both excluded", confidence)
    try:
        source = sqlglot.parse_one(table, read=dialect, into=exp.Table)
    except sqlglot.errors.SqlglotError as error:
        raise ParameterError("table", f"a table, as it stands after FROM in {dialect}", table) from error
    now, time = _TIMES[dialect]

    def in_dialect(node: Any) -> Any:
        """The table, and what sqlglot does not translate."""
        if isinstance(node, exp.Table) and node.name == "all_reports":
            return source
        if isinstance(node, exp.Anonymous) and node.name.lower() == "unix_now":
            return sqlglot.parse_one(now, read=dialect)
        if isinstance(node, exp.Anonymous) and node.name.lower() == "time_of":
            return sqlglot.parse_one(time.format(node.expressions[0].sql(dialect)), read=dialect)
        return node

    query = sqlglot.parse_one(_query(plan, confidence), read="duckdb").transform(in_dialect)
    about = (
        f"Estimates of {plan.name} version {plan.version}, rounds whose grace is over. Interval: Hoeffding, "
        f"{confidence:.6g}. Groups: at least {plan.min_reports} reports."
    )
    return f"-- {about}\n{query.sql(dialect, pretty=True)}"


def _query(plan: Plan, confidence: float) -> str:
    """The query in the dialect of DuckDB, with placeholders where dialects differ."""
    tags = [f"tag_{place}" for place in range(len(plan.segments))]
    steps = {
        **_tallying(plan, tags),
        **_folding(plan, tags),
        **_counting(plan, tags),
        "buckets": f"""
            SELECT * FROM (VALUES {", ".join(_points(plan))})
            AS buckets(metric, bucket, bucket_low, bucket_high, label, signs)""",
        "hits": """
            SELECT round, segment, metric, bucket, bucket_low, bucket_high, label,
                SUM(CASE sign WHEN '+' THEN ones WHEN '-' THEN reports - ones ELSE 0 END) AS hits,
                SUM(CASE WHEN sign = '.' THEN 0 ELSE reports END) AS reports
            FROM (
                SELECT round, segment, counts.metric AS metric, reports, ones, bucket, bucket_low, bucket_high,
                    label, SUBSTRING(signs, row_number + 1, 1) AS sign
                FROM counts JOIN buckets ON counts.metric = buckets.metric
            ) AS signed
            GROUP BY round, segment, metric, bucket, bucket_low, bucket_high, label
            HAVING SUM(reports) > 0""",
        "metrics": f"""
            SELECT * FROM (VALUES {", ".join(_metrics(plan, confidence))})
            AS metrics(metric, name, kind, unit, top, low, contrast, tail)""",
        "figures": """
            SELECT hits.*, name, kind, unit, CAST(top AS DOUBLE) AS top,
                CASE WHEN reports > 0 THEN CAST(top AS DOUBLE)
                    * (CAST(hits AS DOUBLE) / NULLIF(reports, 0) - CAST(low AS DOUBLE)) / CAST(contrast AS DOUBLE)
                END AS value,
                CASE WHEN reports > 0 THEN CAST(top AS DOUBLE) / CAST(contrast AS DOUBLE)
                    * SQRT(CAST(tail AS DOUBLE) / NULLIF(reports, 0)) ELSE CAST(top AS DOUBLE) / 2
                END AS half_width
            FROM hits JOIN metrics ON hits.metric = metrics.metric""",
    }
    defined = ",\n".join(f"{name} AS ({text})" for name, text in steps.items())
    return f"""
        WITH {defined}
        SELECT {_text(plan.name)} AS plan, {plan.version} AS version, name AS metric, kind, unit,
            'round' AS every, TIME_OF({_start(plan)}) AS start_time,
            TIME_OF({_start(plan)} + {plan.round_seconds}) AS end_time, 'open' AS state, segment,
            bucket, CAST(bucket_low AS DOUBLE) AS bucket_low, CAST(bucket_high AS DOUBLE) AS bucket_high, label,
            value,
            CASE WHEN reports > 0 THEN GREATEST(0, LEAST(top, value - half_width)) ELSE 0 END AS lower,
            CASE WHEN reports > 0 THEN GREATEST(0, LEAST(top, value + half_width)) ELSE top END AS upper,
            CAST({confidence!r} AS DOUBLE) AS confidence, CAST(reports AS BIGINT) AS reports, half_width,
            '{RULE}' AS rule, round, CAST(hits AS BIGINT) AS hits
        FROM figures ORDER BY round, figures.metric, segment, bucket"""


def _tallying(plan: Plan, tags: Sequence[str]) -> dict[str, str]:
    """Each report once, and ones at each place by round, tags and cohort."""
    columns = [_column(field.name) for field in Columns(plan).fields[2:]]
    keys = ["round", *tags]
    ones = [_bit(*bit_place(plan, bit)) for bit in range(plan.bits)]
    asked = [_bit(*asked_place(plan, number)) for number in _asked(plan)]
    cohort = "cohort" if plan.uses_cohort else "0"
    # Codes to ranks: the place of a tag in the order that decides ties between groups.
    ranks = [
        _case(f"LEAST({_column(f'segment_{segment.name}')}, {len(segment.tags) - 1})",
              enumerate(map(_order(segment.tags).index, segment.tags)))
        for segment in plan.segments
    ]  # fmt: skip
    return {
        "one_each": f"""
            SELECT * FROM (
                SELECT {_list("round", *columns)}, ROW_NUMBER() OVER (
                    PARTITION BY round, id_high, id_low ORDER BY {_list(*columns)}) AS copy
                FROM all_reports
                WHERE plan = {_text(plan.name)} AND version = {plan.version}
                AND {_start(plan)} + {plan.round_seconds + plan.grace_seconds} <= UNIX_NOW()
            ) AS copies WHERE copy = 1""",
        "tagged": f"""
            SELECT {_list("round", *map(_named, ranks, tags), f"{cohort} AS cohort")},
                {_list(*(f"{bit} AS one_{n}" for n, bit in enumerate(ones)))}
                {"".join(f", {bit} AS was_asked_{n}" for n, bit in enumerate(asked))}
            FROM one_each""",
        "tallies": f"""
            SELECT {_list(*keys, "cohort", "COUNT(*) AS reports")},
                {_list(*(f"SUM(one_{n}) AS ones_{n}" for n in range(len(ones))))}
                {"".join(f", SUM(was_asked_{n}) AS asked_{n}" for n in range(len(asked)))}
            FROM tagged GROUP BY {_list(*keys, "cohort")}""",
    }


def _start(plan: Plan) -> str:
    """When a round starts."""
    first = plan.round(0).start  # not 0 for rounds of whole weeks
    return f"round * {plan.round_seconds}" + (f" + {first}" if first else "")


def _asked(plan: Plan) -> range:
    """The numbers of the metrics, where a report says which of them it answers."""
    return range(len(plan.metrics) if plan.asked_bytes else 0)


def _counting(plan: Plan, tags: Sequence[str]) -> dict[str, str]:
    """Reports and ones by round, segment, metric and row: each place of a report, sorted into its row."""
    keys = ["round", *tags]
    asked = _asked(plan)
    answers = ", ".join(
        f"({number}, {bit}, {len(rows) // _DIGITS}, '{rows}')" for number, bit, rows in _places(plan)
    )
    reports = _case("answers.metric", ((n, f"asked_{n}") for n in asked)) if asked else "reports"
    labels = [
        _case(f"shown_{place}", ((rank, _text(json.dumps({segment.name: tag}, separators=(",", ":"))))
                                 for rank, tag in enumerate(_order(segment.tags))))
        for place, segment in enumerate(plan.segments)
    ]  # fmt: skip
    parts = ", ".join(f"({part})" for part in range(len(plan.segments) + 1))
    return {
        "answers": f"SELECT * FROM (VALUES {answers}) AS answers(metric, bit, period, places)",
        "parts": f"SELECT * FROM (VALUES {parts}) AS parts(part)",
        "counts": f"""
            SELECT groups_shown.round AS round, {_case("part", enumerate(["'{}'", *labels]))} AS segment, metric,
                CAST(SUBSTRING(places, {_DIGITS} * (cohort % period) + 1, {_DIGITS}) AS INT) AS row_number,
                SUM({reports}) AS reports,
                SUM({_case("bit", ((n, f"ones_{n}") for n in range(plan.bits)))}) AS ones
            FROM tallies
            JOIN groups_shown ON {" AND ".join(f"tallies.{name} = groups_shown.{name}" for name in keys)}
            CROSS JOIN answers CROSS JOIN parts
            GROUP BY 1, 2, 3, 4""",
    }


def _folding(plan: Plan, tags: Sequence[str]) -> dict[str, str]:
    """The groups of tags that are shown, step by step as in `reticent_collector.stores.folded`."""
    least = plan.min_reports
    shown = [f"shown_{place}" for place in range(len(tags))]
    keys, group = _list("round", *tags), _list("round", *shown)
    few = [_order(segment.tags).index(FEW) for segment in plan.segments]
    steps = {
        "combinations": f"""
            SELECT {_list(keys, *map(_named, tags, shown), "SUM(reports) AS reports")}
            FROM tallies GROUP BY {keys}"""
    }
    latest = "combinations"
    if least > 1 and tags:
        for place in reversed(range(len(tags))):
            enough = f"SUM(reports) OVER (PARTITION BY {group}) >= {least}"
            kept = (
                name if n < place else f"CASE WHEN {enough} THEN {name} ELSE {few[n]} END AS {name}"
                for n, name in enumerate(shown)
            )
            steps[f"folded_{place}"] = f"SELECT {_list(keys, *kept, 'reports')} FROM {latest}"
            latest = f"folded_{place}"
        is_rest = " AND ".join(f"{name} = {rank}" for name, rank in zip(shown, few, strict=True))
        steps["sized"] = f"""
            SELECT {_list(keys, *shown, "reports")}, CASE WHEN {is_rest} THEN 1 ELSE 0 END AS is_rest,
                SUM(reports) OVER (PARTITION BY {group}) AS size,
                SUM(CASE WHEN {is_rest} THEN reports ELSE 0 END) OVER (PARTITION BY round) AS rest
            FROM {latest}"""
        steps["ordered"] = f"""
            SELECT *, DENSE_RANK() OVER (PARTITION BY round ORDER BY {_list("is_rest", "size", *shown)}) AS place
            FROM sized"""
        joins = f"place = 1 AND rest > 0 AND rest < {least}"
        joined = (
            f"CASE WHEN {joins} THEN {rank} ELSE {name} END AS {name}"
            for name, rank in zip(shown, few, strict=True)
        )
        steps["joined"] = f"SELECT {_list(keys, *joined, 'reports')} FROM ordered"
        latest = "joined"
    steps["groups_shown"] = f"""
        SELECT {_list(keys, *shown)} FROM (
            SELECT {_list(keys, *shown)}, SUM(reports) OVER (PARTITION BY {group}) AS size FROM {latest}
        ) AS groups_sized WHERE size >= {least}"""
    return steps


def _places(plan: Plan) -> Iterable[tuple[int, int, str]]:
    """Per answer bit its metric and, for cohorts in turn until they repeat, its row."""
    bit = 0
    for number, metric in enumerate(plan.metrics):
        if metric.mechanism.row_count > _MOST_ROWS:
            raise ParameterError(
                f"{metric.name}: rows", f"at most {_MOST_ROWS} for SQL", metric.mechanism.row_count
            )
        rows = [metric.mechanism.rows_of(cohort) for cohort in range(COHORTS)]
        period = next(
            n for n in range(1, COHORTS + 1) if COHORTS % n == 0 and rows == rows[:n] * (COHORTS // n)
        )
        for place in range(metric.bits):
            yield number, bit, "".join(f"{row[place]:0{_DIGITS}}" for row in rows[:period])
            bit += 1


def _points(plan: Plan) -> Iterable[str]:
    """Per mean or bucket, what a row of the counts adds to its hits: + its ones, - its zeros, . nothing."""
    for number, metric in enumerate(plan.metrics):
        size = metric.mechanism.row_count
        rows = np.eye(size, dtype=np.int64)
        none = np.zeros((size, size), dtype=np.int64)
        of_ones, among = metric.mechanism.hits(rows, rows)
        of_zeros, _ = metric.mechanism.hits(rows, none)
        signs = {(1, 0, 1): "+", (0, 1, 1): "-", (0, 0, 0): "."}
        ranges = [*pairwise(map(float, metric.mechanism.points))]
        for bucket, label in enumerate(metric.bucket_labels):
            cells = zip(
                of_ones[bucket], of_zeros[bucket], np.broadcast_to(among, of_ones.shape)[bucket], strict=True
            )
            try:
                text = "".join(signs[int(one), int(zero), int(report)] for one, zero, report in cells)
            except KeyError:
                expected = "one whose hits are sums of ones and zeros"
                raise ParameterError(f"{metric.name}: mechanism", expected, metric.mechanism.name) from None
            is_mean = metric.mechanism.buckets is None
            low, high = (None, None) if label or is_mean else ranges[bucket]
            yield (f"({number}, {'NULL' if is_mean else bucket}, {_double(low)}, {_double(high)}, "
                   f"{_text(label) if label else 'NULL'}, '{text}')")  # fmt: skip


def _metrics(plan: Plan, confidence: float) -> Iterable[str]:
    """Name, kind, unit, range, channel, and t² · n of Hoeffding's P(|S/n - p| >= t) <= 2 exp(-2nt²)."""
    for number, metric in enumerate(plan.metrics):
        channel, mechanism = metric.channel, metric.mechanism
        tail = log(2 * mechanism.intervals / (1 - confidence)) / 2
        words = _text(metric.name), _text(metric.kind), _text(metric.unit) if metric.unit else "NULL"
        numbers = metric.top, float(channel.low), float(channel.contrast), tail
        yield f"({_list(str(number), *words, *map(_double, numbers))})"


def _order(tags: Sequence[str]) -> list[str]:
    return sorted((*tags, FEW))


def _column(name: str) -> str:
    """A column, in quotes only where its name needs them: some dialects know the others in any case."""
    return f'"{name}"' if "-" in name else name


def _bit(column: str, shift: int) -> str:
    """A bit of a number that is not negative: a remainder and a comparison are exact in every engine."""
    return f"CASE WHEN {column} % {2 << shift} >= {1 << shift} THEN 1 ELSE 0 END"


def _case(value: str, results: Iterable[tuple[int, object]]) -> str:
    return f"CASE {value} {' '.join(f'WHEN {key} THEN {result}' for key, result in results)} END"


def _named(expression: str, name: str) -> str:
    return f"{expression} AS {name}"


def _list(*expressions: str) -> str:
    return ", ".join(filter(None, expressions))


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _double(number: float | None) -> str:
    """With an exponent, which makes it floating point in every dialect."""
    return "NULL" if number is None else f"{number:.17e}".replace("e", "E")
