"""`reticent agent`: OpenTelemetry metrics of other programs, as one device."""

from __future__ import annotations

import difflib
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import click
except ModuleNotFoundError:
    sys.exit(
        "Error: click is not installed.\n  Hint: pip install 'reticent-otel[agent]', in a clone './otel[agent]'"
    )

from reticent.errors import MissingPackageError, ReticentError

if TYPE_CHECKING:
    from reticent.device import Consent


@contextmanager
def plain_faults() -> Iterator[None]:
    """Errors of reticent and of the system, in plain words."""
    try:
        yield
    except ReticentError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{place}{error.strerror}.") from error


def segment_tags(
    context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, str]:
    """Of --segment: tags by the name of their segment."""
    if not all(":" in pair for pair in pairs):
        raise click.BadParameter("expected NAME:TAG, such as os:linux.")
    tags = dict(pair.split(":", 1) for pair in pairs)
    if len(tags) < len(pairs):
        raise click.BadParameter("expected one tag of each segment.")
    return tags


def key_in_file(context: click.Context, parameter: click.Parameter, path: Path | None) -> str | None:
    """Of --key-file: the key in it; on the command line every user of the machine could see it."""
    if path is None:
        return None
    try:
        words = sys.stdin.read().split() if str(path) == "-" else path.read_text().split()
    except UnicodeDecodeError:
        raise click.BadParameter("expected a file with one key in it, got one that is not text.") from None
    if len(words) != 1:
        raise click.BadParameter(f"expected a file with one key in it, got {len(words)} words.")
    return words[0]


def check_segment(name: str, declared: list[str]) -> None:
    """Raise `ReticentError` for a segment that the plan does not have."""
    if name not in declared:
        near = difflib.get_close_matches(name, declared, n=1)
        hint = f"\n  Hint: --segment {near[0]}?" if near else ""
        raise ReticentError(f"segment: expected one of {', '.join(declared) or '(none)'}, got {name}.{hint}")


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    short_help="Answer a plan with the OpenTelemetry metrics of this machine.",
)
@click.argument("plan", metavar="PLAN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--state", required=True, metavar="FILE", type=click.Path(dir_okay=False),
              help="The device's state file; created if it does not exist.")  # fmt: skip
@click.option("--endpoint", envvar="RETICENT_ENDPOINT", metavar="URL",
              help="The collector; without one nothing is sent.")  # fmt: skip
@click.option("--key-file", "key", callback=key_in_file, metavar="FILE",
              type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
              help="The file that holds the key for the collector; - is standard input.")  # fmt: skip
@click.option("--routes", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
              help="Which instruments feed which metrics, as TOML.")  # fmt: skip
@click.option("--segment", multiple=True, callback=segment_tags, metavar="NAME:TAG",
              help="A public tag of this device, such as os:linux.")  # fmt: skip
@click.option("--consent", type=click.Choice(["unset", "granted", "denied", "local"]), default="unset",
              show_default=True, help="Consent while the person has not chosen.")  # fmt: skip
@click.option("--policy", envvar="RETICENT_POLICY", default="", metavar="NAME=VALUE,...",
              help="Other limits than the defaults of a device, such as max_lifetime=40.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=4318, show_default=True,
              help="Port on 127.0.0.1; 0 for any that is free.")  # fmt: skip
def agent(
    plan: Path,
    state: str,
    endpoint: str | None,
    key: str | None,
    routes: str | None,
    segment: dict[str, str],
    consent: Consent,
    policy: str,
    port: int,
) -> None:
    """
    Take the metrics of programs on this machine by OTLP/HTTP, and answer PLAN with them as one device.

    Only the device's noisy answers leave the machine. Programs need no change: they export to this agent
    with OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 and OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf.
    Without --key-file, the ingest key is that of RETICENT_KEY.

    \b
    Example:
      reticent agent examples/plan.toml --state telemetry.db --endpoint https://telemetry.example.org
    """
    with plain_faults():
        _run(plan, state, endpoint, key, routes, segment, consent, policy, port)


def _run(
    plan: Path,
    state: str,
    endpoint: str | None,
    key: str | None,
    routes: str | None,
    segment: dict[str, str],
    consent: Consent,
    policy: str,
    port: int,
) -> None:
    from reticent.device import Device, Policy
    from reticent.plan import Plan
    from reticent_otel.feed import Feed
    from reticent_otel.routes import Routes, load_routes

    try:
        from reticent_otel.agent import Agent
    except ModuleNotFoundError as missing:
        raise MissingPackageError("reticent-otel[agent]", "opentelemetry-proto") from missing
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    answered = Plan.load(plan)
    for name in segment:
        check_segment(name, [declared.name for declared in answered.segments])
    table = Routes(answered, routes=load_routes(routes) if routes else ())
    device = Device(
        answered,
        state,
        endpoint=endpoint,
        key=key or os.environ.get("RETICENT_KEY"),
        segment=segment,
        consent=consent,
        policy=Policy.from_text("--policy", policy),
    )
    with device:
        try:
            receiver = Agent(Feed(device, table), port)
        except OSError as error:
            raise ReticentError(
                f"Cannot listen on 127.0.0.1:{port}: {error.strerror}.\n"
                "  Hint: give another address or port with --port"
            ) from error
        # `stop` waits for `run` to end, so it must not be called from the thread that runs.
        stop = lambda *_: threading.Thread(target=receiver.stop).start()  # noqa: E731
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        for reason in device.status().reasons:
            click.echo(f"Nothing is sent: {reason}", err=True)
        if "container" in device.status().silenced_by:
            click.echo("  Hint: to send from a container, --policy silent_in_containers=false", err=True)
        if device.consent == "unset":
            agree = f"reticent device consent {shlex.quote(state)} granted --plan {shlex.quote(str(plan))}"
            click.echo(f"  Hint: to agree, run {agree}", err=True)
        click.echo(f"Listening on {receiver.address}/v1/metrics", err=True)
        receiver.run()
