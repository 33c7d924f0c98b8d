"""The tables and views of a store in a database, each column with its type and meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from reticent_collector.columns import COLUMNS, COMPARISON, FIGURE, QUANTILES, Column

SCHEMA_VERSION = 9
OLDEST_SCHEMA = 3  # of version 0.1.0; `reticent_collector.stores.migrations` has the steps from it
_RESULT_TYPES = {
    "text": "TEXT",
    "int64": "INTEGER",
    "float64": "REAL",
    "timestamp": "TIME",
    "json": "JSON",
    "bool": "BOOLEAN",
}
# Columns of results that may be empty; those of a whole figure are so in rows of schema 3.
_EMPTY = ("bucket", "bucket_low", "bucket_high", "label", "value", *FIGURE)
_EMPTY_IN_COMPARISONS = ("bucket", "bucket_low", "bucket_high", "label", "figure", "baseline", "difference")


def _columns(columns: Sequence[Column], empty: Sequence[str]) -> str:
    return "\n".join(
        f"    {column.name} {_RESULT_TYPES[column.type]}{'' if column.name in empty else ' NOT NULL'}"
        f"{',' if column is not columns[-1] else ''} -- {column.meaning}"
        for column in columns
    )


_ABOUT = "plan, version, metric, kind, unit, every, start_time, end_time, segment, rounds, rounds_missing, versions"
_LEVELS = " UNION ALL ".join(
    f"SELECT {_ABOUT}, {level} AS level, {name}_lower AS lower, {name}_upper AS upper, confidence, reports"  # noqa: S608
    f" FROM results WHERE bucket = 0 AND {name}_lower IS NOT NULL"
    for level, name in QUANTILES.items()
)
_PERIODS, _TAGS = (
    ", ".join(column.name for column in COMPARISON if column.name not in left_out)
    for left_out in (("baseline_segment",), ("against", "baseline_start_time", "baseline_end_time"))
)
VIEWS = {
    "quantiles": _LEVELS,
    "changes": f"SELECT {_PERIODS} FROM comparisons WHERE against <> 'tag'",  # noqa: S608
    "differences": f"SELECT {_TAGS} FROM comparisons WHERE against = 'tag'",  # noqa: S608
}
"""The queries of views of the tables of results and comparisons."""

_SCHEMA = """
CREATE TABLE plans (               -- every plan ever served
    name    TEXT NOT NULL,         -- plan.name
    version INTEGER NOT NULL,      -- plan.version
    text    TEXT NOT NULL,         -- plan.toml, unchanged
    PRIMARY KEY (name, version)
);
CREATE TABLE rounds (              -- rounds that got at least one report
    id         INTEGER PRIMARY KEY, -- number of the table of its records, which exists until it is sealed
    plan       TEXT NOT NULL,      -- plan.name
    version    INTEGER NOT NULL,   -- plan.version
    round      INTEGER NOT NULL,   -- unix seconds / round length
    start_time TIME NOT NULL,      -- when it begins, UTC
    end_time   TIME NOT NULL,      -- when it ends, UTC
    state      TEXT NOT NULL,      -- open, closing (being counted), sealed, pruned (its counts were removed)
    reports    INTEGER NOT NULL,   -- distinct reports, once sealed; 0 before, and when pruned
    UNIQUE (plan, version, round)
);
CREATE TABLE counts (              -- sealed rounds; never changed
    round_id INTEGER NOT NULL REFERENCES rounds (id), -- rounds.id
    metric   TEXT NOT NULL,        -- the metric's name in the plan
    tags     TEXTS NOT NULL,       -- a list, one public tag per segment of the plan
    reports  INTEGERS NOT NULL,    -- a list: reports, per row of the mechanism
    ones     INTEGERS NOT NULL,    -- a list: reports that answered 1, per row
    PRIMARY KEY (round_id, metric, tags)
) WITHOUT ROWID;
CREATE TABLE steps (               -- what readers are shown of open rounds; removed when they are sealed
    round_id INTEGER NOT NULL REFERENCES rounds (id), -- rounds.id
    number   INTEGER NOT NULL,     -- from 1 on, each taken once
    document JSON NOT NULL,        -- reports so far, and the shown and waiting counts by tags
    PRIMARY KEY (round_id, number)
) WITHOUT ROWID;
CREATE TABLE keys (                -- access keys
    id         TEXT PRIMARY KEY,   -- public part of the key
    role       TEXT NOT NULL,      -- ingest, reader, admin
    hash       BLOB NOT NULL,      -- SHA-256 of the whole key
    label      TEXT NOT NULL,      -- a note
    created_at TIME NOT NULL,      -- when it was created, UTC
    revoked_at TIME,               -- when it was revoked, UTC; empty while it is active
    plans      TEXT                -- plans that a reader may see, such as app,web; empty: all
);
CREATE TABLE admin_log (           -- what administrators did with commands; nothing is removed
    id         TEXT PRIMARY KEY,   -- random
    at         TIME NOT NULL,      -- when, UTC
    user_name  TEXT NOT NULL,      -- user of the operating system
    action     TEXT NOT NULL,      -- what, as "key created"
    about      TEXT NOT NULL       -- to what; never a secret
);
CREATE TABLE notes (               -- releases and other events, which pages show as flags
    id         TEXT PRIMARY KEY,   -- random
    at         TIME NOT NULL,      -- when it happened, UTC
    plan       TEXT NOT NULL,      -- plan.name; empty: of all plans
    text       TEXT NOT NULL       -- what happened
);
CREATE TABLE deleted (             -- metrics that were deleted: no counts of them are kept or shown
    plan       TEXT NOT NULL,      -- plan.name
    version    INTEGER NOT NULL,   -- plan.version
    metric     TEXT NOT NULL,      -- the metric's name in the plan
    PRIMARY KEY (plan, version, metric)
) WITHOUT ROWID;
CREATE TABLE results (             -- final figures, a row per number, computed from the counts after each seal
RESULTS
);
CREATE UNIQUE INDEX results_key ON results
    (plan, metric, every, start_time, version, segment, versions, COALESCE(bucket, -1));
