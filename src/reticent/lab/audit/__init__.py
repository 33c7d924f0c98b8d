"""
Does a client keep the promises of a plan's privacy card?

    figures, exact, widths, joint    losses by enumeration over the integers of a plan
    enumeration, structure           each beside its claim; what must hold of the integers
    client, command                  who is audited: the SDK, its core, or any program
    worlds                           histories to tell apart, and what devices sent in them
    bounds, attacks, learned,        events fixed beforehand, and what they prove
    independence
    conduct                          repeating oneself, and saying nothing beside the bits
    auditing, picture                all of it together

>>> from reticent.mechanisms import Flip, OneBitMean
>>> from reticent.plan import Metric, Plan
>>> plan = Plan("app", 1, 3600, 3600, (Metric("saves", OneBitMean(1, 100), Flip(0.2)),))
>>> found = audit(plan, client=CoreClient(seed="doc"), reports=2_000, rounds=2)
>>> found.sound, [round(each.loss, 3) for each in found.exact[:3]]
(True, [1.0, 0.569, 0.866])
"""

from importlib.util import find_spec

from reticent.errors import MissingExtraError

if find_spec("scipy") is None:
    raise MissingExtraError("estimates", "scipy")

from reticent.lab.audit.auditing import Audit, audit
from reticent.lab.audit.client import Client, CoreClient, Participant, SdkClient
from reticent.lab.audit.command import CommandClient

__all__ = ["Audit", "Client", "CommandClient", "CoreClient", "Participant", "SdkClient", "audit"]
