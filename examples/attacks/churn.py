"""Churn: each new set of parameters and each new secret is a fresh memo bit; a collector averages them."""

from dataclasses import replace

import numpy as np
from churn_devices import PLANS, ledger, plan
from drawing import curves, publish
from gallery import options, table

from reticent.device import Policy
from reticent_collector.plots import panels
from reticent_lab.fleet import SdkFleet

SHOWN = (1, 2, 3, 5, 9)
"""Rows of the tables; the picture has all nine plans."""


def guessed(churn: str, devices: int, seed: int) -> list[float]:
    """The share of devices whose value, 0 or m, is guessed right from one bit under each plan so far."""
    values = 1440 * np.random.default_rng(seed).integers(0, 2, devices)
    evidence, right = np.zeros(devices), []
    for place, given in enumerate(PLANS[churn]):
        fleet = SdkFleet(plan(*given), devices, seed + place * (churn == "secret"))
        bits = np.array([report.bit(0) for report in fleet.reports(place, {"minutes": values.tolist()})])
        evidence += (2 * bits - 1) * float(given[1])
        right.append(float(np.mean(np.where(evidence == 0, 0.5, (evidence > 0) == (values > 0)))))
    return right


def main(arguments: list[str] | None = None) -> None:
    """Run the attack, print its figures and draw them."""
    asked = options(__doc__, arguments, devices=2000)
    right = {churn: guessed(churn, asked.devices, asked.seed) for churn in PLANS}
    unlimited = Policy.unlimited()
    loss = {churn: ledger(churn, unlimited)[0] for churn in PLANS}
    loss["epsilon, capped"], refused = ledger("epsilon", replace(unlimited, max_lifetime=5))
    answered = [len(set(loss["epsilon, capped"][: place + 1])) for place in range(9)]
    right["epsilon, capped"] = [right["epsilon"][plans - 1] for plans in answered]
    for what, lines in {"guessed": right, "loss": loss}.items():
        columns = {f"{what}, {name}": [line[plans - 1] for plans in SHOWN] for name, line in lines.items()}
        table({"plans": SHOWN, **columns})
    print("epsilon, capped: the device refuses because", refused[0])
    figure, axes = panels(2)
    curves(axes[0], range(1, 10), right, shares_of=asked.devices, title="Share of devices guessed right")
    curves(axes[1], range(1, 10), loss, title="Loss in the ledger of a device, ε")
    for axis in axes:
        axis.set_xlabel("plans so far")
    publish(figure, asked.out, "churn", together=4)


if __name__ == "__main__":
    main()