CREATE TABLE comparisons (         -- final figures less others, a row per number, written with those of a period
COMPARISONS
);
CREATE UNIQUE INDEX comparisons_key ON comparisons
    (plan, metric, every, start_time, version, segment, versions, against, baseline_segment, COALESCE(bucket, -1));
CREATE TABLE periods (             -- periods whose rows are all in results and comparisons
    plan       TEXT NOT NULL,      -- plan.name
    version    INTEGER NOT NULL,   -- plan.version, the newest with reports in it
    every      TEXT NOT NULL,      -- round, window, day, week or month
    start_time TIME NOT NULL,      -- when it begins, UTC
    end_time   TIME NOT NULL,      -- when it ends, UTC
    PRIMARY KEY (plan, version, every, start_time)
) WITHOUT ROWID;
CREATE VIEW daily AS               -- the figures of days
    SELECT * FROM results WHERE every = 'day';
CREATE VIEW weekly AS              -- the figures of weeks, which begin on Monday
    SELECT * FROM results WHERE every = 'week';
CREATE VIEW latest AS              -- the newest figures of each plan, metric and kind of period
    SELECT results.* FROM results
    JOIN (SELECT plan, metric, every, max(start_time) AS start_time FROM results GROUP BY 1, 2, 3) AS newest
    USING (plan, metric, every, start_time);
CREATE VIEW quantiles AS           -- quantiles of histograms, a row per level, with their interval
    VIEW_OF_QUANTILES;
CREATE VIEW changes AS             -- figures less those of an earlier period, over the rounds of both
    VIEW_OF_CHANGES;
CREATE VIEW differences AS         -- figures of a tag less those of another one, over the rounds of both
    VIEW_OF_DIFFERENCES;
""".replace("RESULTS", _columns(COLUMNS, _EMPTY)).replace(
    "COMPARISONS", _columns(COMPARISON, _EMPTY_IN_COMPARISONS)
)
for _name, _query in VIEWS.items():
    _SCHEMA = _SCHEMA.replace(f"VIEW_OF_{_name.upper()}", _query)
_RECORDS = """
CREATE TABLE records_{number} (          -- the reports of one open round
    number  INTEGER PRIMARY KEY,   -- number of the commit group; in order of arrival per collector
    records BLOB NOT NULL          -- reports end to end, of fixed width: id, cohort, tags, bits
);
"""
_VERSION = """
CREATE TABLE schema_version (      -- one row: the version of these tables
    version INTEGER NOT NULL       -- a newer reticent upgrades them, an older one refuses
);
"""
# SQLite stores both as text, a time in ISO 8601; other programs go by the names of the types.
_SQLITE = {"TEXTS": "JSON", "INTEGERS": "JSON", "TIME": "TIMESTAMP"}
_POSTGRES = {
    "INTEGER PRIMARY KEY": "BIGSERIAL PRIMARY KEY",
    "INTEGERS": "BIGINT[]",
    "INTEGER": "BIGINT",
    "TEXTS": "TEXT[]",
    "REAL": "DOUBLE PRECISION",
    "BLOB": "BYTEA",
    "TIME": "TIMESTAMPTZ",
    "JSON": "JSONB",
    " WITHOUT ROWID": "",
}


def _translated(script: str, types: Mapping[str, str]) -> str:
    """A script with the types of a database; comments after -- stay as they are."""
    lines = []
    for line in script.splitlines():
        code, dashes, comment = line.partition("-- ")
        for ours, theirs in types.items():
            code = re.sub(rf"(?<!\w){ours}\b", theirs, code)
        lines.append(code + dashes + comment)
    return "\n".join(lines)


def _comments(script: str) -> Iterator[str]:
    """The comments of a script on tables, views and columns, as statements for PostgreSQL."""
    table = ""
    for line in script.splitlines():
        code, _, comment = line.partition("-- ")
        words = code.split()
        made = words[:2] in (["CREATE", "TABLE"], ["CREATE", "VIEW"])
        table = words[2] if made else table
        if comment:
            place = f"{words[1]} {table}" if made else f"COLUMN {table}.{words[0]}"
            text = comment.replace("'", "''")
            yield f"COMMENT ON {place} IS '{text}';"


def _for_postgres(script: str) -> str:
    return "\n".join([_translated(script, _POSTGRES), *_comments(script)])


SQLITE_VIEWS = {name: _translated(query, _SQLITE) for name, query in VIEWS.items()}
POSTGRES_VIEWS = {name: _translated(query, _POSTGRES) for name, query in VIEWS.items()}
SQLITE_TABLES = _translated(_SCHEMA, _SQLITE)
SQLITE_RECORDS = _translated(_RECORDS, _SQLITE)  # of each open round, with its number for {number}
POSTGRES_TABLES = _for_postgres(_SCHEMA + _VERSION)
POSTGRES_RECORDS = (  # the bits are noise, which does not compress
    _for_postgres(_RECORDS) + "\nALTER TABLE records_{number} ALTER COLUMN records SET STORAGE EXTERNAL;"
)
