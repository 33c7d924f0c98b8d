"""Clients that are right but for a rare moment: one value, one start, one window, one way of taking the bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from lab.tests.audit.test_bytes import PLAN, edit, numbers

from reticent.plan import Plan
from reticent_lab.audit.lives import Event, lives_of
from reticent_lab.audit.replay import expected_of, first_difference
from reticent_lab.audit.run import LIVES, first_round_of
from reticent_lab.rules import interpreter

EXAMPLES = Path(__file__).parents[3] / "examples" / "plans"
WEB = Plan.load(EXAMPLES / "web.toml")
YEAR = Plan.from_toml(
    """
[plan]
name = "audited"
version = 1
round = "1d"

[metrics.minutes]
kind = "mean"
max_value = 1440
epsilon = 1.0

[answers]
kind = "sampled"
window = "28d"
"""
)


Given = dict[str, Any]
ANSWER = interpreter.reference.answer


class RareClient:
    """A device that keeps the rules but for a fault, which is called before and after each event."""

    name = "rare"

    def __init__(self, fault: Callable[[RareClient, Given], None]) -> None:
        self.fault = fault

    def begin(self) -> bool:
        self.state = interpreter.State()
        self.seen: dict[str, Any] = {}  #: What comes of this event; empty before it
        self.reports = 0  #: That were sent
        self.has_failed = False  #: Whether an attempt to send has failed
        self.has_value = False  #: Whether something was recorded since the last report
        self.rounds = 0  #: Since the last event
        self.last = 0
        self.values: Callable[[dict[str, str]], dict[str, str]] = dict
        self.rules: dict[str, Any] = {}  #: Rules of this client's own, by name
        return True

    @property
    def totals(self) -> dict[str, Any]:
        """What is recorded of the newest round."""
        totals = self.state.kept.totals
        return totals[max(totals)] if totals else {}

    def sends_with_a_value(self) -> bool:
        """Whether it sends now, and something was recorded since it last did."""
        return bool(self.seen.get("sent")) and self.has_value

    def act(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        given = dict(event)
        if "plan" in event:
            given["plan_text"] = given.pop("plan")
        if "secret" in event:
            self.state.secrets_drawn = numbers()[event["secret"]]
        plan, now = self.state.plan, event["at"]
        self.rounds = plan.round_at(now) - plan.round_at(self.last) if plan else 0
        self.last = now
        self.has_failed |= any(answer["status"] != 202 for answer in event.get("answers", []))
        self.seen = {}
        self.fault(self, given)
        if given["do"] == "nothing":
            return {"sent": []}
        others = patch.dict(vars(interpreter), self.rules)
        with patch.object(interpreter.reference, "answer", self.answer), others:
            self.seen = interpreter.act(self.state, given, now)
        self.fault(self, given)
        self.reports += len(self.seen["sent"])
        self.has_value &= not self.seen["sent"]
        if event["do"] in ("add", "set", "choose"):
            self.has_value |= given.get("label", given.get("value", 1)) not in (0, None)
        return self.seen

    def answer(self, text: str, secret: bytes, epoch: int, number: int, values: dict[str, str]) -> Any:
        return ANSWER(text, secret, epoch, number, self.values(values))


def no_number_keeps_the_value(client: RareClient, given: Given) -> None:
    if given["do"] == "set" and given["value"] in (None, "NaN") and given["metric"] in client.totals:
        given["do"] = "nothing"


def no_number_added_wipes(client: RareClient, given: Given) -> None:
    if given["do"] == "add" and given["amount"] in (None, "NaN"):
        given.update(do="set", value=0)


def negative_amounts_subtract(client: RareClient, given: Given) -> None:
    amount, before = given.get("amount"), client.totals.get(given.get("metric"))
    if not client.seen and isinstance(amount, int | float) and amount < 0 and isinstance(before, Fraction):
        client.totals[given["metric"]] = max(Fraction(0), before + Fraction(amount))


def endless_amounts_ignored(client: RareClient, given: Given) -> None:
    if given["do"] == "add" and given["amount"] == "Infinity":
        given["do"] = "nothing"


def the_top_counts_as_zero(client: RareClient, given: Given) -> None:
    if given["do"] == "set" and given["value"] == 100:
        given["value"] = 0


def edges_belong_below(client: RareClient, given: Given) -> None:
    if given["do"] == "set" and given["metric"] == "shape" and given["value"] in (1, 2, 3, 5, 6, 7):
        given["value"] -= 0.5


def large_numbers_wrap(client: RareClient, given: Given) -> None:
    for name in ("value", "amount"):
        if isinstance(given.get(name), int | float) and given[name] >= 2**31:
            given[name] = 0


def the_last_of_a_group_is_cut(client: RareClient, given: Given) -> None:
    def cut(values: dict[str, str]) -> dict[str, str]:
        saves, opens = (Fraction(values.get(name, "0")) for name in ("saves", "opens"))
        return {**values, "opens": str(min(opens, 100 - saves))} if saves + opens > 100 else values

    client.values = cut


def the_twelfth_report_is_silent(client: RareClient, given: Given) -> None:
    if client.reports == 11 and client.sends_with_a_value():
        client.seen["sent"] = []


def the_third_version_tells(client: RareClient, given: Given) -> None:
    if client.sends_with_a_value() and client.state.plan and client.state.plan.version == 3:
        edit(client.seen, lambda report: report.update(version=2))


def a_start_after_a_gap_forgets(client: RareClient, given: Given) -> None:
    if given["do"] == "open" and client.rounds >= 1 and not client.seen:
        client.state.kept.totals.clear()


def taken_only_with_values(client: RareClient, given: Given) -> None:
    if client.seen.get("result") and given["do"] == "report" and not client.has_value:
        client.seen["result"] = None


def current_round_without_its_value(client: RareClient, given: Given) -> None:
    if given["do"] == "report" and given.get("current") and not client.seen:
        client.state.kept.totals.pop(max(client.state.kept.totals, default=-1), None)


def a_retry_is_another_report(client: RareClient, given: Given) -> None:
    if client.seen.get("sent") and client.has_failed and given["do"] == "flush":
        known = [report.body for report in client.state.kept.reports if report.attempts > 1]
        client.seen["sent"] = [
            body.replace('"bits":"', '"bits":"_') if body in known else body for body in client.seen["sent"]
        ]


def a_refused_report_is_sent_again(client: RareClient, given: Given) -> None:
    if given["do"] == "flush" and not client.seen:
        given["answers"] = [{**answer, "code": ""} for answer in given.get("answers", [])]


def every_refusal_is_final(client: RareClient, given: Given) -> None:
    if given["do"] == "flush" and not client.seen:
        given["answers"] = [
            {"status": 400, "code": "malformed"} if 400 <= answer["status"] < 500 else answer
            for answer in given.get("answers", [])
        ]


def an_unknown_metric_ends_the_round(client: RareClient, given: Given) -> None:
    plan = client.state.plan
    if plan and given.get("metric") == "no_such_metric":
        client.state.kept.pauses.append([plan.round_at(given["at"])] * 2 + ["asked"])


def tags_of_the_first_start(client: RareClient, given: Given) -> None:
    if given["do"] == "open" and client.state.segment and not client.seen:
        given["segment"] = client.state.segment


def an_expired_plan_goes_on(client: RareClient, given: Given) -> None:
    if "plan_text" in given:
        given["plan_text"] = given["plan_text"].replace("expires = 2027-01-04", "expires = 2037-01-04")


def zero_is_absent(client: RareClient, given: Given) -> None:
    if given["do"] == "set" and given["metric"] == "load_ms" and given["value"] == 0:
        given["do"] = "nothing"


def the_third_window_tells(client: RareClient, given: Given) -> None:
    if client.reports == 2 and client.sends_with_a_value():
        edit(client.seen, lambda report: report.update(bits="AA"))


def every_fifth_report_needs_a_value(client: RareClient, given: Given) -> None:
    if client.seen.get("sent") and not client.has_value and client.reports % 5 == 4:
        client.seen["sent"] = []


def a_gap_without_values_is_silent(client: RareClient, given: Given) -> None:
    if client.seen.get("sent") and len(client.seen["sent"]) >= 2 and not client.has_value:
        client.seen["sent"] = client.seen["sent"][:1]


def a_yes_sends_what_was_local(client: RareClient, given: Given) -> None:
    if given["do"] == "consent" and given["choice"] == "granted" and not client.seen:
        for report in client.state.kept.reports:
            if report.state == "local":
                report.state = "waiting"


def a_clock_that_ran_back_answers_again(client: RareClient, given: Given) -> None:
    if given["do"] == "flush" and client.rounds < 0 and not client.seen and client.state.kept.reports:
        client.state.kept.reports[-1].state = "waiting"
        client.state.kept.reports[-1].attempts = 0


FAULTS = {fault.__name__: (fault, plan) for fault, plan in [
    (no_number_keeps_the_value, PLAN), (no_number_added_wipes, PLAN), (negative_amounts_subtract, PLAN),
    (endless_amounts_ignored, PLAN), (the_top_counts_as_zero, PLAN), (edges_belong_below, PLAN),
    (large_numbers_wrap, PLAN), (the_last_of_a_group_is_cut, PLAN), (the_twelfth_report_is_silent, PLAN),
    (the_third_version_tells, PLAN), (a_start_after_a_gap_forgets, PLAN), (taken_only_with_values, PLAN),
    (current_round_without_its_value, PLAN), (a_retry_is_another_report, PLAN),
    (a_refused_report_is_sent_again, PLAN), (every_refusal_is_final, PLAN), (an_unknown_metric_ends_the_round, PLAN),
    (tags_of_the_first_start, PLAN), (an_expired_plan_goes_on, PLAN), (zero_is_absent, WEB),
    (the_third_window_tells, YEAR), (every_fifth_report_needs_a_value, WEB), (a_gap_without_values_is_silent, PLAN),
    (a_yes_sends_what_was_local, PLAN), (a_clock_that_ran_back_answers_again, PLAN),
]}  # fmt: skip


@cache
def expected_lives(text: str, count: int) -> list[tuple[str, list[tuple[Event, dict[str, Any]]]]]:
    """Lives of a plan, with what leaves a device."""
    plan = Plan.from_toml(text)
    return [(life.name, expected_of(life)) for life in lives_of(plan, count, first_round_of(plan))]


def is_caught(name: str, lives: int) -> bool:
    fault, plan = FAULTS[name]
    client = RareClient(fault)
    return any(first_difference(client, life, rows)[0] for life, rows in expected_lives(plan.text, lives))


@pytest.mark.parametrize("name", FAULTS)
def test_a_rare_fault_is_caught(name: str) -> None:
    """With half of the lives that an audit has if nothing is said."""
    assert is_caught(name, LIVES // 2)


def test_without_a_fault_nothing_differs() -> None:
    client = RareClient(lambda client, given: None)
    for plan in (PLAN, WEB, YEAR):
        assert not any(first_difference(client, *life)[0] for life in expected_lives(plan.text, 2))
