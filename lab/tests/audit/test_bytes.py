"""Broken clients are caught, with a short life that shows it; those that take no secret are not decided."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reticent.plan import Plan
from reticent_lab.audit import CommandClient, SdkClient, audit
from reticent_lab.audit.lives import FAMILIES, SECRETS, Event, families_of, lives_of
from reticent_lab.audit.replay import expected_of, first_difference
from reticent_lab.audit.run import LIVES, first_round_of
from reticent_lab.rules import interpreter

HEAD = '[plan]\nname = "audited"\nversion = 1\nround = "6h"\ngrace = "12h"\n'
PLAN = Plan.from_toml(
    HEAD
    + """expires = 2027-01-04

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

[metrics.shape]
kind = "histogram"
max_value = 8
buckets = 8
mechanism = "d-bit-flip"
bits = 2
epsilon = 1.0
flip = 0.1

[metrics.command]
kind = "choice"
labels = ["build", "test", "run"]
mechanism = "hadamard-bit"
epsilon = 1.0
flip = 0.2

[groups.both]
metrics = ["saves", "opens"]
max_total = 100

[segments]
os = ["linux", "macos"]
"""
)
SAMPLED = Plan.from_toml(
    HEAD
    + """
[metrics.a]
kind = "mean"
max_value = 100
epsilon = 1.0

[metrics.b]
kind = "mean"
max_value = 100
epsilon = 1.0

