"""One list of promises: complete, proved by tests that exist, and the only source of what the product says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from reticent.claims import NOT_COVERED
from reticent.device.ledger import has_room
from reticent.device.prf import encode
from reticent.device.rounds import is_due
from reticent.mechanisms import Grid, OneBitMean, SubsetSelection
from reticent_collector.privacy import (
    CLAIMS,
    MEANING,
    Losses,
    joint_limit_loss,
    loss_by_width,
    loss_of_any_histories,
    loss_of_asked,
    loss_of_constant_device,
    loss_of_moved_change,
    loss_of_window,
    loss_per_round,
)

ROOT = Path(__file__).parents[3]
OLD = re.compile(
    r"change[sd]?\s+(?:at|in)\s+the\s+same\s+(?:times|rounds)|same\s+pattern\s+of\s+changes|"
    r"shares\s+its\s+times|(?<!other\s)never\s+loses\s+more\s+than\s+2",
    re.IGNORECASE,
)
"""The old sentence, which is false: two devices may change in the same rounds and be told apart."""
DENIED = ("even if both", "is not enough", "are not covered", "not a bound", "nobody claims", "used to say")
"""Around a mention that says the old sentence is not a promise."""


def texts() -> list[Path]:
    houses = ("device", "device-js", "collector", "lake", "lab", "otel", "paper")
    folders = (*(f"{house}/src" for house in houses), "docs", "examples")
    assert all((ROOT / folder).is_dir() for folder in folders)
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    shown = [path for path in files if path.suffix in (".py", ".md", ".html", ".ipynb", ".toml", ".js")]
    return [path for path in shown if "__pycache__" not in path.parts and "python" not in path.parts]


def test_every_loss_is_a_claim_in_the_same_order():
    names = [field.name for field in fields(Losses)]
    assert list(CLAIMS)[: len(names)] == names
    assert [CLAIMS[name].id for name in CLAIMS] == list(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.id)
def test_a_claim_is_proved_by_a_test_that_exists(claim):
    assert claim.tests
    for test in claim.tests:
        path, name = test.split("::")
        assert f"def {name}(" in (ROOT / path).read_text()


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.id)
def test_a_claim_is_proved_by_theorems_that_exist(claim):
    assert claim.theorems or claim.id == "tracking", "which is a matter of counting, and only tested"
    for theorem in claim.theorems:
        path, name = theorem.split("::")
        assert re.search(rf"^ *Theorem {name}\b", (ROOT / path).read_text(), re.MULTILINE)
        assert re.search(rf"\b{name}\b", (ROOT / "proofs/Claims.v").read_text()), "where a reader looks"


DOCSTRINGS = [loss_per_round, loss_of_constant_device, loss_by_width, loss_of_moved_change, loss_of_any_histories,
              joint_limit_loss, loss_of_asked, loss_of_window, Grid.cell, OneBitMean, encode, has_room,
              is_due, SubsetSelection]  # fmt: skip


@pytest.mark.parametrize("function", DOCSTRINGS, ids=lambda function: function.__name__)
def test_a_docstring_names_theorems_that_exist(function):
    names = re.findall(
        r"theorems? `(\w+)`(?: and `(\w+)`)?", re.sub(r"\s+", " ", function.__doc__), re.IGNORECASE
    )
    proofs = "".join(path.read_text() for path in (ROOT / "proofs").glob("*.v"))
    assert names
    for name in filter(None, (name for pair in names for name in pair)):
        assert re.search(rf"^ *Theorem {name}\b", proofs, re.MULTILINE), name


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.id)
def test_a_claim_says_whom_it_compares_over_what_and_what_it_leaves_out(claim):
    assert all((claim.title, claim.compares, claim.over, claim.observer, claim.not_covered))
    said = claim.sentence.format(
        loss="1.0", time="1 year", devices="10", share="1 %", together="may find all"
    )
    assert said.endswith(".")
    assert "at most" in said
    assert OLD.search(said) is None


@pytest.mark.parametrize("path", texts(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_old_sentence_is_nowhere(path):
    text = re.sub(r"\s+", " ", path.read_text(encoding="utf-8", errors="replace"))
    for mention in OLD.finditer(text):
        around = text[max(mention.start() - 120, 0) : mention.end() + 200]
        assert any(words in around for words in DENIED), around


def test_the_page_of_promises_quotes_the_list():
    page = re.sub(r"[\s>]+", " ", (ROOT / "docs/explanation/privacy.md").read_text())
    assert MEANING in page
    assert NOT_COVERED in page
    for claim in CLAIMS.values():
        for words in (
            claim.title,
            claim.sentence.format(
                loss="loss",
                time="R rounds",
                devices="n",
                share="a share",
                together="may find more, on average never above another share",
            ),
        ):
            assert words in page, f"{claim.id}: {words}"


def test_the_readme_promises_three_of_them_word_for_word():
    page = re.sub(r"\s+", " ", (ROOT / "README.md").read_text())
    for name in ("round", "constant", "window"):
        assert CLAIMS[name].sentence.format(loss="loss") in page
    assert NOT_COVERED.rstrip(".") in page
