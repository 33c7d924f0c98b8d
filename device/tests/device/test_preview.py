"""Seen before it leaves: the bytes are those that are sent, and the words say the law."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from tests.shared.devices import HERE, SECONDS, Make
from tests.shared.page_checks import check_page

from reticent.device import Consent, Device
from reticent.mechanisms import COHORTS
from reticent.plan import Plan
from reticent.testing import ManualClock, RecordingTransport

SAMPLED = '\n[answers]\nkind = "sampled"\nwindow = "1d"\nmetrics = 2\n'


def test_the_bytes_are_those_that_are_sent(
    device_of: Make, clock: ManualClock, transport: RecordingTransport
) -> None:
    device = device_of(transport=transport, segment={"os": "linux"})
    clock.advance(SECONDS)
    device.add("editor_seconds", 9_000)
    under_way = device.preview()
    assert under_way is not None
    assert (under_way.state, under_way.round, under_way.unsent_because) == ("under way", HERE + 1, ())
    clock.advance(SECONDS)
    device.close()
    silent = device_of(segment={"os": "linux"})
    silent.flush()  # answers, and has nowhere to send
    waiting = silent.preview()
    assert waiting is not None
    assert waiting.state == "waiting"
    silent.close()
    device = device_of(transport=transport, segment={"os": "linux"})
    assert device.flush() == 1
    assert transport.bodies == [waiting.body] == [under_way.body]


def test_looking_changes_nothing(device_of: Make, clock: ManualClock) -> None:
    device = device_of()
    clock.advance(SECONDS)
    device.add("editor_seconds", 5)
    before = device.receipt(), device._recorded(HERE + 1)
    assert device.preview() == device.preview()
    assert (device.receipt(), device._recorded(HERE + 1)) == before


def test_a_sampled_answer_is_shown_in_the_round_that_is_picked(
    device_of: Make, clock: ManualClock, plan_text: str, transport: RecordingTransport
) -> None:
    plan = Plan.from_toml(re.sub(r"flip = .*\n", "", plan_text) + SAMPLED)
    device = device_of(plan, transport=transport)
    clock.now = (clock.now // 86_400 + 1) * 86_400 + 60.0
    device.flush()
    shown = device.preview()
    assert shown is not None
    assert sum(given.is_asked for given in shown.answers) == 2
    assert all(given.bits == "0" * len(given.bits) for given in shown.answers if not given.is_asked)
    assert "not asked in this report" in str(shown)
    assert "Drawn for this window only" in str(shown)
    for _ in range(5):
        clock.advance(SECONDS)
        device.flush()
    assert shown.body in transport.bodies


@pytest.mark.parametrize("consent", ["unset", "denied"])
def test_where_nothing_is_kept_there_is_an_example(consent: Consent, device_of: Make) -> None:
    device = device_of(consent=consent)
    first, second = device.preview(), device.preview()
    assert first is not None
    assert second is not None
    assert first.state == "example"
    assert first.body != second.body, "of devices that do not exist"
    assert json.loads(first.body)["plan"] == "app-usage"
    assert "Nothing is recorded" in str(first)


def test_under_local_it_says_that_nothing_is_sent(device_of: Make) -> None:
    shown = device_of(consent="local").preview()
    assert shown is not None
    assert shown.unsent_because == ("consent is local: reports are made and shown here, and never sent",)


def test_the_words_of_every_bit_are_its_law(plan: Plan, device_of: Make) -> None:
    """Each figure is P(1) after the flip at one of two kinds of values, which every value has one of."""
    device = device_of()
    shown = device.preview()
    assert shown is not None
    cohort = shown.cohort or 0
    for given, metric in zip(shown.answers, plan.metrics, strict=True):
        flip = metric.flip.probability
        for place, meaning in enumerate(given.meanings):
            figures = {float(figure) for figure in re.findall(r"([\d.]+) %", meaning)}
            mechanism = metric.mechanism
            classes = (
                {int(mechanism.bucket_class(bucket, cohort)) for bucket in range(mechanism.intervals)}
                if mechanism.buckets
                else range(mechanism.classes)
            )
            of_classes = {
                round(float(100 * (one * (1 - flip) + (1 - one) * flip)), 1)
                for memo_class in classes
                for one in [Fraction(metric.mechanism.thresholds(memo_class, cohort)[place], 2**64)]
            }
            assert figures == {min(of_classes), max(of_classes)}, meaning
    assert "cohort" in str(shown)
    assert 0 <= cohort < COHORTS


def test_named_buckets_are_those_with_the_larger_chance(plan: Plan, device_of: Make) -> None:
    shown = device_of().preview()
    assert shown is not None
    [given] = [given for given in shown.answers if given.metric == "editor_hours"]
    mechanism = plan.by_name["editor_hours"].mechanism
    assert mechanism.buckets is not None
    for place, meaning in enumerate(given.meanings):
        low, high = re.findall(r"answer is ([\d,]+) to ([\d,]+),", meaning)[0]
        inside = mechanism.buckets.index(int(low.replace(",", "")))
        shares = [
            mechanism.thresholds(int(mechanism.bucket_class(bucket, shown.cohort or 0)), shown.cohort or 0)[
                place
            ]
            for bucket in range(mechanism.intervals)
        ]
        assert shares[inside] == max(shares)
        assert shares.count(max(shares)) == 1
        assert int(high.replace(",", "")) > int(low.replace(",", ""))


def test_a_file_alone_shows_it_too(device_of: Make, state: Path, clock: ManualClock) -> None:
    device_of().close()
    with Device.open(state, clock=clock) as alone:
        shown = alone.preview()
    assert shown is not None
    assert "the program sets it" in str(shown)


def test_pages_are_whole_and_safe(device_of: Make, clock: ManualClock, plan_text: str) -> None:
    evil = "<script>alert(1)</script>"
    text = plan_text.replace('grace = "6h"', f'grace = "6h"\nowner = "{evil}"')
    plan = Plan.from_toml(text.replace('kind = "mean"', f'kind = "mean"\ndescription = "{evil}"', 1))
    device = device_of(plan, transport=RecordingTransport(), segment={"os": "linux"})
    for _ in range(16):
        clock.advance(SECONDS)
        device.flush()
    shown = device.preview()
    assert shown is not None
    for page in (device.receipt().html(), shown.html()):
        check_page(page)
        assert evil not in page
        assert "&lt;script&gt;" in page
    receipt = device.receipt()
    assert receipt.owner == evil
    assert receipt.html().count("<tr>") >= len(receipt.reports)
    assert "2024-10-04 06:00 to 12:00 UTC" in receipt.html()
    assert "as likely from this device as from any other whose rounded values repeat" in receipt.html()
