"""The `tacit` command and what its verbs share."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import click

from tacit.cli.audit import audit
from tacit.cli.count import count
from tacit.cli.demo import demo
from tacit.cli.design import design
from tacit.cli.device import device
from tacit.cli.keys import keys
from tacit.cli.plan import plan
from tacit.cli.reading import estimate, export, rounds
from tacit.cli.reproduce import reproduce
from tacit.cli.serve import serve
from tacit.cli.simulate import simulate
from tacit.cli.store import store
from tacit.errors import TacitError


class Verbs(click.Group):
    """Turns what tacit raises on purpose into one line and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except TacitError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version("tacit"), prog_name="tacit")
def tacit() -> None:
    """
    Private telemetry for counters.

    A device answers with noisy bits; bits add up to counts; counts, un-biased, are estimates.

    \b
    Start here:
      tacit demo                                   collector, fleet and dashboard on this machine
      tacit plan check plan.toml --devices 100000  what a plan costs and what it yields
      tacit simulate plan.toml --values usage.csv  the plan on your own data
      tacit serve plan.toml --store sqlite:///tacit.db

    Exit codes: 0 ok, 1 failure, 2 wrong usage, 3 a check found problems.
    """


for command in (
    audit,
    count,
    demo,
    design,
    device,
    estimate,
    export,
    keys,
    plan,
    reproduce,
    rounds,
    serve,
    simulate,
    store,
):
    tacit.add_command(command)
