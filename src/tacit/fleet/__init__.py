"""Simulated devices: where their values come from, what they answer, and sending it to a real collector."""

from tacit.fleet.population import app_usage
from tacit.fleet.replay import ReplayError, send_packed
from tacit.fleet.small import SmallFleet
from tacit.fleet.vectorised import VectorisedFleet

__all__ = ["ReplayError", "SmallFleet", "VectorisedFleet", "app_usage", "send_packed"]
