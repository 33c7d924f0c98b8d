"""Simulated devices: where their values come from, and what they answer."""

from tacit.fleet.population import app_usage
from tacit.fleet.small import SmallFleet

__all__ = ["SmallFleet", "app_usage"]