[answers]
kind = "sampled"
window = "1d"
metrics = 1
"""
)

Twist = Callable[["TwistedClient", Mapping[str, Any], dict[str, Any]], None]


@cache
def numbers() -> dict[str, int]:
    """The numbers of the secrets that lives have, by their bytes."""
    return {interpreter.secret(number).hex(): number for number in range(SECRETS * LIVES * len(FAMILIES))}


class TwistedClient:
    """A device that keeps the rules, except for what a twist does to the events that it gets and to what it sends."""

    name = "twisted"

    def __init__(self, before: Twist | None = None, after: Twist | None = None) -> None:
        self.before = before
        self.after = after

    def begin(self) -> bool:
        self.state = interpreter.State()
        self.secrets: dict[str, int] = {}
        self.total = 0
        self.count = 0
        return True

    def act(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        given = dict(event)
        if "plan" in event:
            given["plan_text"] = given.pop("plan")
        if event["do"] in ("add", "set"):
            amount = event.get("amount", event.get("value"))
            self.total += isinstance(amount, int) and amount > 0
        if "secret" in event:
            self.state.secrets_drawn = numbers()[event["secret"]]
        if self.before:
            self.before(self, event, given)
        if given["do"] == "nothing":
            return {"sent": []}
        seen = interpreter.act(self.state, given, given["at"])
        self.count += len(seen["sent"])
        if self.after:
            self.after(self, event, seen)
        if seen["sent"]:
            self.total = 0
        return seen


def edit(seen: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> None:
    """Change each report that is sent."""
    bodies = []
    for body in seen["sent"]:
        report = json.loads(body)
        change(report)
        bodies.append(json.dumps(report, separators=(",", ":")))
    seen["sent"] = bodies


def silent_without_values(client: TwistedClient, event: Mapping[str, Any], seen: dict[str, Any]) -> None:
    if client.total == 0:
        seen["sent"] = []


def silent_once_in_twenty(client: TwistedClient, event: Mapping[str, Any], seen: dict[str, Any]) -> None:
    if client.count % 20 == 0 and client.total == 0:
        seen["sent"] = []


def tag_tells(client: TwistedClient, event: Mapping[str, Any], seen: dict[str, Any]) -> None:
    edit(seen, lambda report: report["segment"].update(os="linux" if client.total else "macos"))


def cohort_tells(client: TwistedClient, event: Mapping[str, Any], seen: dict[str, Any]) -> None:
    edit(seen, lambda report: report.update(cohort=report["cohort"] & 254 | (client.total > 0)))


def late(change: Callable[[dict[str, Any]], object]) -> Twist:
    """A change from the third report on, where a value was recorded."""

    def twist(client: TwistedClient, event: Mapping[str, Any], seen: dict[str, Any]) -> None:
        if client.count >= 3 and client.total:
            edit(seen, change)

    return twist


def size_tells(client: TwistedClient, event: Mapping[str, Any], seen: dict[str, Any]) -> None:
    if client.count >= 3 and client.total:
        seen["sent"] = [body + " " for body in seen["sent"]]


def sends_twice(client: TwistedClient, event: Mapping[str, Any], seen: dict[str, Any]) -> None:
    seen["sent"] = seen["sent"] * 2


def sends_when_it_records(client: TwistedClient, event: Mapping[str, Any], seen: dict[str, Any]) -> None:
    if event["do"] == "set" and client.state.kept.reports:
        seen["sent"] = [client.state.kept.reports[-1].body]


def other_order(client: TwistedClient, event: Mapping[str, Any], seen: dict[str, Any]) -> None:
    seen["sent"].reverse()


def plan_text(change: Callable[[str], str]) -> Twist:
    """Answers another plan under the name of this one."""

    def twist(client: TwistedClient, event: Mapping[str, Any], given: dict[str, Any]) -> None:
        if "plan_text" in given:
            given["plan_text"] = change(given["plan_text"])

    return twist


def values(change: Callable[[Any], Any]) -> Twist:
    """Takes values for others."""

    def twist(client: TwistedClient, event: Mapping[str, Any], given: dict[str, Any]) -> None:
        for name in ("amount", "value"):
            if name in given:
                given[name] = change(given[name])

    return twist


def skip(*events: str) -> Twist:
    """Does nothing at some events."""

    def twist(client: TwistedClient, event: Mapping[str, Any], given: dict[str, Any]) -> None:
        if given["do"] in events:
            given["do"] = "nothing"

    return twist


def forgets_at_a_start(client: TwistedClient, event: Mapping[str, Any], given: dict[str, Any]) -> None:
    if given["do"] == "open":
        client.state.kept.totals.clear()


def new_epoch_at_a_start(client: TwistedClient, event: Mapping[str, Any], given: dict[str, Any]) -> None:
    if given["do"] == "open" and client.state.kept.secret is not None:
        client.state.kept.epoch += 1


def redraws_every_seventh(client: TwistedClient, event: Mapping[str, Any], given: dict[str, Any]) -> None:
    if given["do"] == "flush":
        client.state.kept.epoch = client.count // 7


def adds_for_set(client: TwistedClient, event: Mapping[str, Any], given: dict[str, Any]) -> None:
    if given["do"] == "set":
        given.update(do="add", amount=given["value"])


def above(given: Any) -> Any:
    """Leaves out what is above the range."""
    return 0 if isinstance(given, int) and given > 100 else given


BEFORE: dict[str, Twist] = {
    "joint limit not enforced": plan_text(lambda text: text.replace("max_total = 100", "max_total = 200")),
    "ranges not clamped": plan_text(lambda text: text.replace("max_value = 100", "max_value = 300")),
    "values above the range count as 0": values(above),
    "no number counts as the top": values(lambda given: 100 if given in (None, "NaN") else given),
    "infinity counts as 0": values(lambda given: 0 if given == "Infinity" else given),
    "negative values count as positive": values(
        lambda given: -given if isinstance(given, int | float) and given < 0 else given
    ),
    "whole numbers only": values(
        lambda given: int(Fraction(given)) if isinstance(given, str) and "/" in given else given
    ),
    "no flip": plan_text(lambda text: text.replace("flip = 0.2", "flip = 0.0")),
    "a tenth too much epsilon": plan_text(lambda text: text.replace("epsilon = 1.0", "epsilon = 1.1", 1)),
    "one cell": plan_text(lambda text: text.replace("step = 25\n", "")),
    "first label": plan_text(lambda text: text.replace('kind = "choice"', 'kind = "choice"\npick = "first"')),
    "labels in another order": plan_text(lambda text: text.replace('"build", "test"', '"test", "build"')),
    "longer grace": plan_text(lambda text: text.replace('grace = "12h"', 'grace = "2d"')),
    "shorter grace": plan_text(lambda text: text.replace('grace = "12h"', 'grace = "6h"')),
    "older version": plan_text(lambda text: text.replace("version = 2", "version = 1")),
    "pause not kept": skip("pause"),
    "forget not kept": skip("forget"),
    "consent not kept": skip("consent"),
    "labels not recorded": skip("choose"),
    "amounts not added": skip("add"),
    "values lost at a start": forgets_at_a_start,
    "new answers at a start": new_epoch_at_a_start,
    "redraws every seventh round": redraws_every_seventh,
    "adds instead of setting": adds_for_set,
}  # fmt: skip
AFTER: dict[str, Twist] = {
    "silent without values": silent_without_values,
    "silent once in twenty": silent_once_in_twenty,
    "tag tells": tag_tells,
    "cohort tells": cohort_tells,
    "id tells from the third report on": late(lambda report: report.update(id=report["id"][:-1] + "A")),
    "bits tell from the third report on": late(lambda report: report.update(bits="____"[: len(report["bits"])])),
    "round tells from the third report on": late(lambda report: report.update(round=report["round"] + 1)),
    "one more field": late(lambda report: report.update(used=1)),
    "size tells from the third report on": size_tells,
    "sends twice": sends_twice,
    "sends when it records": sends_when_it_records,
    "other order": other_order,
}  # fmt: skip


def window_by_value(client: TwistedClient, event: Mapping[str, Any], seen: dict[str, Any]) -> None:
    """In one of three reports the metric that is asked follows the value."""
    if client.count % 3 == 0 and client.total:
        edit(seen, lambda report: report.update(asked="gA"))


IN_WINDOWS: dict[str, tuple[Twist | None, Twist | None]] = {
    "round remembered": (plan_text(lambda text: text.replace('window = "1d"', 'window = "2d"')), None),
    "both metrics": (plan_text(lambda text: text.replace("metrics = 1", "metrics = 2")), None),
    "metric by value in one of three": (None, window_by_value),
    "silent without values": (None, silent_without_values),
    "half too much": (plan_text(lambda text: text.replace("epsilon = 1.0", "epsilon = 1.5")), None),
    "new draws at a start": (new_epoch_at_a_start, None),
}


@pytest.mark.parametrize("plan", [PLAN, SAMPLED], ids=["remembered", "sampled"])
def test_a_client_that_keeps_the_rules_is_sound(plan: Plan) -> None:
    result = audit(plan, client=TwistedClient(), lives=1, rounds=1)
    assert result.verdict == "sound"
    assert result.reports > 40


@cache
def expected_lives(text: str) -> list[tuple[str, list[tuple[Event, dict[str, Any]]]]]:
    """Eight lives of each family of a plan, with what leaves a device; computed once for all clients."""
    plan = Plan.from_toml(text)
    return [(life.name, expected_of(life)) for life in lives_of(plan, 8, first_round_of(plan))]


def is_caught(client: TwistedClient, plan: Plan) -> bool:
    """Whether it differs from the rules in a life; the life is not shortened."""
    return any(first_difference(client, name, rows)[0] for name, rows in expected_lives(plan.text))


@pytest.mark.parametrize("name", [*BEFORE, *AFTER])
def test_a_broken_client_is_caught(name: str) -> None:
    client = TwistedClient(BEFORE.get(name), AFTER.get(name))
    assert is_caught(client, PLAN)


@pytest.mark.parametrize("name", IN_WINDOWS)
def test_a_broken_client_of_sampled_answers_is_caught(name: str) -> None:
    assert is_caught(TwistedClient(*IN_WINDOWS[name]), SAMPLED)


def test_a_difference_is_shown_with_a_short_life() -> None:
    result = audit(PLAN, client=TwistedClient(after=silent_without_values), lives=1, rounds=1)
    assert result.verdict == "differs"
    assert result.difference is not None
    assert [event["do"] for event in result.difference.events] == ["open", "flush"]
    assert result.difference.lines()[-1] == "observed: {'sent': []}"


@pytest.mark.parametrize(
    ("plan", "family"), [(plan, family) for plan in (PLAN, SAMPLED) for family in families_of(plan)]
)
def test_the_sdk_sends_what_the_rules_say(plan: Plan, family: str) -> None:
    with closing(SdkClient()) as client:
        result = audit(plan, client=client, lives=1, rounds=1, families=(family,))
    assert result.difference is None
    assert result.sound


def test_a_client_without_a_secret_is_not_decided(tmp_path: Path) -> None:
    program = tmp_path / "client.py"
    program.write_text("import sys\nfor line in sys.stdin:\n    print('null', flush=True)\n")
    with closing(CommandClient([sys.executable, str(program)])) as client:
        result = audit(PLAN, client=client, lives=1, rounds=1)
    assert result.verdict == "not decided"
    assert "secret" in result.undecided
    assert not result.sound


def test_a_plan_that_the_rules_do_not_know_is_not_decided() -> None:
    without_text = Plan("built", 1, 3600, 3600, PLAN.metrics)
    assert audit(without_text, client=TwistedClient(), rounds=1).verdict == "not decided"
