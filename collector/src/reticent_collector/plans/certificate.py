"""
The certificate of a plan: a Coq file that derives its printed figures from the integers its devices use.

A certificate holds

- the integers: thresholds of every class and cohort, flips, grids and limits (those of `reticent plan export`);
- the figures of `reticent plan check`, as exact rationals;
- hints (logarithms, prices) that nobody has to trust, since Coq checks them;
- vectors: reports of the real `answer` for words that sit on thresholds, replayed by the model;
- and that slightly smaller figures and thresholds are refused.

`coqc` accepts it only if all of it is true. The theorems it uses are in `proofs/`; its README says what they assume.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from math import inf, lcm
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reticent.device.answers import answer
from reticent.errors import ReticentError
from reticent.mechanisms import COHORTS, MECHANISMS, SCALE, Flip, Mechanism, whole_if_possible
from reticent.plan import Answers, Metric, Plan
from reticent.plan.card import PrivacyCard, privacy_card
from reticent.privacy import joint_limit_prices, loss_of_window
from reticent_collector.plans.certified import CERTIFIED

_UNIT = 1 << 128
_SIZE = 8  # vectors of a metric, and rounds of each


@dataclass(frozen=True, slots=True)
class Certificate:
    """The text of a certificate, and what of the plan it leaves out: nothing, if it can be called certified."""

    text: str
    left_out: tuple[str, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the text: other integers, figures or vectors have another."""
        return sha256(self.text.encode()).hexdigest()


def certify(plan: Plan, rounds: int | None = None) -> Certificate:
    """
    The certificate of a plan's figures; `rounds` is the length of any two histories, a year by default.

    >>> from reticent.plan import Plan
    >>> plan = Plan.from_toml('''
    ... [plan]
    ... name = "saves"
    ... version = 1
    ... round = "1d"
    ... [metrics.saves]
    ... kind = "mean"
    ... max_value = 20
    ... epsilon = 1.0
    ... flip = 0.2
    ... ''')
    >>> certificate = certify(plan)
    >>> certificate.left_out, "Theorem plan_saves_certified" in certificate.text
    ((), True)
    """
    card = privacy_card(plan, rounds)
    writer = _Writer(plan, card)
    return Certificate("\n".join(writer.lines) + "\n", tuple(writer.left_out))


def is_certified(plan: Plan, rounds: int | None = None) -> bool:
    """Whether Coq has checked the certificate of this very plan and its figures: `make proofs` writes the list."""
    if f"{plan.name} {plan.version}" not in CERTIFIED.values():
        return False
    certificate = certify(plan, rounds)
    return not certificate.left_out and certificate.digest in CERTIFIED


def check(certificate: Certificate, proofs: Path) -> str | None:
    """What Coq says against a certificate, with the theorems in the folder `proofs`; None if it accepts it."""
    built = _run("make", "-s", "-C", str(proofs))
    if built.returncode:
        raise ReticentError(f"{proofs}: the theorems do not compile.\n{built.stderr[-2000:]}")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "Certificate.v"
        path.write_text(certificate.text)
        checked = _run("coqc", "-q", "-Q", str(proofs), "Reticent", str(path))
    return None if not checked.returncode else checked.stderr.replace(folder, "").strip()


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


