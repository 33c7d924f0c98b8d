"""Clients that break a promise are caught; those that keep them are not."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from tests.shared.plans import SAVES

from reticent.errors import ParameterError, ReticentError
from reticent.mechanisms import Buckets, DBitFlip, Flip
from reticent.plan import Metric, Plan
from reticent_lab.audit import CommandClient, CoreClient, audit
from reticent_lab.audit.clients import CoreParticipant, SdkClient, Values
from reticent_lab.audit.consistency import check_conduct
from reticent_lab.audit.run import first_round_of


@pytest.mark.parametrize(
    "name",
    ["mean", "mean without flips", "fine mean", "hadamard", "two bits", "one bit, paper", "group", "mixed"],
)
def test_a_client_that_keeps_its_promises_is_not_flagged(plans: dict[str, Plan], name: str) -> None:
    """Declared false alarm: 1e-6 per audit. The seed is fixed."""
    result = audit(plans[name], client=CoreClient(seed="1"), reports=4_000, rounds=4)
    assert result.problems == []
    assert all(check.holds for check in result.checks)


def test_the_honest_twist_is_honest(plans: dict[str, Plan], crooked: Callable) -> None:
    """What the broken clients are made from is not what breaks them."""
    assert audit(plans["mean"], client=crooked("honest"), reports=10_000, rounds=4).sound


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_two_hundred_honest_clients_are_not_flagged(plans: dict[str, Plan]) -> None:
    """Declared false alarm: 1e-6 per audit, so 2e-4 here. Each client draws secrets of its own."""
    names = [name for name in plans if name != "all buckets"]
    for number in range(200):
        result = audit(plans[names[number % len(names)]], client=CoreClient(), reports=20_000)
        assert result.problems == []


@pytest.mark.parametrize("name", ["mean", "group of two", "hadamard", "two bits", "mixed"])
def test_honest_clients_are_not_flagged(plans: dict[str, Plan], name: str) -> None:
    """The short form of the one above: declared false alarm 5e-6 over all five."""
    assert audit(plans[name], client=CoreClient(seed=name), reports=3_000).problems == []


def test_what_is_learned_from_few_devices_with_many_bits_is_not_held_against_them() -> None:
    """Most of 4,096 outcomes are seen in one history alone: proof of nothing, unless it is seen again."""
    shape = Metric("shape", DBitFlip("0.5", Buckets.even(16, 16), 12))
    plan = Plan("audited", 1, 3600, 3600, (shape,))
    assert audit(plan, client=CoreClient("1"), reports=4_000, rounds=1).problems == []


CAUGHT_WITH_FEW = [
    ("redraws_on_each_call", "mean", 5_000, 4, {"a round asked again gives the same bytes"}),
    ("redraws_on_each_call", "mean without flips", 5_000, 4, {"a round asked again gives the same bytes"}),
    ("redraws_each_round", "mean without flips", 5_000, 10,
     {"without flips, remembered bits stay the same"}),
    ("redraws_each_round", "mean", 30_000, 10, {"saves: constant, 10 rounds"}),
    ("forgets_the_flip", "mean", 4_000, 2, {"saves: one round"}),
    ("a_tenth_too_much", "mean without flips", 40_000, 1, {"saves: one round"}),
    ("silent_at_nothing", "mean", 8_000, 4,
     {"report: silence", "other values change only the bits"}),
    ("seldom_silent", "mean", 8_000, 4, {"report: silence", "other values change only the bits"}),
    ("id_tells", "mean", 8_000, 4, {"report: bits of the id", "other values change only the bits"}),
    ("size_tells", "mean", 8_000, 4, {"report: size of a report", "other values change only the bits"}),
    ("one_draw_for_all_cells", "mean without flips", 50_000, 2, {"saves: same pattern, width 2, returning"}),
    ("one_draw_for_all_metrics", "group without flips", 10_000, 1,
     {"group apps: one round", "app0 and app1: dependent answers"}),
    ("one flip for ever", "mean", 21_000, 10, {"saves: switched, not constant, 2 rounds"}),
    ("one flip for four rounds", "mean", 21_000, 10, {"saves: switched, not constant, 2 rounds"}),
    ("no flip at a change", "mean", 60_000, 4, {"saves: one round, in which the value changes"}),
    ("only the latest class", "mean without flips", 4_000, 4,
     {"without flips, remembered bits stay the same"}),
    ("shared alpha", "group without flips", 30_000, 1, {"app0 and app1: dependent answers"}),
]  # fmt: skip


@pytest.mark.parametrize(("twist", "plan", "reports", "rounds", "faults"), CAUGHT_WITH_FEW)
def test_gross_faults_are_caught_with_few_reports(
    plans: dict[str, Plan],
    crooked: Callable,
    flagged: Callable,
    twist: str,
    plan: str,
    reports: int,
    rounds: int,
    faults: set[str],
) -> None:
    result = audit(plans[plan], client=crooked(twist), reports=reports, rounds=rounds)
    assert faults <= flagged(result)
    assert result.verdict == "above claim"


TWELVE = {
    "redraws_on_each_call": "mean",
    "redraws_each_round": "mean",
    "forgets_the_flip": "mean",
    "a_tenth_too_much": "mean",
    "silent_at_nothing": "mean",
    "memo of seven rounds": "mean",
    "coin biased by 3 %": "mean",
    "one flip for ever": "mean",
    "one flip for four rounds": "mean",
    "only the latest class": "mean",
    "no flip at a change": "mean",
    "shared alpha": "group of two",
}


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("twist", TWELVE)
def test_the_default_size_catches_twelve(plans: dict[str, Plan], crooked: Callable, twist: str) -> None:
    assert audit(plans[TWELVE[twist]], client=crooked(twist)).verdict == "above claim"


def test_only_what_is_broken_is_flagged(plans: dict[str, Plan], crooked: Callable, flagged: Callable) -> None:
    """A redraw repeats itself within a round; shared draws leave each counter by itself as it should be."""
    result = audit(plans["mean without flips"], client=crooked("redraws_each_round"), reports=5_000)
    assert "a round asked again gives the same bytes" not in flagged(result)
    client = crooked("one_draw_for_all_metrics")
    result = audit(plans["group without flips"], client=client, reports=10_000, rounds=1)
    assert not {f"app{number}: one round" for number in range(3)} & flagged(result)


class Uncopyable(CoreParticipant):
    def copy(self) -> None:
        return None


class UncopyableClient(CoreClient):
    def start(self, plan: Plan, first_round: int) -> CoreParticipant:
        return Uncopyable(plan, super().start(plan, first_round).secret)


@cache
def without_flips(plan: Plan) -> Plan:
    return replace(plan, metrics=tuple(replace(metric, flip=Flip(0)) for metric in plan.metrics))


class Unflipped(CoreClient):
    """A core of one's own, which never flips."""

    def start(self, plan: Plan, first_round: int) -> CoreParticipant:
        return super().start(without_flips(plan), first_round)


