"""The gallery of attacks: each program runs, repeats itself, and finds what the formulas say it must."""

from __future__ import annotations

import importlib
import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stdout
from itertools import product
from math import exp, log, sqrt
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import binom

from reticent.device import Device, Policy
from reticent.mechanisms import Flip
from reticent.testing import ManualClock
from reticent_lab.fleet import SdkFleet

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "attacks"
PAGES = ROOT / "docs" / "explanation" / "attacks"
NAMES = sorted(path.stem for path in PAGES.glob("*.md") if path.name != "README.md")

P = exp(1) / (exp(1) + 1)  # a remembered bit is right with this chance at ε = 1
Q = 1 - P
SURE = 5.5
"""So many standard errors are exceeded by chance with probability below 4e-8; seeds are fixed besides."""

Row = dict[str, str]
Run = Callable[..., "Output"]


class Output:
    """What a program printed, and where its pictures are."""

    def __init__(self, text: str, folder: Path) -> None:
        self.text = text
        self.folder = folder

    def tables(self) -> list[list[Row]]:
        """Blocks of lines with the same number of columns, the first being their names."""
        found: list[list[Row]] = []
        names: list[str] = []
        for line in self.text.splitlines():
            cells = re.split(r" {2,}", line.strip())
            if len(cells) < 3:
                continue
            if not any(re.fullmatch(r"[\d.]+|inf", cell) for cell in cells):
                names = cells
                found.append([])
            else:
                found[-1].append(dict(zip(names, cells, strict=True)))
        return found


def program(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.fixture(scope="module", autouse=True)
def programs_can_be_imported() -> Iterator[None]:
    sys.path.insert(0, str(PROGRAMS))
    yield
    sys.path.remove(str(PROGRAMS))
    for path in PROGRAMS.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture(autouse=True)
def tracking_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)


def run_in(folder: Path, name: str, arguments: list[str]) -> Output:
    printed = io.StringIO()
    with chdir(folder), redirect_stdout(printed):
        program(name).main(arguments)
    return Output(printed.getvalue(), folder)


def shown_on(page: Path) -> tuple[list[str], str]:
    """The command of a page, and the output that the page shows for it."""
    [(command, output)] = re.findall(r"```console\n\$ (.+)\n((?:.*\n)+?)```", page.read_text())
    return shlex.split(command), output


@pytest.fixture(scope="module")
def page_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Output]:
    """What a page's command prints, run once for all the tests that look at it."""
    known: dict[str, Output] = {}

    def run(name: str) -> Output:
        if name not in known:
            command, _ = shown_on(PAGES / f"{name}.md")
            assert command[:2] == ["python", f"examples/attacks/{name}.py"]
            known[name] = run_in(tmp_path_factory.mktemp(name), name, command[2:])
        return known[name]

    return run


