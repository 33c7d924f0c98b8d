"""What a device would send next: the exact bytes, and what each bit of them means, in words for the person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from os import urandom
from typing import TYPE_CHECKING, Any, Literal

from reticent.claims import NOT_COVERED
from reticent.device.answers import answer
from reticent.device.prf import SECRET_BYTES, SecretDraws
from reticent.device.receipt import printable, round_in_words
from reticent.mechanisms import COHORTS
from reticent.reports import to_json

if TYPE_CHECKING:
    from reticent.plan import Metric, Plan
    from reticent.reports import Report

_MOST_NAMED = 4  # so many parts of a range are named; of more, how many there are


def question(metric: Metric) -> str:
    """
    What a metric asks.

    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> question(Metric("saves", OneBitMean(1, 100), unit="file", description="Files saved"))
    'Files saved: 0 to 100 file'
    >>> question(Metric("saves", OneBitMean(1, 100), unit="file"))
    '0 to 100 file'
    """
    top = f"{_number(metric.max_value)} {metric.unit}".strip()
    asked = f"{metric.description}: " if metric.description else ""
    return asked + metric.range_in_words(top)


def how_answered(plan: Plan, metric: Metric) -> str:
    """How the bits of a metric are drawn."""
    if metric.parts:
        how = (
            "a moment that is picked for this window only" if plan.answers.sampled else "draws that are kept"
        )
        return f"About one part, by {how}, as often as its share of the range. {_how_drawn(plan, metric)}"
    return _how_drawn(plan, metric)


def _how_drawn(plan: Plan, metric: Metric) -> str:
    if plan.answers.sampled:
        return "Drawn for this window only; the next window has new draws."
    flip = float(metric.flip.probability)
    kept = "Drawn once per possible answer and remembered"
    return f"{kept}; flipped at random in {_percent(flip)} of the rounds." if flip else f"{kept}."


def bit_meanings(metric: Metric, cohort: int, *, flips: bool = True) -> list[str]:
    """
    For each answer bit of a metric as sent, how likely a 1 is, and where in the range.

    `flips`: with the random flip, which sampled answers do not have.

    >>> from reticent.mechanisms import Buckets, DBitFlip, Flip, OneBitMean
    >>> from reticent.plan import Metric
    >>> bit_meanings(Metric("saves", OneBitMean(1, 100), Flip(0.2)), cohort=0)
    ['1 is sent with a chance of 36.1 % at 0 and 63.9 % at 100, in proportion between them']
    """
    mechanism = metric.mechanism
    flip = metric.flip.probability if flips else Fraction(0)

    def shares(memo_class: int) -> list[float]:
        ones = mechanism.chances(memo_class, cohort)
        return [float(one * (1 - flip) + (1 - one) * flip) for one in ones]

    if mechanism.buckets is not None:
        buckets = range(mechanism.intervals)
        return _bits_of_buckets(
            metric, [shares(int(mechanism.bucket_class(bucket, cohort))) for bucket in buckets]
        )
    [low], [high] = (shares(mechanism.memo_class(value, 0)) for value in (0, mechanism.max_value))
    if metric.is_flag:
        return [f"1 is sent with a chance of {_percent(high)} if it happened, {_percent(low)} if not"]
    ends = f"{_percent(low)} at 0 and {_percent(high)} at {_number(mechanism.max_value)}"
    return [f"1 is sent with a chance of {ends}, in proportion between them"]


def _bits_of_buckets(metric: Metric, of_buckets: list[list[float]]) -> list[str]:
    """The same for a metric with buckets, of which each has its chance of a 1 at each bit."""
    mechanism = metric.mechanism
    ranges = [f"{_number(start)} to {_number(end)}" for start, end in pairwise(mechanism.points)]
    names = [label or ranges[place] for place, label in enumerate(metric.bucket_labels)]
    meanings = []
    answered = "the part that is picked" if metric.parts else "the answer"
    for place in range(metric.bits):
        low, high = (end(share[place] for share in of_buckets) for end in (min, max))
        inside = [name for name, share in zip(names, of_buckets, strict=True) if share[place] == high]
        if low == high:
            meanings.append(f"1 is sent with a chance of {_percent(high)} whatever the value is")
            continue
        where = " or ".join(inside)
        if len(inside) > _MOST_NAMED:
            some = ", ".join(inside[:_MOST_NAMED])
            where = f"in one of {len(inside)} of the {len(names)} parts of the range ({some}, …)"
        meanings.append(
            f"1 is sent with a chance of {_percent(high)} if {answered} is {where}, {_percent(low)} if not"
        )
    return meanings


def bits_by_metric(report: Report, layout: Iterable[tuple[str, int]]) -> Iterator[tuple[str, str, bool]]:
    """Of each metric, given with its number of bits: its name, its bits as sent, and whether it was asked."""
    offset = 0
    for number, (name, count) in enumerate(layout):
        is_asked = report.asked is None or bool(report.asked[number // 8] & 128 >> number % 8)
        yield name, "".join(str(report.bit(offset + place)) for place in range(count)), is_asked
        offset += count


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _number(number: int | Fraction) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{float(number):,.6g}"


PreviewState = Literal["waiting", "under way", "example"]

_INTRODUCTIONS = {
    "waiting": "The next report. These exact bytes wait to be sent:",
    "under way": "The next report, as its round stands now. These exact bytes would be sent:",
    "example": "Nothing is recorded, so there is no report yet. An example of a made-up device whose values are 0:",
}


@dataclass(frozen=True, slots=True)
class PreviewedAnswer:
    """One metric of a report."""

    metric: str
    question: str
    bits: str  #: As they are sent: "0", "1" or several of them
    is_asked: bool  #: False: this report has no answer to it, and its bits are 0 whatever the value is
    meanings: tuple[str, ...]  #: What a 1 means, bit by bit
    how: str  #: How the bits are drawn, and for how long they stay


@dataclass(frozen=True, slots=True)
class Preview:
    """
    The report that a device would send next, for people to look at; nothing is sent by looking.

    `state`: the report is waiting; or its round is under way, and its bits may still change; or it is an
    example, where the device keeps nothing.
    """

    plan: str
    version: int
    round: int
    when: str  #: When its round is, in words
    state: PreviewState
    body: bytes  #: What a collector would get: JSON, as spec/wire.md describes it
    tags: dict[str, str]  #: The public segment, sent as it is
    answers: tuple[PreviewedAnswer, ...]
    unsent_because: tuple[str, ...] = ()  #: Why nothing would be sent as things are; empty: it would be
    owner: str = ""
    cohort: int | None = None  #: A public number from 0 to 255 that is drawn once, if the plan needs it

    tags_unknown: bool = False  #: Only the device's own program sets the tags

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {**asdict(self), "body": self.body.decode()}

    def __str__(self) -> str:
        lines = [f"Plan {self.plan} version {self.version}, round {self.round} ({self.when})"]
        lines += [f"  not sent: {reason}" for reason in self.unsent_because]
        lines += [self._introduction, "", f"  {self.body.decode()}", "", "What the bits mean:"]
        for given in self.answers:
            lines.append(f"  {given.metric} = {given.bits}   {given.question}")
            if not given.is_asked:
                lines.append("      not asked in this report: 0 is sent whatever the value is")
                continue
            for place, meaning in enumerate(given.meanings):
                number = f"bit {place + 1}: " if len(given.meanings) > 1 else ""
                lines.append(f"      {number}{meaning}")
            lines.append(f"      {given.how}")
        return printable([*lines, self._in_the_clear, NOT_COVERED])

    @property
    def _introduction(self) -> str:
        if self.tags_unknown:
            return "The next report, as its round stands now. These bytes would be sent, with the tags of the program:"
        return _INTRODUCTIONS[self.state]

    @property
    def _in_the_clear(self) -> str:
        unknown = " (here; the program sets it)" if self.tags_unknown else ""
        tags = [f"{name} = {tag}{unknown}" for name, tag in self.tags.items()]
        cohort = [] if self.cohort is None else [f"cohort {self.cohort} of {COHORTS}, which stays the same"]
        parts = [*tags, *cohort, "plan, version and round", "an id that is new in each round"]
        return f"Sent in the clear: {'; '.join(parts)}."

    def html(self) -> str:
        """As a standalone page that a program can open for its user: one file, no script, nothing loaded."""
        from reticent.html import cards, document, literal, paragraph, section

        unsent = [f"Nothing is sent now: {reason}." for reason in self.unsent_because]
        not_asked = "Not asked in this report: 0 is sent whatever the value is."
        owner = [f"Asked by {self.owner}."] if self.owner else []
        entries = []
        for given in self.answers:
            how = (
                [*(f"{meaning}." for meaning in given.meanings), given.how] if given.is_asked else [not_asked]
            )
            entries.append((given.metric, given.bits, [given.question, *how]))
        return document(
            f"What {self.plan} would send next",
            [f"Round {self.round}, {self.when}.", *owner, *unsent],
            section("The bytes", paragraph(self._introduction), literal(self.body.decode())),
            section("What the bits mean", cards(entries)),
            section("What is not hidden", paragraph(self._in_the_clear), paragraph(NOT_COVERED)),
        )


def previewed(
    plan: Plan,
    report: Report,
    state: PreviewState,
    unsent_because: tuple[str, ...],
    *,
    tags_unknown: bool = False,
) -> Preview:
    """A report in words. `tags_unknown`: where its round is under way, only the device's own program sets its tags."""
    answers = []
    layout = [(metric.name, metric.bits) for metric in plan.metrics]
    for metric, (name, bits, is_asked) in zip(plan.metrics, bits_by_metric(report, layout), strict=True):
        meanings = bit_meanings(metric, report.cohort or 0, flips=not plan.answers.sampled)
        answers.append(
            PreviewedAnswer(
                name, question(metric), bits, is_asked, tuple(meanings), how_answered(plan, metric)
            )
        )
    span = plan.round(report.round)
    return Preview(
        plan.name,
        report.version,
        report.round,
        round_in_words(span.start, span.end),
        state,
        to_json(report),
        dict(report.segment),
        tuple(answers),
        unsent_because,
        plan.owner,
        report.cohort,
        tags_unknown and state == "under way" and bool(plan.segments),
    )


def example(plan: Plan, now: float, segment: dict[str, object], unsent_because: tuple[str, ...]) -> Preview:
    """The report of a device that does not exist, with a secret that is thrown away and all values 0."""
    number = plan.round_at(now)
    window = plan.window_of(number)
    draws = SecretDraws(urandom(SECRET_BYTES), plan.name, 0, window.start if window else None)
    if window is not None:
        number = draws.picked_round(window)
    report = answer(draws, plan, number, {}, segment).report
    return previewed(plan, report, "example", unsent_because)
