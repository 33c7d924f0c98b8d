"""The verbs of the collector: one file per verb."""
