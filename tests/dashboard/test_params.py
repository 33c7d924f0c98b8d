from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from reticent.dashboard.params import CONFIDENCES, VIEWS, Params
from reticent.errors import ParameterError

NAMES = st.text(st.characters(codec="utf-8", exclude_characters=":"), min_size=1, max_size=20)


@given(
    st.builds(
        Params,
        confidence=st.sampled_from(CONFIDENCES),
        rounds=st.integers(1, 1000),
        by=NAMES,
        tags=st.lists(NAMES, max_size=3).map(tuple),
        segment=st.none() | st.tuples(NAMES, NAMES),
        round=st.none() | st.integers(0, 10**6),
        view=st.sampled_from(VIEWS),
    )
)
def test_an_address_says_what_was_asked(params: Params) -> None:
    assert Params.parse(QueryParams(params.query().removeprefix("?"))) == params


def test_an_empty_query_asks_for_the_usual() -> None:
    assert Params.parse(QueryParams("")) == Params()
    assert Params().query() == ""


@pytest.mark.parametrize(
    "query",
    [
        "confidence=97",
        "confidence=-1",
        "rounds=0",
        "rounds=1001",
        "rounds=²",
        "view=x",
        "segment=os",
        "round=1e3",
    ],
)
def test_nonsense_is_refused(query: str) -> None:
    with pytest.raises(ParameterError, match="expected"):
        Params.parse(QueryParams(query))


def test_a_refusal_does_not_repeat_an_endless_query() -> None:
    with pytest.raises(ParameterError) as caught:
        Params.parse(QueryParams("rounds=" + "x" * 5000))
    assert len(str(caught.value)) < 200
