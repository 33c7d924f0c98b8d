"""What a reader asks for is one value, the same from a page, a request and a command."""

from dataclasses import FrozenInstanceError, replace

import pytest
from starlette.datastructures import QueryParams

from reticent.errors import ParameterError
from reticent.plan import Plan
from reticent_collector.dashboard.params import MOST_PERIODS, Params
from reticent_collector.http.api import ESTIMATE_PARAMETERS
from reticent_collector.results import MOST_ROUNDS, Query, Selection

PLAN = Plan.from_toml("""
[plan]
name = "app-usage"
version = 1
round = "1d"

[metrics.minutes]
kind = "mean"
unit = "minute"
max_value = 60
epsilon = 1.0

[metrics.starts]
kind = "mean"
unit = "start"
max_value = 9
epsilon = 1.0

[segments]
os = ["linux", "macos"]
""")


def test_a_selection_never_changes() -> None:
    tags = {"os": "linux"}
    selection = Selection("app-usage", segment=tags)
    tags["os"] = "macos"
    assert selection.segment == {"os": "linux"}
    with pytest.raises(TypeError):
        selection.segment["os"] = "macos"  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        selection.plan = "other"  # type: ignore[misc]
    assert selection == Selection("app-usage", segment={"os": "linux"})
    assert selection != Selection("app-usage", segment={"os": "macos"})
    assert len({selection, Selection("app-usage", segment={"os": "linux"})}) == 1


def test_rounds_by_number_are_rounds_unless_a_period_is_given() -> None:
    assert Selection("app-usage", rounds=[5]).every == "round"
    assert Selection("app-usage", rounds=[5], every="week").every == "week"
    assert Selection("app-usage").every is None
    assert Selection("app-usage", rounds=[5], last=2, since=1, until=9, by="os").all_periods == Selection(
        "app-usage", every="round", by="os"
    )


def test_a_collector_reads_the_parameters_that_a_selection_writes() -> None:
    selection = Selection(
        "app-usage", "starts", [5, 6], 7, {"os": "linux"}, "os", 0.9, "week", since=86_400, until=172_800
    )
    query = Query(selection.query(), ESTIMATE_PARAMETERS)
    read = Selection(
        str(query.one("plan")),
        query.one("metric"),
        query.rounds(),
        query.whole("last", MOST_ROUNDS),
        query.segment(),
        query.one("by"),
        query.confidence(),
        query.one("every"),
        query.time("since"),
        query.time("until"),
    )
    assert read == selection
    assert Selection("app-usage").query() == [("plan", "app-usage"), ("confidence", "0.95")]


def test_a_page_selects_the_days_of_both_its_dates() -> None:
    query = QueryParams("since=1970-01-02&until=1970-01-03&by=os&segment=os:linux&confidence=99&every=day")
    assert Params.parse(query).selection("app-usage", "starts") == Selection(
        "app-usage",
        "starts",
        last=MOST_PERIODS,
        segment={"os": "linux"},
        by="os",
        confidence=0.99,
        every="day",
        since=86_400,
        until=3 * 86_400,
    )
    assert Params().selection("app-usage") == Selection("app-usage", last=60)


def test_what_a_plan_has_of_a_selection() -> None:
    selection = Selection("app-usage", "starts", segment={"os": "linux"}, by="os")
    selection.check(PLAN)
    assert [metric.name for metric in selection.metrics(PLAN.metrics)] == ["starts"]
    assert [metric.name for metric in Selection("app-usage").metrics(PLAN.metrics)] == ["minutes", "starts"]
    assert selection.has_segments(PLAN)
    assert not replace(selection, by="channel").has_segments(PLAN)
    assert not replace(selection, segment={"channel": "beta"}).has_segments(PLAN)
    assert selection.tags("macos") == {"os": "macos"}
    assert replace(selection, by="channel").tags("beta") == {"os": "linux", "channel": "beta"}
    assert replace(selection, by=None).tags("") == {"os": "linux"}


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"metric": "stops"}, "metric"),
        ({"segment": {"channel": "beta"}}, "segment"),
        ({"segment": {"os": "beos"}}, "segment os"),
        ({"by": "channel"}, "by"),
        ({"by": ""}, "by"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_what_a_plan_does_not_have_is_refused(wrong: dict[str, object], name: str) -> None:
    with pytest.raises(ParameterError, match=f"^{name}: "):
        Selection("app-usage", **wrong).check(PLAN)  # type: ignore[arg-type]
