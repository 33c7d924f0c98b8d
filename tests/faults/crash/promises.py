"""What must hold after every crash, whatever the scenario."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from tests.faults.crash.world import ADDED, LATE, MARKER, PLANS, VALUES, Seen

from reticent.reports import from_json, to_json


def check_the_bytes(seen: Seen) -> None:
    """The same bytes or none: one payload per round and per id, each the law's for a secret on record."""
    reports = [from_json(body) for body in seen.bodies]
    assert len({report.round for report in reports}) == len(reports), "two payloads for one round"
    assert len({report.id for report in reports}) == len(reports), "two payloads for one id"
    lives = [kept for kept in (seen.before, seen.after) if kept is not None]
    for body, report in zip(seen.bodies, reports, strict=True):
        plan = PLANS[report.version]
        law = (
            to_json(kept.identity.law(plan, report.round, values))
            for kept in lives
            for values in candidates()
        )
        assert body in law, "bytes that no secret on record gives"


def candidates() -> Iterator[dict[str, int | Fraction]]:
    """Every set of values that a round of a scenario can have."""
    bases: list[dict[str, int | Fraction]] = [{}, VALUES, {"editor_seconds": MARKER}, {"saves": 3}]
    bases += ({"editor_seconds": total} for total in ADDED)
    for base in bases:
        yield {**base}
        yield {**base, **LATE}


def check_the_secret(seen: Seen) -> None:
    """It is the same, or a later epoch says why not."""
    before, after = seen.before, seen.after
    if before is None:
        assert (after.identity.epoch, after.reasons) == (0, ("enrolled",)), "not a fresh start"
    elif after.identity.secret == before.identity.secret:
        assert after == before
    else:
        assert after.identity.epoch > before.identity.epoch, "a silent redraw"
        assert after.reasons[-1].split(":")[0] in ("forgotten", "quarantined"), "a silent redraw"


def check_the_folder(folder: Path, forgotten: bytes) -> None:
    """Nothing lies about that should not: no draft, no value of a round that is over, no forgotten secret."""
    assert not [file.name for file in folder.iterdir() if ".new" in file.name]
    with closing(sqlite3.connect(folder / "state")) as connection:
        needed = connection.execute("SELECT 1 FROM totals WHERE value = ?", (str(MARKER),)).fetchone()
    for file in folder.iterdir():
        if "quarantined" not in file.name:
            content = file.read_bytes()
            assert needed or str(MARKER).encode() not in content, f"a value lingers in {file.name}"
            assert not forgotten or forgotten not in content, f"a secret lingers in {file.name}"