# The programs and their pages


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_what_its_command_prints(name: str, page_run: Callable[[str], Output]) -> None:
    _, shown = shown_on(PAGES / f"{name}.md")
    assert page_run(name).text == shown


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_written_and_the_page_shows_one(name: str, page_run: Callable[[str], Output]) -> None:
    written = page_run(name).folder / "pictures"
    assert (written / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert f"](../../images/attacks/{name}.png)" in (PAGES / f"{name}.md").read_text()


def test_the_index_leads_to_every_attack() -> None:
    text = (PAGES / "README.md").read_text()
    assert set(re.findall(r"\]\((\w+)\.md\)", text)) == set(NAMES)


def test_every_program_has_a_page_that_is_run_here() -> None:
    begun_by_hand = {
        path.stem for path in PROGRAMS.glob("*.py") if 'if __name__ == "__main__":' in path.read_text()
    }
    assert begun_by_hand == set(NAMES)
    assert len(NAMES) == 8


# Averaging


def right_by_majority(days: int, chance: float) -> float:
    """P(most of `days` coins are right), a tie counting half."""
    return float(binom.sf(days / 2, days, chance) + (days % 2 == 0) * binom.pmf(days // 2, days, chance) / 2)


def test_averaging_fresh_noise_finds_the_value_and_averaging_a_memo_does_not(
    page_run: Callable[[str], Output],
) -> None:
    """
    Mean squared errors of single devices with whole values uniform on 0..m, from MATHS.md 2 with n = 1:

        m²c²·( P(1-P)/T ),   m²c²·P(1-P),   m²c²·( P(1-P) + γ(1-γ)/(T (1-2γ)²) ),

    and m²c²·P(1-P) = m²c²/4 - (x - m/2)². Of 3,000 squares the relative standard error is below √(2/3000).
    """
    errors, guesses = page_run("averaging").tables()
    top, gamma, devices = 1440.0, 0.2, 3000
    scale = top * (exp(1) + 1) / (exp(1) - 1)
    once = scale**2 / 4 - (1441**2 - 1) / 12
    for row in errors:
        days = int(row["days"])
        expected = {
            "fresh noise": once / days,
            "memo": once,
            "memo and flips": once + scale**2 * gamma * (1 - gamma) / (1 - 2 * gamma) ** 2 / days,
        }
        for scheme, square in expected.items():
            assert abs(float(row[scheme]) ** 2 / square - 1) < SURE * sqrt(2 / devices)
    assert float(errors[-1]["fresh noise"]) < 0.06 * float(errors[-1]["memo"])
    for row in guesses:
        days = int(row["days"])
        seen = right_by_majority(days, 1 - gamma)
        expected = {
            "fresh noise": right_by_majority(days, P),
            "memo": P,
            "memo and flips": P * seen + Q * (1 - seen),
        }
        for scheme, share in expected.items():
            assert abs(float(row[scheme]) - share) < SURE * sqrt(0.25 / devices) + 0.0005
        turned = (gamma / (1 - gamma)) ** days
        loss = log((exp(1) + turned) / (1 + exp(1) * turned))
        assert float(row["limit"]) == pytest.approx(1 / (1 + exp(-loss)), abs=0.00051)
    assert float(guesses[-1]["fresh noise"]) == 1


def test_beliefs_are_posteriors() -> None:
    """Bayes' rule by enumeration: three days, both values, every memo bit and every flip."""
    module = program("averaging")
    bits = np.array(list(product((0, 1), repeat=3))).T
    said = np.zeros((3, 365, 8), dtype=np.int64)
    said[:, :3] = np.cumsum(bits, axis=0)
    found = module.beliefs(said)[:, 2]
    for column, days in enumerate(bits.T):
        fresh = [np.prod([chance if day else 1 - chance for day in days]) for chance in (Q, P)]
        flips = [
            sum(
                (chance if memo else 1 - chance) * np.prod([0.8 if day == memo else 0.2 for day in days])
                for memo in (0, 1)
            )
            for chance in (Q, P)
        ]
        assert found[0, column] == pytest.approx(fresh[1] / sum(fresh))
        assert found[2, column] == pytest.approx(flips[1] / sum(flips))
        assert Q - 1e-9 < found[2, column] < P + 1e-9


# The naive memo


def coins(epsilon: float) -> tuple[float, float]:
    """P(two draws of equal law agree), P(two draws of opposite law agree), of bits that use ε/2."""
    right = exp(epsilon / 2) / (exp(epsilon / 2) + 1)
    return right**2 + (1 - right) ** 2, 2 * right * (1 - right)


def buckets_alike(epsilon: float, bits: int) -> float:
    """The expected number of the 32 buckets with the answer of one that a bit is about, itself included."""
    alike, unlike = coins(epsilon)
    asked = (bits - 1) * alike ** max(bits - 2, 0) * unlike**2
    return 1 + asked + (32 - bits) * alike ** (bits - 1) * unlike


def hadamard_alike(epsilon: float) -> float:
    """Of a bucket on the side of +1, over the 64 rows: its own side, and the other when both bits agree."""
    right = exp(epsilon) / (exp(epsilon) + 1)
    sides = [sum((row & bucket).bit_count() % 2 == 0 for bucket in range(1, 33)) for row in range(64)]
    return sum(side * (side + (32 - side) * 2 * right * (1 - right)) for side in sides) / sum(sides)


def test_an_answer_seen_once_betrays_its_bucket(page_run: Callable[[str], Output]) -> None:
    """
    Precision when all moves are equally likely is 1 / (buckets alike).

    The seed is fixed. The tolerance of 15% is wider where one remembered class is shared by 28 buckets (40%),
    and narrower for the Hadamard bit (6%), whose rows are all seen often.
    """
    [rows] = page_run("naive_memo").tables()
    found = {row["scheme"]: row for row in rows}
    bits = {"naive memo": 32, "4BitFlipPM": 4, "2BitFlipPM": 2, "1BitFlipPM": 1}
    for epsilon in (1, 10):
        for scheme, width in bits.items():
            precision = float(found[scheme][f"asked, ε = {epsilon}"])
            assert precision == pytest.approx(1 / buckets_alike(epsilon, width), rel=0.15)
        column = f"asked, ε = {epsilon}"
        assert float(found["4 bits, by class"][column]) == pytest.approx(
            1 / buckets_alike(epsilon, 4), rel=0.4
        )
        assert float(found["Hadamard bit"][column]) == pytest.approx(1 / hadamard_alike(epsilon), rel=0.06)
    order = ["naive memo", "4BitFlipPM", "2BitFlipPM", "1BitFlipPM", "Hadamard bit", "4 bits, by class"]
    usage = [float(found[scheme]["app usage, ε = 1"]) for scheme in order]
    assert usage[0] == 1
    assert usage == sorted(usage, reverse=True)
    blind = float(re.findall(r"without looking ([\d.]+)", page_run("naive_memo").text)[0])
    assert blind < usage[-1] < usage[-2] < 2 * blind


def test_erratum_20_in_the_run(page_run: Callable[[str], Output]) -> None:
    """
    (k-d)·q·p^(d-1) buckets that no bit is about share the likeliest answer of one that a bit is about.

    Per device, (k-d) independent buckets draw one of the d likeliest answers with probability d·q·p^(d-1).
    """
    [rows] = page_run("naive_memo").tables()
    for row in rows[1:4]:
        width = int(row["scheme"][0])
        for epsilon in (1, 10):
            right = exp(epsilon / 2) / (exp(epsilon / 2) + 1)
            shared = (1 - right) * right ** (width - 1)
            error = sqrt((32 - width) * width * shared * (1 - width * shared) / 1000) / width
            sharers = float(row[f"sharers, ε = {epsilon}"])
            assert abs(sharers - (32 - width) * shared) < SURE * error + 0.0005
            assert width != 4 or round((32 - width) * shared, 2) == {1: 2.55, 10: 0.18}[epsilon]


def test_returns_with_equal_moves() -> None:
    """Over all buckets, not only those that a bit is about: an answer is pooled with all that share it."""
    module = program("naive_memo")
    visited = np.random.default_rng(3).integers(0, 32, (40, 1500))
    alike, unlike = coins(1)
    for name, bits in {"4BitFlipPM": 4, "2BitFlipPM": 2, "1BitFlipPM": 1}.items():
        memo, _ = module.memos(module.schemes(1)[name], 1500, 5)
        unasked = 1 + (31 - bits) * alike**bits + bits * alike ** (bits - 1) * unlike
        expected = (bits * buckets_alike(1, bits) + (32 - bits) * unasked) / 32
        assert module.returns(memo, visited) == pytest.approx(1 / expected, rel=0.06)


# Midpoints


def test_no_number_of_devices_cures_midpoints(page_run: Callable[[str], Output]) -> None:
    [rows] = page_run("midpoint").tables()
    for row in rows:
        truth, bias = float(row["true mean"]), float(row["bias of midpoints"])
        half = {name: float(row[f"{name} ±"]) for name in ("midpoint", "alpha-point")}
        assert abs(float(row["alpha-point"]) - truth) < half["alpha-point"]
        # a half-width at 99.5% is 2.807 standard errors
        assert abs(float(row["midpoint"]) - truth - bias) < SURE / 2.807 * half["midpoint"] + 0.1
        if int(row["devices"]) > 2000:
            assert float(row["midpoint"]) - half["midpoint"] > truth
    assert abs(float(rows[0]["midpoint"]) - 720) < float(rows[0]["midpoint ±"])


def test_the_bias_of_midpoints_is_that_of_the_usage() -> None:
    module = program("midpoint")
    minutes = module.population("gran-turismo-sport", 1440).values(2000, 1, np.random.default_rng(5))[0]
    for step in (1440, 360, 120):
        truth, _, bias = module.errors(step, 2000, seed=5)
        middle = np.minimum(minutes, 1439) // step * step + step / 2
        assert truth == minutes.mean()
        assert bias == pytest.approx(float(np.mean(middle - minutes)))


# Churn


def right_by_evidence(epsilons: list[float]) -> float:
    """P(the value is guessed from one memo bit per ε), over every outcome; a tie counts half."""
    total = 0.0
    for bits in product((1, -1), repeat=len(epsilons)):
        chance = np.prod([1 / (1 + exp(-bit * epsilon)) for bit, epsilon in zip(bits, epsilons, strict=True)])
        evidence = sum(bit * epsilon for bit, epsilon in zip(bits, epsilons, strict=True))
        total += float(chance) * (0.5 if abs(evidence) < 1e-12 else evidence > 0)
    return total


def test_each_redraw_is_worth_a_fresh_bit(page_run: Callable[[str], Output]) -> None:
    guesses, losses = page_run("churn").tables()
    epsilons = [1 + place / 1000 for place in range(9)]
    for guess, loss in zip(guesses, losses, strict=True):
        plans = int(guess["plans"])
        assert loss["plans"] == guess["plans"]
        so_far = {"words": [1.0], "epsilon": epsilons[:plans], "secret": [1.0] * plans}
        so_far["epsilon, capped"] = epsilons[: min(plans, 2)]  # 2ε each for a lifetime; the cap is 5
        for churn, used in so_far.items():
            error = SURE * sqrt(0.25 / 2000) + 0.0005
            assert abs(float(guess[f"guessed, {churn}"]) - right_by_evidence(used)) < error
            assert float(loss[f"loss, {churn}"]) == pytest.approx(sum(used), abs=0.00051)
    assert len({guess["guessed, words"] for guess in guesses}) == 1
    assert right_by_evidence([1.0] * 9) - right_by_evidence([1.0]) > 2 * SURE * sqrt(0.25 / 2000)
    assert "can lose 6.018 for life; the policy allows 5 (max_lifetime)" in page_run("churn").text


def test_only_privacy_parameters_redraw_the_memo() -> None:
    """Two memo bits of a device at 0, drawn apart, differ with probability 2pq."""
    module, devices = program("churn"), 3000
    first = module.plan(1, "1", "")
    seen = {}
    for name, other in {"words": (2, "1", "other words"), "epsilon": (2, "1.001", "")}.items():
        bits = [
            np.array([report.bit(0) for report in SdkFleet(plan, devices, 4).reports(0, {})])
            for plan in (first, module.plan(*other))
        ]
        seen[name] = np.mean(bits[0] != bits[1])
    assert seen["words"] == 0
    assert abs(seen["epsilon"] - 2 * P * Q) < SURE * sqrt(0.25 / devices)


def test_a_real_device_keeps_its_answer_when_words_change(tmp_path: Path) -> None:
    module, clock, sent = program("churn"), ManualClock(), []
    for place in range(1, 9):
        device = Device(
            module.plan(place, "1", f"words {place}"),
            tmp_path / "state",
            consent="granted",
            clock=clock,
            policy=Policy.unlimited(),
        )
        clock.advance(2 * 86_400)
        report = device.report()
        assert report is not None
        assert report.version == place
        sent.append(report.bits)
        entries = device.receipt().losses
        device.close()
    assert len(set(sent)) == 1
    assert [entry.classes_seen for entry in entries] == [1]


# The day of a change


def chances(days: int, gamma: float) -> np.ndarray:
    """P(sequence | the last day at 0 is t) by brute force over memo bits: [2^days, days - 1]."""
    sequences = list(product((0, 1), repeat=days))
    result = np.zeros((len(sequences), days - 1))
    for row, bits in enumerate(sequences):
        for last in range(1, days):
            for before, after in product((0, 1), repeat=2):
                memo = (Q if before else P) * (P if after else Q)
                shown = [before] * last + [after] * (days - last)
                flips = sum(bit != memory for bit, memory in zip(bits, shown, strict=True))
                result[row, last - 1] += memo * gamma**flips * (1 - gamma) ** (days - flips)
    return result


@pytest.mark.parametrize("gamma", [0, 0.2, 0.4])
def test_likelihoods_are_those_of_brute_force_and_neighbours_differ_by_at_most_lambda(gamma: float) -> None:
    module = program("change_day")
    sequences = np.array(list(product((0, 1), repeat=6)), dtype=np.uint8)
    found = module.likelihoods(sequences, Flip(gamma))
    assert found == pytest.approx(chances(6, gamma))
    assert found.sum(axis=0) == pytest.approx(np.ones(5))
    if gamma:
        odds = np.abs(np.diff(np.log(found), axis=1)).max()
        assert 0.5 * log((1 - gamma) / gamma) < odds <= log((1 - gamma) / gamma) + 1e-12


def test_the_day_is_guessed_as_often_as_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A week by enumeration: the best guess is the likeliest day, any of them where several are."""
    module, days, devices = program("change_day"), 7, 6000
    monkeypatch.setattr(module, "DAYS", days)
    [rows] = run_in(tmp_path, "change_day", ["--devices", str(devices)]).tables()
    for row in rows:
        likely = chances(days, float(row["flip"]))
        best = likely >= likely.max(axis=1, keepdims=True) * (1 - 1e-9)
        guess = best / best.sum(axis=1, keepdims=True)
        together = likely.T @ guess / (days - 1)  # [true day, guessed day]
        distance = np.abs(np.subtract.outer(np.arange(days - 1), np.arange(days - 1)))
        for column, off in {"exact day": 0, "within 1 day": 1, "within 3 days": 3}.items():
            expected = float(together[distance <= off].sum())
            assert abs(float(row[column]) - expected) < SURE * sqrt(0.25 / devices) + 0.0005


def test_without_flips_the_day_is_certain_when_the_memo_bits_differ(
    page_run: Callable[[str], Output],
) -> None:
    """They differ with probability p² + q²; otherwise one of 29 days is guessed blindly."""
    [rows] = page_run("change_day").tables()
    shares = {row["flip"]: float(row["exact day"]) for row in rows}
    error = SURE * sqrt(0.25 / 20_000) + 0.0005
    assert abs(shares["0"] - (P**2 + Q**2 + 2 * P * Q / 29)) < error
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert 1 / 29 + error < shares["0.2"] < shares["0"] / 2 + error
    for row in rows[1:]:
        gamma = float(row["flip"])
        assert 0 <= float(row["Lambda"]) - log((1 - gamma) / gamma) < 0.001  # rounded up
    assert rows[0]["Lambda"] == "infinite"


# Tracking


def test_remembered_answers_are_matched_as_often_as_the_formula_says(
    page_run: Callable[[str], Output],
) -> None:
    """Six standard errors of 1,000 devices; no population is matched more often than the figure says."""
    printed, cohorts = page_run("tracking").tables()
    rows = [
        {name: float(cell) for name, cell in row.items() if name != "answers"} | {"answers": row["answers"]}
        for row in printed
    ]
    for row in rows:
        error = 6 * (max(row["two nights"] * (1 - row["two nights"]), 1e-3) / 1000) ** 0.5
        assert abs(row["at half"] - row["two nights"]) <= error
        assert row["at 0"] <= row["two nights"] + error
        assert row["two nights"] <= row["many nights"]
    share = {(row["metrics"], row["answers"]): row["at 0"] for row in rows}
    assert share[20, "flip 0"] > 0.7
    assert share[40, "flip 0"] > 0.999
    assert share[20, "flip 0.2"] < 0.01
    by_cohort = {row["by the cohort alone"]: float(row["matched"]) for row in cohorts}
    assert by_cohort["remembered"] == pytest.approx(256 / 20_000, rel=0.01)


def test_sampled_answers_and_cohorts_are_matched_by_luck_alone(page_run: Callable[[str], Output]) -> None:
    """
    One device in 20,000: of 1,000 more than 4 are matched, and of 20,000 by cohort more than 12, with a
    probability below 1e-9. Remembered answers of ten metrics and more, and remembered cohorts, are far above.
    """
    printed, cohorts = page_run("tracking").tables()
    sampled = [row for row in printed if row["answers"] == "sampled"]
    assert len(sampled) == 3
    for row in sampled:
        assert max(float(row["at 0"]), float(row["at half"])) <= 4 / 1000
        assert row["two nights"] == row["many nights"] == "0.0001"
    kept = [row for row in printed if row["answers"] == "flip 0" and int(row["metrics"]) >= 10]
    assert min(float(row["at 0"]) for row in kept) > 4 / 1000
    matched = {row["by the cohort alone"]: float(row["matched"]) for row in cohorts}
    assert matched["sampled"] <= 12 / 20_000 < matched["remembered"]


# Habits


def test_a_habit_is_guessed_as_often_as_the_remembered_answers_allow(
    page_run: Callable[[str], Output],
) -> None:
    """
    After a year flips hide nothing: one memo shows the odd quarter where its answers differ; with a memo per slot the
    habit is among the slots that say 1. One sampled answer is right for p/2: its own slot if it says 1, one of the
    three others if it says 0.
    """
    [rows] = page_run("habits").tables()
    by_days = {int(row["days"]): row for row in rows}
    differ = P**2 + Q**2
    error = SURE * sqrt(0.25 / 4000) + 0.0005
    assert abs(float(by_days[365]["one memo"]) - (differ + (1 - differ) / 4)) < error
    assert abs(float(by_days[365]["memo per slot"]) - (P * (1 - P**4) / (4 * Q) + P**3 * Q / 4)) < error
    assert abs(float(by_days[7]["sampled"]) - P / 2) < error
    assert float(by_days[365]["sampled"]) > 0.95


@pytest.mark.parametrize("memos", [1, 4])
def test_likelihoods_of_a_habit_by_brute_force(memos: int) -> None:
    """Two days: all 256 sequences, every memo, every slot."""
    module = program("habits")
    sequences = np.array(list(product((0, 1), repeat=8))).reshape(-1, 2, 4)
    found = module.likelihoods((2 * sequences - 1).sum(axis=1).T, memos).T
    expected = np.zeros((256, 4))
    for habit in range(4):
        for memo in product((0, 1), repeat=2 if memos == 1 else 4):
            ones = [memo[slot == habit] if memos == 1 else memo[slot] for slot in range(4)]
            if memos == 1:
                chance = (Q if memo[0] else P) * (P if memo[1] else Q)
            else:
                chance = np.prod([P if bit == (slot == habit) else Q for slot, bit in enumerate(memo)])
            kept = np.where(sequences == np.array(ones), 0.8, 0.2).prod(axis=(1, 2))
            expected[:, habit] += chance * kept
    odds = np.log(expected)
    assert found - found[:, :1] == pytest.approx(odds - odds[:, :1], abs=1e-9)


# Pool inference


def test_a_report_about_all_apps_and_about_one(page_run: Callable[[str], Output]) -> None:
    """
    One report, exactly. All apps: the odds depend on how many of each pool say 1; summed over both numbers. One app:
    1/2 + the mean difference of P(1) over 2.
    """
    [rows] = page_run("pool_inference").tables()
    by_days = {int(row["days"]): row for row in rows}
    error = SURE * sqrt(0.25 / 2000) + 0.0005
    pools = {0: np.zeros((11, 11)), 1: np.zeros((11, 11))}
    count = np.arange(11)
    idle, used = binom.pmf(count, 10, Q), np.convolve(binom.pmf(np.arange(10), 9, Q), [Q, P])
    for kind, own in ((0, 0.9), (1, 0.1)):
        pools[kind] = own * np.outer(used, idle) + (1 - own) * np.outer(idle, used)
    assert abs(float(by_days[7]["sampled, all apps"]) - np.maximum(pools[0], pools[1]).sum() / 2) < error
    assert abs(float(by_days[7]["sampled, one app"]) - (0.5 + (P - Q) * 0.08 / 2)) < error


def test_apps_together_tell_more_than_the_promise_of_one(page_run: Callable[[str], Output]) -> None:
    [rows] = page_run("pool_inference").tables()
    last = {name: float(share) for name, share in rows[-1].items()}
    assert last["remembered, flip 0"] > 0.99
    assert last["remembered, flip 0"] > last["remembered, flip 0.2"] > last["sampled, all apps"]
    assert last["sampled, all apps"] > last["sampled, one app"] + 0.1
    for row in rows:
        windows = -(-int(row["days"]) // 7)
        assert float(row["sampled, one app"]) < 1 / (1 + exp(-windows)) + 0.03, "ε per window"