def test_a_client_made_from_the_core_is_the_one_that_is_attacked(
    plans: dict[str, Plan], flagged: Callable
) -> None:
    result = audit(plans["mean"], client=Unflipped("1"), reports=4_000, rounds=2)
    assert "saves: one round" in flagged(result)


class Garbled(CoreParticipant):
    """Its bits have one letter, which no number of bytes has."""

    def answer(self, round_number: int, values: Values) -> bytes | None:
        sent = super().answer(round_number, values) or b""
        return re.sub(rb'"bits":"[^"]*"', b'"bits":"A"', sent)


class GarbledClient(CoreClient):
    def start(self, plan: Plan, first_round: int) -> CoreParticipant:
        return Garbled(plan, super().start(plan, first_round).secret)


def test_reports_that_are_none_are_a_fault(plans: dict[str, Plan], flagged: Callable) -> None:
    result = audit(plans["mean"], client=GarbledClient("1"), reports=1_000, rounds=2)
    assert "messages are whole reports" in flagged(result)
    [check] = [check for check in result.checks if check.what == "messages are whole reports"]
    assert check.detail.endswith("x wrong size of the bits")


def test_what_cannot_be_looked_at_is_said(plans: dict[str, Plan]) -> None:
    checks = check_conduct(UncopyableClient(), plans["mean"], 100, 3)
    assert {check.what for check in checks if check.holds is None} == {
        "a copy of the state gives the same bytes", "other values change only the bits"
    }  # fmt: skip


def test_whole_devices_send_what_the_core_computes(plans: dict[str, Plan]) -> None:
    result = audit(plans["mixed"], reports=2_000, rounds=2, sdk_devices=6, seed=5)
    assert result.problems == []
    assert result.clients == ("SDK core", "reticent.Device")
    whole = {check.what: check.detail for check in result.checks if check.subject == "reticent.Device"}
    assert whole["bytes are those the SDK core computes"] == "24 compared"
    assert whole["another process gives the same bytes"] == "1 compared"
    assert "saves: one round, reticent.Device" in {
        f"{attack.subject}: {attack.what}" for attack in result.attacks
    }


