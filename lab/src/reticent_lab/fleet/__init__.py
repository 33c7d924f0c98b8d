"""Simulated devices: where their values come from, what they answer, and sending it to a real collector."""

from reticent_lab.fleet.fleets import SdkFleet, VectorisedFleet
from reticent_lab.fleet.population import (
    AgeInDays,
    Constant,
    Population,
    TruncatedNormal,
    Uniform,
    population,
)
from reticent_lab.fleet.recorded import Recorded, ValuesError, metrics_in, read_values
from reticent_lab.fleet.send import send_packed
from reticent_lab.fleet.usage import EDITOR, FORZA_HORIZON_4, GRAN_TURISMO_SPORT, THE_CREW_2, AppUsage

__all__ = [
    "EDITOR",
    "FORZA_HORIZON_4",
    "GRAN_TURISMO_SPORT",
    "THE_CREW_2",
    "AgeInDays",
    "AppUsage",
    "Constant",
    "Population",
    "Recorded",
    "SdkFleet",
    "TruncatedNormal",
    "Uniform",
    "ValuesError",
    "VectorisedFleet",
    "metrics_in",
    "population",
    "read_values",
    "send_packed",
]
