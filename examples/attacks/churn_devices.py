"""The devices of churn.py: nine plans in turn, and what a real device enters in its ledger for them."""

from pathlib import Path
from tempfile import TemporaryDirectory

from gallery import DAY

from reticent.device import Device, Policy
from reticent.mechanisms import OneBitMean
from reticent.plan import Metric, Plan
from reticent.testing import ManualClock

PLANS = {  # version, epsilon and description of nine plans in turn
    "words": [(place, "1", f"the {place}th wording") for place in range(1, 10)],
    "epsilon": [(place, f"1.{place - 1:03}", "") for place in range(1, 10)],
    "secret": [(1, "1", "") for _ in range(9)],
}


def plan(version: int, epsilon: str, words: str) -> Plan:
    """A plan that asks for one mean."""
    mechanism = OneBitMean(epsilon, 1440)
    return Plan("churn", version, DAY, DAY, (Metric("minutes", mechanism, description=words),))


def ledger(churn: str, policy: Policy) -> tuple[list[float], tuple[str, ...]]:
    """What a real device enters as its loss after each plan, and why it refused the last one."""
    losses, clock = [], ManualClock()
    with TemporaryDirectory() as folder:
        for place, given in enumerate(PLANS[churn]):
            device = Device(
                plan(*given), Path(folder) / "state", consent="granted", clock=clock, policy=policy
            )
            if place and churn == "secret":
                device.forget()
            clock.advance(2 * DAY)  # a plan is answered from the next round on
            device.report()
            losses.append(device.receipt().total_loss)
            device.close()
        return losses, device.status().refused
