"""Certificates say what a plan's integers and figures are; only those that Coq has checked count as certified."""

from __future__ import annotations

import re
import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.shared.plans import SAVES

from reticent.mechanisms import Flip
from reticent.plan import Plan
from reticent_collector.plans import certificate
from reticent_collector.plans.certificate import certify, check, is_certified
from reticent_collector.privacy.card import privacy_card

ROOT = Path(__file__).parents[3]
PLANS = sorted([*(ROOT / "examples").rglob("*.toml"), *(ROOT / "proofs/plans").glob("*.toml")])


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_the_example_plans_are_certified(path):
    """If this fails, integers, figures or answers have changed: run make proofs and commit the new digests."""
    assert is_certified(Plan.load(path))


def test_another_plan_of_the_same_name_is_not_certified():
    plan = Plan.load(ROOT / "examples/plan.toml")
    metric = replace(plan.metrics[0], flip=Flip(plan.metrics[0].flip.probability / 2))
    assert not is_certified(replace(plan, metrics=(metric, *plan.metrics[1:])))
    assert not is_certified(plan, rounds=7)
    assert not is_certified(replace(plan, version=plan.version + 1))
    assert not is_certified(Plan.from_toml(SAVES))


def test_a_certificate_holds_the_integers_and_the_exact_figures():
    plan = Plan.from_toml(SAVES)
    text, card = certify(plan).text, privacy_card(plan)
    for integer in (*plan.metrics[0].mechanism.cell_thresholds, plan.metrics[0].flip.threshold):
        assert str(integer) in text
    for figure in (card.round, card.constant, card.lifetime, card.change_per_round, card.any_history):
        numerator, denominator = figure.as_integer_ratio()
        assert f"({numerator} # {denominator})" in text


def test_what_has_no_certificate_is_said(monkeypatch):
    """Sets of unlike counters whose losses are not computed one by one, here more than five."""
    plan = Plan.load(ROOT / "proofs/plans/sampled-unlike.toml")
    assert not certify(plan).left_out
    monkeypatch.setattr(certificate, "MOST_SUBSETS", 5)
    assert certify(plan).left_out == (
        "group screen: 4 unlike counters, of which 3 are asked, have too many sets",
    )
    assert not is_certified(plan)


def test_a_figure_of_a_plan_that_asks_some_is_about_all_its_blocks():
    """Each whole-plan theorem names every metric alone and every group, and how many are asked."""
    plan = Plan.load(ROOT / "proofs/plans/divided.toml")
    text, card = certify(plan).text, privacy_card(plan)
    for figure in ("round", "constant", "lifetime", "change_per_round", "any_history"):
        numerator, denominator = getattr(card, figure).as_integer_ratio()
        theorem = text.split(f"Theorem whole_plan_{figure} : ")[1].split("Proof.")[0]
        assert theorem.endswith(f"2 (Q2R ({numerator} # {denominator})).\n")
        named = set(re.findall(r"plan_(\w+)", theorem))
        of_groups = {"screen", "saves", "size"}
        assert named == (of_groups if figure in ("round", "constant") else set(plan.by_name))


def test_every_fault_still_changes_one_place():
    """proofs/faults.py is run by hand; here, that the lines it changes are there."""
    faults = runpy.run_path(str(ROOT / "proofs/faults.py"))
    for fault in faults["FAULTS"]:
        package = faults["PACKAGES"][fault.file.partition("/")[0]]
        assert (package.parent / fault.file).read_text().count(fault.old) == 1, fault.what
        assert fault.plan in faults["PLANS"]


@pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed; make proofs brings it")
@pytest.mark.soak
def test_coq_accepts_a_certificate_and_refuses_a_smaller_figure():
    of_saves = certify(Plan.from_toml(SAVES))
    assert check(of_saves, ROOT / "proofs") is None
    smaller = re.sub(r"lifetime := \(\d+ # \d+\)", "lifetime := (3 # 2)", of_saves.text, count=1)
    assert "Error" in str(check(replace(of_saves, text=smaller), ROOT / "proofs"))
