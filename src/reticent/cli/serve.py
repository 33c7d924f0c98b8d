"""`reticent serve`: the collector."""

from __future__ import annotations

import re
import ssl
import sys
import time
from pathlib import Path

import click

from reticent.cli.options import check_free, store_option
from reticent.cli.output import plan_file
from reticent.errors import ParameterError, ReticentError
from reticent.plan import Plan


def listening(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, int]:
    """Of --listen: a host and a port."""
    from reticent.collector import parse_listen

    try:
        return parse_listen(text)
    except ParameterError as error:
        raise click.BadParameter(f"expected {error.expected}, {error.hint}; got {text}.") from None


def page_origins(
    context: click.Context, parameter: click.Parameter, origins: tuple[str, ...]
) -> tuple[str, ...]:
    """Of --allow-origin: origins as browsers write them."""
    for origin in origins:
        if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?|https?://\[[0-9a-f:]+\](:\d{1,5})?", origin):
            raise click.BadParameter(
                f"expected an origin such as https://app.example.org, without a path; got {origin}."
            )
    return origins


def tls_files(certificate: str | None, key: str | None) -> tuple[str, str] | None:
    """The two files, if they were given and fit each other: tried before anything else is begun."""
    if not certificate or not key:
        if certificate or key:
            raise click.UsageError("--tls-cert and --tls-key go together.")
        return None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError):
        raise ReticentError(
            f"{certificate}, {key}: expected a certificate and its key in PEM, the key without a "
            "password.\n  Hint: reticent doctor --tls-cert and --tls-key look at them"
        ) from None
    return certificate, key


@click.command(short_help="Take reports, seal rounds, show estimates.")
@click.argument("plans", metavar="PLAN...", nargs=-1, required=True, type=plan_file)
@store_option
@click.option(
    "--listen", envvar="RETICENT_LISTEN", default="127.0.0.1:8000", show_default=True, metavar="HOST:PORT",
    callback=listening, help="Where to listen; port 0 is any that is free.",
)  # fmt: skip
@click.option("--tls-cert", envvar="RETICENT_TLS_CERT", type=click.Path(exists=True, dir_okay=False),
              metavar="FILE", help="Certificate for HTTPS, in PEM.")  # fmt: skip
@click.option("--tls-key", envvar="RETICENT_TLS_KEY", type=click.Path(exists=True, dir_okay=False),
              metavar="FILE", help="Its private key, in PEM, without a password.")  # fmt: skip
@click.option("--behind-proxy", envvar="RETICENT_BEHIND_PROXY", is_flag=True,
              help="A proxy in front speaks HTTPS: mark cookies secure.")  # fmt: skip
@click.option("--max-body", envvar="RETICENT_MAX_BODY", type=click.IntRange(1024), default=16 << 20,
              show_default=True, metavar="BYTES", help="Bytes of a request's body.")  # fmt: skip
@click.option("--max-batch", envvar="RETICENT_MAX_BATCH", type=click.IntRange(1), default=200_000,
              show_default=True, metavar="N", help="Reports in a batch.")  # fmt: skip
@click.option("--max-connections", envvar="RETICENT_MAX_CONNECTIONS", type=click.IntRange(1),
              default=10_000, show_default=True, metavar="N",
              help="Connections at a time; fewer where the system allows fewer open files.")  # fmt: skip
@click.option("--read-timeout", envvar="RETICENT_READ_TIMEOUT", type=click.FloatRange(0.1), default=20.0,
              show_default=True, metavar="SECONDS",
              help="Seconds that a request may take to arrive.")  # fmt: skip
@click.option("--rate", envvar="RETICENT_RATE", type=click.FloatRange(0), default=0.0, show_default=True,
              metavar="N", help="Reports a second and key; 0 for no limit.")  # fmt: skip
@click.option("--queue", envvar="RETICENT_QUEUE", type=click.IntRange(1), default=1_000_000,
              show_default=True, metavar="N",
              help="Reports that may wait for a commit.")  # fmt: skip
@click.option("--clock-skew", envvar="RETICENT_CLOCK_SKEW", type=click.FloatRange(0), default=300.0,
              show_default=True, metavar="SECONDS",
              help="Seconds that a device's clock may run fast.")  # fmt: skip
@click.option("--allow-origin", "origins", envvar="RETICENT_ALLOW_ORIGIN", multiple=True, metavar="ORIGIN",
              callback=page_origins,
              help="Pages of this origin may send reports; several times for several.")  # fmt: skip
def serve(
    plans: tuple[Path, ...],
    store: str,
    listen: tuple[str, int],
    tls_cert: str | None,
    tls_key: str | None,
    behind_proxy: bool,
    max_body: int,
    max_batch: int,
    max_connections: int,
    read_timeout: float,
    rate: float,
    queue: int,
    clock_skew: float,
    origins: tuple[str, ...],
) -> None:
    """
    Take reports, seal rounds, and show estimates: the collector, for each PLAN.

    Every option can be set by an environment variable, RETICENT_STORE for --store and so on. Listening beyond
    this machine needs keys: reticent keys create.

    \b
    Example:
      reticent serve examples/plan.toml --store sqlite:///reticent.db --listen 127.0.0.1:8000
    """
    from reticent import dashboard
    from reticent.collector import Collector, Limits, is_loopback, make_server
    from reticent.stores import open_store

    host, port = listen
    tls = tls_files(tls_cert, tls_key)
    check_free(host, port, "--listen")
    limits = Limits(body=max_body, batch=max_batch, seconds=read_timeout)
    opened = open_store(store)
    try:
        loaded = [Plan.load(plan) for plan in plans]
        for plan in loaded:
            if plan.has_expired(time.time()):
                click.echo(
                    f"Warning: plan {plan.name} expired on {plan.expires}: devices no longer answer it.",
                    err=True,
                )
        collector = Collector(
            loaded,
            opened,
            limits=limits,
            rate=rate,
            most_waiting=queue,
            skew=clock_skew,
            secure_cookies=tls is not None or behind_proxy,
            pages=dashboard,
            allowed_origins=origins,
        )
        if collector.access.is_open and not is_loopback(host):
            raise ReticentError(
                f"{host}:{port} can be reached from elsewhere, and the store has no keys.\n"
                f"  Hint: reticent keys create --store {opened.url} --role ingest"
            )
    except ReticentError:
        opened.close()
        raise
    scheme = "https" if tls else "http"

    def started(address: str, number: int) -> None:
        shown = f"[{address}]" if ":" in address else address
        click.echo(f"Listening on {scheme}://{shown}:{number}", err=True)

    server = make_server(collector, host, port, limits, tls, started, max_connections)
    server.run()
    if not server.started:
        sys.exit(1)
