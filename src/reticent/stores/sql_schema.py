"""The tables of a store in a database, each column with its meaning."""

from __future__ import annotations

SCHEMA_VERSION = 2
SCHEMA = """
CREATE TABLE plan (                -- every plan ever served, as it was written
    name    TEXT NOT NULL,         -- plan.name
    version INTEGER NOT NULL,      -- plan.version
    text    TEXT NOT NULL,         -- plan.toml
    PRIMARY KEY (name, version)
);
CREATE TABLE round (               -- rounds that got at least one report
    id      INTEGER PRIMARY KEY,   -- names the table of its records, which exists until it is sealed
    plan    TEXT NOT NULL,         -- plan.name
    version INTEGER NOT NULL,      -- plan.version
    round   INTEGER NOT NULL,      -- unix seconds / round length
    state   TEXT NOT NULL,         -- open, closing (being counted), sealed, pruned (its counts were removed)
    reports INTEGER NOT NULL,      -- distinct reports, once sealed; 0 before, and when pruned
    UNIQUE (plan, version, round)
);
CREATE TABLE counts (              -- sealed rounds; never changed
    round_id INTEGER NOT NULL REFERENCES round (id), -- round.id
    tags     TEXT NOT NULL,        -- JSON list, one public tag per segment of the plan
    metric   TEXT NOT NULL,        -- the metric's name in the plan
    reports  TEXT NOT NULL,        -- JSON list per row: reports that speak of it
    ones     TEXT NOT NULL,        -- JSON list per row: how many of them said 1
    PRIMARY KEY (round_id, tags, metric)
) WITHOUT ROWID;
CREATE TABLE step (                -- what readers are shown of open rounds; removed when they are sealed
    round_id INTEGER NOT NULL REFERENCES round (id), -- round.id
    number   INTEGER NOT NULL,     -- from 1 on, each taken once
    document TEXT NOT NULL,        -- JSON: reports so far, and counts by tags that are shown and that wait
    PRIMARY KEY (round_id, number)
) WITHOUT ROWID;
CREATE TABLE key (                 -- who may write, read or administer
    id         TEXT PRIMARY KEY,   -- public part of the key
    role       TEXT NOT NULL,      -- ingest, reader, admin
    hash       BLOB NOT NULL,      -- SHA-256 of the whole key
    label      TEXT NOT NULL,      -- a note for people
    created_at INTEGER NOT NULL,   -- unix seconds
    revoked_at INTEGER             -- unix seconds, or NULL while it is active
);
"""
RECORDS = """
CREATE TABLE records_{number} (          -- the reports of one open round
    number  INTEGER PRIMARY KEY,   -- of the commit group; in order of arrival per collector
    records BLOB NOT NULL          -- reports end to end, of fixed width: id, cohort, tags, bits
);
"""
"""Of each open round, with its number for {number}. Each column says what it holds; PostgreSQL keeps that too."""


def other_version(url: str, expected: int, version: int) -> str:
    """What to say of a store whose schema is not of the expected version."""
    age = "an older" if version < expected else "a newer"
    return (
        f"{url}: expected schema version {expected}, got {version}.\n  Hint: {age} reticent made it; use that"
    )
