"""Plans that are hostile or careless; device/README.md has the list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shared.hostile import picture

from reticent.device import Device, Policy
from reticent.errors import ParameterError, PlanError, StateError
from reticent.plan import Plan
from reticent.testing import ManualClock

Make = Callable[..., Device]


def replaced(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


BROKEN: dict[str, Callable[[str], str]] = {
    "not TOML": lambda text: text + "]]]",
    "2 MB of text": lambda text: text + "#" * 2_000_000,
    "arrays nested 100,000 deep": lambda text: text + "x = " + "[" * 100_000,
    "a key of 10,000 parts": lambda text: text + ".".join(["a"] * 10_000) + " = 1",
    "a number of 10,000 digits": replaced("max_value = 10", "max_value = 1" + "0" * 10_000),
    "epsilon = nan": replaced("epsilon = 1.0", "epsilon = nan"),
    "max_value = 1e999999999": replaced("max_value = 10", "max_value = 1e999999999"),
    "a metric named in Unicode": replaced("metrics.saves", 'metrics."säves"'),
    "the same metric twice": lambda text: text + "[metrics.saves]\nkind = 'flag'\nepsilon = 1\n",
    "100,000 labels": replaced('"build"', ", ".join(f'"{n}"' for n in range(100_000))),
    "version = 2³¹": replaced("version = 1", f"version = {2**31}"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plan_is_a_plan_error(make: Make, text: str, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(BROKEN[kind](text))
    before = picture(tmp_path)
    with pytest.raises(PlanError):
        make(file)
    assert picture(tmp_path) == before, "no state file is made"


def not_utf8(folder: Path) -> Path:
    (folder / "plan.toml").write_bytes(b"\xff\xfe")
    return folder / "plan.toml"


UNREADABLE: dict[str, Callable[[Path], object]] = {
    "not UTF-8": not_utf8,
    "no such file": lambda folder: folder / "nowhere.toml",
    "a folder": lambda folder: folder,
    "a number for a path": lambda folder: 0,
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_is_no_plan(make: Make, tmp_path: Path, kind: str) -> None:
    with pytest.raises(ParameterError if kind == "a number for a path" else PlanError):
        make(UNREADABLE[kind](tmp_path))


REFUSED: dict[str, tuple[Callable[[str], str], str]] = {
    "lower version than held": (replaced("version = 1", "version = 1"), "older than version 2"),
    "other questions, same version": (
        lambda text: text.replace("version = 1", "version = 2").replace("max_value = 10", "max_value = 11"),
        "something else than the version 2",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_version_changes_nothing(make: Make, text: str, clock: ManualClock, kind: str) -> None:
    make(Plan.from_toml(text.replace("version = 1", "version = 2"))).close()
    change, reason = REFUSED[kind]
    device = make(Plan.from_toml(change(text)))
    assert reason in str(device.status())
    clock.advance(2 * 21_600)
    report = device.report()
    assert report is not None
    assert report.version == 2


def test_more_than_the_policy_allows(make: Make, text: str, clock: ManualClock) -> None:
    policy = Policy(silent_in_ci=False, silent_in_containers=False)
    device = make(Plan.from_toml(text.replace("epsilon = 1.0", "epsilon = 20")), policy=policy)
    device.add("saves")
    clock.advance(2 * 21_600)
    assert device.report() is None
    assert "max_epsilon" in str(device.status())


def test_an_expired_plan(make: Make, text: str, clock: ManualClock) -> None:
    device = make(Plan.from_toml(text.replace("[plan]", "[plan]\nexpires = 2020-01-01")))
    device.add("saves")
    clock.advance(2 * 21_600)
    assert device.report() is None
    status = device.status()
    assert not status.active
    assert "expired on 2020-01-01" in str(status)


ANOTHERS = {
    "another plan's name": replaced('"app-usage"', '"other"'),
    "another length of rounds": replaced('"6h"', '"12h"'),
}


@pytest.mark.parametrize("kind", ANOTHERS)
def test_another_plans_file(make: Make, text: str, tmp_path: Path, kind: str) -> None:
    make().close()
    before = picture(tmp_path)
    with pytest.raises(StateError):
        make(Plan.from_toml(ANOTHERS[kind](text)), debug=True)
    after = picture(tmp_path)
    assert after.keys() == before.keys()
    assert after["state.db"][3] == before["state.db"][3]
