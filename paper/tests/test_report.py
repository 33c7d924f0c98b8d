"""The report: files that say what was found, pages that can be read, and every claim of the paper in them."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from reticent_collector.plots import panels
from reticent_lab.fleet import Recorded, Uniform
from reticent_paper import report, run
from reticent_paper.claims import ClaimVerdict, ExperimentResult, NumberTable, PaperClaim, Plot, Run, Setting

TINY = Setting(fleets=(600, 1_000, 1_500), repetitions=12, days=4)


def _line():
    figure, (axis,) = panels()
    axis.plot([0, 1], [0, 1])
    return figure


AWKWARD = NumberTable(
    "awkward",
    "Cells that need care",
    ("name", "whole", "real", "yes"),
    (
        ('a "quoted", <b>bold</b> | cell', 3_000_000, 0.1 + 0.2, True),
        ("line\nbreak", np.int64(7), np.float64(1e-12), np.bool_(False)),
        ("none", 0, float("inf"), False),
    ),
)


@pytest.fixture
def made():
    claims = (
        PaperClaim(
            "§6", "Second in order <script>", "b", ClaimVerdict.CORRECTED, "never & nowhere", "E13, E1"
        ),
        PaperClaim("§2.1", "First in order", "a", ClaimVerdict.HOLDS, ours="so it is"),
        PaperClaim("reticent, beside §5", "Our own", "c", ClaimVerdict.CONDITION, "sometimes"),
    )
    picture = Plot("line", "A line", 'It rises from 0 to 1, "as it should".', _line)
    result = ExperimentResult("thing", "A thing & more", "What it is.", (AWKWARD,), (picture,), claims)
    return Run(Setting(), (result,), (1.5,), 2**30, {"python": "3"})


class Page(HTMLParser):
    """The tags of a page with their attributes, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_page_is_sound_and_says_all(made):
    page = Page(report.page(made, "index.html"))
    text = " ".join(page.words)
    assert {image["src"] for image in page.all("img")} == {"thing-line.png"}
    assert all(len(image["alt"] or "") > 20 for image in page.all("img"))
    for words in ("§6", "First in order", "never & nowhere", "holds with a condition", "needed correcting"):
        assert words in text, words
    for words in ("2017", "3,000", "osf.io/fb38n", "What it is."):
        assert words in text, words
    assert "<script" not in report.page(made, "index.html")
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    inner = {link["href"][1:] for link in page.all("a") if (link["href"] or "").startswith("#")}
    assert inner <= ids
    assert {"claims", "thing", "own"} <= ids
    assert text.index("A line") < text.index("First in order"), "figures come first"
    assert len(page.all("details")) == 1, "experiments are folded"
    assert "our threshold: so it is" in text
    assert "never & nowhere (E13, E1)" in text


def test_nothing_on_the_page_is_fetched_from_elsewhere(made):
    text = report.page(made, "index.html")
    page = Page(text)
    addresses = [a.get(k) for _, a in page.tags for k in ("src", "href") if a.get(k)]
    assert all(re.fullmatch(r"#[\w-]+|[\w.-]+\.(png|svg|csv)", address or "") for address in addresses)
    assert not re.search(r"https?:|//|@import|url\(", text)


def test_markdown_tables_keep_their_columns(made):
    text = report.page(made, "claims.md")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert "|✗ never & nowhere (E13, E1)|" in text
    assert "|~ c; sometimes|" in text, "no erratum has the figure"
    assert "First in order" not in text, "a claim that holds is in index.html"


def test_long_tables_are_cut_on_pages_and_whole_in_files(made, tmp_path):
    rows = tuple((number,) for number in range(500))
    long = replace(
        made, results=(replace(made.results[0], tables=(NumberTable("long", "Long", ("n",), rows),)),)
    )
    report.write(long, tmp_path)
    assert "440 more rows are in the CSV file." in (tmp_path / "index.html").read_text()
    assert len((tmp_path / "thing-long.csv").read_text().splitlines()) == 501


