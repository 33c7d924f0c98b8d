"""The device in JavaScript computes what the vectors freeze, and sends the bytes of reticent's own device."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from reticent.lab.audit import CoreParticipant
from reticent.plan import Plan
from reticent.reports import from_json

ROOT = Path(__file__).parents[2]
DEVICE = ROOT / "examples" / "device.mjs"
PLAN = Plan.load(ROOT / "examples" / "saves.toml")

ASKING = """
import { cell, draw, report, threshold } from "DEVICE";

const bytes = (text) => Buffer.from(text, "hex");
const number = (text) => [...text.split("/"), "1"].slice(0, 2).map(BigInt);
const scaled = (grid) => grid.map((text) => { const [a, b] = number(text); return (2n * a) / b; });
const twice = (text) => { const [a, b] = number(text); return [2n * a, b]; };
const doing = {
  draw: (asked) => draw(bytes(asked.secret), { ...asked, digest: bytes(asked.digest) }).toString("hex"),
  threshold: (epsilon) => `${threshold(number(epsilon))}`,
  cell: ({ grid, value, alpha }) => cell(scaled(grid), twice(value), BigInt(alpha)),
  report: ({ secret, round, value }) => report(bytes(secret), round, number(value)),
};
let asked = "";
for await (const part of process.stdin) asked += part;
console.log(JSON.stringify(JSON.parse(asked).map(([what, about]) => doing[what](about))));
"""

Ask = Callable[[list[tuple[str, Any]]], list[Any]]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """What functions of the device answer, all asked at once."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on the PATH")
    program = tmp_path_factory.mktemp("node") / "asking.mjs"
    program.write_text(ASKING.replace("DEVICE", DEVICE.as_uri()))

    def ask(questions: list[tuple[str, Any]]) -> list[Any]:
        text = json.dumps(questions)
        done = subprocess.run(
            [node, str(program)], input=text, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        answers: list[Any] = json.loads(done.stdout)
        return answers

    return ask


@pytest.fixture(scope="module")
def vectors() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "tests" / "vectors" / "device.json").read_text())
    return found


def test_every_step_is_that_of_the_vectors(ask: Ask, vectors: dict[str, Any]) -> None:
    """Points of the grids are halves at most, and the device's are whole: so all is doubled."""
    expected = [("draw", each, each["output"]) for each in vectors["hash"]]
    expected += [("threshold", each["epsilon"], each["low"]) for each in vectors["thresholds"]]
    expected += [("cell", each, each["cell"]) for each in vectors["rounding"]]
    assert len(expected) > 100
    assert ask([(what, about) for what, about, _ in expected]) == [answer for _, _, answer in expected]


def test_its_reports_are_those_of_the_sdk(ask: Ask) -> None:
    asked: list[dict[str, Any]] = [
        {"secret": sha256(bytes([place])).hexdigest(), "round": 81_652 + place % 7, "value": value}
        for place in range(40)
        for value in ("0", "7", "10", "99/7", "20", "1000", "-3")
    ]
    answers = ask([("report", each) for each in asked])
    for each, answer in zip(asked, answers, strict=True):
        value = min(max(Fraction(each["value"]), Fraction(0)), Fraction(20))
        device = CoreParticipant(PLAN, bytes.fromhex(each["secret"]))
        assert device.answer(each["round"], {"saves": value}) == answer.encode()
    assert len({json.loads(answer)["bits"] for answer in answers}) == 2


def test_the_device_in_javascript_answers_when_it_is_begun() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on the PATH")
    answer = {"do": "answer", "round": 81_652, "values": {"saves": 3}}
    requests = [{"do": "start", "device": 1, "first_round": 81_652}, {"do": "copy", "device": 1, "to": 2}]
    requests += [{**answer, "device": 1}, {**answer, "device": 2}, {**answer, "device": 2, "round": 81_653}]
    done = subprocess.run(
        [node, str(DEVICE)],
        input="".join(f"{json.dumps(request)}\n" for request in requests),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    *started, original, copied, later = done.stdout.splitlines()
    assert started == ["true", "true"]
    assert original == copied
    reports = [from_json(text.encode()) for text in (original, later)]
    assert [(report.plan, report.version, report.round) for report in reports] == [
        ("saves", 1, 81_652),
        ("saves", 1, 81_653),
    ]
    assert reports[0].id != reports[1].id
