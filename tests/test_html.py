"""Small tables for notebooks: nothing gets out of its cell, and no number stands without its interval."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from itertools import pairwise
from math import exp, log
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reticent
from reticent.device import Entry, Epoch, Receipt, Told
from reticent.html import Safe, details, note, page, safe, table
from reticent.losses import printed
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Group, Metric, Plan, Segment
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import cumulative, estimate
from reticent_collector.estimates.notebook import bar
from reticent_collector.privacy import CLAIMS
from reticent_collector.privacy.card import plan_html

ROOT = Path(__file__).parents[1]
EVIL = "</td></table><script>alert('1')</script><img src=x onerror=\"alert(2)\"> & <b>"
TAGS = {"div", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td", "p", "small", "br"} | {
    "details", "summary", "svg", "rect", "path",
}  # fmt: skip
VOID = {"br"}

HOURS = Metric("hours", OneBitMean(1, 24), unit="hour")
SEEN = MeanCounts(reports=1_000_000, ones=400_000)
SPREAD = Metric("spread", DBitFlip(2, Buckets([0, 1, 4, 24]), 3), unit="hour")
SHARES = HistogramCounts((10_000,) * 3, (5_000, 2_600, 3_300), rows_per_report=3)
TOLD = Told(7, 1, "ab" * 16, 0, {"hours": "1", "spread": "010"}, "accepted")
ENTRY = Entry("hours", b"digest", 0, 2, 2.0, 2.0, False)


class Reader(HTMLParser):
    """The tables of a piece of HTML as text, checking on the way that every tag is closed in its turn."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.captions: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")
        elif tag == "caption":
            self.captions.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "caption" in self.open:
            self.captions[-1] += data
        elif "th" in self.open or "td" in self.open:
            self.tables[-1][-1][-1] += data


def evil_plan() -> Plan:
    metric = Metric(EVIL, OneBitMean(1, 24), Flip(0.2), unit=EVIL, description=EVIL)
    return Plan(
        EVIL, 1, 3600, 90, (metric, replace(metric, name="other")), (Group(EVIL, (EVIL, "other"), 24),),
        (Segment(EVIL, (EVIL,)),), EVIL, date(2030, 1, 1),
    )  # fmt: skip


def evil_receipt() -> Receipt:
    told = replace(TOLD, bits={EVIL: EVIL}, state=EVIL, code=EVIL)
    return Receipt(EVIL, (told,) * 20, (replace(ENTRY, metric=EVIL),), (Epoch(0, 3, EVIL),), EVIL)


def everything() -> list[str]:
    """Every kind of object, harmless and with hostile words in each of its fields."""
    found = []
    for unit in ("hour", EVIL):
        shares = estimate(replace(SPREAD, unit=unit), SHARES)
        band = cumulative(replace(SPREAD, unit=unit), [SHARES])
        mean = estimate(replace(HOURS, unit=unit), SEEN)
        found += [mean, shares.buckets[0], shares, band, band.quantile(0.5)]
    found += [evil_receipt(), Receipt("plan", (TOLD,), (ENTRY,))]
    plans = evil_plan(), Plan.load(ROOT / "examples/plan.toml")
    return [*(each._repr_html_() for each in found), *map(plan_html, plans)]


# The pieces


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_comes_out_as_it_went_in(text: str) -> None:
    html = page(
        table(text, [text, "b"], [[text, safe(text)]], [[text, 1]]),
        note(text),
        details(text, note(text)),
    )
    read = Reader(html)
    assert {tag for tag, _ in read.tags} <= TAGS
    assert read.captions == [text]
    assert read.tables == [[[text, "b"], [text, text], [text, "1"]]]


def test_what_is_html_already_is_left_alone_and_nothing_else() -> None:
    assert safe(Safe("<b>")) == "<b>"
    assert safe("<b>\"'&") == "&lt;b&gt;&quot;&#x27;&amp;"
    assert not isinstance(Safe("<b>") + "<i>", Safe)  # joined with text, it counts as text again


def places(html: str) -> tuple[float, float, float, float]:
    """Where a bar begins and ends, and where its interval does, in pixels."""
    rectangle = re.search(r'<rect x="([\d.]+)" y="3" width="([\d.]+)"', html)
    line = re.search(r'd="M([\d.]+) 6H([\d.]+)', html)
    assert rectangle
    assert line
    left, width, low, high = map(float, (*rectangle.groups(), *line.groups()))
    return left, left + width, low, high


@given(*[st.floats(-2, 2)] * 3)
def test_a_bar_never_leaves_its_cell(value: float, lower: float, upper: float) -> None:
    assert all(1 <= place <= 159 for place in places(bar(value, lower, upper, (-0.1, 1))))


# Every object


@pytest.mark.parametrize("html", everything())
def test_hostile_words_stay_words(html: str) -> None:
    read = Reader(html)
    assert {tag for tag, _ in read.tags} <= TAGS
    assert not any(
        name.startswith("on") or name in ("id", "src", "href") for _, given in read.tags for name in given
    )
    assert ("alert" in html) == (EVIL in read.text)


