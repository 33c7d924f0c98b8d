"""
Does a client do what its plan and the rules of devices say?

    exact, enumeration, windows     losses by enumeration over a plan's integers, each beside its claim
    lives, clients, replay          lives of devices, who is audited, and the first byte that differs from the rules
    run                             both together

>>> from reticent.plan import Plan
>>> plan = Plan.from_toml('''
... [plan]
... name = "app"
... version = 1
... round = "1h"
... grace = "3h"
...
... [metrics.saves]
... kind = "mean"
... max_value = 100
... epsilon = 1
... flip = 0.2
... ''')
>>> result = audit(plan, lives=1, families=("values",))
>>> result.verdict, [round(loss.loss, 3) for loss in result.exact[:3]]
('sound', [1.0, 0.569, 0.866])
"""

from reticent_lab.audit.clients import AuditedClient, CommandClient, SdkClient
from reticent_lab.audit.run import Audit, audit

__all__ = [
    "Audit",
    "AuditedClient",
    "CommandClient",
    "SdkClient",
    "audit",
]
