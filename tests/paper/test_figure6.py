import pytest
from paper.experiment import Setting, Verdict
from paper.mean_errors import stand_in_panels, synthetic_panels

from paper import figure6

SETTING = Setting(seed=3, repetitions=600, fleets=(3_000,), days=3)


@pytest.fixture(scope="module")
def measured():
    return synthetic_panels(SETTING), stand_in_panels(SETTING)[0]


def verdicts(panels, reference):
    return [claim.verdict for claim in figure6.claims(panels, reference)]


def test_a_run_has_a_table_a_picture_and_the_six_claims():
    result = figure6.run(SETTING)
    assert (result.name, len(result.claims), len(result.tables[0].rows)) == ("fig6", 6, 3 * 4 * 7)
    titles = [axis.get_title() for axis in result.pictures[0].draw().axes]
    assert titles == ["constant 12 h", "uniform on 0-24 h", "normal 12 ± 2 h, truncated"]


def test_erratum_22_in_the_middle_of_the_range_one_bit_is_not_better(measured):
    """At x = m/2 Laplace has the smaller variance from ε = 2.32 on, 3.5 times less deviation at ε = 10."""
    *_, better = figure6.claims(*measured)
    assert better.verdict is Verdict.CONDITION
    assert better.condition.startswith("not at ε = 5, 10 (")
    constant = measured[0][0]
    assert constant.ratio("1BitRRPM", "Laplace", 10.0) == pytest.approx(3.5, rel=0.15)
    assert constant.ratio("1BitRRPM", "Laplace", 2.0) == pytest.approx(0.928, rel=0.15)


def test_only_laplace_does_not_see_the_data(measured):
    bounded, plain, _, _, laplace, _ = verdicts(*measured)
    assert (bounded, plain, laplace) == (Verdict.HOLDS, Verdict.CONDITION, Verdict.HOLDS)


def test_doctored_figures_turn_the_verdicts(measured, doctor):
    panels, reference = measured
    same = [reference] * 3
    assert verdicts(same, reference)[1:] == [Verdict.HOLDS] * 5
    assert verdicts(doctor(panels, "Laplace", 2.0), reference)[4] is Verdict.FAILS
    assert verdicts(doctor(panels, "1BitRRPM", 9.0), reference)[0] is Verdict.CONDITION
    assert verdicts(doctor(panels, "Laplace", 0.1), reference)[5] is Verdict.FAILS
