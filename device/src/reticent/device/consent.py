"""
Whether a device may record and report: the person's choice, or the program's default until then.

    unset, denied   nothing is recorded, answered or sent, and unsent data is wiped
    local           rounds are answered and shown, and those answers are never sent
    granted         rounds that begin and end under it are answered and sent

The choice is kept in the state file and wins over the program's default. A choice of granted or local holds for
the questions it was made for: it lapses to unset when a plan asks for more. No decision here depends on a
value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Literal, get_args

from reticent.device import ledger
from reticent.device.locks import ProcessLock
from reticent.device.schema import device_row
from reticent.frozen import frozen

if TYPE_CHECKING:
    import sqlite3

    from reticent.plan import Plan

Consent = Literal["unset", "granted", "denied", "local"]
"""Not asked yet; yes; no; collect and show, but send nothing."""

CONSENTS: tuple[Consent, ...] = get_args(Consent)

LONGEST_SEND = 10.0  # how long one attempt to send a report may take, s; who takes consent back waits for it


def records(consent: Consent) -> bool:
    """Whether values are recorded and rounds answered."""
    return consent in ("granted", "local")


@frozen()
class StoredConsent:
    """What the state file knows about consent."""

    choice: Consent | None  #: None: the person has not chosen
    chosen_at: int | None  #: Unix seconds
    questions: str  #: JSON: what a choice of granted or local was made for (`questions_of`)
    in_force: Consent | None  #: What held last: the choice, or the program's default; None: a new file


def read(connection: sqlite3.Connection) -> StoredConsent:
    """The choice, and what is in force."""
    row = connection.execute("SELECT choice, chosen_at, questions, in_force FROM consent").fetchone()
    return StoredConsent(*row)


def allows(connection: sqlite3.Connection) -> bool:
    """Whether values are recorded and rounds answered, according to the file."""
    in_force = read(connection).in_force
    return in_force is not None and records(in_force)


def enter(connection: sqlite3.Connection, choice: Consent, now: float, plan: Plan | None) -> None:
    """Keep a choice, with the questions that granted or local applies to."""
    questions = ""
    if records(choice) and plan is not None:
        questions = json.dumps(questions_of(plan, device_row(connection).epoch))
    connection.execute(
        "UPDATE consent SET choice = ?, chosen_at = ?, questions = ?", (choice, int(now), questions)
    )


def bring_into_force(connection: sqlite3.Connection, consent: Consent, current_round: int) -> None:
    """
    Make this consent hold from now on, unless it does already.

    A round that has begun is not answered any more, except from granted to local: it is not wholly under one consent.
    """
    before = read(connection).in_force
    if before == consent:
        return
    connection.execute("UPDATE consent SET in_force = ?", (consent,))
    if consent == "local" and before == "granted":
        # Waiting reports are never sent, and still shown. What may have left the device already is given up.
        connection.execute("UPDATE reports SET state = 'local' WHERE state = 'waiting' AND told = 0")
        connection.execute("UPDATE reports SET state = 'expired' WHERE state = 'waiting'")
    elif before is not None:
        connection.execute("DELETE FROM totals")
        connection.execute("UPDATE device SET silent_through = max(silent_through, ?)", (current_round,))
    if not records(consent) and before is not None:  # a new file has nothing yet
        _wipe(connection)


def _wipe(connection: sqlite3.Connection) -> None:
    """
    Wipe everything but the choice and what was sent.

    What has left the device stays on the receipt and in the ledger. Its secret stays too: without it the same
    questions would be answered from new draws, which tells more. Where nothing has left, nothing stays.
    """
    unsent = "SELECT round FROM reports WHERE told = 0"
    connection.execute(f"DELETE FROM windows WHERE round IS NULL OR round IN ({unsent})")  # noqa: S608
    drop_waiting(connection)
    connection.execute("DELETE FROM reports WHERE told = 0")
    connection.execute("DELETE FROM past WHERE told = 0")
    connection.execute("DELETE FROM totals")
    connection.execute("DELETE FROM notes")
    connection.execute("DELETE FROM presence")
    connection.execute("DELETE FROM attempts")
    connection.execute("DELETE FROM pauses WHERE through_round IS NOT NULL")  # `silent_through` covers them
    [(has_told,)] = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM reports WHERE told = 1) OR EXISTS (SELECT 1 FROM past WHERE told > 0)"
        " OR EXISTS (SELECT 1 FROM ledger WHERE lost = 1)"
    )
    if not has_told:
        # With another secret: a later yes begins as on a new file.
        connection.execute("DELETE FROM ledger")
        connection.execute("DELETE FROM plans")
        connection.execute("DELETE FROM epochs")
        connection.execute("UPDATE device SET enrolled_from = NULL, changed_in = NULL, epoch = -1")
        ledger.begin_epoch(connection, device_row(connection).silent_through, "enrolled")
    ledger.seal(connection)


def drop_waiting(connection: sqlite3.Connection) -> None:
    """Delete waiting reports. What may have left the device already stays, as a receipt."""
    connection.execute("DELETE FROM reports WHERE state = 'waiting' AND told = 0")
    connection.execute("UPDATE reports SET state = 'expired' WHERE state = 'waiting'")


# The questions that a choice is made for


def questions_of(plan: Plan, epoch: int) -> dict[str, object]:
    """What a plan asks in an epoch and what that costs: per metric, for the plan, and how it is answered."""
    from dataclasses import astuple

    from reticent.plan.card import privacy_card

    card = privacy_card(plan)
    return {
        "fingerprint": plan.fingerprint.hex(),
        "epoch": epoch,
        "answers": "sampled" if plan.answers.sampled else "remembered",
        "divided": plan.is_divided,
        "metrics": {
            metric.name: [metric.digest.hex(), *astuple(card.metrics[metric.name])] for metric in plan.metrics
        },
        "plan": list(astuple(card.loss)),
    }


def covers(chosen: StoredConsent, plan: Plan, epoch: int) -> bool:
    """
    Whether a choice holds for a plan as well: it asks nothing more, and nothing that costs more.

    More is: a metric that is new or has other privacy parameters, whose remembered answers are new; a higher
    loss, of a metric or of the plan; sampled instead of remembered answers or the reverse; a new epoch; where a
    device was asked some of the metrics for life, one metric less, since it may be asked another one instead.
    Without a choice, the program's default holds for every plan.
    """
    if chosen.choice is None or not records(chosen.choice):
        return True
    agreed = json.loads(chosen.questions or "{}")
    if agreed.get("epoch") != epoch:
        return False
    if agreed["fingerprint"] == plan.fingerprint.hex():
        return True

    def none_higher(asked: list[float], agreed: list[float]) -> bool:
        return all(one <= other for one, other in zip(asked, agreed, strict=True))

    asked = questions_of(plan, epoch)
    known: dict[str, list[float]] = agreed["metrics"]
    metrics: dict[str, list[float]] = asked["metrics"]  # type: ignore[assignment]
    totals: list[float] = asked["plan"]  # type: ignore[assignment]
    return (
        asked["answers"] == agreed["answers"]
        and (not agreed.get("divided") or metrics.keys() == known.keys())
        and all(name in known and known[name][0] == figures[0] for name, figures in metrics.items())
        and all(none_higher(figures[1:], known[name][1:]) for name, figures in metrics.items())
        and none_higher(totals, agreed["plan"])
    )


# After "denied" nothing leaves, not even what is on its way in another thread or process


@contextmanager
def sending(state: str) -> Iterator[bool]:
    """
    Held by a sender from its claim until its bytes are sent, or its process ends; False: a choice is being
    made.
    """
    try:
        lock = ProcessLock(f"{state}-sending")
    except OSError:  # too many open files, for instance: taking consent back could not wait for this one
        yield False
        return
    with closing(lock):
        yield lock.take(shared=True)


def wait_for_senders(state: str, seconds: float) -> bool:
    """Wait until nothing is being sent that began before now; returns whether that was in time."""
    try:
        lock = ProcessLock(f"{state}-sending")
    except OSError:
        return False
    with closing(lock):
        return lock.wait(seconds)