@pytest.mark.parametrize("html", everything())
def test_pages_light_and_dark_lend_their_colours(html: str) -> None:
    read = Reader(html)
    styles = [given.get("style") or "" for _, given in read.tags]
    assert not any("background" in style or re.search(r"(^|;)color", style) for style in styles)
    assert {given["fill"] for _, given in read.tags if "fill" in given} <= {"currentColor", "none"}


@pytest.mark.parametrize("html", everything())
def test_tables_have_a_caption_and_headers_a_scope(html: str) -> None:
    tags = Reader(html).tags
    assert all(after[0] == "caption" for (tag, _), after in pairwise(tags) if tag == "table")
    assert {given.get("scope") for tag, given in tags if tag == "th"} <= {"row", "col"}
    assert all(given.get("aria-hidden") == "true" for tag, given in tags if tag == "svg")
    rows = [after[1].get("scope") for (tag, _), after in pairwise(tags) if tag == "tr"]
    assert set(rows) <= {"row", "col"}


# The plan


def test_a_plan_shows_what_is_asked_and_its_card() -> None:
    asked, card = Reader(plan_html(Plan.load(ROOT / "examples/plan.toml"))).tables
    assert asked[0] == ["metric", "asks for", "range", "mechanism", "epsilon", "flip"]
    assert asked[1][1:] == ["mean", "0 to 21,600 second", "one-bit-mean", "1.0", "0.2"]
    assert asked[1][0] == "editor_secondsSeconds with the editor in front"
    assert asked[3][1:4] == ["histogram, 32 buckets", "0 to 21,600 second", "hadamard-bit"]
    one = log((0.8 * exp(1) + 0.2) / (0.8 + 0.2 * exp(1)))  # one bit of randomized response, flipped
    assert card[0][1:] == [
        "one round", "constant device", "same pattern", "change moved by one round", "any two histories, 1 year",
    ]  # fmt: skip
    year = 2 * log(exp(1) + 1) + 730 * log(4)
    row = [printed(one), "1.0", "2.0", printed(log(4)), printed(year)]
    assert [line[1:] for line in card[1:4]] == [row] * 3
    # two counters under one limit: no discount
    assert card[4] == ["group apps", printed(2 * one), "2.0", "", "", ""]
    assert card[5] == ["whole plan", printed(3 * one), "3.0", "6.0", printed(3 * log(4)), printed(3 * year)]


def test_a_plan_rounds_epsilon_up() -> None:
    html = plan_html(Plan("p", 1, 3600, 3600, (Metric("m", OneBitMean("0.12341", 1)),)))
    assert ">0.1235<" in html
    assert "0.1234<" not in html


def test_a_plan_names_steps_widths_and_fractions() -> None:
    fine = Metric("a", OneBitMean(2, "0.5", "0.1"), unit="second")
    bits = Metric("b", DBitFlip("0.5", Buckets.even(24, 8), 2, "paper"))
    ((_, mean, histogram), card) = Reader(plan_html(Plan("p", 3, 90, 0, (fine, bits)))).tables
    assert mean == ["a", "mean, 5 steps", "0 to 0.5 second", "one-bit-mean", "2.0", "0"]
    assert histogram == ["b", "histogram, 8 buckets", "0 to 24", "d-bit-flip, 2 bits, paper", "0.5", "0"]
    assert card[1][4:] == ["infinite", "infinite"]  # without flips, nothing hides when a device changes


PROGRAM = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "scipy", "matplotlib", "IPython"):
            raise ImportError(name)
