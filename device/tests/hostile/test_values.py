"""Values that are hostile or careless; device/README.md has the list."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest
from tests.shared.devices import HERE, InFile, identity

from reticent.device import Device
from reticent.plan import Plan

Make = Callable[..., Device]


class Raises:
    """Whatever is done with it."""

    def __float__(self) -> float:
        raise RuntimeError("private 4711")

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("private 4711")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("private 4711")

    __lt__ = __gt__ = __le__ = __ge__ = __eq__
    __hash__ = None  # type: ignore[assignment]


class Quarrelsome(int):
    def __lt__(self, other: object) -> bool:
        raise RuntimeError

    __gt__ = __le__ = __ge__ = __eq__ = __lt__  # type: ignore[assignment]
    __hash__ = int.__hash__


class OwnItem:
    shape = ()

    def item(self) -> object:
        return self


class Name(str):
    __slots__ = ()

    def __hash__(self) -> int:
        raise RuntimeError


VALUES: dict[str, tuple[object, int | Fraction, str | None]] = {
    "True": (True, 1, None),
    "a text": ("7", 0, "not-a-number"),
    "None": (None, 0, "not-a-number"),
    "NaN": (float("nan"), 0, "not-a-number"),
    "infinity": (float("inf"), 10, "above-range"),
    "minus infinity": (float("-inf"), 0, "below-range"),
    "-1": (-1, 0, "below-range"),
    "an integer of 10,000 digits": (10**10_000, 10, "above-range"),
    "Decimal 1e999999999": (Decimal("1e999999999"), 10, "above-range"),
    "Decimal 1e-999999999": (Decimal("1e-999999999"), 0, None),
    "a signalling NaN": (Decimal("sNaN"), 0, "not-a-number"),
    "10⁻⁵⁰⁰⁰ as a fraction": (Fraction(1, 10**5000), 0, None),
    "a complex number": (1j, 0, "not-a-number"),
    "numpy.float64(2.5)": (numpy.float64(2.5), Fraction(5, 2), None),
    "a numpy array of no dimension": (numpy.array(4), 4, None),
    "a numpy array of two": (numpy.array([1, 2]), 0, "not-a-number"),
    "an object that raises whatever is done with it": (Raises(), 0, "not-a-number"),
    "an integer with comparisons that raise": (Quarrelsome(5), 5, None),
    "an object that is its own item": (OwnItem(), 0, "not-a-number"),
}


@pytest.mark.parametrize("how", ["add", "set"])
@pytest.mark.parametrize("kind", VALUES)
def test_what_a_value_counts_as(make: Make, kind: str, how: str, text: str) -> None:
    value, counts_as, note = VALUES[kind]
    device = make()
    getattr(device, how)("saves", value)
    assert device.save(), "it does not keep others from being written"
    report = device.report(HERE)
    law = identity(device._session.file.path).law  # type: ignore[union-attr, arg-type]
    assert report == law(Plan.from_toml(text), HERE, {"saves": counts_as})
    status = device.status()
    assert status.notes == ({note: 1} if note else {})
    assert ("debug=True" in str(status)) == (note in ("not-a-number", "unknown-label"))
    assert "4711" not in str(status) + str(device.receipt())


CALLS: dict[str, tuple[Callable[[Device], list[None]], dict[str, int]]] = {
    "a metric's name that is a list": (
        lambda device: [device.add(["saves"]), device.choose(["command"], "build")],  # type: ignore[func-returns-value, arg-type]
        {"unknown-metric": 2},
    ),
    "a metric's name with a hash that raises": (
        lambda device: [device.add(Name("saves"))],  # type: ignore[func-returns-value]
        {"internal": 1},
    ),
    "a metric's name with a line break": (
        lambda device: [device.add("\x1b[2J\n<b>é")],  # type: ignore[func-returns-value]
        {"unknown-metric: ??2J??b??": 1},
    ),
    "a round that is True, negative, 2⁷⁰ or a text": (
        lambda device: [device.add("saves", round=number) for number in (True, -1, 2**70, "1")],  # type: ignore[func-returns-value, misc, arg-type]
        {"bad-round": 4},
    ),
    "a round that has not begun": (
        lambda device: [device.add("saves", round=HERE + 1)],  # type: ignore[func-returns-value]
        {"future-round": 1},
    ),
    "a label that the plan does not have": (
        lambda device: [device.choose("command", "rm -rf")],  # type: ignore[func-returns-value]
        {"unknown-label": 1},
    ),
    "a label that is a list": (
        lambda device: [device.choose("command", ["build"])],  # type: ignore[func-returns-value, arg-type]
        {"unknown-label": 1},
    ),
}


@pytest.mark.parametrize("kind", CALLS)
def test_what_a_call_leaves(make: Make, kind: str, in_file: InFile, text: str) -> None:
    call, notes = CALLS[kind]
    device = make()
    call(device)
    assert device.status().notes == notes
    report = device.report(HERE)
    law = identity(device._session.file.path).law  # type: ignore[union-attr, arg-type]
    assert report == law(Plan.from_toml(text), HERE, {})
    device.close()
    assert not any("rm -rf" in kind for kind in in_file().notes)
