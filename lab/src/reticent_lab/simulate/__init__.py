"""
A plan on your own values before it ships: what would be estimated, how surely, and what is given away.

    >>> import numpy as np
    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric, Plan
    >>> plan = Plan("demo", 1, 86_400, 3600, (Metric("minutes", OneBitMean(1, 60)),))
    >>> simulation = simulate(plan, {"minutes": np.full((2, 5000), 30)}, repetitions=10, seed=1)
    >>> simulation.metrics["minutes"].truth.tolist()
    [[30.0], [30.0]]
    >>> simulation.people["minutes"].share_by_width
    {1: 1.0}
"""

from reticent_lab.simulate.simulation import MetricEstimates, Simulation, simulate, true_values

__all__ = [
    "MetricEstimates",
    "Simulation",
    "simulate",
    "true_values",
]
