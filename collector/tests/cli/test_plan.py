"""`reticent plan check`, `diff` and `export`, as a person and as a script meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mpmath
import pytest
from click.testing import CliRunner, Result

from reticent_collector.cli.root import reticent as command

HEAD = '[plan]\nname = "p"\nversion = 1\nround = "6h"\nowner = "o"\nexpires = 2099-01-01\n'
COUNTER = 'kind = "mean"\nunit = "second"\nmax_value = 21600\nepsilon = 1\nflip = 0.2\n'


def counters(count: int) -> str:
    metrics = "".join(f"[metrics.app{number}]\n{COUNTER}" for number in range(count))
    names = ", ".join(f'"app{number}"' for number in range(count))
    return f"{HEAD}{metrics}[groups.apps]\nmetrics = [{names}]\nmax_total = 21600\n"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def check(folder: Path, text: str, *options: object) -> tuple[int, dict[str, Any]]:
    (folder / "plan.toml").write_text(text)
    result = run("plan", "check", folder / "plan.toml", "--json", *options)
    return result.exit_code, json.loads(result.stdout)


def test_the_deployment_of_the_paper(tmp_path: Path) -> None:
    code, answer = check(tmp_path, f"{HEAD}[metrics.app]\n{COUNTER}", "--devices", 1_000_000)
    loss = answer["metrics"]["app"]["loss"]
    assert code == 0
    assert answer["problems"] == []
    equation = mpmath.log((0.6 * mpmath.e / (mpmath.e + 1) + 0.2) / (0.6 / (mpmath.e + 1) + 0.2))
    assert loss["round"] == pytest.approx(float(equation), rel=1e-9)
    assert f"{loss['round']:.4f}" == "0.5694"  # the paper prints 0.686
    assert (loss["constant"], loss["lifetime"]) == pytest.approx((1, 2), rel=1e-12)
    assert loss["change_per_round"] == pytest.approx(float(mpmath.log(4)), rel=1e-12)
    assert loss["any_history"] == pytest.approx(float(2 * mpmath.log(mpmath.e + 1) + 730 * mpmath.log(4)))
    assert answer["loss"] == loss
    assert answer["rounds"] == 1460


def test_ten_counters_with_a_joint_limit(tmp_path: Path) -> None:
    _, answer = check(tmp_path, counters(10))
    with mpmath.workdps(50):
        odds = mpmath.e
        tau = mpmath.log((odds * 4 + 1) / (4 + odds))
        exact = tau + 9 * mpmath.log(1 + (mpmath.exp(tau) - 1) / 9)
        for found, true in ((answer["loss"]["round"], exact), (answer["loss"]["lifetime"], mpmath.mpf(20))):
            assert true <= found <= true * (1 + 1e-12)
    assert round(answer["loss"]["round"], 3) == 1.306


def test_the_whole_plan_has_all_five_losses(tmp_path: Path) -> None:
    _, answer = check(tmp_path, counters(3))
    assert set(answer["loss"]) == {"round", "constant", "lifetime", "change_per_round", "any_history"}
    assert answer["loss"]["change_per_round"] == pytest.approx(float(3 * mpmath.log(4)), rel=1e-12)
    one = answer["metrics"]["app0"]["loss"]
    assert answer["loss"]["any_history"] == pytest.approx(3 * one["any_history"], rel=1e-12)


def test_rounds_are_the_length_of_any_two_histories(tmp_path: Path) -> None:
    _, year = check(tmp_path, counters(1))
    _, month = check(tmp_path, counters(1), "--rounds", 31)
    assert month["rounds"] == 31
    assert month["loss"]["any_history"] < year["loss"]["any_history"]
    _, single = check(tmp_path, counters(3), "--rounds", 1)
    assert single["loss"]["any_history"] == single["loss"]["round"]
    shown = run("plan", "check", tmp_path / "plan.toml", "--rounds", 31).output
    assert "any two histories, whatever the devices do, over 31 rounds" in shown


def test_a_plan_without_flips_is_a_pseudonym(tmp_path: Path) -> None:
    plain = counters(20).replace("flip = 0.2", "flip = 0").split("[groups")[0]
    _, answer = check(tmp_path, plain, "--devices", 20_000)
    assert answer["tracking"] == {"devices": 20_000, "two_rounds": pytest.approx(0.9905, abs=1e-4),
                                  "many_rounds": pytest.approx(0.9905, abs=1e-4), "together": 1}  # fmt: skip
    warnings = [problem["message"] for problem in answer["problems"] if problem["rule"] == "tracking"]
    assert len(warnings) == 1
    assert "99.1 % of 20,000 devices" in warnings[0]
    _, flipped = check(tmp_path, counters(20), "--devices", 20_000)
    assert flipped["tracking"]["two_rounds"] == pytest.approx(0.0073, abs=1e-4)
    assert flipped["tracking"]["together"] == pytest.approx(0.473, abs=5e-4)
    assert [problem for problem in flipped["problems"] if problem["rule"] == "tracking"]  # 1.25 times 8.3 %
    _, larger = check(tmp_path, counters(20), "--devices", 40_000)
    assert not [problem for problem in larger["problems"] if problem["rule"] == "tracking"]


def test_a_sampled_plan_has_a_loss_per_window(tmp_path: Path) -> None:
    sampled = counters(2).replace("flip = 0.2", "flip = 0").split("[groups")[0]
    _, answer = check(tmp_path, f'{sampled}[answers]\nkind = "sampled"\nwindow = "7d"\nmetrics = 1\n')
    assert (answer["loss"]["window"], answer["loss"]["any_history"], answer["windows"]) == (1, 54, 54)
    assert answer["metrics"]["app0"]["loss"]["window"] == 1
    shown = run("plan", "check", tmp_path / "plan.toml").output
    assert "one window" in shown
    assert "constant device  " not in shown
    assert "Remembered answers with flip 0.2: 1.0 for a constant device, 2.0 same pattern" in shown
    remembered = run("plan", "check", "examples/plan.toml").output
    assert "Sampled answers, one report in 7d: 3.0 in a window, 162 any two histories" in remembered


def test_a_default_device_takes_a_plan_up_or_refuses_it(tmp_path: Path) -> None:
    """By its bound: the parts of a group that a device answers count as their sum, so it may exceed the card."""
    _, answer = check(tmp_path, counters(1))
    assert answer["default_device"]["refuses"] == []
    assert "which counts 0.5695 for a report and 2.0 for life, takes it up." in " ".join(
        run("plan", "check", tmp_path / "plan.toml").output.split()
    )
    _, dearer = check(tmp_path, counters(7))
    assert [reason.split(";")[0] for reason in dearer["default_device"]["refuses"]] == [
        "with this plan the state file can lose 14 for life"
    ]
    shown = " ".join(run("plan", "check", tmp_path / "plan.toml").output.split())
    assert "refuses it; with this plan the state file can lose 14 for life; the policy allows 12" in shown


def test_certified_is_said_of_certified_plans_only(tmp_path: Path) -> None:
    certified = "Certified: proofs/ derives every loss above"
    assert certified in run("plan", "check", "examples/plan.toml").output
    assert certified not in run("plan", "check", "examples/plan.toml", "--rounds", 7).output
    changed = Path("examples/plan.toml").read_text().replace("flip = 0.2", "flip = 0.1", 1)
    _, answer = check(tmp_path, changed)
    assert answer["certified"] is False
    assert certified not in run("plan", "check", tmp_path / "plan.toml").output


def test_the_summary_rounds_the_odds_up(tmp_path: Path) -> None:
    """e¹ is 2.71828…, e² is 7.38905…, and two figures at 100,000 devices are known to 1.119 and 2.112 %."""
    counter = f"[metrics.a]\n{COUNTER}"
    _, answer = check(tmp_path, HEAD + counter)
    assert "at most 2.72 times as likely from values that never change" in answer["summary"]
    assert (
        "100,000 devices, expect to know each figure of 6 hours to ± 1.2 % of its range" in answer["summary"]
    )
    half = counter.replace("epsilon = 1", "epsilon = 0.5").replace(".a]", ".b]")
    _, answer = check(tmp_path, HEAD + counter + half)
    assert "at most 4.49 times" in answer["summary"]
    assert "± 2.2 % of its range" in answer["summary"], "that of the least precise figure"
    sampled = (HEAD + counter).replace("flip = 0.2", "") + '[answers]\nkind = "sampled"\nwindow = "7d"\n'
    _, answer = check(tmp_path, sampled.replace("epsilon = 1", "epsilon = 2"))
    assert (
        "in one window of a week is at most 7.39 times as likely from one history of values"
        in answer["summary"]
    )


def test_the_half_width_is_that_of_the_worst_value(tmp_path: Path) -> None:
    _, answer = check(tmp_path, f"{HEAD}[metrics.app]\n{COUNTER}", "--devices", 1_000_000)
    spread = 21600 / 0.6 / mpmath.tanh(0.5)
    normal = 1.959964 * spread / (2 * 1000)
    assert answer["metrics"]["app"]["half_width"] == pytest.approx(float(normal), rel=2e-3)
    theorem = spread * mpmath.sqrt(mpmath.log(2 / 0.05) / (2 * 1_000_000))
    assert answer["metrics"]["app"]["paper_bound"] == pytest.approx(float(theorem), rel=1e-9)


def test_a_histogram_shows_what_the_other_mechanism_would_give(tmp_path: Path) -> None:
    histogram = 'kind = "histogram"\nmax_value = 24\nbuckets = 32\nepsilon = 1\nflip = 0.1\nmechanism = '
    for mechanism, other in (("hadamard-bit", "d-bit-flip, 1 bit, tight"), ("d-bit-flip", "hadamard-bit")):
        _, answer = check(tmp_path, f'{HEAD}[metrics.h]\n{histogram}"{mechanism}"\n')
        assert answer["metrics"]["h"]["alternative"]["mechanism"] == other


def test_what_has_no_bound_is_null(tmp_path: Path) -> None:
    code, answer = check(tmp_path, f"{HEAD}[metrics.app]\n{COUNTER.replace('0.2', '0')}")
    assert answer["metrics"]["app"]["loss"]["change_per_round"] is None
    assert answer["metrics"]["app"]["loss"]["any_history"] is None
    assert answer["loss"]["any_history"] is None
    assert "infinite" in run("plan", "check", tmp_path / "plan.toml").output
    assert [(each["where"], each["rule"], each["severity"]) for each in answer["problems"]] == [
        ("metrics.app.flip", "no-flip", "warning")
    ]
    assert code == 0


@pytest.mark.parametrize(
    ("text", "where"),
    [("nonsense", "plan"), (f"{HEAD}[metrics.app]\n{COUNTER.replace('0.2', '0.5')}", "metrics.app.flip")],
)
def test_a_plan_that_breaks_a_rule_ends_with_3(tmp_path: Path, text: str, where: str) -> None:
    code, answer = check(tmp_path, text)
    assert code == 3
    assert answer["problems"][0]["where"] == where
    assert answer["metrics"] == {}
    person = run("plan", "check", tmp_path / "plan.toml")
    assert person.exit_code == 3
    assert f"error plan.toml: {where}: " in person.output


def test_a_person_sees_the_same_figures(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(counters(10))
    shown = run("plan", "check", tmp_path / "plan.toml", "--devices", 1000).output
    assert "0.5695" in shown, "rounded up"
    assert "1.306" in shown
    assert "10,147" in shown, "any two histories, a year"
    assert "1,000 devices" in shown
    assert "not-protected" in shown


def test_a_missing_file_and_a_wrong_number_are_wrong_usage(tmp_path: Path) -> None:
    assert run("plan", "check", tmp_path / "none.toml").exit_code == 2
    (tmp_path / "plan.toml").write_text(counters(2))
    assert run("plan", "check", tmp_path / "plan.toml", "--devices", 0).exit_code == 2
    assert run("plan", "check", tmp_path / "plan.toml", "--confidence", 1).exit_code == 2


def test_changes_between_versions(tmp_path: Path) -> None:
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    old.write_text(counters(2))
    new.write_text(
        counters(3).replace("version = 1", "version = 2").replace("epsilon = 1", "epsilon = 0.5", 1)
    )
    result = run("plan", "diff", old, new, "--json")
    answer = json.loads(result.stdout)
    assert result.exit_code == 0
    assert answer["new_answers"] == ["app0", "app1", "app2"], "all three share the limit of a new group"
    assert answer["lifetime_added"] == pytest.approx(1 + 2 + 2, rel=1e-12)
    assert "app0: has other privacy parameters" in run("plan", "diff", old, new).output


def test_words_cost_nothing(tmp_path: Path) -> None:
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    old.write_text(counters(2))
    new.write_text(counters(2).replace('unit = "second"', 'unit = "s"').replace("flip = 0.2", "flip = 0.3"))
    answer = json.loads(run("plan", "diff", old, new, "--json").stdout)
    assert (answer["new_answers"], answer["lifetime_added"]) == ([], 0)
    wheres = [change["where"] for change in answer["changes"]]
    assert wheres == ["metrics.app0.flip", "metrics.app0.unit", "metrics.app1.flip", "metrics.app1.unit"]


def two_plans(folder: Path, before: str, after: str) -> tuple[Path, Path]:
    old, new = folder / "old.toml", folder / "new.toml"
    old.write_text(before)
    new.write_text(after)
    return old, new


@pytest.mark.parametrize(
    ("line", "other", "where"),
    [('name = "p"', 'name = "p-2"', "plan.name"), ('round = "6h"', 'round = "3h"', "plan.round")],
)
def test_another_name_or_round_draws_every_answer_anew(
    tmp_path: Path, line: str, other: str, where: str
) -> None:
    assert line in counters(3)
    files = two_plans(tmp_path, counters(3), counters(3).replace(line, other))
    answer = json.loads(run("plan", "diff", *files, "--json").stdout)
    assert answer["new_answers"] == ["app0", "app1", "app2"]
    assert answer["lifetime_added"] == pytest.approx(6, rel=1e-12)
    [change] = [change for change in answer["changes"] if change["new_answers"]]
    assert change["where"] == where
    assert "up to 6.0 more same-pattern loss" in run("plan", "diff", *files).output


def test_another_name_and_round_is_counted_once(tmp_path: Path) -> None:
    after = counters(4).replace('name = "p"', 'name = "p-2"').replace('round = "6h"', 'round = "3h"')
    files = two_plans(tmp_path, counters(3), after.replace("epsilon = 1", "epsilon = 0.5", 1))
    answer = json.loads(run("plan", "diff", *files, "--json").stdout)
    assert answer["lifetime_added"] == pytest.approx(7, rel=1e-12)


def test_a_flip_that_falls_to_zero_no_longer_hides_changes(tmp_path: Path) -> None:
    after = counters(2).replace("version = 1", "version = 2").replace("flip = 0.2", "flip = 0", 1)
    files = two_plans(tmp_path, counters(2), after)
    answer = json.loads(run("plan", "diff", *files, "--json").stdout)
    [flip] = [change for change in answer["changes"] if change["where"] == "metrics.app0.flip"]
    before, now = flip["figures"]["change_per_round"]
    assert (before, now) == (pytest.approx(1.3863, abs=1e-4), None)
    assert flip["figures"]["round"] == [pytest.approx(0.5694, abs=1e-4), 1.0]
    assert {"constant", "lifetime"}.isdisjoint(flip["figures"])
    shown = run("plan", "diff", *files).output
    assert "nothing hides a change any more" in shown
    assert "change moved by one round 1.387 → infinite" in shown


def test_another_joint_limit_draws_the_answers_of_the_group_anew(tmp_path: Path) -> None:
    after = (
        counters(2).replace("version = 1", "version = 2").replace("max_total = 21600", "max_total = 20000")
    )
    answer = json.loads(run("plan", "diff", *two_plans(tmp_path, counters(2), after), "--json").stdout)
    assert answer["new_answers"] == ["app0", "app1"]
    assert answer["lifetime_added"] == pytest.approx(4, rel=1e-12)


def test_silent_changes_are_refused(tmp_path: Path) -> None:
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    old.write_text(counters(2))
    new.write_text(counters(2).replace("epsilon = 1", "epsilon = 2"))
    assert run("plan", "diff", old, new).exit_code == 3
    result = run("plan", "check", new, "--previous", old)
    assert result.exit_code == 3
    assert "raise the version" in result.output


def test_an_export_is_json_with_integers_as_text() -> None:
    """What the file holds for other devices; that they answer alike from it is tested in device-js/tests."""
    result = run("plan", "export", "examples/plan.toml")
    answer = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (answer["format"], answer["name"]) == ("reticent-plan-1", "app-usage")
    first = answer["metrics"][0]
    assert (first["low"], first["flip"]) == ("4961093570831980854", "3689348814741910324")
    assert first["thresholds"] == ["4961093570831980854", "13485650502877570762"]
