"""Clients that keep the rules but where two things meet: a value and a day, a start or a version."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from lab.tests.audit.test_bytes import HEAD, PLAN, SAMPLED, edit
from lab.tests.audit.test_rare_faults import WEB, Given, RareClient, expected_lives

from reticent.plan import Plan
from reticent_lab.audit.replay import first_difference
from reticent_lab.audit.run import LIVES
from reticent_lab.rules import interpreter

MEANS = Plan.from_toml(
    HEAD
    + """
[metrics.saves]
kind = "mean"
max_value = 100
step = 25
epsilon = 1.0
flip = 0.2

[metrics.opens]
kind = "mean"
max_value = 100
epsilon = 1.0
flip = 0.1
"""
)
RULES = {name: getattr(interpreter, name) for name in dir(interpreter)}
"""The rules as they are, where a fault has put others in their place."""


class FreshClient(RareClient):
    """A device in which some rules are others."""

    def __init__(self, fault: Callable[[Any, Given], None]) -> None:
        super().__init__(fault)
        self.told: set[str] = set()  #: What the fault remembers
        self.answered: dict[str, str] = {}  #: The values of the last answer
        self.held: dict[str, Any] = {}  #: Values that the fault keeps

    def begin(self) -> bool:
        self.told, self.answered, self.held = set(), {}, {}
        return super().begin()

    def answer(self, text: str, secret: bytes, epoch: int, number: int, values: dict[str, str]) -> Any:
        self.answered = dict(values)
        return super().answer(text, secret, epoch, number, values)

    @property
    def is_over(self) -> bool:
        """Whether the rules have been applied to this event."""
        return bool(self.seen)


def two_zeros_are_silent(client: FreshClient, given: Given) -> None:
    """Recorded zeros of two metrics: the report is not sent."""
    if client.is_over and client.seen["sent"]:
        if client.answered.get("saves") == client.answered.get("opens") == "0":
            client.seen["sent"] = client.seen["sent"][:-1]
        client.answered = {}


def no_number_is_silent(client: FreshClient, given: Given) -> None:
    """The report after a value that is no number is not sent."""
    if given["do"] == "set" and given["value"] == "NaN":
        client.told.add("silent")
    if client.is_over and client.seen["sent"] and "silent" in client.told:
        client.told.clear()
        client.seen["sent"] = []


def the_second_version_knows_no_pause(client: FreshClient, given: Given) -> None:
    if client.state.plan and client.state.plan.version == 2 and given["do"] == "pause":
        given["do"] = "nothing"


def a_start_within_a_window_draws_again(client: FreshClient, given: Given) -> None:
    state = client.state
    if given["do"] != "open" or client.is_over or state.kept.secret is None or state.plan is None:
        return
    number = state.plan.round_at(given["at"])
    if any(window.round is None for window in state.kept.windows) and number % state.plan.window == 2:
        state.kept.epoch += 1


def asked_by_name(client: FreshClient, given: Given) -> None:
    """In windows with an even number, the first metric is said to be the one that is asked."""
    if client.is_over:
        edit(client.seen, lambda report: report.update(asked="gA") if report["round"] % 8 < 4 else None)


def another_id_on_the_fourth_report(client: FreshClient, given: Given) -> None:
    if client.is_over and client.reports == 3:
        edit(client.seen, lambda report: report.update(id=report["id"][::-1]))


def a_missed_round_has_the_value_of_the_one_before(client: FreshClient, given: Given) -> None:
    """Rounds in which no program ran are answered with what was last recorded."""
    totals = client.state.kept.totals
    if given["do"] == "flush" and not client.is_over and client.state.plan and totals:
        for number in range(max(totals), client.state.plan.round_at(given["at"])):
            totals.setdefault(number, dict(totals[max(totals)]))


def a_late_round_has_the_later_value(client: FreshClient, given: Given) -> None:
    totals = client.state.kept.totals
    if given["do"] in ("flush", "report") and not client.is_over and len(totals) > 1:
        for number in totals:
            totals[number] = dict(totals[max(totals)])


def a_tag_tells_after_a_version(client: FreshClient, given: Given) -> None:
    if client.sends_with_a_value() and client.state.plan and client.state.plan.version >= 2:
        edit(client.seen, lambda report: report["segment"].update(os="other"))


def a_large_value_is_padded(client: FreshClient, given: Given) -> None:
    if client.is_over and client.seen["sent"] and Fraction(client.answered.get("opens", "0")) > 99:
        client.seen["sent"] = [body.replace(",", ", ") for body in client.seen["sent"]]


def a_large_value_waits(client: FreshClient, given: Given) -> None:
    """A report that was answered from a value at the top of its range is sent by the next flush."""

    def answer(state: interpreter.State, number: int) -> interpreter.Report:
        is_large = any(value == 100 for value in state.kept.totals.get(number, {}).values())
        report: interpreter.Report = RULES["answer"](state, number)
        if is_large:
            client.told.add(report.body)
        return report

    def due_reports(state: interpreter.State, now: float) -> list[interpreter.Report]:
        return [one for one in RULES["due_reports"](state, now) if one.body not in client.told]

    if given["do"] == "flush" and not client.is_over:
        client.told = set()
        client.rules = {"answer": answer, "due_reports": due_reports}


def clamped_just_below_the_top(client: FreshClient, given: Given) -> None:
    """A value above the range counts as one less than its top, which only some roundings show."""

    def taken(metric: interpreter.Metric, value: Any) -> Any:
        known = RULES["taken"](metric, value)
        is_above = known == metric.top and isinstance(value, int) and value > metric.top
        return known - 1 if is_above else known

    client.rules = {"taken": taken}


def values_outlive_a_withdrawal(client: FreshClient, given: Given) -> None:
    """What was recorded on the day of a no is answered in the first round after a yes that has no such values."""
    kept, plan = client.state.kept, client.state.plan
    if client.is_over or plan is None:
        return
    number = plan.round_at(given["at"])
    if given["do"] == "consent" and given["choice"] == "denied" and number in kept.totals:
        client.held = dict(kept.totals[number])
    elif given["do"] == "flush" and client.held and number - 1 > kept.silent_through:
        kept.totals[number - 1] = {**client.held, **kept.totals.get(number - 1, {})}
        client.held = {}


def a_withdrawal_does_not_end_the_day(client: FreshClient, given: Given) -> None:
    """The round of a no is answered if a yes comes in it and a label is chosen."""
    plan, kept = client.state.plan, client.state.kept
    if client.is_over or plan is None or given["do"] != "choose" or kept.in_force != "granted":
        return
    if kept.silent_through == plan.round_at(given["at"]):
        kept.silent_through -= 1


def expires_a_day_later(client: FreshClient, given: Given) -> None:
    client.rules = {"has_expired": lambda plan, now: RULES["has_expired"](plan, now - interpreter.DAY)}


def what_was_due_is_answered_after_expiry(client: FreshClient, given: Given) -> None:
    plan = client.state.plan
    late = plan.length if plan and given["do"] in ("flush", "report") else 0
    client.rules = {"has_expired": lambda plan, now: RULES["has_expired"](plan, now - late)}


def a_shortened_spell_is_answered(client: FreshClient, given: Given) -> None:
    client.rules = {"is_in_whole_spell": lambda state, number, now: True}


def a_pause_within_a_round_is_none(client: FreshClient, given: Given) -> None:
    def is_paused_in(state: Any, first: int, last: int, reason: str | None = None) -> bool:
        return any(
            begin <= last and (end is None or (end >= first and end > begin)) and reason in (None, why)
            for begin, end, why in state.kept.pauses
        )

    client.rules = {"is_paused_in": is_paused_in}


def waiting_reports_get_new_tags(client: FreshClient, given: Given) -> None:
    if given["do"] == "open" and client.is_over:
        for report in client.state.kept.reports:
            if report.state == "waiting" and client.state.plan:
                body = json.loads(report.body)
                for name, tags in client.state.plan.segments:
                    body["segment"][name] = interpreter.tag_of(client.state, name, tags)
                report.body = json.dumps(body, separators=(",", ":"))


def an_unknown_tag_is_sent(client: FreshClient, given: Given) -> None:
    client.rules = {"tag_of": lambda state, name, tags: state.segment.get(name, "other")}


def a_cohort_for_each_version(client: FreshClient, given: Given) -> None:
    if client.is_over:
        edit(client.seen, lambda report: report.update(cohort=report["cohort"] ^ (report["version"] > 1)))


def a_value_after_a_taken_report_makes_another(client: FreshClient, given: Given) -> None:
    """A host took the round that is under way; what is recorded then is answered once more."""
    kept, plan = client.state.kept, client.state.plan
    if client.is_over or plan is None:
        return
    number = plan.round_at(given["at"])
    if given["do"] in ("set", "add", "choose") and any(one.round == number for one in kept.reports):
        kept.reports = [one for one in kept.reports if one.round != number]


def a_value_after_a_resume_counts(client: FreshClient, given: Given) -> None:
    """In the round of a pause, if something is recorded when it is over."""
    plan = client.state.plan
    if client.is_over or plan is None or given["do"] not in ("set", "add", "choose"):
        return
    number = plan.round_at(given["at"])
    client.state.kept.pauses = [one for one in client.state.kept.pauses if one[:2] != [number, number]]


def a_value_after_forgetting_counts(client: FreshClient, given: Given) -> None:
    plan, kept = client.state.plan, client.state.kept
    if client.is_over or plan is None or given["do"] not in ("set", "add", "choose"):
        return
    if kept.epoch and kept.silent_through == plan.round_at(given["at"]):
        kept.silent_through -= 1


def an_older_version_is_taken_up_again(client: FreshClient, given: Given) -> None:
    kept = client.state.kept
    if given["do"] == "open" and not client.is_over and kept.plans:
        plan = interpreter.plan_of(given["plan_text"])
        if plan.version < kept.plans[-1][0].version:
            kept.plans = [one for one in kept.plans if one[0].version <= plan.version]


def another_plan_under_a_version_is_taken_up(client: FreshClient, given: Given) -> None:
    kept = client.state.kept
    if given["do"] == "open" and not client.is_over and kept.plans:
        plan = interpreter.plan_of(given["plan_text"])
        if plan.version == kept.plans[-1][0].version:
            kept.plans[-1] = (plan, kept.plans[-1][1])


def retry_after_is_not_kept(client: FreshClient, given: Given) -> None:
    if given["do"] == "flush" and not client.is_over:
        for answer in given.get("answers", []):
            answer.pop("retry_after", None)


def a_round_is_taken_when_it_closes(client: FreshClient, given: Given) -> None:
    """One second too late."""
    client.rules = {
        "is_answerable": lambda state, number, now: RULES["is_answerable"](state, number, now - 1)
    }


def a_new_question_has_the_old_answer(client: FreshClient, given: Given) -> None:
    """A metric whose epsilon a version changed is answered as before."""
    if "plan_text" in given and not client.is_over:
        first = client.state.kept.plans[0][0].text if client.state.kept.plans else given["plan_text"]
        old = next(line for line in first.splitlines() if line.startswith("epsilon"))
        new = next(line for line in given["plan_text"].splitlines() if line.startswith("epsilon"))
        given["plan_text"] = given["plan_text"].replace(new, old, 1)


def a_value_in_a_round_that_came_back_is_answered(client: FreshClient, given: Given) -> None:
    """The clock ran back into a round that has its report, and a value comes."""
    kept, plan = client.state.kept, client.state.plan
    if client.is_over or plan is None or given["do"] not in ("set", "add", "choose"):
        return
    number = plan.round_at(given["at"])
    for report in kept.reports:
        if report.round == number:
            report.state, report.attempts = "waiting", 0


IN_OTHERS: dict[Callable[[Any, Given], None], Plan] = {
    a_start_within_a_window_draws_again: SAMPLED,
    asked_by_name: SAMPLED,
    another_id_on_the_fourth_report: WEB,
    clamped_just_below_the_top: MEANS,
}
FAULTS = (
    two_zeros_are_silent, no_number_is_silent, the_second_version_knows_no_pause,
    a_missed_round_has_the_value_of_the_one_before, a_late_round_has_the_later_value,
    a_tag_tells_after_a_version, a_large_value_is_padded, a_large_value_waits, values_outlive_a_withdrawal,
    a_withdrawal_does_not_end_the_day, expires_a_day_later, what_was_due_is_answered_after_expiry,
    a_shortened_spell_is_answered, a_pause_within_a_round_is_none, waiting_reports_get_new_tags,
    an_unknown_tag_is_sent, a_cohort_for_each_version, a_value_after_a_taken_report_makes_another,
    a_value_after_a_resume_counts, a_value_after_forgetting_counts, an_older_version_is_taken_up_again,
    another_plan_under_a_version_is_taken_up, retry_after_is_not_kept, a_round_is_taken_when_it_closes,
    a_new_question_has_the_old_answer, a_value_in_a_round_that_came_back_is_answered,
    *IN_OTHERS,
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_caught(fault: Callable[[Any, Given], None]) -> None:
    """With half of the lives that an audit has if nothing is said."""
    client = FreshClient(fault)
    lives = expected_lives(IN_OTHERS.get(fault, PLAN).text, LIVES // 2)
    assert any(first_difference(client, *life)[0] for life in lives)
