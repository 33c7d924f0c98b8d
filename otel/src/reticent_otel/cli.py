"""`reticent agent`: OpenTelemetry metrics of other programs, as one device."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reticent.errors import MissingExtraError
from reticent_collector.cli.options import check_free, check_name, input_file, key_file_option, segment_tags

if TYPE_CHECKING:
    from reticent.device import Consent


@click.command(short_help="Answer a plan with the OpenTelemetry metrics of this machine.")
@click.argument("plan", metavar="PLAN", type=input_file)
@click.option("--state", required=True, metavar="FILE", type=click.Path(dir_okay=False),
              help="The device's state file; created if it does not exist.")  # fmt: skip
@click.option("--endpoint", envvar="RETICENT_ENDPOINT", metavar="URL",
              help="The collector; without one nothing is sent.")  # fmt: skip
@key_file_option
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
    from reticent.device import Device, Policy
    from reticent.plan import Plan
    from reticent_otel.feed import Feed
    from reticent_otel.routes import Routes, load_routes

    try:
        from reticent_otel.agent import Agent
    except ModuleNotFoundError as missing:
        raise MissingExtraError("agent", "opentelemetry-proto") from missing
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    check_free("127.0.0.1", port, "--port")
    answered = Plan.load(plan)
    for name in segment:
        check_name("segment", name, [declared.name for declared in answered.segments])
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
        receiver = Agent(Feed(device, table), port)
        # `stop` waits for `run` to end, so it must not be called from the thread that runs.
        stop = lambda *_: threading.Thread(target=receiver.stop).start()  # noqa: E731
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        for reason in device.status().reasons:
            click.echo(f"Nothing is sent: {reason}", err=True)
        if device.consent == "unset":
            agree = f"reticent device consent {shlex.quote(state)} granted --plan {shlex.quote(str(plan))}"
            click.echo(f"  Hint: to agree, run {agree}", err=True)
        click.echo(f"Listening on {receiver.address}/v1/metrics", err=True)
        receiver.run()
