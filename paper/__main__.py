"""`python -m paper` runs the experiments."""

from paper.command import reproduce

reproduce(prog_name="python -m paper")
