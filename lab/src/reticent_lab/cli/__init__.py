"""The verbs of the laboratory: one file per verb."""
