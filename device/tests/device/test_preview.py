"""Seen before it leaves: the bytes are those that are sent, and the words say the law."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from tests.shared.devices import HERE, SECONDS, Make
from tests.shared.page_checks import check_page
from tests.shared.state_files import damage

from reticent.cli import run_device
from reticent.device import Consent, Device, Policy
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


def test_a_damaged_report_is_not_shown_as_the_next_one(
    device_of: Make, clock: ManualClock, state: Path, transport: RecordingTransport
) -> None:
    """It is never sent; its bytes would not be what leaves."""
    silent = device_of()
    clock.advance(2 * SECONDS)
    silent.flush()  # answers, and has nowhere to send
    waiting = silent.preview()
    assert waiting is not None
    assert waiting.state == "waiting"
    silent.close()
    damage(state, "reports", {"bits": "zeroblob(length(bits))"})
    device = device_of(transport=transport)
    shown = device.preview()
    assert shown is not None
    assert (shown.state, shown.round) == ("under way", HERE + 2)
    assert device.flush() == 0
    assert transport.bodies == []


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


HOSTILE = "Minutes \x1b[2J\u202etxet\u2066\u2028\x07\x9b31m"


def test_nothing_of_a_plan_commands_a_terminal(
    device_of: Make, plan_text: str, clock: ManualClock, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Escapes and marks that turn the order of letters around are shown in writing."""
    words = json.dumps(HOSTILE)
    text = plan_text.replace("[metrics.opened_files]", f"[metrics.opened_files]\ndescription = {words}", 1)
    device = device_of(Plan.from_toml(text.replace("version = 1", f"version = 1\nowner = {words}", 1)))
    clock.advance(2 * 21_600)
    assert device.report() is not None
    device.close()
    texts = []
    for arguments in (["preview"], ["receipt"], ["status"], ["preview", "--json"], ["receipt", "--json"]):
        assert run_device([arguments[0], str(state), *arguments[1:]]) == 0
        texts.append(capsys.readouterr().out)
    for text in texts:
        assert not re.search(
            "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u202a-\u202e\u2066-\u2069]", text
        )
    assert all("\\u001b[2J\\u202etxet\\u2066\\u2028" in text for text in texts[:2]), "they are there"
    assert json.loads(texts[4])["plan"] == "app-usage"


def test_the_first_round_is_no_fault_and_status_says_when_it_begins(
    device_of: Make, clock: ManualClock
) -> None:
    device = device_of(consent="unset")
    device.set_consent("granted")
    for _ in range(7):
        device.add("editor_seconds", 1)
        device.save()
    status = device.status()
    assert status.active
    assert status.notes == {}
    assert status.answers_from == status.current_round + 1
    assert f"answers from round {status.answers_from} on" in str(status)
    clock.advance(21_600)
    assert "answers from" not in str(device.status())


def test_a_preview_from_the_file_alone_says_that_tags_are_the_programs(
    device_of: Make, state: Path, clock: ManualClock
) -> None:
    device = device_of(segment={"os": "linux"})
    assert "These exact bytes" in str(device.preview())
    with closing(Device.open(state, clock=clock)) as reader:
        shown = str(reader.preview())
    assert "exact" not in shown
    assert "with the tags of the program" in shown
    clock.advance(2 * 21_600)
    device.flush()  # without a collector: the report waits, with its tags
    device.report()
    with closing(Device.open(state, clock=clock)) as reader:
        assert '"os":"linux"' in str(reader.preview())
        assert "These exact bytes wait to be sent" in str(reader.preview())


def test_an_unknown_tag_is_noted(device_of: Make) -> None:
    notes = device_of(segment={"os": "beos", "flavour": "x"}).status().notes
    assert notes["unknown-tag: os"] == 1
    assert notes["unknown-segment: flavour"] == 1
    assert not device_of(segment={"os": "other"}).status().notes.keys() & {"unknown-tag"}


def test_a_state_whose_folder_is_gone_is_not_called_locked(
    plan: Plan, tmp_path: Path, clock: ManualClock
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    device = Device(plan, folder / "state", consent="granted", clock=clock, policy=Policy.unlimited())
    device.add("editor_seconds", 3)
    device.save()
    shutil.rmtree(folder)
    device.add("editor_seconds", 3)
    problem = device.status().problem
    assert "expected a folder" in problem
    assert "locked" not in problem
    assert not device.close()
    assert "expected a folder" in device.status().problem
