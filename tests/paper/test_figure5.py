import pytest
from paper.experiment import Setting, Verdict
from paper.histogram_errors import stand_in_panels

from paper import figure5

SETTING = Setting(seed=3, repetitions=400, fleets=(20_000, 60_000), days=3)
HOLDS, CONDITION, FAILS = Verdict.HOLDS, Verdict.CONDITION, Verdict.FAILS


@pytest.fixture(scope="module")
def pairs():
    return stand_in_panels(SETTING)


@pytest.fixture(scope="module")
def panels(pairs):
    return [at_epsilon for at_epsilon, _ in pairs]


def verdicts(panels):
    return [claim.verdict for claim in figure5.claims(panels)]


def test_a_run_has_tables_pictures_and_claims(pairs):
    result = figure5.run(SETTING)
    assert [table.name for table in result.tables] == ["fig5", "fig5-lifetime"]
    assert [len(table.rows) for table in result.tables] == [2 * 12 * 7, 2 * 6 * 7]
    paper, ours = (picture.draw() for picture in result.pictures)
    assert (len(paper.axes), len(ours.axes)) == (2, 4)
    assert len(result.claims) == 9 + 3


def test_the_verdicts_of_usage_data(panels):
    """
    n·Var on a light bucket (MATHS.md 3): KFlip/BinFlip 75/15.9 at ε = 0.5, .0082/.097 at 5; 4BitFlipPM/KFlip
    127/75 at 0.5; BinFlip+/BinFlip 2cosh(ε/2) ≤ 3.09 up to 2: the square roots are what the claims are about.
    """
    same, poor, rich, plus, best, comparable, *_ = verdicts(panels)
    assert [same, poor, rich, plus, comparable] == [HOLDS] * 5
    assert best is CONDITION
    assert figure5.claims(panels)[4].condition.startswith("not at ε = 5, 10")


def test_doctored_figures_turn_the_verdicts(panels, doctor):
    assert verdicts(doctor(panels, "32BitFlipPM", 1.2))[0] is FAILS
    assert verdicts(doctor(panels, "KFlip", 0.1))[1] is FAILS
    assert verdicts(doctor(panels, "KFlip", 50.0))[2] is FAILS
    assert verdicts(doctor(panels, "BinFlip+", {2.0: 2.0}))[3] is CONDITION
    assert verdicts(doctor(panels, "BinFlip", 0.001))[4] is HOLDS
    assert verdicts(doctor(panels, "BinFlip", 1000.0))[4] is FAILS
    assert verdicts(doctor(panels, "4BitFlipPM", 0.3))[5] is FAILS
    assert verdicts(doctor(panels, "BinFlip+", 100.0))[6:] == [HOLDS] * 3
    assert verdicts(doctor(panels, "BinFlip+", 0.01))[6:] == [FAILS] * 3


def test_what_reticent_says_of_its_own(pairs, doctor):
    assert [claim.verdict for claim in figure5.our_claims(pairs)] == [HOLDS] * 3
    worse = [tuple(doctor(doctor(pair, "Hadamard bit", 9.0), "1BitFlipPM, tight", 9.0)) for pair in pairs]
    assert [claim.verdict for claim in figure5.our_claims(worse)] == [FAILS] * 3
