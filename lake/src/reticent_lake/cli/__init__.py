"""The verbs of a lake: one file per verb."""
