import pytest
from paper.experiment import Setting, Verdict
from paper.histogram_errors import stand_in_panels, synthetic_panels

from paper import figure7

SETTING = Setting(seed=3, repetitions=250, fleets=(20_000,), days=3)


@pytest.fixture(scope="module")
def measured():
    panels = [at_epsilon for at_epsilon, _ in synthetic_panels(SETTING)]
    return panels, stand_in_panels(SETTING)[0][0]


def verdicts(panels, reference):
    return [claim.verdict for claim in figure7.claims(panels, reference)]


def test_a_run_has_tables_pictures_and_claims():
    result = figure7.run(SETTING)
    assert (result.name, len(result.claims)) == ("fig7", 7)
    assert [len(picture.draw().axes) for picture in result.pictures] == [3, 6]


def test_bin_flip_does_not_see_the_data_and_others_do_at_large_epsilon(measured):
    """BinFlip has one n·Var on every bucket; the estimator of 1BitFlipPM adds k·h_v, which is the data."""
    bounded, one_bit, _, _, bin_flip, _, _ = verdicts(*measured)
    assert (bounded, one_bit, bin_flip) == (Verdict.HOLDS, Verdict.CONDITION, Verdict.HOLDS)


def test_doctored_figures_turn_the_verdicts(measured, doctor):
    panels, reference = measured
    assert verdicts([reference] * 3, reference)[1:] == [Verdict.HOLDS] * 6
    assert verdicts(doctor(panels, "BinFlip", 2.0), reference)[4] is Verdict.FAILS
    assert verdicts(doctor(panels, "1BitFlipPM", 100.0), reference)[0] is Verdict.CONDITION
