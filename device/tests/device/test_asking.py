"""When a person is asked, where the state file is by default, and what the environment says about the policy."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.shared.devices import Make

from reticent.device import Device, Policy
from reticent.errors import ParameterError
from reticent.plan import Plan
from reticent.testing import ManualClock


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stderr"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True, raising=False)


@pytest.mark.usefixtures("terminal")
def test_a_person_is_asked_until_they_have_answered(device_of: Make, state: Path) -> None:
    device = device_of(consent="unset")
    assert device.should_ask()
    assert not state.exists(), "asking whether to ask keeps nothing"
    assert device.set_consent("denied")
    assert not device.should_ask()
    assert not device_of(consent="unset").should_ask(), "at the next start neither"
    assert device.set_consent("unset")
    assert device.should_ask(), "it was taken back"


@pytest.mark.usefixtures("terminal")
def test_the_answer_of_another_program_counts(device_of: Make) -> None:
    first, second = device_of(consent="unset"), device_of(consent="unset")
    second.set_consent("denied")
    second.set_consent("unset")
    assert first.refresh_consent() == "unset"
    assert first.should_ask()
    second.set_consent("denied")
    assert not first.should_ask()
    assert first.consent == "unset", "looking changes nothing"


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("consent", ["granted", "denied", "local"])
def test_a_default_is_not_asked_about(device_of: Make, consent: str) -> None:
    assert not device_of(consent=consent).should_ask()


@pytest.mark.usefixtures("terminal")
def test_a_rule_silences_the_question(device_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    device = device_of(consent="unset")
    assert device.should_ask()
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    assert not device.should_ask()


@pytest.mark.usefixtures("terminal")
def test_an_expired_plan_is_not_asked_about(device_of: Make, plan_text: str, clock: ManualClock) -> None:
    plan = Plan.from_toml(plan_text.replace("version = 1\n", "version = 1\nexpires = 2090-01-01\n", 1))
    device = device_of(plan, consent="unset")
    assert device.should_ask()
    clock.now = 4e9
    assert plan.has_expired(clock.now)
    assert not device.should_ask()


@pytest.mark.usefixtures("terminal")
def test_nobody_is_asked_where_the_answer_cannot_be_kept(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("another program's")
    device = Device(plan, tmp_path / "state", policy=Policy.unlimited())
    assert not device.should_ask()
    device.close()


@pytest.mark.parametrize("missing", ["stdin", "stderr"])
def test_nobody_is_asked_without_a_terminal(
    device_of: Make, terminal: None, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    device = device_of(consent="unset")
    assert device.should_ask()
    monkeypatch.setattr(getattr(sys, missing), "isatty", lambda: False, raising=False)
    assert not device.should_ask()
    assert device.should_ask(terminal=False), "a window is another place"
    monkeypatch.setattr(sys, missing, None)
    assert not device.should_ask()


PLACES = {
    "linux": ("linux", {"HOME": "/people/ada"}, "/people/ada/.local/state/reticent/app-usage.db"),
    "xdg": ("linux", {"XDG_STATE_HOME": "/var/ada"}, "/var/ada/reticent/app-usage.db"),
    "xdg that is not absolute": (
        "linux",
        {"HOME": "/people/ada", "XDG_STATE_HOME": "state"},
        "/people/ada/.local/state/reticent/app-usage.db",
    ),
    "macos": (
        "darwin",
        {"HOME": "/Users/ada"},
        "/Users/ada/Library/Application Support/reticent/app-usage.db",
    ),
    "windows": (
        "win32",
        {"HOME": "/x", "LOCALAPPDATA": "/c/ada/Local"},
        "/c/ada/Local/reticent/app-usage.db",
    ),
}


@pytest.mark.parametrize("case", PLACES)
def test_the_default_place(plan: Plan, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    platform, variables, place = PLACES[case]
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    seen: list[object] = []
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: (seen.append(path), exists(path))[1])
    Device(plan, policy=Policy.unlimited()).close()
    assert place in seen


def test_a_folder_is_made_with_the_file_and_not_before(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    device = Device(plan, policy=Policy.unlimited())
    assert list(tmp_path.iterdir()) == [], "nothing is kept without consent"
    assert device.set_consent("granted")
    device.close()
    folder = tmp_path / "reticent"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "app-usage.db").exists()
    with Device(plan, policy=Policy.unlimited()) as again:
        assert again.consent == "granted"


def test_without_a_home_the_device_is_silent(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(tmp_path)
    device = Device(plan, consent="granted", policy=Policy.unlimited())
    assert "absolute path" in device.status().problem
    assert list(tmp_path.iterdir()) == []
    device.close()


def test_the_environment_changes_a_limit(
    plan: Plan, state: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    def refused(policy: Policy | None = None) -> tuple[str, ...]:
        device = Device(plan, state, consent="granted", policy=policy, clock=clock)
        try:
            assert not device.status().silenced_by
            return device.status().refused
        finally:
            device.close()

    lifted = "silent_in_ci=false, silent_in_containers=false"
    monkeypatch.setenv("RETICENT_POLICY", f"max_window=0.001, {lifted}")
    assert any("max_window" in reason for reason in refused())
    assert refused(Policy.unlimited()) == (), "what the program says counts"
    monkeypatch.setenv("RETICENT_POLICY", f"max_window=100, {lifted}")
    assert not any("max_window" in reason for reason in refused())


def test_an_environment_that_cannot_be_read_does_not_stop_the_program(
    plan: Plan, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETICENT_POLICY", "max_window=much")
    device = Device(plan, state)
    assert device.status().notes["bad-policy"] == 1
    assert device._settings.policy == Policy()
    device.close()
    with pytest.raises(ParameterError, match="RETICENT_POLICY"):
        Device(plan, state, debug=True)


def test_a_flatpak_is_an_application_and_not_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    from reticent.device import policy

    monkeypatch.setattr(policy, "CONTAINER_FILES", ())
    for name in (*policy.CI_VARIABLES, *policy.CONTAINER_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    for value, silenced in {"flatpak": (), "podman": ("container",), "lxc": ("container",)}.items():
        monkeypatch.setenv("container", value)
        policy._surroundings.cache_clear()
        assert Policy().silenced_by() == silenced
    policy._surroundings.cache_clear()