sys.meta_path.insert(0, Nothing())
import reticent
from reticent.device import Receipt
plan = reticent.Plan.load(sys.argv[1])
assert "reticent.html" not in sys.modules
print(Receipt("app-usage")._repr_html_().count("<table"))
"""


def test_a_bare_install_shows_receipts_and_loads_nothing_for_it_before() -> None:
    command = [sys.executable, "-S", "-c", PROGRAM, str(ROOT / "examples/plan.toml")]
    path = {"PYTHONPATH": str(Path(reticent.__file__).parents[1])}
    done = subprocess.run(command, env=path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("2\n", "")


# The receipt


def test_a_receipt_shows_what_its_text_shows() -> None:
    lost = replace(ENTRY, metric="spread", epoch=1, loss=6.0, lifetime=6.0, lost=True)
    later = replace(TOLD, round=8, version=2, state="rejected", code="late", bits={"hours": "0", "new": "1"})
    receipt = Receipt(
        "app", (TOLD, later), (ENTRY, lost), (Epoch(0, 3, "enrolled"),), "the file was read-only"
    )
    read = Reader(receipt._repr_html_())
    sent, losses = read.tables
    assert read.captions[0] == "Receipt for plan app: 2 reports"
    assert sent == [
        ["round", "version", "state", "hours", "spread", "new"],
        ["7", "v1", "accepted", "1", "010", ""],
        ["8", "v2", "rejected (late)", "0", "", "1"],
    ]
    assert losses[1:] == [
        ["hours", "0", "2.0", "2.0", "2"],
        ["a lost state file", "1", "6.0", "6.0", "all that it held"],
        ["together", "", "8.0", "8.0", ""],
    ]
    assert "the file was read-only" in read.text
    assert CLAIMS["spent"].says(8.0) in read.text
    assert "Epoch 0 began in round 3: enrolled" in read.text


@pytest.mark.parametrize("count", [0, 1, 12, 13, 40])
def test_no_report_is_left_out_of_a_receipt(count: int) -> None:
    receipt = Receipt("app", tuple(replace(TOLD, round=1000 + number) for number in range(count)))
    html = receipt._repr_html_()
    shown, *earlier = Reader(html).tables[:-1]
    rows = [row[0] for part in (*earlier, shown) for row in part[1:]]
    assert rows == [str(1000 + number) for number in range(count)]
    assert html.count("<details>") == (count > 12)
    assert len(shown) - 1 == min(count, 12)


# Estimates


def test_an_estimate_is_its_text_and_what_its_interval_is_made_of() -> None:
    found = estimate(HOURS, SEEN)
    read = Reader(found._repr_html_())
    assert read.captions == ["6.807 ± 0.050 hour (95%, n=1,000,000)"] == [str(found)]
    rows = dict(read.tables[0])
    assert rows["95% interval"] == f"{found.lower:.3f} to {found.upper:.3f} hour"
    parts = [float(rows[name].split()[0]) for name in ("price of privacy, in ±", "drawing of devices, in ±")]
    assert sum(part**2 for part in parts) ** 0.5 == pytest.approx(0.050, abs=0.001)
    most = 0.01 * 24 * exp(1) / (exp(1) - 1)  # a hundredth lies: MATHS, manipulation bound of a mean
    assert rows["1% dishonest reports move it by"] == f"{most:.3f} hour at most"


def test_a_bucket_says_which_it_is_and_with_how_many_it_holds() -> None:
    read = Reader(estimate(SPREAD, SHARES).buckets[1]._repr_html_())
    assert read.captions[0].startswith("[1, 4): ")
    assert read.tables[0][0][0] == "95% interval, with 2 others at once"


def test_every_share_stands_beside_its_interval() -> None:
    found = estimate(SPREAD, SHARES)
    (rows,) = Reader(found._repr_html_()).tables
    assert rows[0] == ["hour", "share", "95% interval", "bar"]
    assert [row[0] for row in rows[1:]] == ["[0, 1)", "[1, 4)", "[4, 24]"]
    for row, line, bucket in zip(rows[1:], str(found).splitlines(), found.buckets, strict=True):
        assert f": {row[1]} (95%" in line
        assert row[2] == f"{bucket.lower:.3f} to {bucket.upper:.3f}"


def test_reports_per_bucket_are_shown_where_they_differ() -> None:
    some = Metric("some", DBitFlip(2, Buckets([0, 1, 4, 24]), 1), unit="hour")
    found = estimate(some, HistogramCounts((900, 1_000, 1_100), (300, 250, 280)))
    (rows,) = Reader(found._repr_html_()).tables
    assert [row[4] for row in rows] == ["reports", "900", "1,000", "1,100"]


def test_a_truth_that_cannot_be_is_pointed_out() -> None:
    impossible = "No truth in the range"
    assert impossible not in estimate(HOURS, SEEN)._repr_html_()
    assert impossible in estimate(HOURS, MeanCounts(10_000, 0))._repr_html_()
    assert impossible not in estimate(SPREAD, SHARES)._repr_html_()
    none = HistogramCounts((10_000,) * 3, (5_000, 0, 3_300), rows_per_report=3)
    assert impossible in estimate(SPREAD, none)._repr_html_()


def test_a_band_has_a_row_per_edge() -> None:
    band = cumulative(SPREAD, [SHARES])
    (rows,) = Reader(band._repr_html_()).tables
    assert rows[0] == ["below, hour", "share", "95% band", "bar"]
    assert [row[0] for row in rows[1:]] == ["0", "1", "4", "24"]
    assert rows[1][1:3] == ["0.000", "0.000 to 0.000"]
    assert rows[2][1:3] == [f"{band.values[1]:.3f}", f"{band.lower[1]:.3f} to {band.upper[1]:.3f}"]


def test_values_that_show_themselves_stay_frozen() -> None:
    shares = estimate(SPREAD, SHARES)
    for value in (shares, shares.buckets[0], cumulative(SPREAD, [SHARES]), Receipt("app")):
        value._repr_html_()
        with pytest.raises(AttributeError):
            setattr(value, value.__match_args__[0], 1)


def test_a_table_of_a_hadamard_bit_stays_small() -> None:
    metric = Metric("rows", HadamardBit(1, Buckets.even(24, 32)))
    found = estimate(metric, HistogramCounts((1000,) * 64, (500,) * 64))
    assert len(found._repr_html_()) < 25_000