class _Writer:
    """The lines of a certificate, in the order of the plan."""

    def __init__(self, plan: Plan, card: PrivacyCard) -> None:
        self.plan, self.card = plan, card
        self.left_out: list[str] = []
        self.lines = [
            f"(** The figures of plan {plan.name}, version {plan.version}, certified by Coq from its integers. *)",
            "From Coq Require Import Reals ZArith QArith Qreals List Bool Lra Lia.",
            "From Reticent Require Import Definitions Draws Bits Device Joint Windows Exp Checker.",
            "Import ListNotations.",
            "Open Scope Z_scope.",
            "",
        ]
        self._first_of: dict[tuple[object, ...], str] = {}
        grouped = {name for group in plan.groups for name in group.metrics}
        self.alone = [metric for metric in plan.metrics if metric.name not in grouped]
        for metric in plan.metrics:
            if type(metric.mechanism) is not MECHANISMS.get(
                metric.mechanism.name
            ) or metric.mechanism.name not in (
                "one-bit-mean",
                "d-bit-flip",
                "hadamard-bit",
            ):
                self.left_out.append(f"metric {metric.name}: {metric.mechanism.name} has no theorem")
            elif metric.parts:
                self.left_out.append(f"metric {metric.name}: a split has no theorem")
        if plan.is_divided:
            self.left_out.append("remembered answers about some of the metrics have no theorem")
        if self.left_out:
            return
        for metric in plan.metrics:
            self._metric(metric)
        if plan.answers.sampled:
            self._window()
            return
        for group in plan.groups:
            self._group(group.name)
        self.lines += ["Open Scope R_scope.", ""]
        self._together("round", "[x]", "")
        self._together("constant", "(repeat x T)", "forall T : nat, ")
        self._sum_over_metrics()

    def _metric(self, metric: Metric) -> None:
        mechanism = metric.mechanism
        name = _name(metric.name)
        figures = self.card.metrics[metric.name]
        sampled = self.plan.answers.sampled
        key = (*map(str, mechanism.parameters), metric.flip.threshold)
        if key in self._first_of:  # twenty counters alike need one certificate
            first = self._first_of[key]
            for part in ("", "_figures", "_certified"):
                self.lines.append(f"Notation {name}{part} := {first}{part}.")
            return
        self._first_of[key] = name
        low, turned = mechanism.response.low, metric.flip.threshold
        cohorts = _tables(mechanism)
        for index, tables in enumerate(cohorts):
            self.lines += [
                f"Definition {name}_{index} : numbers := {{| n_tables := {_listed(map(_listed, tables))};",
                f"  n_low := {low}; n_flip := {turned}; n_classes := {mechanism.classes} |}}.",
            ]
        everything = _listed(f"{name}_{index}" for index in range(len(cohorts)))
        self.lines.append(f"Definition {name} : list numbers := {everything}.")
        constant, lifetime = figures.constant, figures.lifetime
        change, any_history = figures.change_per_round, figures.any_history
        if sampled:  # what a device loses that answers once, in words of the figures of remembered answers
            remembered = privacy_card(replace(self.plan, answers=Answers(), metrics=(metric,), groups=()), 1)
            constant, lifetime = remembered.constant, remembered.lifetime
            change = any_history = inf
        odds, prices = _pattern_hints(mechanism)
        flips = _log_above(SCALE - turned, turned) if turned else Fraction(0)
        self.lines += [
            f"Definition {name}_figures : figures := {{| round := {_rational(figures.round)};",
            f"  constant := {_rational(constant)}; lifetime := {_rational(lifetime)};",
            f"  change_per_round := {_optional(change)}; rounds := {self.card.rounds}%nat;",
            f"  any_history := {_optional(any_history)} |}}.",
            f"Definition {name}_hints : hints := {{| exponent := {_rational(_log_above(SCALE - low, low))};",
            f"  odds := {_listed(map(_rational, odds))};",
            f"  prices := {_listed(f'({_rational(left)}, {_rational(right)})' for left, right in prices)};",
            f"  memo := {_rational(_log_above(SCALE, low))}; lambda := {_rational(flips)} |}}.",
            f"Theorem {name}_certified : forall n class_of, In n {name} ->",
            "  (forall alpha x, (class_of alpha x < n_classes n)%nat) ->",
            f"  claims (metric_of n class_of) {name}_figures.",
            "Proof.",
            f"  assert (H : forallb (fun n => check n {name}_figures {name}_hints) {name} = true)",
            "    by (vm_cast_no_check (eq_refl true)).",
            "  rewrite forallb_forall in H. intros n class_of I HC. exact (check_sound n _ _ (H n I) class_of HC).",
            "Qed.",
        ]
        self._thresholds(metric, name)
        self._vectors(metric, name)
        smaller = Fraction(figures.round) * (1 - Fraction(1, 10**15))
        free = "change_per_round := None; rounds := 1%nat; any_history := None |}"
        self.lines += [
            f"Example {name}_round_is_least : check_round {name}_0 {_rational(smaller)} = false.",
            "Proof. vm_cast_no_check (eq_refl false). Qed.",
            f"Example {name}_low_is_least : check {{| n_tables := n_tables {name}_0; n_low := {low - 1};",
            f"  n_flip := {turned}; n_classes := n_classes {name}_0 |}} {{| round := {_rational(constant)};",
            f"  constant := {_rational(constant)}; lifetime := 1000; {free} {name}_hints = false.",
            "Proof. vm_cast_no_check (eq_refl false). Qed.",
            "",
        ]

    def _thresholds(self, metric: Metric, name: str) -> None:
        """A mean has the thresholds of the model, a histogram two; the flip is gamma rounded up."""
        mechanism = metric.mechanism
        gamma = metric.flip.probability
        turned = metric.flip.threshold
        low = mechanism.response.low
        if mechanism.grid is not None:
            points = _listed(_in_units(mechanism.points, _unit([mechanism.points])))
            self.lines.append(
                f"Example {name}_thresholds : tables (mean_metric {points} {low} {turned}) = n_tables {name}_0."
            )
        else:
            self.lines += [
                f"Example {name}_thresholds : forallb (fun n => forallb (forallb (fun T =>",
                f"  (T =? {low}) || (T =? 2 ^ 64 - {low}))) (n_tables n)) {name} = true.",
            ]
        self.lines += [
            "Proof. vm_compute. reflexivity. Qed.",
            f"Example {name}_flip : (({turned} - 1) * {gamma.denominator} <? {gamma.numerator} * 2 ^ 64)",
            f"  && ({gamma.numerator} * 2 ^ 64 <=? {turned} * {gamma.denominator}) = true.",
            "Proof. vm_compute. reflexivity. Qed.",
        ]

    def _vectors(self, metric: Metric, name: str) -> None:
        """Reports of the real `answer`, replayed by the Coq program."""
        plan, mechanism = self.plan, metric.mechanism
        alone = Plan(plan.name, plan.version, plan.round_seconds, plan.grace_seconds, (metric,))
        for number in range(_SIZE):
            cohort = number * 37 % COHORTS
            words = _Words(number, metric, cohort)
            given, values = _history(metric, number, words)
            sent = []
            for place, value in enumerate(given):
                report = answer(words, alone, place, {metric.name: value}).report
                sent.append([report.bits[bit // 8] >> (7 - bit % 8) & 1 for bit in range(mechanism.bits)])
            columns = _listed(
                _listed(str(bool(row[bit])).lower() for row in sent) for bit in range(mechanism.bits)
            )
            if mechanism.grid is not None:
                unit = 2 * _unit([mechanism.points])
                points = _listed(_in_units(mechanism.points, unit))
                program = f"mean_metric {points} {mechanism.response.low} {metric.flip.threshold}"
                history = [int(Fraction(value) * unit) for value in values]
            elif mechanism.buckets is not None:
                history = [mechanism.buckets.index(value) for value in values]
                classes = [int(mechanism.bucket_class(b, cohort)) for b in range(len(mechanism.buckets))]
                index = _tables(mechanism).index(_table(mechanism, cohort))
                which = f"(fun _ x => nth (Z.to_nat x) ({_listed(classes)})%nat 0%nat)"
                program = f"metric_of (nth {index} {name} {name}_0) {which}"
            self.lines += [
                f"Example {name}_vector_{number} : run (answers ({program})",
                f"  {_listed(history)}%Z) {_listed(words.in_order(mechanism.bits))}%Z = Some {columns}.",
                "Proof. vm_compute. reflexivity. Qed.",
            ]

    def _group(self, group: str) -> None:
        members, limit = self._members(group)
        counters, scaled, unit = _counters(members, limit)
        figures = self.card.groups[group]
        hints = []
        for rounds in ("one", "all"):
            hints.append(_joint_hints(members, limit, unit, rounds))
        name = _name(group)
        self.lines += [
            f"Definition {name} : list counter := {_listed(counters)}.",
            f"Theorem {name}_certified : group_claims {name} {scaled} {_rational(figures.round)}",
            f"  {_rational(figures.constant)}.",
            f"Proof. apply (check_group_sound {name} {scaled} {hints[0]}",
            f"  {hints[1]}). vm_cast_no_check (eq_refl true). Qed.",
            "",
        ]

    def _members(self, group: str) -> tuple[list[Metric], Fraction]:
        chosen = next(one for one in self.plan.groups if one.name == group)
        return [self.plan.by_name[name] for name in chosen.metrics], Fraction(chosen.max_total)

    def _together(self, figure: str, history: str, binder: str) -> None:
        """One round, or a device that never changes: the figures of groups and of metrics alone add up."""
        binders: list[str] = []
        premises: list[str] = []
        programs: list[str] = []
        figures: list[str] = []
        proofs: list[str] = []
        argument = "" if figure == "round" else " T"
        for group in self.plan.groups:
            name, (members, limit) = _name(group.name), self._members(group.name)
            scaled = _counters(members, limit)[1]
            binders.append(f"(xs_{name} ys_{name} : list Z)")
            premises += [f"within_limit {scaled} {name} {side}_{name} ->" for side in ("xs", "ys")]
            programs.append(f"(answers_of_group {name} (map (fun x => {history}) %ss_{name}))")
            figures.append(_rational(getattr(self.card.groups[group.name], figure)))
            proofs.append(
                f"exact (claim_group_{figure} _ _ _ _ {name}_certified{argument} _ _ W_x_{name} W_y_{name})"
            )
        for metric in self.alone:
            name = _name(metric.name)
            binders.append(f"(x_{name} y_{name} : Z) (n_{name} : numbers) (class_{name} : Z -> Z -> nat)")
            premises += [
                f"In n_{name} {name} ->",
                f"(forall alpha x, (class_{name} alpha x < n_classes n_{name})%nat) ->",
            ]
            held = history.replace("x", f"%s_{name}")
            programs.append(f"(a <- answers (metric_of n_{name} class_{name}) {held} ;; Ret [a])")
            figures.append(_rational(getattr(self.card.metrics[metric.name], figure)))
            claim = f"claim_{figure} _ _ ({name}_certified n_{name} class_{name} W_x_{name} W_y_{name})"
            proofs.append(f"apply loss_after; exact ({claim}{argument} x_{name} y_{name})")
        names = [_name(group.name) for group in self.plan.groups] + [
            _name(metric.name) for metric in self.alone
        ]
        bound = [re.sub(r" : [^)]*|[()]", "", binder) for binder in binders]
        self.lines += [
            f"(** The whole plan, {figure}: groups within their limits, and every other metric. *)",
            f"Theorem whole_plan_{figure} : {binder}forall {' '.join(binders)},",
            *(f"  {premise}" for premise in premises),
            f"  loss (Q2R {_rational(getattr(self.card, figure))})",
            f"    (each {_listed(program % 'x' for program in programs)})",
            f"    (each {_listed(program % 'y' for program in programs)}).",
            "Proof.",
            f"  intros{argument} {' '.join(bound)} {' '.join(f'W_x_{name} W_y_{name}' for name in names)}.",
            f"  apply loss_weaken with (fold_right Rplus 0 {_listed(f'Q2R {one}' for one in figures)}).",
            "  - cbn [fold_right]. rewrite ?Rplus_0_r. rewrite <- ?Q2R_plus. apply Qle_Rle, Qle_bool_iff.",
            "    vm_compute. reflexivity.",
            "  - apply loss_each; [|reflexivity]. cbn [combine].",
            *(f"    constructor; [cbn [fst snd]; {proof}|]." for proof in proofs),
            "    constructor.",
            "Qed.",
            "",
        ]

    def _sum_over_metrics(self) -> None:
        """Same pattern, moved change and any two histories of all metrics: their figures add up."""
        classes = "(forall c, In c ({0} i) -> (c < classes (nth i ms nothing))%nat)"
        self._sum(
            "lifetime",
            "nat",
            "answers_of_classes",
            f"same_pattern (xs i) (ys i) /\\ {classes.format('xs')} /\\ {classes.format('ys')}",
            "destruct R as [R1 [R2 R3]]; exact (claim_lifetime _ _ {certified} _ _ R1 R2 R3)",
        )
        if self.card.change_per_round < inf:
            self._sum(
                "change_per_round",
                "Z",
                "answers",
                "length (xs i) = length (ys i) /\\ (rounds_differing Z.eq_dec (xs i) (ys i) <= 1)%nat",
                "destruct R as [R1 R2]; rewrite <- (Rmult_1_l (Q2R _)); "
                "exact (claim_change _ _ {certified} _ eq_refl 1%nat _ _ R1 R2)",
            )
        if self.card.any_history < inf and self.card.rounds > 1:
            length = f"{self.card.rounds}%nat"
            self._sum(
                "any_history",
                "Z",
                "answers",
                f"length (xs i) = {length} /\\ length (ys i) = {length}",
                "destruct R as [R1 R2]; exact (claim_any_history _ _ {certified} _ eq_refl _ _ R1 R2)",
            )

    def _sum(self, figure: str, kind: str, send: str, related: str, proof: str) -> None:
        names = [_name(metric.name) for metric in self.plan.metrics]
        figures = _listed(
            _rational(getattr(self.card.metrics[one.name], figure)) for one in self.plan.metrics
        )
        count = len(names)
        programs = [f"(fun i => {send} (nth i ms nothing) ({side} i))" for side in ("xs", "ys")]
        cases = (
            f"    destruct i as [|i]; [{proof.format(certified=f'({name}_certified n c In_n Hc)')}|]."
            for name in names
        )
        self.lines += [
            f"(** The whole plan, {figure}: all metrics together, for every cohort. *)",
            f"Theorem whole_plan_{figure} : forall (ms : list metric) (xs ys : nat -> list {kind}),",
            f"  (forall i, (i < {count})%nat -> exists n class_of, In n (nth i {_listed(names)} []) /\\",
            "     (forall alpha x, (class_of alpha x < n_classes n)%nat) /\\",
            "     nth i ms nothing = metric_of n class_of) ->",
            f"  (forall i, (i < {count})%nat -> {related}) ->",
            f"  loss (Q2R {_rational(getattr(self.card, figure))})",
            *(f"    (each (map {program} (seq 0 {count})))" for program in programs),
            ".",
            "Proof.",
            "  intros ms xs ys HM HR.",
            f"  apply loss_weaken with (total (seq 0 {count}) (fun i => Q2R (nth i {figures} 0%Q))).",
            "  - unfold total, seq, nth. rewrite ?Rplus_0_r. rewrite <- ?Q2R_plus. apply Qle_Rle, Qle_bool_iff.",
            "    vm_compute. reflexivity.",
            f"  - apply (loss_each_map (seq 0 _) {programs[0]} {programs[1]}).",
            "    intros i Hi. apply in_seq in Hi. pose proof (HR i ltac:(lia)) as R.",
            "    destruct (HM i ltac:(lia)) as [n [c [In_n [Hc Em]]]]. rewrite Em in *.",
            *cases,
            "    lia.",
            "Qed.",
            "",
        ]

    def _window(self) -> None:
        """One window: any two histories, for every way to pick a round and metrics."""
        plan, card = self.plan, self.card
        blocks = [
            f"Alone {_name(metric.name)} {_rational(card.metrics[metric.name].round)}"
            for metric in self.alone
        ]
        for group in plan.groups:
            members, limit = self._members(group.name)
            counters, scaled, _ = _counters(members, limit)
            if len(set(counters)) > 1:
                self.left_out.append(
                    f"group {group.name}: unlike counters of a sampled plan have no certificate"
                )
                return
            mechanisms = [metric.mechanism for metric in members]
            costs = [Fraction(0)]
            for size in range(1, len(members) + 1):
                costs.append(Fraction(loss_of_window([], [(mechanisms, limit)], size)))
            blocks.append(f"Alike {counters[0]} {len(members)} {scaled} {_listed(map(_rational, costs))}")
        loss = Fraction(plan.round_loss)
        window = _rational(loss)
        asked = plan.asked
        length = plan.answers.window
        smaller = _rational(loss * (1 - Fraction(1, 10**15)))
        self.lines += [
            f"Definition blocks : list asked_block := {_listed(blocks)}.",
            f"(** One window, {asked} of {len(plan.metrics)} metrics. *)",
            f"Theorem window_certified : forall bs, Forall2 matches blocks bs -> window_claim bs {asked} {window}.",
            "Proof. apply check_window_sound. vm_cast_no_check (eq_refl true). Qed.",
            f"Example window_is_least : check_window blocks {asked} {smaller} = false.",
            "Proof. vm_cast_no_check (eq_refl false). Qed.",
            "(** The windows that so many rounds touch, and what they lose together ([loss_of_windows]). *)",
            f"Example windows_are_enough : ({card.rounds} - 1 + {length} - 1) / {length} + 1 = {card.windows}.",
            "Proof. vm_compute. reflexivity. Qed.",
            f"Example any_history_is_enough : Qle_bool (({card.windows} # 1) * {window})",
            f"  {_rational(card.any_history)} = true.",
            "Proof. vm_compute. reflexivity. Qed.",
        ]


class _Words:
    """Draws that are all chosen in advance, on the thresholds or beside them, for one metric."""

    window = None

    def __init__(self, seed: int, metric: Metric, cohort: int) -> None:
        source, mechanism = random.Random(seed), metric.mechanism  # noqa: S311

        def word(threshold: int) -> int:
            return source.choice([threshold, max(threshold - 1, 0), source.randrange(SCALE)]) % SCALE

        self.alpha_word = word(0)
        self.cohort_byte = cohort
        self.memos = [
            [word(one) for one in mechanism.thresholds(c, cohort)] for c in range(mechanism.classes)
        ]
        self.flip_words = [[word(metric.flip.threshold) for _ in range(mechanism.bits)] for _ in range(_SIZE)]

    def picked_round(self, window: Any) -> int:
        raise AssertionError("a round is handed to `answer`, so none is picked")

    def asked(self, plan: Plan) -> tuple[bool, ...]:
        raise AssertionError("the plan of a vector asks about its one metric")

    def alpha(self, metric: Metric) -> int:
        return self.alpha_word

    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        return self.memos[memo_class]

    def fixed(self, metric: Metric, purpose: str, count: int) -> Sequence[int]:
        raise AssertionError("a mechanism with a theorem has no such draws")

    def flips(self, metric: Metric, round_number: int) -> Sequence[int]:
        return self.flip_words[round_number]

    def cohort(self) -> int:
        return self.cohort_byte

    def report_id(self, version: int, round_number: int) -> bytes:
        return bytes(16)

    def in_order(self, bits: int) -> list[int]:
        """As the Coq program draws them: alpha, then per answer bit the memo and the flips."""
        words = [self.alpha_word]
        for bit in range(bits):
            words += [row[bit] for row in self.memos] + [row[bit] for row in self.flip_words]
        return words


def _history(metric: Metric, number: int, words: _Words) -> tuple[list[Any], list[Any]]:
    """Values as a program gives them, and as buckets or grids know them; alpha on a value's own boundary."""
    source = random.Random(number)  # noqa: S311
    mechanism = metric.mechanism
    top = int(metric.max_value)
    if metric.labels:
        labels = [source.choice([*metric.labels, None]) for _ in range(_SIZE)]
        return labels, [None if label is None else metric.labels.index(label) for label in labels]
    if mechanism.grid is None:
        given = [source.choice([None, source.randint(0, top)]) for _ in range(_SIZE)]
        return given, given if metric.absent else [0 if value is None else value for value in given]
    values: list[int | Fraction] = [source.choice([0, top, source.randint(0, top)]) for _ in range(_SIZE)]
    if number % 4:  # half way, at the least alpha that rounds up, or one less
        left, right = list(pairwise(mechanism.points))[number % (len(mechanism.points) - 1)]
        values[0] = whole_if_possible(Fraction(left + right, 2))
        words.alpha_word = SCALE // 2 - (number % 4 == 3)
    return values, values


def _tables(mechanism: Mechanism) -> list[list[list[int]]]:
    """The different tables that cohorts have, per answer bit; most mechanisms have the same for all."""
    different: list[list[list[int]]] = []
    for cohort in range(COHORTS if mechanism.thresholds_vary else 1):
        table = _table(mechanism, cohort)
        if table not in different:
            different.append(table)
    return different


def _table(mechanism: Mechanism, cohort: int) -> list[list[int]]:
    rows = [mechanism.thresholds(number, cohort) for number in range(mechanism.classes)]
    return [list(column) for column in zip(*rows, strict=True)]


def _pattern_hints(mechanism: Mechanism) -> tuple[list[Fraction], list[tuple[Fraction, Fraction]]]:
    """Of a mean: the odds of each cell, or prices of the heaviest matching where the grid is uneven."""
    if mechanism.grid is None:
        return [], []
    thresholds = _table(mechanism, 0)[0]
    points = mechanism.points
    if all(left + right == points[-1] for left, right in zip(points, reversed(points), strict=True)):
        return [_log_above(max(one, SCALE - one), min(one, SCALE - one)) for one in thresholds], []
    return [], _matching_prices(thresholds)


def _matching_prices(thresholds: list[int]) -> list[tuple[Fraction, Fraction]]:
    """Prices (alpha, beta) of cells with D(u, v) ≤ alpha_u + beta_v, whose sum is the heaviest matching's weight."""

    def units(one: int, other: int) -> int:
        logs = _log_above(one, other), _log_above(SCALE - one, SCALE - other)
        return max(0, *(int(log * _UNIT) for log in logs)) if one != other else 0

    weight = [[units(u, v) for v in thresholds] for u in thresholds]
    size, partner = len(weight), _heaviest(weight)
    alpha = [
        0
    ] * size  # the least that satisfies alpha_r - alpha_u ≥ D(r, v) - D(u, v) for v the partner of u
    for _ in range(size):
        for row in range(size):
            needed = (alpha[u] + weight[row][partner[u]] - weight[u][partner[u]] for u in range(size))
            alpha[row] = max(alpha[row], *needed)
    beta = [0] * size
    for row in range(size):
        beta[partner[row]] = weight[row][partner[row]] - alpha[row]
    return [(Fraction(a, _UNIT), Fraction(b, _UNIT)) for a, b in zip(alpha, beta, strict=True)]


def _heaviest(weight: list[list[int]]) -> list[int]:
    """The column of each row in a heaviest matching of all rows: improved along cycles until none is left."""
    size = len(weight)
    partner = list(range(size))
    while True:
        gain = [[weight[u][partner[v]] - weight[u][partner[u]] for v in range(size)] for u in range(size)]
        best = [0] * size
        before = [-1] * size
        last = -1
        for _ in range(size):
            last = -1
            for u in range(size):
                for v in range(size):
                    if best[u] + gain[u][v] > best[v]:
                        best[v], before[v], last = best[u] + gain[u][v], u, v
        if last < 0:
            return partner
        for _ in range(size):  # now on a cycle whose total gain is positive
            last = before[last]
        cycle = [last]
        while before[cycle[-1]] != last:
            cycle.append(before[cycle[-1]])
        columns = [partner[v] for v in cycle]
        for v, column in zip(cycle, [columns[-1], *columns[:-1]], strict=True):
            partner[v] = column


def _counters(members: Sequence[Metric], limit: Fraction) -> tuple[list[str], int, int]:
    """The counters of a group and its limit, in the unit in which all of them are whole; and that unit."""
    unit = _unit([metric.mechanism.points for metric in members] + [(limit,)])
    counters = [
        f"{{| points := {_listed(_in_units(metric.mechanism.points, unit))}; "
        f"counter_low := {metric.mechanism.response.low}; counter_flip := {metric.flip.threshold} |}}"
        for metric in members
    ]
    return counters, int(limit * unit), unit


def _joint_hints(members: Sequence[Metric], limit: Fraction, unit: int, rounds: Any) -> str:
    """Nothing for counters alike; prices, gains and tangents for others."""
    alike = (
        len(
            {(tuple(one.mechanism.points), one.mechanism.response.low, one.flip.threshold) for one in members}
        )
        == 1
    )
    if alike:
        return "{| of_ones := 0; of_zeros := 0; gains := [] |}"
    mechanisms, flips = [metric.mechanism for metric in members], [metric.flip for metric in members]
    of_ones, of_zeros = (
        price / unit for price in joint_limit_prices(mechanisms, flips, limit, rounds=rounds)
    )
    gains = []
    for metric in members:
        low = metric.mechanism.response.low
        chance = metric.flip.chance_of_one(low) if rounds == "one" else Flip(0).chance_of_one(low)
        top = Fraction(metric.max_value) * unit
        gain, tangent = _gain(chance, top, min(Fraction(1), limit * unit / top), of_ones, of_zeros)
        gains.append(f"({_rational(gain)}, {_rational(tangent)})")
    return f"{{| of_ones := {_rational(of_ones)}; of_zeros := {_rational(of_zeros)}; gains := {_listed(gains)} |}}"


def _gain(
    low: Fraction, top: Fraction, cap: Fraction, of_ones: Fraction, of_zeros: Fraction
) -> tuple[Fraction, Fraction]:
    """The most that a counter gains above the prices, and where the tangent touches, as a part of its range."""
    growth = (1 - 2 * low) / low
    price = of_ones * top
    touching = cap if not price or not growth else min(max(1 / price - 1 / growth, Fraction(0)), cap)
    tangent = Fraction(int(touching * _UNIT), _UNIT)
    left = 1 - price * tangent
    right = 1 + price * (cap - tangent)
    needed = [
        _log_above(left.denominator, left.numerator) - price * tangent,
        _log_of(1 + growth * cap) - _log_of(right) - price * tangent,
        -_log_of(1 - (1 - 2 * low) / (1 - low) * cap) - of_zeros * top * cap,
    ]
    gain = max(Fraction(0), *needed)
    return Fraction(int(gain * _UNIT) + 8, _UNIT), tangent


def _log_of(number: Fraction) -> Fraction:
    with localcontext(Context(prec=120)):
        return Fraction((Decimal(number.numerator) / Decimal(number.denominator)).ln())


def _log_above(above: int, below: int) -> Fraction:
    """A rational that is not below ln(above/below), by less than 1e-37."""
    if above == below:
        return Fraction(0)
    return Fraction(int(_log_of(Fraction(above, below)) * _UNIT) + 2, _UNIT)


def _unit(scales: Iterable[Sequence[int | Fraction]]) -> int:
    return lcm(*(Fraction(point).denominator for points in scales for point in points))


def _in_units(points: Sequence[int | Fraction], unit: int) -> list[int]:
    return [int(point * unit) for point in points]


def _name(name: str) -> str:
    """A name of the plan as one that Coq allows and that no definition has."""
    return "plan_" + re.sub(r"\W", "_", name)


def _rational(number: float | Fraction) -> str:
    ratio = Fraction(number)
    return f"({ratio.numerator} # {ratio.denominator})"


def _optional(number: float) -> str:
    return "None" if number == inf else f"(Some {_rational(number)})"


def _listed(items: Iterable[object]) -> str:
    return "[" + "; ".join(map(str, items)) + "]"
