"""Both devices draw the same conclusion from whatever a collector, or another server, answers."""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.javascript.conftest import Ask

from reticent.device import Accepted, Outcome, Rejected
from reticent.device.transport import outcome

CODES = ("late", "unknown_plan", "not_found", "method_not_allowed", "<script>")
TEXTS = ("", "<html>", "null", "[]", '{"code": 7}', *(f'{{"code": "{code}"}}' for code in CODES))


def in_python(result: Outcome) -> dict[str, Any]:
    if isinstance(result, Accepted):
        return {"kind": "accepted", "reason": "accepted"}
    if isinstance(result, Rejected):
        return {"kind": "rejected", "reason": result.code}
    after = {} if result.after is None else {"after": result.after}
    return {"kind": "retry", "reason": result.fault, **after}


def test_every_answer_means_the_same_to_both_devices(ask: Ask) -> None:
    answers = [*product(range(200, 600), (None,), TEXTS), *product((429, 503), ("120", " 7 ", "soon"), ("",))]
    questions = [
        ("outcome", {"status": status, "after": after, "text": text}) for status, after, text in answers
    ]
    expected = [in_python(outcome(status, after, text.encode())) for status, after, text in answers]
    assert ask(questions) == expected
