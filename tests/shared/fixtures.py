"""Fixtures of all tests: a database server, collectors to start, a browser, a state file, and bounds of e^x."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import mpmath
import pytest

if TYPE_CHECKING:
    from tests.shared.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server of our own; one for each process that runs tests."""
    from tests.shared.postgres import postgres_server

    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def tools() -> ModuleType:
    """`Service`, `usage`, `make_reports`, `make_keys` and `in_thread` of tests/shared/collectors.py."""
    from tests.shared import collectors

    return collectors


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, closed after the file; only for files marked with `needs_chromium`."""
    from tests.shared.browsers import chromium

    with chromium() as started:
        yield started


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where a device may keep its state; nothing is there yet."""
    return tmp_path / "state.db"


@pytest.fixture(scope="session")
def exponential_bounds() -> Callable[[Fraction], tuple[Fraction, Fraction]]:
    """Two rationals with e^x strictly between them, 2·10⁻⁹⁵ apart relative to e^x (mpmath at 100 digits)."""
    slack = Fraction(1, 10**95)

    def bounds(exponent: Fraction) -> tuple[Fraction, Fraction]:
        with mpmath.workdps(100):
            power = mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator)
        middle = Fraction(power.man) * Fraction(2) ** power.exp
        return middle * (1 - slack), middle * (1 + slack)

    return bounds


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The folder of recordings, beside the project."""
    folder = Path(__file__).parents[2].parent / "shared" / "data"
    if not list(folder.glob("*_daily_seconds.csv.gz")):
        pytest.skip("the recordings are not here")
    return folder


@pytest.fixture(params=["UTC", "America/Los_Angeles", "Pacific/Kiritimati"])
def time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The zone of this machine: no time that is kept, sent or shown depends on it."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()
