from paper.error_panels import Panel, Spread
from paper.experiment import Verdict
from paper.judging import Measured, against, judge, no_worse, ratios, within


def panel(title, **errors):
    lines = {
        name: {1.0: Spread(first, 0.1, 9), 5.0: Spread(second, 0.1, 9)}
        for name, (first, second) in errors.items()
    }
    return Panel(title, 100, lines)


def test_a_claim_holds_where_all_points_do():
    panels = [panel("a", one=(1, 2), other=(2, 2)), panel("b", one=(1, 1), other=(4, 1.5))]
    claim = judge("here", "one is better", "ratio", ratios(panels, "one", "other", no_worse))
    assert (claim.verdict, claim.condition) == (Verdict.HOLDS, "")
    assert claim.measured == "ratio: 0.25 to 1 over 4 points"


def test_a_claim_that_holds_nowhere_does_not_hold():
    claim = judge(
        "here",
        "other is better",
        "ratio",
        ratios([panel("a", one=(1, 2), other=(3, 8))], "other", "one", no_worse),
    )
    assert (claim.verdict, claim.condition) == (Verdict.FAILS, "not at ε = 1, 5 (3 to 4)")


def test_a_condition_names_what_differs_and_by_how_much():
    panels = [panel(title, one=(1, 3), other=(1, 1)) for title in "ab"]
    claim = judge("here", "one is better", "ratio", ratios(panels, "one", "other", no_worse), "E1")
    assert (claim.verdict, claim.condition) == (Verdict.CONDITION, "not at ε = 5 (3)")
    assert claim.erratum == "E1"
    points = ratios([*panels, panel("c", one=(7, 1), other=(1, 1))], "one", "other", no_worse)
    assert judge("", "", "", points).condition == "not at ε = 5 for a, b (3); at ε = 1 for c (7)"


def test_a_tie_is_no_worse_and_a_factor_goes_both_ways():
    assert no_worse(1.019)
    assert not no_worse(1.021)
    assert [within(1.5)(ratio) for ratio in (0.66, 0.67, 1.5, 1.51)] == [False, True, True, False]


def test_data_are_compared_with_a_reference():
    reference = panel("usage", one=(1, 1))
    points = against([panel("a", one=(1.2, 4))], reference, "one")
    assert points == [Measured("a", 1.0, 1.2, True), Measured("a", 5.0, 4.0, False)]
