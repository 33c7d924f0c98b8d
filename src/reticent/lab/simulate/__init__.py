"""
A plan on your own values before it ships: what would be estimated, how surely, and what is given away.

    >>> import numpy as np
    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric, Plan
    >>> plan = Plan("demo", 1, 86_400, 3600, (Metric("minutes", OneBitMean(1, 60)),))
    >>> found = simulate(plan, {"minutes": np.full((2, 5000), 30)}, repetitions=10, seed=1)
    >>> found.metrics["minutes"].truth.tolist()
    [[30.0], [30.0]]
    >>> found.people["minutes"].share_by_width
    {1: 1.0}
"""

from reticent.lab.simulate.figures import MetricFigures
from reticent.lab.simulate.people import People
from reticent.lab.simulate.run import Simulation, simulate
from reticent.lab.simulate.truth import true_values

__all__ = ["MetricFigures", "People", "Simulation", "simulate", "true_values"]
