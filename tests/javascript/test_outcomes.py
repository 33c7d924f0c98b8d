"""What a collector answers means what the rules say; both devices send the same rounds whatever a person wishes."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from spec import interpreter
from tests.javascript.conftest import Ask
from tests.javascript.test_units import PLANS

from reticent.device import Device, Policy
from reticent.plan import Plan
from reticent.testing import ManualClock, RecordingTransport
from reticent_collector.plans import export_plan

CODES = ("late", "unknown_plan", "not_found", "method_not_allowed", "blocked", "<script>")
TEXTS = ("", "<html>", "null", "[]", '{"code": 7}', *(f'{{"code": "{code}"}}' for code in CODES))
FAULTS = {
    401: "wrong-key", 403: "wrong-key", 404: "wrong-path", 405: "wrong-path", 408: "timeout", 425: "too-busy",
    429: "too-busy",
}  # fmt: skip


def by_the_rules(status: int, after: str | None, text: str) -> dict[str, Any]:
    """What the rules make of an answer, and the words of the Python device for what may pass."""
    try:
        problem = json.loads(text)
    except ValueError:
        problem = None
    kind, code = interpreter.outcome({"status": status, **(problem if isinstance(problem, dict) else {})})
    if kind != "retry":
        return {"kind": kind, "reason": code or kind}
    fault = FAULTS.get(status, "server-error" if status >= 500 else "not-a-collector")
    seconds = {} if after is None or not after.strip().isdigit() else {"after": int(after)}
    return {"kind": kind, "reason": fault, **seconds}


def test_every_answer_means_what_the_rules_say(ask: Ask) -> None:
    answers = [*product(range(200, 600), (None,), TEXTS), *product((429, 503), ("120", " 7 ", "soon"), ("",))]
    questions = [
        ("outcome", {"status": status, "after": after, "text": text}) for status, after, text in answers
    ]
    assert ask(questions) == [by_the_rules(*answer) for answer in answers]


CONSENTS = (*["granted"] * 5, "denied", "unset", "local")
WISHES = (*["next"] * 6, *["flush"] * 3, "pause", *["resume"] * 2, "forget", *["setConsent"] * 2, "restart")


def sent_by_python(state: Path, plan: Plan, consent: Any, steps: list[tuple[str, list[Any]]]) -> list[int]:
    clock, transport = ManualClock(500_000.0 * plan.round_seconds), RecordingTransport()

    def opened() -> Device:
        policy = Policy.unlimited()
        return Device(plan, state, consent=consent, policy=policy, clock=clock, transport=transport)

    device = opened()
    for step, about in steps:
        if step == "next":
            clock.advance(plan.round_seconds)
        elif step == "restart":
            device.close()
            device = opened()
        else:
            getattr(device, step.replace("C", "_c"))(*about)
    device.close()
    return [report.round for report in transport.reports]


def test_both_devices_send_the_same_rounds_whatever_a_person_wishes(ask: Ask, tmp_path: Path) -> None:
    plan, draws, histories = Plan.from_toml(PLANS["patient"]), Random(2017), []
    for _ in range(12):
        wishes = [draws.choice(WISHES) for _ in range(20)]
        steps = [(wish, [draws.choice(CONSENTS)] if wish == "setConsent" else []) for wish in wishes]
        histories.append((draws.choice(CONSENTS), [*steps, ("next", []), ("next", []), ("flush", [])]))
    table = export_plan(plan)
    sent = ask([("history", {"plan": table, "consent": start, "steps": steps}) for start, steps in histories])
    assert sum(map(bool, sent)) > 5
    for number, (start, steps) in enumerate(histories):
        assert sent[number] == sent_by_python(tmp_path / f"state-{number}", plan, start, steps), (
            start,
            steps,
        )


WRONG_CALLS: list[list[Any]] = [
    ["add", "minutes", -1], ["add", "minutes", 400], ["set", "minutes", "many"], ["set", "minutes", None],
    ["max", "minutes", -3], ["add", "minutesx"], ["add", "minutesx"], ["set", "<b>" + "x" * 99, 1],
    ["choose", "command", "fly"], ["choose", "minutes", "test"], ["add", "command", 1],
    *(["add", f"other{number}"] for number in range(20)),
]  # fmt: skip


def test_both_devices_note_slips_in_the_same_words(ask: Ask, tmp_path: Path) -> None:
    plan = Plan.from_toml(PLANS["usage"])
    segment = {"os": "plan9", "shape <b>": "round"}
    about = {"plan": export_plan(plan), "segment": segment, "consent": "granted", "calls": WRONG_CALLS}
    [answer] = ask([("notes", about | {"environment": {"doNotTrack": "", "ci": "", "container": ""}})])
    clock = ManualClock(500_000.0 * plan.round_seconds)
    device = Device(
        plan, tmp_path / "state", consent="granted", policy=Policy.unlimited(), clock=clock,
        transport=RecordingTransport(), segment=segment,
    )  # fmt: skip
    clock.advance(plan.round_seconds)
    for call, *given in WRONG_CALLS:
        getattr(device, call)(*given)
    status = device.status()
    device.close()
    assert answer["notes"] == dict(status.notes)
    assert len(answer["notes"]) > 18
    assert answer["reasons"] == list(status.reasons) == []


@pytest.mark.parametrize(
    ("name", "choices"),
    [("usage", ["granted", "unset", "denied", "local"]), ("expired", ["granted", "local"])],
)
def test_both_devices_say_in_the_same_words_why_they_are_silent(
    ask: Ask, tmp_path: Path, name: str, choices: list[Any]
) -> None:
    plan = Plan.from_toml(PLANS[name])
    somewhere = {"doNotTrack": "", "ci": "", "container": ""}
    about = {"plan": export_plan(plan), "segment": {}, "calls": [], "environment": somewhere}
    answers = ask([("notes", about | {"consent": consent}) for consent in choices])
    for consent, answer in zip(choices, answers, strict=True):
        device = Device(
            plan, tmp_path / f"{name}-{consent}", consent=consent, policy=Policy.unlimited(),
            clock=ManualClock(500_000.0 * plan.round_seconds), transport=RecordingTransport(),
        )  # fmt: skip
        assert answer["reasons"] == list(device.status().reasons)
        device.close()
