"""Words that are put in the paper's mouth stand in the paper, and its equations have the numbers that we give them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reticent_paper import run
from reticent_paper.claims import Setting

ROOT = Path(__file__).parents[2]
PAPER = ROOT.parent / "shared" / "paper" / "collecting-telemetry-data-privately.tex"
SYMBOLS = {
    r"\epsilon": "ε",
    r"\eps": "ε",
    r"\alpha": "α",
    r"\delta": "δ",
    r"\%": "%",
    "~": " ",
    "$": "",
}
MAP = ROOT / "paper" / "README.md"
LABELS = {
    "1BitMean": "equ:meanmech",
    "dBitFlip": "equ:histogramest",
    "α-point rounding": "Eqn:Ai",
    "Theorem 4": "Eqn:PermMem",
    "OP(γ)": "Eqn:OpAlg",
    "Theorem 5": "e:opratio",
}


@pytest.fixture(scope="module")
def source() -> str:
    if not PAPER.exists():
        pytest.skip("the text of the paper is not here")
    return PAPER.read_text(encoding="utf-8")


def words_of(source: str) -> str:
    """The text without its mark-up."""
    text = re.sub(r"(?<!\\)%.*", "", source)
    for mark, symbol in SYMBOLS.items():
        text = text.replace(mark, symbol)
    text = re.sub(r"\\(?:cite|ref|eqref|label)(?:\[[^\]]*\])?\{[^}]*\}", "", text)
    text = re.sub(r"\\[a-zA-Z]+\*?|\\.", " ", text)
    text = re.sub(r"\s+", " ", re.sub(r"[{}]", "", text))
    return re.sub(r" ([.,;)])", r"\1", text)


def test_every_quote_stands_in_the_paper_word_for_word(source: str) -> None:
    words = words_of(source)
    tiny = Setting(fleets=(600, 1_000, 1_500), repetitions=4, days=4)
    claims = run(["all"], tiny).of_the_paper
    assert len(claims) == 80
    assert [claim.says for claim in claims if not claim.quote or claim.quote not in words] == []


def test_a_wrong_quote_would_be_noticed(source: str) -> None:
    assert "each round of data collection satisfies" not in words_of(source)


def test_the_map_gives_equations_their_numbers(source: str) -> None:
    """Equations are counted as LaTeX does: the lines of an `eqnarray` of this paper have no numbers."""
    labels = [
        found.group(1) if (found := re.search(r"\\label\{([^}]*)\}", body)) else ""
        for body in re.findall(r"\\begin\{equation\}(.*?)\\end\{equation\}", source, re.DOTALL)
    ]
    assert len(labels) == 22
    for name, label in LABELS.items():
        row = next(line for line in MAP.read_text().splitlines() if line.startswith(f"| {name}"))
        number = re.search(r"Eq\. (\d+)", row)
        assert number is not None
        assert int(number.group(1)) == labels.index(label) + 1, name
