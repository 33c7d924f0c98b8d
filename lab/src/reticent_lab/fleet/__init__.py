"""Simulated devices: where their values come from, what they answer, and sending it to a real collector."""

from reticent_lab.fleet.draws import FleetDraws, HashDraws, Places
from reticent_lab.fleet.fleets import SdkFleet, VectorisedFleet
from reticent_lab.fleet.memo import high_word
from reticent_lab.fleet.population import (
    POPULATIONS,
    AgeInDays,
    Constant,
    Population,
    TruncatedNormal,
    Uniform,
    population,
    taken_by,
)
from reticent_lab.fleet.recorded import Recorded, ValuesError, read_values
from reticent_lab.fleet.send import SendError, send_packed
from reticent_lab.fleet.usage import EDITOR, FORZA_HORIZON_4, GRAN_TURISMO_SPORT, THE_CREW_2, AppUsage

__all__ = [
    "EDITOR",
    "FORZA_HORIZON_4",
    "GRAN_TURISMO_SPORT",
    "POPULATIONS",
    "THE_CREW_2",
    "AgeInDays",
    "AppUsage",
    "Constant",
    "FleetDraws",
    "HashDraws",
    "Places",
    "Population",
    "Recorded",
    "SdkFleet",
    "SendError",
    "TruncatedNormal",
    "Uniform",
    "ValuesError",
    "VectorisedFleet",
    "high_word",
    "population",
    "read_values",
    "send_packed",
    "taken_by",
]
