from dataclasses import replace

import pytest
from paper.experiment import Setting, Verdict
from paper.mean_errors import stand_in_panels

from paper import figure4

SETTING = Setting(seed=3, repetitions=1_500, fleets=(3_000, 10_000, 100_000), days=3)


@pytest.fixture(scope="module")
def panels():
    return stand_in_panels(SETTING)


def verdicts(panels):
    return [claim.verdict for claim in figure4.claims(panels)]


def test_a_run_has_a_table_a_picture_and_the_five_claims():
    told = []
    result = figure4.run(SETTING, lambda done, total: told.append(done / total))
    assert told[-1] == 1
    assert result.name == "fig4"
    (table,) = result.tables
    assert len(table.rows) == 3 * 4 * 7
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(result.claims) == 5
    (picture,) = result.pictures
    assert len(picture.draw().axes) == 3
    assert [axis.get_title() for axis in picture.draw().axes] == [
        "n = 3,000",
        "n = 10,000",
        "n = 0.1 million",
    ]


def test_the_verdicts_of_usage_data(panels):
    """
    From the formulas: near x = 0 one bit is better than Laplace at every ε; with a flip of 1/10, sd √0.14·m
    against √2·m/10 at ε = 10 is 2.6 times worse; a flip of 1/3 replaces the value.
    """
    better, narrower, comparable, uniform, tolerable = figure4.claims(panels)
    assert (better.verdict, narrower.verdict) == (Verdict.HOLDS, Verdict.HOLDS)
    assert comparable.verdict is Verdict.CONDITION
    assert comparable.condition.startswith("not at ε = 10 (2.")
    assert uniform.verdict is Verdict.FAILS
    assert "replaced with probability 2/3" in uniform.condition
    assert tolerable.verdict in (Verdict.CONDITION, Verdict.FAILS)


def test_doctored_figures_turn_the_verdicts(panels, doctor):
    assert verdicts(doctor(panels, "Laplace", 0.1))[:3] == [Verdict.FAILS, Verdict.FAILS, Verdict.FAILS]
    assert verdicts(doctor(panels, "Laplace", {5.0: 0.1}))[:2] == [Verdict.CONDITION] * 2
    assert verdicts(doctor(panels, "1BitRRPM+OP(1/10)", 0.3))[2] is Verdict.HOLDS
    rich = [replace(panel, truth=1e6) for panel in panels]
    assert verdicts(rich)[4] is Verdict.HOLDS
    poor = [replace(panel, truth=1e-3) for panel in panels]
    assert verdicts(poor)[4] is Verdict.FAILS


def test_uniform_noise_is_recognised_either_way(panels):
    """Errors as they would be, had uniform noise been added to the values: e² + (2/π)·m²/(12 n)."""
    added = []
    for panel in panels:
        line = {
            epsilon: replace(
                spread, mean=(spread.mean**2 + 2 / 3.141592653589793 * 86_400**2 / 12 / panel.devices) ** 0.5
            )
            for epsilon, spread in panel.lines["1BitRRPM"].items()
        }
        added.append(replace(panel, lines={**panel.lines, "1BitRRPM+OP(1/3)": line}))
    assert figure4.claims(added)[3].verdict is Verdict.HOLDS
    neither = [
        replace(panel, lines={**panel.lines, "1BitRRPM+OP(1/3)": panel.lines["Laplace"]}) for panel in panels
    ]
    assert "neither" in figure4.claims(neither)[3].condition
