"""Notes of events, such as releases: read from a request or a file, and shown beside figures."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Any

from reticent.errors import ParameterError, StoreError
from reticent_collector.columns import time_text
from reticent_collector.results import unix_seconds
from reticent_collector.stores import AdminAction, AdminLog, Note, Store

LONGEST_NOTES = 60_000  # bytes of a request
LONGEST_TEXT = 200  # characters of a note
MOST_NOTES = 1_000  # of a request
NOTE_ROW = ("id", "plan", "at", "text")


def read_notes(body: bytes, plans: Collection[str]) -> list[Note]:
    """
    The notes of a JSON document: one as an object with `text`, `at` and `plan`, or a list of them.

    Without `at` a note is of now, without `plan` of all plans. The same note given twice is one: its id is a digest.

    >>> [note] = read_notes(b'{"text": "2.3 released", "at": "2026-11-01", "plan": "app"}', {"app"})
    >>> note.at, note.plan, note.text
    (1793491200, 'app', '2.3 released')
    """
    try:
        document = json.loads(body)
    except ValueError:
        raise ParameterError("notes", "JSON", "something else") from None
    entries = document if isinstance(document, list) else [document]
    if not 1 <= len(entries) <= MOST_NOTES:
        raise ParameterError("notes", f"1 to {MOST_NOTES:,} notes", len(entries))
    return [_note(entry, plans) for entry in entries]


def _note(entry: Any, plans: Collection[str]) -> Note:
    if not isinstance(entry, dict) or not entry.keys() <= {"text", "at", "plan"}:
        raise ParameterError("notes", "objects with text, at and plan", "something else")
    text = entry.get("text")
    if not isinstance(text, str) or not 1 <= len(text) <= LONGEST_TEXT or not text.isprintable():
        raise ParameterError("text", f"1 to {LONGEST_TEXT} printable characters", "something else")
    plan = entry.get("plan", "")
    if plan not in ("", *plans):
        raise ParameterError("plan", f"one of {', '.join(sorted(plans))}, or none for all", "another name")
    at = unix_seconds("at", str(entry["at"])) if "at" in entry else int(time.time())
    digest = sha256(json.dumps([at, plan, text]).encode()).hexdigest()
    return Note(digest[:32], at, plan, text)


def write_notes(store: Store, notes: Sequence[Note], user: str) -> None:
    """Store notes, and log who did."""
    for note in notes:
        store.put_note(note)
        if isinstance(store.backend, AdminLog):
            about = f"{time_text(note.at)} {note.plan or 'all plans'}: {note.text}"
            store.note(AdminAction(int(time.time()), user, "note added", about))


def keep_no_notes(notes: Sequence[Note], user: str) -> None:
    """Where there is no store for them."""
    raise StoreError("keeps no notes")


def note_row(note: Note) -> dict[str, Any]:
    """A note as in `GET /v1/notes`."""
    return {"id": note.id, "plan": note.plan or None, "at": time_text(note.at), "text": note.text}
