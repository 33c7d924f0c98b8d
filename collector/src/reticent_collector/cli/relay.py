"""`reticent relay`: takes reports for a collector elsewhere, which does not see the senders."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from reticent.errors import ReticentError
from reticent.plan import Plan
from reticent_collector.cli.options import check_free, input_file, key_file_option, make_client, variables
from reticent_collector.cli.serve import ServerCommand, address, say_address, server_options, tls_files


@variables("RETICENT_RELAY")
@click.command(
    cls=ServerCommand, short_help="Take reports for a collector elsewhere, and hide their senders."
)
@click.argument("plans", metavar="PLAN...", nargs=-1, required=True, type=input_file)
@click.option("--to", required=True, metavar="URL", help="The collector, as https://HOST.")
@key_file_option
@server_options("127.0.0.1:8001")
@click.option("--client-keys", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Keys of which each client needs one, a key per line.")  # fmt: skip
@click.option("--batch", type=click.IntRange(1, 10_000), default=100, show_default=True, metavar="N",
              help="Least number of reports that are sent on together.")  # fmt: skip
@click.option("--wait", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True, metavar="SECONDS",
              help="How long a report waits for others; then the batch is sent on as it is.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=3.0, show_default=True,
              metavar="SECONDS", help="How long the collector may take to answer.")  # fmt: skip
@click.option("--retry-for", type=click.FloatRange(0, min_open=True), default=6.0, show_default=True,
              metavar="SECONDS", help="How long to retry a collector that does not answer.")  # fmt: skip
@click.option("--queue", type=click.IntRange(1), default=100_000, show_default=True, metavar="N",
              help="Most reports that may wait in memory.")  # fmt: skip
def relay(
    plans: tuple[Path, ...],
    to: str,
    key: str | None,
    listen: tuple[str, int],
    tls_cert: str | None,
    tls_key: str | None,
    client_keys: Path | None,
    batch: int,
    wait: float,
    timeout: float,
    retry_for: float,
    queue: int,
    max_connections: int,
    origins: tuple[str, ...],
) -> None:
    """
    Take reports on each PLAN for a collector elsewhere: forget the senders, shuffle, send on in batches.

    A client is answered when the collector has answered for its report. Nothing is written to disk. Every option can
    be set by an environment variable, such as RETICENT_RELAY_TO for --to. Listening beyond this machine needs
    --client-keys.

    \b
    Example:
      reticent relay examples/plan.toml --to https://telemetry.example.org --listen 127.0.0.1:8001
    """
    from reticent_collector.http import KeyFile, Limits, Relay, inherited, is_local, is_loopback, make_server

    (host, port), listeners = listen, inherited()
    tls = tls_files(tls_cert, tls_key)
    keys = KeyFile(client_keys) if client_keys is not None else None
    if keys is not None:
        keys.keys()  # raises when the file cannot be used, before anything starts
    elif not (all(map(is_local, listeners)) if listeners else is_loopback(host)):
        raise ReticentError(
            f"{host}:{port} is reachable from other machines, and clients need no key.\n"
            "  Hint: --client-keys FILE, with one key per line"
        )
    client = make_client("--to", to, key, timeout=timeout, most_bytes=1 << 24)
    if not listeners:
        check_free(host, port, "--listen")
    limits = Limits(connections=max_connections)
    app = Relay(
        [Plan.load(plan) for plan in plans],
        client,
        keys=keys,
        limits=limits,
        batch=batch,
        seconds=wait,
        patience=retry_for,
        most_waiting=queue,
        allowed_origins=origins,
    )

    def started(bound: str, number: int) -> None:
        say_address(address(bound, number, tls))

    server = make_server(app, host, port, limits, tls, started, listeners)
    server.run()
    if not server.started:
        sys.exit(1)
