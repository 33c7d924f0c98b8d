"""The `tacit` command and what its verbs share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import click

from tacit.cli import STOPPED
from tacit.cli.audit import audit
from tacit.cli.completion import completion
from tacit.cli.count import count
from tacit.cli.demo import demo
from tacit.cli.design import design
from tacit.cli.device import device
from tacit.cli.doctor import doctor
from tacit.cli.extras import extra_of
from tacit.cli.keys import keys
from tacit.cli.plan import plan
from tacit.cli.reading import estimate, export, rounds
from tacit.cli.reproduce import reproduce
from tacit.cli.serve import serve
from tacit.cli.simulate import simulate
from tacit.cli.store import store
from tacit.errors import MissingExtraError, TacitError


class Verbs(click.Group):
    """Turns what may go wrong into a line or two on standard error, and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        with _plain_faults():
            return super().invoke(ctx)


@contextmanager
def _plain_faults() -> Iterator[None]:
    """What tacit raises on purpose, what the system refuses, what is not installed, and Ctrl-C."""
    try:
        yield
    except TacitError as error:
        raise click.ClickException(str(error)) from error
    except ModuleNotFoundError as error:
        extra = extra_of(error.name or "")
        if extra is None:
            raise
        raise click.ClickException(str(MissingExtraError(extra, str(error.name)))) from error
    except BrokenPipeError:
        raise  # the reader has seen enough; click ends quietly
    except OSError as error:
        if error.strerror is None:
            raise
        place = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{place}{error.strerror}.") from error
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
        raise SystemExit(STOPPED) from None


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
      tacit doctor --store sqlite:///tacit.db      what to fix on this machine

    Exit codes: 0 ok, 1 failure, 2 wrong usage, 3 a check found problems, 130 stopped by Ctrl-C.
    """


for command in (
    audit,
    completion,
    count,
    demo,
    design,
    device,
    doctor,
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
