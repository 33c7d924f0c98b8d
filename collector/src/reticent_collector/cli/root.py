"""The `reticent` command with all its verbs."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import get_completion_class

from reticent.cli.device import group as device_group
from reticent_collector.cli.doctor import doctor
from reticent_collector.cli.ingest import ingest
from reticent_collector.cli.output import as_json, plain_faults, show
from reticent_collector.cli.plan import plan
from reticent_collector.cli.reading import estimate, export, rounds
from reticent_collector.cli.relay import relay
from reticent_collector.cli.serve import serve
from reticent_collector.cli.store import keys, store
from reticent_lab.cli.audit import audit
from reticent_lab.cli.demo import demo
from reticent_lab.cli.design import design
from reticent_lab.cli.simulate import simulate
from reticent_lake.cli.count import count
from reticent_lake.cli.sql import sql
from reticent_otel.cli import agent


class Verbs(click.Group):
    """Turns failures into a line or two on standard error, and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        with plain_faults():
            return super().invoke(ctx)


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    commands=[
        agent,
        audit,
        count,
        demo,
        design,
        device_group(),
        doctor,
        estimate,
        export,
        ingest,
        keys,
        plan,
        relay,
        rounds,
        serve,
        simulate,
        sql,
        store,
    ],
)
@click.version_option(package_name="reticent", prog_name="reticent")
def reticent() -> None:
    """
    Private telemetry for counters.

    A device answers with noisy bits; bits add up to counts; debiased counts are estimates.

    \b
    Start here:
      reticent demo                                   collector, fleet and dashboard on this machine
      reticent plan check plan.toml --devices 100000  what a plan costs and how accurate it is
      reticent simulate plan.toml --values usage.csv  the plan on your own data
      reticent serve plan.toml --store sqlite:///reticent.db
      reticent doctor --store sqlite:///reticent.db   what to fix on this machine

    Exit codes: 0 ok, 1 failure, 2 wrong usage, 3 a check found problems, 130 stopped by Ctrl-C.
    """


@reticent.command(short_help="Print the script for completion in a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@as_json
def completion(shell: str, as_json: bool) -> None:
    """
    Print the script that lets SHELL complete verbs and options.

    \b
    One line installs it:
      bash   echo 'eval "$(reticent completion bash)"' >> ~/.bashrc
      zsh    echo 'eval "$(reticent completion zsh)"' >> ~/.zshrc
      fish   reticent completion fish > ~/.config/fish/completions/reticent.fish

    \b
    Example:
      reticent completion bash
    """
    complete = get_completion_class(shell)
    assert complete is not None  # noqa: S101  the three above are click's own
    script = complete(reticent, {}, "reticent", "_RETICENT_COMPLETE").source()
    show(as_json, {"shell": shell, "script": script}, script)
