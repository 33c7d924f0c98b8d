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

from reticent_lab.audit.clients import AuditedClient, CommandClient, CoreClient
from reticent_lab.audit.run import Audit, audit

__all__ = [
    "Audit",
    "AuditedClient",
    "CommandClient",
    "CoreClient",
    "audit",
]
