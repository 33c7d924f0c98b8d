"""
Does a client keep the promises of a plan's privacy card?

    exact, enumeration, windows     losses by enumeration over a plan's integers, each beside its claim
    clients, scenarios              who is audited, and the histories that devices live through
    attacks, changes, blind, bounds events that distinguish histories, and what their counts prove
    consistency, run                conduct that is checked without chance; all of it together

>>> from reticent.mechanisms import Flip, OneBitMean
>>> from reticent.plan import Metric, Plan
>>> plan = Plan("app", 1, 3600, 3600, (Metric("saves", OneBitMean(1, 100), Flip(0.2)),))
>>> result = audit(plan, client=CoreClient(seed="doc"), reports=5_000, rounds=2)
>>> result.verdict, [round(loss.loss, 3) for loss in result.exact[:3]]
('sound', [1.0, 0.569, 0.866])
"""

from reticent_lab.audit.attacks import AnswerBit, Attack, Event, attacks_on
from reticent_lab.audit.blind import compare_envelopes
from reticent_lab.audit.bounds import (
    Attacked,
    Fault,
    HistoryComparison,
    at_least,
    expected_lower,
    judge,
    noticed_faults,
    ratio_bounds,
)
from reticent_lab.audit.changes import compare_changes
from reticent_lab.audit.clients import (
    AuditedClient,
    CommandClient,
    CoreClient,
    CoreParticipant,
    Participant,
    SdkClient,
)
from reticent_lab.audit.consistency import check_conduct
from reticent_lab.audit.enumeration import AuditCheck, check_structure, enumerate_plan, worst_pair
from reticent_lab.audit.exact import Enumerated, Ratio, exact_loss_of_switch, loss_of_constant, loss_of_width
from reticent_lab.audit.run import Audit, audit, draw_audit, first_round_of
from reticent_lab.audit.scenarios import Sample, World, histories
from reticent_lab.audit.windows import (
    FunctionTable,
    TableDraws,
    WindowLaw,
    loss_of_laws,
    window_laws,
    windows_are_independent,
)

__all__ = [
    "AnswerBit",
    "Attack",
    "Attacked",
    "Audit",
    "AuditCheck",
    "AuditedClient",
    "CommandClient",
    "CoreClient",
    "CoreParticipant",
    "Enumerated",
    "Event",
    "Fault",
    "FunctionTable",
    "HistoryComparison",
    "Participant",
    "Ratio",
    "Sample",
    "SdkClient",
    "TableDraws",
    "WindowLaw",
    "World",
    "at_least",
    "attacks_on",
    "audit",
    "check_conduct",
    "check_structure",
    "compare_changes",
    "compare_envelopes",
    "draw_audit",
    "enumerate_plan",
    "exact_loss_of_switch",
    "expected_lower",
    "first_round_of",
    "histories",
    "judge",
    "loss_of_constant",
    "loss_of_laws",
    "loss_of_width",
    "noticed_faults",
    "ratio_bounds",
    "window_laws",
    "windows_are_independent",
    "worst_pair",
]
