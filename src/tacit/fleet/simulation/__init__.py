"""
A plan on your own values before it ships: what would be estimated, how surely, and what is given away.

    >>> import numpy as np
    >>> from tacit.mechanisms import OneBitMean
    >>> from tacit.plan import Metric, Plan
    >>> plan = Plan("demo", 1, 86_400, 3600, (Metric("minutes", OneBitMean(1, 60)),))
    >>> found = simulate(plan, {"minutes": np.full((2, 5000), 30)}, repetitions=10, seed=1)
    >>> found.metrics["minutes"].truth.tolist()
    [[30.0], [30.0]]
    >>> found.people["minutes"].share_by_width
    {1: 1.0}
"""

from tacit.fleet.simulation.figures import MetricFigures
from tacit.fleet.simulation.people import People
from tacit.fleet.simulation.run import Simulation, simulate
from tacit.fleet.simulation.truth import true_values

__all__ = ["MetricFigures", "People", "Simulation", "simulate", "true_values"]