def test_csv_reads_back_as_it_was(made, tmp_path):
    report.write_csv(AWKWARD, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == AWKWARD.columns
    for row, (name, whole, real, yes) in zip(rows, AWKWARD.rows, strict=True):
        assert row[0] == name
        assert int(row[1]) == whole
        assert float(row[2]) == real
        assert row[3] == str(bool(yes))


def test_every_file_is_listed_and_there(made, tmp_path):
    page = report.write(made, tmp_path / "new" / "folder")
    folder = page.parent
    written = json.loads((folder / "results.json").read_text(), parse_constant=pytest.fail)
    assert sorted(written["files"]) == sorted(file.name for file in folder.iterdir())
    assert {"index.html", "claims.md", "thing-awkward.csv", "thing-line.png", "thing-line.svg"} < set(
        written["files"]
    )
    assert written["results"][0]["claims"][0]["verdict"] == "needed correcting"
    assert written["results"][0]["tables"][0]["rows"][2] == ["none", 0, None, False], "JSON has no infinity"
    assert report.cost(made)["seconds"] == {"thing": 1.5}


def test_a_folder_with_other_files_is_left_alone(made, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(report.FolderError, match="--out"):
        report.write(made, tmp_path)
    (tmp_path / "results.json").write_text('{"written_by": "somebody else", "files": ["thesis.txt"]}')
    with pytest.raises(report.FolderError):
        report.write(made, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["results.json", "thesis.txt"]
    with pytest.raises(report.FolderError, match="expected a folder"):
        report.check_folder(tmp_path / "thesis.txt")


def test_an_earlier_report_is_written_over_and_only_its_files_go(made, tmp_path):
    report.write(made, tmp_path)
    (tmp_path / "notes.txt").write_text("kept")
    outside = tmp_path.parent / "outside.txt"
    outside.write_text("kept")
    earlier = json.loads((tmp_path / "results.json").read_text())
    earlier["files"].append("../outside.txt")
    (tmp_path / "results.json").write_text(json.dumps(earlier))
    other = replace(made, results=(replace(made.results[0], tables=(), name="other"),))
    report.write(other, tmp_path)
    assert not (tmp_path / "thing-awkward.csv").exists()
    assert (tmp_path / "other-line.png").exists()
    assert (tmp_path / "notes.txt").read_text() == outside.read_text() == "kept"


def _findings(setting: Setting) -> str:
    """Everything a run found, in JSON."""
    return json.dumps(report.to_dict(run(["fig3", "tables", "deployment"], setting)))


def test_the_same_seed_gives_the_same_figures():
    once = _findings(TINY)
    assert _findings(TINY) == once
    other = json.loads(_findings(replace(TINY, seed=1)))
    for before, after in zip(json.loads(once)["results"], other["results"], strict=True):
        assert before["tables"] != after["tables"]


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    """All files of two runs; a plain picture stands for the plots."""
    picture = Plot("line", "A line", "It rises from 0 to 1.", _line)

    def files(name: str) -> dict[str, bytes]:
        done = run(["fig3"], TINY)
        report.write(replace(done, results=(replace(done.results[0], pictures=(picture,)),)), tmp_path / name)
        return {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}

    assert files("once") == files("again")


def test_recorded_values_are_named_and_their_reuse_is_said(made):
    table = np.zeros((3, 50), dtype=np.int32)
    recorded = Recorded("mine", 86_400, tuple(map(str, range(50))), ("1", "2", "3"), table)
    text = report.page(replace(made, setting=replace(made.setting, populations=(recorded,))), "index.html")
    assert "mine, 50 recorded individuals" in text
    assert "with replacement" in text
    few = replace(made.setting, populations=(recorded,), fleets=(20, 50))
    assert "with replacement" not in report.page(replace(made, setting=few), "index.html")
    assert "uniform" in report.page(
        replace(made, setting=replace(made.setting, populations=(Uniform(10),))), "index.html"
    )


@pytest.fixture(scope="module")
def small():
    return run(["all"], TINY)


def test_every_claim_of_the_paper_is_judged_once_as_in_the_docs(small):
    """With everything run small: docs/explanation/claims.md has, in order, as many claims as it says do not hold."""
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "claims.md").read_text(encoding="utf-8")
    rows = [line.split("|")[2] for line in page.splitlines() if line[:2] == "|§"]
    all_claims = [claim.says for claim in small.of_the_paper]
    assert [says for says in all_claims if says in rows] == rows
    hold = re.search(rf"\*\*{len(all_claims)} claims: (\d+) hold,", page)
    assert len(rows) == len(all_claims) - int(hold[1])
    exact = [
        claim.says for claim in small.of_the_paper if claim.check == "exact" and claim.verdict != "holds"
    ]
    assert set(exact) <= set(rows), "an exact verdict does not depend on the size of the run"
    found = {(claim.place, claim.says) for claim in small.of_the_paper}
    assert len(found) == len(small.of_the_paper) >= 75
    text = report.page(small, "claims.md")
    assert len(text.split()) < 1_500
    for claim in (*small.of_the_paper, *small.of_reticent):
        assert claim.measured
        assert len(claim.says.split()) <= 15, claim.says
        assert claim.check in ("exact", "measured")
        assert claim.condition or claim.verdict in (ClaimVerdict.HOLDS, ClaimVerdict.OPEN), (
            f"{claim.says}: say what corrects it, or why not"
        )


def test_every_erratum_of_a_sentence_is_in_the_trial(small):
    """All that errata.md lists is a claim, but for 17 (harmless) and what is true and only loose."""
    named = {name.strip() for claim in small.of_the_paper for name in claim.erratum.split(",")} - {""}
    assert named == {f"E{number}" for number in range(1, 31)} - {"E17"}


def test_a_report_opens_with_ten_headlines(small):
    text = report.page(small, "index.html")
    start = text.index('<h2 id="headlines">')
    assert start < text.index('<h2 id="claims">')
    assert text[start:].partition("</ol>")[0].count("<li>") == 10
    assert "80 claims: " in report.page(small, "claims.md")
