"""Python, JavaScript and the vectors' writer give the same bytes."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
from spec import reference
from tests.javascript.conftest import Ask
from tests.javascript.random_plans import random_plan

from reticent.device import SecretDraws, answer
from reticent.plan import Plan
from reticent.reports import to_json
from reticent_collector.plans import export_plan

SPEC = Path(__file__).parents[2] / "spec"
VECTORS: dict[str, Any] = json.loads((SPEC / "answers.json").read_text())


def exported(text: str) -> str:
    return json.dumps(export_plan(Plan.from_toml(text)))


# The vectors


def test_every_step_is_that_of_the_vectors(ask: Ask) -> None:
    plan = exported(VECTORS["plan"])
    expected = [("hash", each, each["output"]) for each in VECTORS["hash"]]
    expected += [("block", each, each["output"]) for each in VECTORS["hash"]]
    expected += [("cell", each, each["cell"]) for each in VECTORS["rounding"]]
    expected += [
        (
            "window",
            {"plan": plan, "metric": "many_bits", "cohort": each["cohort"]},
            each["window"],
        )
        for each in VECTORS["windows"]
    ]
    expected += [
        ("round", each, [each["round"], each["start"], each["round"], each["round"] + 1])
        for each in VECTORS["rounds"]
    ]
    expected += [
        ("part", each | {"words": [each["word"], *VECTORS["splits"]["darts"]]}, [each["front"], each["hit"]])
        for each in VECTORS["splits"]["picks"]
    ]
    assert len(expected) > 190
    assert ask([(what, about) for what, about, _ in expected]) == [answer for _, _, answer in expected]


def test_the_export_has_the_digests_and_thresholds_of_the_vectors() -> None:
    metrics: Any = export_plan(Plan.from_toml(VECTORS["plan"]))["metrics"]
    assert {each["name"]: each["digest"] for each in metrics} == {
        each["metric"]: each["digest"] for each in VECTORS["digests"]
    }
    lows = {each["low"] for each in VECTORS["thresholds"]}
    assert {each["low"] for each in metrics if each["name"] in ("one_step", "twenty_steps")} <= lows


def test_reports_are_those_of_the_vectors(ask: Ask) -> None:
    questions = []
    expected = []
    for device in VECTORS["devices"]:
        for vector, line in zip(device["reports"], device["json"], strict=True):
            about = {
                "plan": exported(VECTORS["plan"]),
                "secret": device["secret"],
                "epoch": device["epoch"],
                "segment": device["segment"],
            }
            questions.append(("report", about | {key: vector[key] for key in ("round", "values")}))
            expected.append((line, {name: each["class"] for name, each in vector["answers"].items()}))
    for device in VECTORS["kinds"]["devices"]:
        for vector in device["reports"]:
            about = {key: device[key] for key in ("secret", "epoch")} | {"segment": {}}
            about |= {key: vector[key] for key in ("round", "values")}
            questions.append(("report", about | {"plan": exported(VECTORS["kinds"]["plan"])}))
            line = reference.sampled_bytes(VECTORS["kinds"]["plan"], vector | {"asked": ""}, {}, b"")["json"]
            expected.append((line, {name: each["class"] for name, each in vector["answers"].items()}))
    splits = [vectors for vectors in VECTORS["splits"]["plans"] if "sampled" in vectors["plan"]]
    for vectors in [*VECTORS["sampled"], VECTORS["subsets"], *splits]:
        for device in vectors["devices"]:
            for vector in device["reports"]:
                about = {key: device[key] for key in ("secret", "epoch")} | {
                    key: vector[key] for key in ("round", "values")
                }
                about |= {"plan": exported(vectors["plan"]), "segment": vectors.get("segment", {})}
                questions.append(("report", about))
                expected.append((vector["json"], vector["classes"]))
    assert len(questions) > 50
    answers = ask(questions)
    assert [(each["body"], each["visited"]) for each in answers] == expected
    assert all(each["picked"] == about["round"] for each, (_, about) in zip(answers, questions, strict=True))


# Random plans and histories


def ways_of(plan: Plan) -> set[str]:
    """What a plan asks of its devices beyond a noisy bit for each metric."""
    answers = "sampled" if plan.answers.sampled else "remembered"
    divided = {f"divided, {answers}"} if plan.asked < len(plan.metrics) else set()
    splits = {f"split, {answers}" for metric in plan.metrics if metric.kind == "split"}
    return divided | splits | {"subset" for metric in plan.metrics if metric.mechanism.name == "subset"}


WAYS = {"divided, remembered", "divided, sampled", "split, remembered", "split, sampled", "subset"}


def compare(ask: Ask, plans: int, seed: int) -> Counter[str]:
    """How many of the plans ask in each of the ways."""
    random = Random(seed)
    ways: Counter[str] = Counter()
    questions = []
    bodies = []
    for _ in range(plans):
        text = random_plan(random)
        plan, export = Plan.from_toml(text), exported(text)
        ways.update(ways_of(plan))
        segment = {"os": random.choice(["linux", "macos", "a b", "plan9"]), "channel": "beta"}
        secret, epoch = random.randbytes(32), random.randrange(3)
        for _ in range(3):
            values = {
                name: random.choice(metric.labels)
                if metric.labels
                else str(metric.max_value * Fraction(random.randrange(0, 41), 40))
                for name, metric in plan.recorded.items()
                if random.random() < 0.8
            }
            if plan.answers.sampled:
                number = random.randrange(30)
                written = reference.sampled_answer(text, secret, epoch, number, values)
                window = written["start"]
            else:
                written = {"asked": ""} | reference.answer(
                    text, secret, epoch, random.randrange(2**31), values
                )
                window = None
            tags = plan.tags(segment)
            codes = bytes(list(each.tags).index(tags[each.name]) for each in plan.segments)
            line = reference.sampled_bytes(text, written, tags, codes)["json"]
            draws = SecretDraws(secret, plan.name, epoch, window)
            exact = {
                name: value if plan.recorded[name].labels else Fraction(value)
                for name, value in values.items()
            }
            assert to_json(answer(draws, plan, written["round"], exact, segment).report).decode() == line
            about = {"plan": export, "secret": secret.hex(), "epoch": epoch, "round": written["round"]}
            questions.append(("report", about | {"values": values, "segment": segment}))
            bodies.append(line)
    assert [each["body"] for each in ask(questions)] == bodies
    return ways


def test_three_implementations_agree_on_random_plans_and_histories(ask: Ask) -> None:
    assert set(compare(ask, plans=100, seed=1)) == WAYS


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_three_implementations_agree_on_ten_thousand_random_plans_and_histories(ask: Ask) -> None:
    ways = sum((compare(ask, plans=500, seed=seed) for seed in range(2, 22)), Counter())
    assert all(ways[way] >= 1000 for way in WAYS), ways
