"""Frozen values do what frozen dataclasses do."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar

import pytest

from reticent import frozen as module
from reticent.frozen import freeze, frozen
from reticent.mechanisms import Buckets, DBitFlip, Flip, Grid, HadamardBit, OneBitMean, RandomizedResponse


@frozen("note")
class Point:
    """What frozen makes of a class."""

    unit: ClassVar[str] = "m"
    x: int
    y: int = 0
    note: str = ""

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x")


@dataclass(frozen=True)
class Same:
    """What dataclass makes of it."""

    unit: ClassVar[str] = "m"
    x: int
    y: int = 0
    note: str = ""


@frozen("note")
class Twin:
    """The same fields, and another class."""

    x: int
    y: int = 0
    note: str = ""


@frozen()
class Nothing:
    """No field at all."""


class Base:
    """Has a property that a field hides."""

    @property
    def x(self) -> int:
        """Not the field."""
        return -1


@frozen()
class Hiding(Base):
    """A field of the name of a base's property, and an `__init__` of its own."""

    x: int

    def __init__(self, half: int) -> None:
        freeze(self, x=2 * half)


def test_arguments_are_those_of_a_dataclass() -> None:
    assert str(inspect.signature(Point)) == str(inspect.signature(Same))
    assert (Point(1).x, Point(1).y, Point(x=1, y=2).y, Point(1, 2, "a").note) == (1, 0, 2, "a")
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((1, 2, "", 4), {}),
        ((1,), {"z": 1}),
        ((1,), {"x": 1}),
    ]
    for places, names in calls:
        for kind in (Point, Same):
            with pytest.raises(TypeError):
                kind(*places, **names)
    with pytest.raises(ValueError, match="x"):
        Point(-1)


def test_values_are_compared_and_shown_by_their_fields() -> None:
    assert Point(1, 2) == Point(1, 2, "hidden")
    assert hash(Point(1, 2)) == hash(Point(1, 2, "hidden"))
    assert Point(1, 2) != Point(2, 1)
    assert Point(1, 2) != (1, 2)
    assert Point(1, 2) != Twin(1, 2)
    assert Point(1) != Hiding(1)
    assert repr(Point(1, 2, "hidden")) == "Point(x=1, y=2)"
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())


def test_nothing_can_be_changed() -> None:
    point: Any = Point(1)
    with pytest.raises(AttributeError, match="frozen"):
        point.x = 2
    with pytest.raises(AttributeError, match="frozen"):
        del point.x
    with pytest.raises(AttributeError, match="frozen"):
        point.z = 2
    assert issubclass(FrozenInstanceError, AttributeError)


def test_the_functions_of_dataclasses_take_them() -> None:
    assert is_dataclass(Point)
    assert [field.name for field in fields(Point)] == [field.name for field in fields(Same)]
    assert asdict(Point(1, 2, "a")) == asdict(Same(1, 2, "a"))
    for function in (replace, module.replace):
        assert function(Point(1, 2, "a"), y=3) == Point(1, 3)
        assert function(Point(1, 2, "a"), y=3).note == "a"
        with pytest.raises(ValueError, match="x"):
            function(Point(1), x=-1)
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_copies_and_pickles_are_equal() -> None:
    point = Point(1, 2, "a")
    for other in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):  # noqa: S301
        assert other == point
        assert other.note == "a"


def test_a_field_wins_over_a_property_of_a_base_class() -> None:
    assert Hiding(4).x == 8
    assert repr(Hiding(4)) == "Hiding(x=8)"


HOURS, DAYS = Buckets.even(24, 4), Buckets.even(24, 4, absent=True)
DIFFERENT = [
    OneBitMean(1, 24),
    OneBitMean(2, 24),
    OneBitMean(1, 12),
    OneBitMean(1, 24, step=12),
    HadamardBit(1, HOURS),
    HadamardBit(2, HOURS),
    HadamardBit(1, DAYS),
    DBitFlip(1, HOURS, 1),
    DBitFlip(2, HOURS, 1),
    DBitFlip(1, DAYS, 1),
    DBitFlip(1, HOURS, 2),
    DBitFlip(1, HOURS, 1, "paper"),
    DBitFlip(1, HOURS, 1, label="other"),
    Flip("0.1"),
    Flip("0.2"),
    RandomizedResponse(1),
    RandomizedResponse(2),
]


def test_what_is_remembered_for_a_mechanism_is_not_another_ones() -> None:
    """Losses are kept by mechanism: two that differ in anything must not be equal."""
    assert len(set(DIFFERENT)) == len(DIFFERENT)
    assert all((one == other) is (one is other) for one in DIFFERENT for other in DIFFERENT)
    assert OneBitMean(1, 24) == OneBitMean("1.0", grid=Grid((0, 24)))
