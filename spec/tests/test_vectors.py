"""reticent agrees, byte for byte, with a device written a second time from the documentation."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from spec import reference

from reticent.device import Policy, answer
from reticent.device.answers import part_at, part_hit
from reticent.device.prf import SecretDraws, encode
from reticent.frozen import replace
from reticent.mechanisms import (
    Buckets,
    DBitFlip,
    Flip,
    Grid,
    OneBitMean,
    RandomizedResponse,
    SubsetSelection,
)
from reticent.mechanisms.d_bit_flip import bucket_window
from reticent.plan import Plan, Window
from reticent.reports import from_json, from_packed, to_json, to_packed
from reticent.testing import sandbox
from reticent.times import first_round_from

SPEC = Path(__file__).parents[1]
VECTORS: dict[str, Any] = json.loads((SPEC / "answers.json").read_text())
PLAN = Plan.from_toml(VECTORS["plan"])


def test_the_file_is_what_the_second_implementation_writes() -> None:
    assert reference.text() == (SPEC / "answers.json").read_text()


def test_the_second_implementation_shares_no_code() -> None:
    assert "import reticent" not in (SPEC / "reference.py").read_text()
    assert "from reticent" not in (SPEC / "reference.py").read_text()


@pytest.mark.parametrize("vector", VECTORS["thresholds"], ids=lambda vector: vector["epsilon"])
def test_thresholds(vector: dict[str, str]) -> None:
    assert RandomizedResponse(vector["epsilon"]).low == int(vector["low"])


@pytest.mark.parametrize("vector", VECTORS["flips"], ids=lambda vector: vector["probability"])
def test_flips(vector: dict[str, str]) -> None:
    assert Flip(vector["probability"]).threshold == int(vector["threshold"])


def test_rounding() -> None:
    for vector in VECTORS["rounding"]:
        top = Fraction(vector["grid"][-1])
        value = min(Fraction(vector["value"]), top)
        assert Grid(vector["grid"]).cell(value, int(vector["alpha"])) == vector["cell"], vector


@pytest.mark.parametrize(
    "vector", VECTORS["rounds"], ids=lambda vector: f"{vector['seconds']}-{vector['at']}"
)
def test_rounds_and_when_they_start(vector: dict[str, int]) -> None:
    plan = replace(PLAN, round_seconds=vector["seconds"])
    assert plan.round_at(vector["at"]) == vector["round"]
    span = plan.round(vector["round"])
    assert (span.start, span.end) == (vector["start"], vector["start"] + vector["seconds"])
    later = [first_round_from(span.start + seconds, plan.round_seconds) for seconds in (0, 1)]
    assert later == [vector["round"], vector["round"] + 1]


def test_windows() -> None:
    for vector in VECTORS["windows"]:
        window = bucket_window(vector["label"], vector["buckets"], vector["width"], vector["cohort"])
        assert list(window) == vector["window"]


def test_digests() -> None:
    digests = {metric.name: metric.digest.hex() for metric in PLAN.metrics}
    assert digests == {vector["metric"]: vector["digest"] for vector in VECTORS["digests"]}


def test_inputs_of_the_keyed_hash() -> None:
    for vector in VECTORS["hash"]:
        fields = encode(
            b"reticent-1",
            vector["plan"].encode(),
            vector["metric"].encode(),
            bytes.fromhex(vector["digest"]),
            vector["epoch"].to_bytes(8, "big"),
            vector["purpose"].encode(),
            vector["index"].to_bytes(8, "big"),
            vector["block"].to_bytes(8, "big"),
        )
        assert fields.hex() == vector["input"]


def test_outputs_of_the_keyed_hash() -> None:
    for vector in VECTORS["hash"]:
        draws = SecretDraws(bytes.fromhex(vector["secret"]), vector["plan"], vector["epoch"])
        first = int(vector["output"][:16], 16)
        if vector["purpose"] == "id":
            assert draws.report_id(3, vector["index"]).hex() == vector["output"][:32]
        elif vector["purpose"] == "cohort":
            assert draws.cohort() == first >> 56
        elif vector["purpose"] == "delay":
            assert draws.delay(vector["index"]) == first


@pytest.mark.parametrize(
    "device", VECTORS["devices"], ids=lambda device: f"{device['secret'][:4]}-{device['epoch']}"
)
def test_answers_and_bytes_of_reports(device: dict[str, Any]) -> None:
    draws = SecretDraws(bytes.fromhex(device["secret"]), PLAN.name, device["epoch"])
    reports = []
    for vector, line in zip(device["reports"], device["json"], strict=True):
        values = {name: Fraction(value) for name, value in vector["values"].items()}
        report, visited = answer(draws, PLAN, vector["round"], values, device["segment"])
        assert visited == {name: memo["class"] for name, memo in vector["answers"].items()}
        assert [draws.alpha(metric) for metric in PLAN.metrics] == [
            int(memo["alpha"]) for memo in vector["answers"].values()
        ]
        assert (report.id.hex(), report.bits.hex(), report.cohort) == (
            vector["id"],
            vector["bits"],
            vector["cohort"],
        )
        assert to_json(report).decode() == line
        assert from_json(line.encode()) == report
        reports.append(report)
    assert to_packed(reports, PLAN).hex() == device["packed"]
    assert from_packed(bytes.fromhex(device["packed"]), PLAN) == reports


def test_choices_flags_and_absent_values() -> None:
    vectors = VECTORS["kinds"]
    plan = Plan.from_toml(vectors["plan"])
    digests = {metric.name: metric.digest.hex() for metric in plan.metrics}
    assert digests == {vector["metric"]: vector["digest"] for vector in vectors["digests"]}
    for device in vectors["devices"]:
        draws = SecretDraws(bytes.fromhex(device["secret"]), plan.name, device["epoch"])
        for vector in device["reports"]:
            values = {
                name: value if plan.by_name[name].labels else Fraction(value)
                for name, value in vector["values"].items()
            }
            report, visited = answer(draws, plan, vector["round"], values)
            assert visited == {name: memo["class"] for name, memo in vector["answers"].items()}
            assert (report.id.hex(), report.bits.hex(), report.cohort) == (
                vector["id"],
                vector["bits"],
                vector["cohort"],
            )


def test_which_of_several_choices_counts() -> None:
    for vector in VECTORS["kinds"]["calls"]:
        plan = Plan.from_toml(VECTORS["kinds"]["plan"])
        name = vector["metric"]
        with sandbox(plan, policy=Policy.unlimited(), debug=False) as box:
            for label in vector["chosen"]:
                box.device.choose(name, label)
            value = box.values().get(name)
        assert value == vector["label"], vector


@pytest.mark.parametrize("vectors", VECTORS["sampled"], ids=lambda vectors: vectors["plan"][-45:])
def test_sampled_answers_and_their_bytes(vectors: dict[str, Any]) -> None:
    plan = Plan.from_toml(vectors["plan"])
    for device in vectors["devices"]:
        for vector in device["reports"]:
            check_sampled(plan, device, vector, vectors["segment"])


def check_sampled(plan: Plan, device: dict[str, Any], vector: dict[str, Any], tags: dict[str, str]) -> None:
    window = plan.window_of(vector["round"])
    assert window == Window(vector["start"], vector["first"], vector["rounds"])
    draws = SecretDraws(bytes.fromhex(device["secret"]), plan.name, device["epoch"], window.start)
    assert draws.picked_round(window) == vector["round"]
    assert draws.delay(vector["round"]) == int(vector["delay"])
    values = {
        name: value if name in plan.by_name and plan.by_name[name].labels else Fraction(value)
        for name, value in vector["values"].items()
    }
    report, visited = answer(draws, plan, vector["round"], values, tags)
    assert visited == vector["classes"]
    assert ((report.asked or b"").hex(), report.bits.hex()) == (vector["asked"], vector["bits"])
    assert to_json(report).decode() == vector["json"]
    assert from_json(vector["json"].encode()) == report
    assert to_packed([report], plan).hex() == vector["packed"]
    assert from_packed(bytes.fromhex(vector["packed"]), plan) == [report]


@pytest.mark.parametrize("vectors", VECTORS["divided"], ids=lambda vectors: vectors["plan"][-30:])
def test_remembered_answers_about_some_of_the_metrics(vectors: dict[str, Any]) -> None:
    plan = Plan.from_toml(vectors["plan"])
    for device in vectors["devices"]:
        draws = SecretDraws(bytes.fromhex(device["secret"]), plan.name, device["epoch"])
        for vector in device["reports"]:
            values = {name: Fraction(value) for name, value in vector["values"].items()}
            report, visited = answer(draws, plan, vector["round"], values, vectors["segment"])
            assert visited == {name: memo["class"] for name, memo in vector["answers"].items()}
            assert ((report.asked or b"").hex(), report.bits.hex()) == (vector["asked"], vector["bits"])
            assert to_json(report).decode() == vector["json"]
            assert from_json(vector["json"].encode()) == report
            assert to_packed([report], plan).hex() == vector["packed"]
            assert from_packed(bytes.fromhex(vector["packed"]), plan) == [report]


def test_subset_selection() -> None:
    vectors = VECTORS["subsets"]
    plan = Plan.from_toml(vectors["plan"])
    digests = {metric.name: metric.digest.hex() for metric in plan.metrics}
    assert digests == {vector["metric"]: vector["digest"] for vector in vectors["digests"]}
    for vector in vectors["numbers"]:
        mechanism = SubsetSelection(vector["epsilon"], Buckets(range(vector["buckets"] + 1)))
        numbers = mechanism.size, str(mechanism.inside), str(mechanism.outside)
        assert numbers == (vector["size"], vector["inside"], vector["outside"])
    for vector in vectors["sets"]:
        base = list(map(int, vector["base"]))
        mechanism = SubsetSelection(vector["epsilon"], Buckets(range(len(base) + 1)), vector["size"])
        answered = mechanism.answer(vector["class"], 0, [int(vector["draw"])], base)
        assert [place for place, bit in enumerate(answered) if bit] == vector["members"]
    for device in vectors["devices"]:
        for vector in device["reports"]:
            check_sampled(plan, device, vector, {})


@pytest.mark.parametrize("vectors", VECTORS["splits"]["plans"], ids=lambda vectors: vectors["plan"][-40:])
def test_splits(vectors: dict[str, Any]) -> None:
    plan = Plan.from_toml(vectors["plan"])
    digests = {metric.name: metric.digest.hex() for metric in plan.metrics}
    assert digests == {vector["metric"]: vector["digest"] for vector in vectors["digests"]}
    for device in vectors["devices"]:
        draws = SecretDraws(bytes.fromhex(device["secret"]), plan.name, device["epoch"])
        for vector in device["reports"]:
            if plan.answers.sampled:
                check_sampled(plan, device, vector, {})
                continue
            values = {name: Fraction(value) for name, value in vector["values"].items()}
            report, visited = answer(draws, plan, vector["round"], values)
            assert visited == {name: memo["class"] for name, memo in vector["answers"].items()}
            assert to_json(report).decode() == vector["json"]
            assert to_packed([report], plan).hex() == vector["packed"]


def test_which_part_of_a_split_is_picked() -> None:
    vectors = VECTORS["splits"]
    for vector in vectors["picks"]:
        amounts, limit = [Fraction(amount) for amount in vector["amounts"]], Fraction(vector["limit"])
        words = [int(vector["word"]), *map(int, vectors["darts"])]
        assert part_at(amounts, limit, words[0]) == vector["front"]
        assert part_hit(amounts, limit, words) == vector["hit"]


def test_a_device_is_asked_the_same_metrics_in_every_version() -> None:
    """By name: neither the order of the metrics, nor their parameters, nor the version draws another set."""
    sets: dict[tuple[str, int, int], set[frozenset[str]]] = {}
    for vectors in VECTORS["divided"]:
        asked = Plan.from_toml(vectors["plan"]).asked
        for device in vectors["devices"]:
            for report in device["reports"]:
                device_sets = sets.setdefault((device["secret"], device["epoch"], asked), set())
                device_sets.add(frozenset(report["answers"]))
    assert {asked for _, _, asked in sets} == {1, 5, 8}
    assert all(len(of_device) == 1 for of_device in sets.values()), (
        "one set for life, whatever the values are"
    )
    for (secret, epoch, asked), of_device in sets.items():
        [one] = of_device
        assert len(one) == asked
        [more] = sets[secret, epoch, 5]
        assert asked > 1 or one < more, "a larger set holds the smaller one"


def test_the_sampled_vectors_differ_in_what_they_should() -> None:
    """Picks, metrics and cohorts move from window to window; windows of one and of 1,000 rounds are there."""
    plans = [Plan.from_toml(vectors["plan"]) for vectors in VECTORS["sampled"]]
    assert {plan.answers.window for plan in plans} == {1, 3, 4, 28, 1000, 1013}
    assert {plan.asked_bytes for plan in plans} == {0, 1}
    one = [report for device in VECTORS["sampled"][0]["devices"] for report in device["reports"]]
    for key in ("asked", "cohort", "id", "delay"):
        assert len({report[key] for report in one}) > 3, key
    assert len({report["round"] - report["first"] for report in one}) > 3


def test_the_vectors_reach_every_mechanism() -> None:
    kinds = {type(metric.mechanism).__name__ for metric in PLAN.metrics}
    assert kinds == {"OneBitMean", "HadamardBit", "DBitFlip"}
    variants = {metric.mechanism.variant for metric in PLAN.metrics if isinstance(metric.mechanism, DBitFlip)}
    assert variants == {"tight", "paper"}
    assert any(
        isinstance(metric.mechanism, OneBitMean) and metric.mechanism.grid.steps > 1
        for metric in PLAN.metrics
    )
    classes = {
        (report["answers"]["many_bits"]["class"])
        for device in VECTORS["devices"]
        for report in device["reports"]
    }
    assert len(classes) > 1
