from dataclasses import replace

import pytest
from paper.claims import Setting

from paper import check


@pytest.fixture(scope="module")
def result():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "DEVICES", 400)
        patch.setattr(check, "REPETITIONS", 300)
        return check.run(Setting(seed=4, repetitions=1_500, fleets=(1_000,), days=2))


def test_counts_and_devices_have_the_same_errors(result):
    """
    Twelve mechanisms at two ε: means and deviations within 4.5 standard errors, with a fixed seed.
    """
    agreement, times = result.tables
    assert len(agreement.rows) == len(times.rows) == 2 * 12
    assert {row[-1] for row in agreement.rows} == {"yes"}
    assert "24 of 24" in result.summary
    assert result.claims == ()
    assert all(row[-1] > 0 for row in times.rows)


def test_other_errors_would_be_refused():
    setting = Setting(seed=4, repetitions=2_000, fleets=(1_000,))
    values = check.stand_in(setting).values(500, 1, check.generator(1, "x"))[0].astype("int64")
    right = check.compare("Laplace", 1.0, values, 86_400, setting)
    assert right.agrees
    assert not replace(right, by_count=1.4 * right.by_count).agrees
    assert not replace(right, by_count=right.by_count - right.by_count.mean() * 0.3).agrees
    wider = right.by_count.mean() + 2 * (right.by_count - right.by_count.mean())
    assert not replace(right, by_count=wider).agrees