def test_a_whole_device_that_does_not_send_what_the_core_computes_is_caught(
    plans: dict[str, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = CoreParticipant(plans["mean"], bytes(32))
    monkeypatch.setattr("reticent_lab.audit.clients.SdkParticipant.core", lambda device: other)
    with closing(SdkClient()) as client:
        checks = check_conduct(client, plans["mean"], first_round_of(plans["mean"], 4), 2)
    wrong = [check.what for check in checks if not check.holds]
    assert wrong == ["bytes are those the SDK core computes"]


def test_a_seed_repeats_a_run_whoever_does_the_work(plans: dict[str, Plan]) -> None:
    runs = [
        audit(plans["hadamard"], client=CoreClient("7"), reports=3_000, rounds=2, workers=n) for n in (1, 2)
    ]
    other = audit(plans["hadamard"], client=CoreClient("8"), reports=3_000, rounds=2)
    assert runs[0].attacks == runs[1].attacks
    assert runs[0].attacks != other.attacks


def test_do_not_track_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    with pytest.raises(ReticentError, match="DO_NOT_TRACK is set"):
        SdkClient()


@pytest.mark.parametrize("wrong", [{"reports": 10}, {"rounds": 0}, {"rounds": 101}])
def test_sizes_out_of_range(plans: dict[str, Plan], wrong: dict[str, int]) -> None:
    with pytest.raises(ParameterError):
        audit(plans["mean"], **wrong)


def test_an_expired_plan_is_audited_before_it_expired(plans: dict[str, Plan]) -> None:
    old = replace(plans["mean"], expires=date(2001, 1, 1))
    client, first = SdkClient(), first_round_of(old, rounds=10)
    try:
        device = client.start(old, first)
        assert device.answer(first + 10, {"saves": 3}) is not None
        assert device.answer(first + 1000, {"saves": 3}) is None  # a round after the plan expired
        device.close()
    finally:
        client.close()


PROGRAM = """
import json, os, sys
from fractions import Fraction
from reticent_lab.audit.run import first_round_of
from reticent_lab.audit.clients import CoreParticipant
from reticent.plan import Plan
plan, devices = Plan.load(sys.argv[1]), {}
for line in sys.stdin:
    ask = json.loads(line)
    number = ask["device"]
    sent = b"true"
    if ask["do"] == "start":
        devices[number] = CoreParticipant(plan, os.urandom(32))
    elif ask["do"] == "copy":
        devices[ask["to"]] = devices[number].copy()
    elif ask["do"] == "restart":
        devices[number].restart()
    elif ask["do"] == "close":
        del devices[number]
    else:
        values = {name: Fraction(value) for name, value in ask["values"].items()}
        sent = devices[number].answer(ask["round"], values)
    print(sent.decode(), flush=True)
"""


def test_a_program_in_any_language(tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(PROGRAM)
    (tmp_path / "plan.toml").write_text(SAVES)
    plan = Plan.load(tmp_path / "plan.toml")
    command = [sys.executable, str(tmp_path / "client.py"), str(tmp_path / "plan.toml")]
    client = CommandClient(command)
    try:
        result = audit(plan, client=client, reports=1_000, rounds=2)
    finally:
        client.close()
    assert result.problems == []
    assert all(check.holds for check in result.checks)
    assert result.clients == (sys.executable,)


ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


def test_a_program_gets_values_exactly(plans: dict[str, Plan]) -> None:
    with closing(CommandClient([sys.executable, "-c", ECHO])) as client:
        asked = client.start(plans["mean"], 7).answer(8, {"m": Fraction(9, 7), "n": Fraction(4), "c": "red"})
    assert json.loads(asked or b"")["values"] == {"m": "9/7", "n": 4, "c": "red"}


@pytest.mark.parametrize("first", [False, True], ids=["", "before it is asked"])
def test_a_program_that_ends_is_an_error(plans: dict[str, Plan], first: bool) -> None:
    client = CommandClient([sys.executable, "-c", "pass"])
    if first:
        client._process.wait()  # then the question cannot even be written
    with pytest.raises(ReticentError, match="must answer every line"):
        audit(plans["mean"], client=client, reports=1_000)
    client.close()
    with pytest.raises(ReticentError, match="cannot be started"):
        CommandClient(["/nonexistent/program"])
