"""How a client behaves, checked without chance: it repeats itself, and only its bits speak of values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from reticent.plan import Plan
from reticent.reports import answers_asked
from reticent_lab.audit.clients import AuditedClient, Participant, SdkParticipant, Values
from reticent_lab.audit.enumeration import AuditCheck
from reticent_lab.audit.scenarios import as_recorded, parsed

PATH = (0, 0, 1, 0)
"""Which of its two sets of values a device holds in each round, again and again: it stays, changes and returns."""

REPEATS = "a round asked again gives the same bytes"
RESTARTS = "a restart gives the same bytes"
COPIES = "a copy of the state gives the same bytes"
ALIKE = "other values change only the bits"
WELL_FORMED = "reports match the plan, the round and its size"
UNCHANGED = "without flips, remembered bits stay the same"
ELSEWHERE = "another process gives the same bytes"
AS_CORE = "bytes are those the SDK core computes"


def check_conduct(client: AuditedClient, plan: Plan, first_round: int, devices: int) -> list[AuditCheck]:
    """
    Fresh devices, each with a copy that has other values.

    Nothing here depends on chance: any difference is a fault. Whole devices run beside the core with the same
    secret.
    """
    rounds = 2 * plan.answers.window or len(PATH)
    seen: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    for number in range(max(2, devices * len(PATH) // rounds)):
        participant = client.start(plan, first_round)
        for what, holds in _one_device(participant, plan, first_round, number):
            seen[what] += 1
            broken[what] += not holds
        participant.close()
    order = [REPEATS, RESTARTS, COPIES, ALIKE, WELL_FORMED, UNCHANGED, ELSEWHERE, AS_CORE]
    return [
        AuditCheck(
            client.name,
            what,
            broken[what] == 0,
            f"{broken[what]:,} of {seen[what]:,} do not" if broken[what] else f"{seen[what]:,} compared",
        )
        for what in order
        if seen[what]
    ] + [
        AuditCheck(client.name, what, None, "the client cannot be copied")
        for what in (COPIES, ALIKE)
        if not seen[what]
    ]


def _one_device(
    participant: Participant, plan: Plan, first_round: int, number: int
) -> Iterator[tuple[str, bool]]:
    same, other = participant.copy(), participant.copy()
    expected = participant.core() if isinstance(participant, SdkParticipant) else None
    sampled = plan.answers.sampled
    sent = list[bytes | None]()
    for place in range(2 * plan.answers.window or len(PATH)):
        side = PATH[place % len(PATH)]
        now = first_round + place
        values = _values(plan, number + side)
        answer = participant.answer(now, values)
        sent.append(answer)
        yield REPEATS, participant.answer(now, values) == answer
        if answer is not None:
            yield WELL_FORMED, _is_well_formed(plan, now, answer)
        if same is not None and other is not None:
            yield COPIES, same.answer(now, values) == answer
            yield ALIKE, _is_alike(answer, other.answer(now, _values(plan, number + 1 + side + place)))
        if expected is not None:
            yield AS_CORE, expected.answer(now, values) == answer
        if sampled and sum(message is not None for message in sent) == 2:
            break
    fixed = [
        plan.offset(metric.name) + bit
        for metric in plan.metrics
        if metric.flip.threshold == 0 and not sampled
        for bit in range(metric.bits)
    ]
    if fixed:
        home = [parsed(answer) for answer, side in zip(sent, PATH, strict=True) if side == 0]
        whole = [report for report in home if report is not None and len(report.bits) == plan.report_bytes]
        yield UNCHANGED, len({tuple(report.bit(place) for place in fixed) for report in whole}) <= 1
    participant.restart()
    yield RESTARTS, participant.answer(now, values) == sent[-1]
    if number == 0 and isinstance(participant, SdkParticipant):
        yield ELSEWHERE, participant.answer_elsewhere(now) == sent[-1]
    for twin in (same, other):
        if twin is not None:
            twin.close()


def _values(plan: Plan, number: int) -> Values:
    chosen: dict[str, int | Fraction | None] = {}
    for place, metric in enumerate(plan.metrics):
        pair = metric.mechanism.extremes(number % 256) or (metric.max_value, 0)
        between = Fraction(metric.max_value) * (number % 7) / 7
        chosen[metric.name] = between if number % 3 == 2 else pair[(number + place) % 2]
    return as_recorded(plan, chosen)


def _is_well_formed(plan: Plan, round_number: int, sent: bytes) -> bool:
    report = parsed(sent)
    if report is None:
        return False
    padding = plan.report_bytes * 8 - plan.bits
    return (
        (report.plan, report.version, report.round) == (plan.name, plan.version, round_number)
        and len(report.bits) == plan.report_bytes
        and report.bits[-1] & ((1 << padding) - 1) == 0
        and answers_asked(report, plan)
        and (report.cohort is not None) == plan.uses_cohort
        and set(report.segment) == {segment.name for segment in plan.segments}
    )


def _is_alike(first: bytes | None, second: bytes | None) -> bool:
    if first is None or second is None:
        return first is second
    reports = parsed(first), parsed(second)
    if reports[0] is None or reports[1] is None:
        return first == second
    blank = [replace(report, bits=bytes(len(report.bits))) for report in reports if report]
    return len(first) == len(second) and blank[0] == blank[1]
