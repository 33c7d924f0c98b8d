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
from itertools import compress, pairwise
from math import comb, inf, lcm
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reticent.device.answers import DARTS, answer, part_at, part_hit
from reticent.device.prf import FixedPurpose
from reticent.errors import ReticentError
from reticent.mechanisms import (
    COHORTS,
    MECHANISMS,
    SCALE,
    Flip,
    Mechanism,
    SubsetSelection,
    whole_if_possible,
)
from reticent.plan import Group, Metric, Plan
from reticent_collector.plans.certified import CERTIFIED
from reticent_collector.privacy import joint_limit_prices, loss_of_asked
from reticent_collector.privacy.card import PrivacyCard, privacy_card
from reticent_collector.privacy.joint import MOST_SUBSETS, OneOrAllRounds

_UNIT = 1 << 128
_CERTIFIED_MECHANISMS = ("one-bit-mean", "d-bit-flip", "hadamard-bit", "subset")
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
            "From Coq Require Import Reals ZArith QArith Qreals List Bool.",
            "From Reticent Require Import Definitions Device Plans Exp Checker.",
            "Import ListNotations.",
            "Open Scope Z_scope.",
            "",
        ]
        self._first_of: dict[tuple[object, ...], str] = {}
        self._asked = plan.asked
        grouped = {name for group in plan.groups for name in group.metrics}
        self._alone = [metric for metric in plan.metrics if metric.name not in grouped]
        self._leave_out()
        if self.left_out:
            return
        for metric in plan.metrics:
            self._metric(metric)
        for group in plan.groups:
            self._group(group)
        if plan.answers.sampled:
            self._window()
        else:
            self._whole_plan()

    def _leave_out(self) -> None:
        """Say what has no theorem, or no certificate of a size that can be checked."""
        for metric in self.plan.metrics:
            name = metric.mechanism.name
            if type(metric.mechanism) is not MECHANISMS.get(name) or name not in _CERTIFIED_MECHANISMS:
                self.left_out.append(f"metric {metric.name}: there is no certificate of the mechanism {name}")
        for group in self.plan.groups:
            members, count = self._members(group), len(group.metrics)
            sizes = range(2, min(self._asked, count - 1) + 1)
            if self._asks_some and not _alike(members) and any(comb(count, k) > MOST_SUBSETS for k in sizes):
                self.left_out.append(
                    f"group {group.name}: {count} unlike counters, of which {self._asked} are asked, have too many sets"
                )

    @property
    def _asks_some(self) -> bool:
        return self._asked < len(self.plan.metrics)

    def _members(self, group: Group) -> list[Metric]:
        return [self.plan.by_name[name] for name in group.metrics]

    def _metric(self, metric: Metric) -> None:
        mechanism = metric.mechanism
        name = _name(metric.name)
        key = (*map(str, mechanism.parameters), metric.flip.threshold)
        if key in self._first_of:  # twenty counters alike need one certificate
            first = self._first_of[key]
            for part in ("", "_figures", "_certified"):
                self.lines.append(f"Notation {name}{part} := {first}{part}.")
            return
        self._first_of[key] = name
        if isinstance(mechanism, SubsetSelection):
            self._subset(metric, mechanism, name)
            return
        low, turned = mechanism.response.low, metric.flip.threshold
        cohorts = _tables(mechanism)
        for index, tables in enumerate(cohorts):
            self.lines += [
                f"Definition {name}_{index} : metric := {{| tables := {_listed(map(_listed, tables))};",
                f"  low := {low}; flip := {turned}; classes := {mechanism.classes} |}}.",
            ]
        everything = _listed(f"{name}_{index}" for index in range(len(cohorts)))
        self.lines.append(f"Definition {name} : list metric := {everything}.")
        if self.plan.answers.sampled:
            self._one_round(metric, name)
        else:
            self._five_figures(metric, name)
        self._thresholds(metric, name)
        self._vectors(metric, name)
        smaller = Fraction(self.card.metrics[metric.name].round) * (1 - Fraction(1, 10**15))
        epsilon = _rational(mechanism.response.epsilon)
        self.lines += [
            f"Example {name}_round_is_least : check_round {name}_0 {_rational(smaller)} = false.",
            "Proof. vm_cast_no_check (eq_refl false). Qed.",
            f"Example {name}_low_is_least : (le_exp (2 ^ 64 - {low}) {low} {epsilon},",
            f"  le_exp (2 ^ 64 - {low - 1}) {low - 1} {epsilon}) = (true, false).",
            "Proof. vm_cast_no_check (eq_refl (true, false)). Qed.",
            "",
        ]

    def _subset(self, metric: Metric, mechanism: SubsetSelection, name: str) -> None:
        """The weights of subset selection, and answers for words where another gives another shift."""
        loss = Fraction(self.card.metrics[metric.name].round)
        law = f"{mechanism.bits} {mechanism.size} {mechanism.inside} {mechanism.outside}"
        smaller = _rational(loss * (1 - Fraction(1, 10**15)))
        self.lines += [
            f"Definition {name} : comparison := of_choices {law}.",
            f"Definition {name}_figures := {_rational(loss)}.",
            f"Theorem {name}_certified : bounds (Q2R {name}_figures) {name}.",
            "Proof. apply check_subset_sound. vm_cast_no_check (eq_refl true). Qed.",
            f"Example {name}_round_is_least : check_subset {law} {smaller} = false.",
            "Proof. vm_cast_no_check (eq_refl false). Qed.",
        ]
        for number in range(_SIZE):
            source = random.Random(number)  # noqa: S311
            label = number % mechanism.classes
            base = [source.choice([7, source.randrange(SCALE)]) for _ in range(mechanism.base_draws)]
            word = (source.choice(mechanism.cuts(label)) - number % 2) % SCALE
            bits = mechanism.answer(label, 0, [word], base)
            self.lines += [
                f"Example {name}_vector_{number} : run (subset_answer {law} {label})",
                f"  {_listed([*base, word])}%Z = Some {_listed(f'[{str(bit).lower()}]' for bit in bits)}.",
                "Proof. vm_compute. reflexivity. Qed.",
            ]
        self._parts(metric, name)

    def _parts(self, metric: Metric, name: str) -> None:
        """The label of a split: at moments where the next part begins, and by darts."""
        unit = _unit([(metric.max_total,)])
        limit = int(metric.max_total * unit)
        for number in range(_SIZE if metric.parts else 0):
            source = random.Random(number)  # noqa: S311
            cuts = sorted(source.randint(0, limit) for _ in metric.parts)
            amounts = [right - left for left, right in pairwise([0, *cuts])]
            word = (-(-source.choice(cuts) * SCALE // limit) - number % 2) % SCALE
            darts = [word, *(source.randrange(SCALE) for _ in range(DARTS))]
            none = len(amounts)
            at, hit = part_at(amounts, limit, word), part_hit(amounts, limit, darts)
            self.lines += [
                f"Example {name}_part_{number} : (label_at {limit} {word} {_listed(amounts)},",
                f"  label_by_darts {limit} {_listed(darts)} {_listed(amounts)})",
                f"  = ({none if at is None else at}, {none if hit is None else hit})%nat.",
                "Proof. vm_compute. reflexivity. Qed.",
            ]

    def _one_round(self, metric: Metric, name: str) -> None:
        """What a device loses that answers once, with fresh draws."""
        loss = _rational(self.card.metrics[metric.name].round)
        self.lines += [
            f"Definition {name}_figures := {loss}.",
            f"Theorem {name}_certified : forall m, In m {name} -> bounds (Q2R {name}_figures) (of_values one_round m).",
            "Proof.",
            f"  assert (H : forallb (fun m => check_round m {name}_figures) {name} = true)",
            "    by (vm_cast_no_check (eq_refl true)).",
            "  rewrite forallb_forall in H. intros m I. exact (proj2 (check_round_sound m _ (H m I))).",
            "Qed.",
        ]

    def _five_figures(self, metric: Metric, name: str) -> None:
        """The figures of remembered answers."""
        figures = self.card.metrics[metric.name]
        low, turned = metric.mechanism.response.low, metric.flip.threshold
        flips = _log_above(SCALE - turned, turned) if turned else Fraction(0)
        self.lines += [
            f"Definition {name}_figures : figures := {{| round := {_rational(figures.round)};",
            f"  constant := {_rational(figures.constant)}; lifetime := {_rational(figures.lifetime)};",
            f"  change_per_round := {_optional(figures.change_per_round)}; rounds := {self.card.rounds}%nat;",
            f"  any_history := {_optional(figures.any_history)} |}}.",
            f"Definition {name}_hints : hints := {{| pattern := {_pattern_hint(metric.mechanism)};",
            f"  memo := {_rational(_log_above(SCALE, low))}; lambda := {_rational(flips)} |}}.",
            f"Theorem {name}_certified : forall m, In m {name} -> claims m {name}_figures.",
            "Proof.",
            f"  assert (H : forallb (fun m => check m {name}_figures {name}_hints) {name} = true)",
            "    by (vm_cast_no_check (eq_refl true)).",
            "  rewrite forallb_forall in H. intros m I. exact (check_sound m _ _ (H m I)).",
            "Qed.",
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
                f"Example {name}_thresholds : tables (mean_metric {points} {low} {turned}) = tables {name}_0."
            )
        else:
            self.lines += [
                f"Example {name}_thresholds : forallb (fun m => forallb (forallb (fun T =>",
                f"  (T =? {low}) || (T =? 2 ^ 64 - {low}))) (tables m)) {name} = true.",
            ]
        self.lines += [
            "Proof. vm_compute. reflexivity. Qed.",
            f"Example {name}_flip : (({turned} - 1) * {gamma.denominator} <? {gamma.numerator} * 2 ^ 64)",
            f"  && ({gamma.numerator} * 2 ^ 64 <=? {turned} * {gamma.denominator}) = true.",
            "Proof. vm_compute. reflexivity. Qed.",
        ]

    def _vectors(self, metric: Metric, name: str) -> None:
        """Reports of the real `answer`, replayed by the Coq program."""
        if metric.parts:  # answered as a choice of the part in front
            self._parts(metric, name)
            metric = replace(metric, parts=(), max_total=0, labels=metric.parts)
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
                class_of = f"(cell {points})"
                model = f"(mean_metric {points} {mechanism.response.low} {metric.flip.threshold})"
                history = [int(Fraction(value) * unit) for value in values]
            elif mechanism.buckets is not None:
                history = [mechanism.buckets.index(value) for value in values]
                classes = [int(mechanism.bucket_class(b, cohort)) for b in range(len(mechanism.buckets))]
                index = _tables(mechanism).index(_table(mechanism, cohort))
                class_of = f"(fun _ x => nth (Z.to_nat x) ({_listed(classes)})%nat 0%nat)"
                model = f"(nth {index} {name} {name}_0)"
            self.lines += [
                f"Example {name}_vector_{number} : run (answers draw {class_of} {model}",
                f"  {_listed(history)}%Z) {_listed(words.in_order(mechanism.bits))}%Z = Some {columns}.",
                "Proof. vm_compute. reflexivity. Qed.",
            ]

    def _group(self, group: Group) -> None:
        """What its members cost together, by how many of them are asked."""
        members, name = self._members(group), _name(group.name)
        counters, scaled, _ = _counters(members, Fraction(group.max_total))
        self.lines.append(f"Definition {name} : list counter := {_listed(counters)}.")
        figures: list[tuple[str, OneOrAllRounds]] = [("round", "one"), ("constant", "all")]
        for figure, rounds in figures[: 1 if self.plan.answers.sampled else 2]:
            binder, held = ("", "1") if figure == "round" else ("forall n, ", "n")
            lemma = "check_round_of_group" if figure == "round" else "check_held_group"
            self.lines += [
                f"Definition {name}_{figure}_hint : group_hint := {self._group_hint(group, figure, rounds)}.",
                f"Definition {name}_{figure}_costs := costs_of {self._asked} {name}_{figure}_hint.",
                f"Theorem {name}_{figure}_certified : {binder}block_costs {self._asked}",
                f"  (group {name} {scaled} {held}) {name}_{figure}_costs.",
                f"Proof. {'' if figure == 'round' else 'intros n. '}apply {lemma}.",
                "  vm_cast_no_check (eq_refl true). Qed.",
            ]
            blocks = [
                (f"(group {name} {scaled} {held})", f"{name}_{figure}_costs", self._of_group(name, figure))
            ]
            self._claim(f"{name}_{figure}", binder, blocks, getattr(self.card.groups[group.name], figure))

    def _group_hint(self, group: Group, figure: str, rounds: OneOrAllRounds) -> str:
        members, limit = self._members(group), Fraction(group.max_total)
        unit = _counters(members, limit)[2]
        if not self._asks_some:
            cost = _rational(getattr(self.card.groups[group.name], figure))
            return f"Whole {cost} {_joint_hints(members, limit, unit, rounds)}"
        questions = [metric.question for metric in members]
        costs = [Fraction(0)]
        for size in range(1, min(self._asked, len(members)) + 1):
            costs.append(Fraction(loss_of_asked([], [(questions, limit)], size, rounds=rounds)))
        if _alike(members):
            return f"BySize {_listed(map(_rational, costs))}"
        hints = [
            _joint_hints([*compress(members, chosen)], limit, unit, rounds)
            for chosen in _sets(len(members), self._asked)
        ]
        return f"BySet {_listed(map(_rational, costs))} {_listed(hints)}"

    def _of_group(self, name: str, figure: str) -> str:
        return f"{name}_{figure}_certified{'' if figure == 'round' else ' n'}"

    def _whole_plan(self) -> None:
        """Each figure of the whole plan: the largest sum over all sets of metrics that can be asked."""
        card = self.card
        self._sum("round", "", "of_values one_round", "claim_round m _ {certified}", with_groups=True)
        held = "of_values (held_for n)"
        self._sum("constant", "forall n, ", held, "claim_held m _ n {certified}", with_groups=True)
        self._sum("lifetime", "", "of_patterns", "claim_lifetime m _ {certified}")
        if card.change_per_round < inf:
            one = "of_values (fun V => @differ_in V 1)"
            self._sum("change_per_round", "", one, "claim_one_change m _ _ {certified} eq_refl")
        if card.any_history < inf and card.rounds > 1:
            history = f"of_values (any_two {card.rounds})"
            self._sum("any_history", "", history, "claim_any_history m _ {certified} _ eq_refl")

    def _sum(
        self, figure: str, binder: str, comparison: str, proof: str, *, with_groups: bool = False
    ) -> None:
        blocks = []
        for metric in self._alone if with_groups else self.plan.metrics:
            name = _name(metric.name)
            loss = _rational(getattr(self.card.metrics[metric.name], figure))
            blocks.append(
                self._of_metric(name, comparison, loss, proof.format(certified=f"({name}_certified m I)"))
            )
        for group in self.plan.groups if with_groups else ():
            name = _name(group.name)
            scaled = _counters(self._members(group), Fraction(group.max_total))[1]
            block = f"(group {name} {scaled} {'1' if figure == 'round' else 'n'})"
            blocks.append((block, f"{name}_{figure}_costs", self._of_group(name, figure)))
        self._claim(f"whole_plan_{figure}", binder, blocks, getattr(self.card, figure))

    def _of_metric(self, name: str, comparison: str, loss: str, proof: str) -> tuple[str, str, str]:
        """A metric alone: as a block, its costs, and the proof of them."""
        block = f"(alone (any_of ({comparison}) {name}))"
        return block, f"[0%Q; {loss}]", f"costs_of_metric _ _ {name} {loss} (fun m I => {proof})"

    def _claim(self, name: str, binder: str, blocks: Sequence[tuple[str, str, str]], figure: float) -> None:
        """What a report about so many of these blocks loses."""
        loss = _rational(figure)
        costs = _listed(costs for _, costs, _ in blocks)
        self.lines += [
            f"Theorem {name} : {binder}report_claim {_listed(block for block, _, _ in blocks)}",
            f"  {self._asked} (Q2R {loss}).",
            f"Proof. {'intros n. ' if binder else ''}apply (loss_of_asked [",
            ";\n".join(f"  ({block}, {costs})" for block, costs, _ in blocks),
            f"  ] {self._asked} {loss}).",
            *(f"  constructor; [exact ({proof})|]." for _, _, proof in blocks),
            "  constructor.",
            f"  change (nth {self._asked} (best {costs} {self._asked}) 0 <= {loss})%Q. apply Qle_bool_iff.",
            "  vm_cast_no_check (eq_refl true).",
            "Qed.",
            "",
        ]

    def _window(self) -> None:
        """One window: any two histories, for every way to pick a round and metrics."""
        plan, card = self.plan, self.card
        blocks = []
        for metric in self._alone:
            name = _name(metric.name)
            loss = _rational(card.metrics[metric.name].round)
            if isinstance(metric.mechanism, SubsetSelection):
                proof = f"costs_of_alone _ {name} {loss} {name}_certified"
                blocks.append((f"(alone {name})", f"[0%Q; {loss}]", proof))
            else:
                blocks.append(self._of_metric(name, "of_values one_round", loss, f"{name}_certified m I"))
        for group in plan.groups:
            name = _name(group.name)
            scaled = _counters(self._members(group), Fraction(group.max_total))[1]
            blocks.append(
                (f"(group {name} {scaled} 1)", f"{name}_round_costs", self._of_group(name, "round"))
            )
        self._claim("window_certified", "", blocks, card.round)
        window = _rational(card.round)
        smaller = _rational(Fraction(card.round) * (1 - Fraction(1, 10**15)))
        length = plan.answers.window
        costs = _listed(costs for _, costs, _ in blocks)
        self.lines += [
            f"Example window_is_least : Qle_bool (nth {self._asked} (best {costs} {self._asked}) 0%Q)",
            f"  {smaller} = false.",
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

    def fixed(self, metric: Metric, purpose: FixedPurpose, count: int) -> Sequence[int]:
        raise AssertionError("a vector is about a choice, whose part is known")

    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        return self.memos[memo_class]

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


def _pattern_hint(mechanism: Mechanism) -> str:
    """Of a mean: what a cell costs on either side of a matching of cells with cells, whose sum is its weight."""
    low = mechanism.response.low
    if mechanism.grid is None:
        return f"Histogram {_rational(_log_above(SCALE - low, low))}"
    thresholds = _table(mechanism, 0)[0]
    points = mechanism.points
    if all(left + right == points[-1] for left, right in zip(points, reversed(points), strict=True)):
        rarer = [min(one, SCALE - one) for one in thresholds]
        prices = [(_log_above(2 * (SCALE - one), SCALE), _log_above(SCALE, 2 * one)) for one in rarer]
    else:
        prices = _matching_prices(thresholds)
    return f"Prices {_listed(f'({_rational(left)}, {_rational(right)})' for left, right in prices)}"


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
    return [_counter(metric, unit) for metric in members], int(limit * unit), unit


def _counter(metric: Metric, unit: int) -> str:
    points = _listed(_in_units(metric.mechanism.points, unit))
    low = metric.mechanism.response.low
    return f"{{| points := {points}; counter_low := {low}; counter_flip := {metric.flip.threshold} |}}"


def _alike(members: Sequence[Metric]) -> bool:
    kinds = {
        (*metric.mechanism.points, metric.mechanism.response.low, metric.flip.threshold) for metric in members
    }
    return len(kinds) <= 1


def _sets(count: int, most: int) -> list[tuple[bool, ...]]:
    """All sets of at most so many of `count`, in the order of `sets` in Checker.v."""
    if not count:
        return [()]
    with_first = _sets(count - 1, most - 1) if most else []
    return [(False, *rest) for rest in _sets(count - 1, most)] + [(True, *rest) for rest in with_first]


def _joint_hints(members: Sequence[Metric], limit: Fraction, unit: int, rounds: OneOrAllRounds) -> str:
    """Nothing for counters alike; prices, gains and tangents for others."""
    if _alike(members):
        return "{| of_ones := 0; of_zeros := 0; gains := [] |}"
    mechanisms, flips = [metric.mechanism for metric in members], [metric.flip for metric in members]
    of_ones, of_zeros = (
        price / unit for price in joint_limit_prices(mechanisms, flips, limit, rounds=rounds)
    )
    gains = {}
    for metric in members:
        low = metric.mechanism.response.low
        chance = metric.flip.chance_of_one(low) if rounds == "one" else Flip(0).chance_of_one(low)
        top = Fraction(metric.max_value) * unit
        gain, tangent = _gain(chance, top, min(Fraction(1), limit * unit / top), of_ones, of_zeros)
        gains[_counter(metric, unit)] = f"({_rational(gain)}, {_rational(tangent)})"
    known = _listed(f"({counter}, {gain})" for counter, gain in gains.items())
    return f"{{| of_ones := {_rational(of_ones)}; of_zeros := {_rational(of_zeros)}; gains := {known} |}}"


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
