"""`reticent serve`: the collector."""

from __future__ import annotations

import difflib
import os
import re
import signal
import socket
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from reticent.errors import ParameterError, ReticentError
from reticent.plan import Plan
from reticent_collector.cli.options import (
    Decorator,
    check_free,
    input_file_or_folder,
    store_option,
    together,
    variables,
)
from reticent_collector.cli.output import VerbCommand, plain_faults

if TYPE_CHECKING:
    from reticent_collector.http import Worker
    from reticent_collector.stores import Store

CONFIG = "reticent.config"
"""Where a context keeps the settings file, and its keys by the names of parameters."""
WAIT_LOGGED_SECONDS = 5.0
"""Between two log lines while waiting for a database."""
SEAL_SECONDS = 2.0
"""Between two looks for rounds to seal."""


def listening(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, int]:
    """Of --listen: a host and a port."""
    from reticent_collector.http import parse_listen

    try:
        return parse_listen(text)
    except ParameterError as error:
        raise click.BadParameter(f"expected {error.expected}, {error.hint}; got {text}.") from None


def _header_name(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    usual = (
        "authorization",
        "cookie",
        "host",
        "content-length",
        "content-type",
        "transfer-encoding",
        "accept",
    )
    if name is not None and (not re.fullmatch(r"[A-Za-z0-9-]{1,64}", name) or name.lower() in usual):
        raise click.BadParameter(f"expected a header of its own such as X-Forwarded-User; got {name}.")
    return name


def _rate(context: click.Context, parameter: click.Parameter, rate: float) -> float:
    if 0 < rate < 1:
        raise click.BadParameter(f"expected 0 or at least 1 report a second, got {rate:g}.")
    return rate


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
    """The two files, if they were given and belong together; checked before anything else starts."""
    from reticent_collector.http import tls_context

    if not certificate or not key:
        if certificate or key:
            raise click.UsageError("--tls-cert and --tls-key go together.")
        return None
    try:
        tls_context(certificate, key)
    except (OSError, ValueError):
        raise ReticentError(
            f"{certificate}, {key}: expected a certificate and its key in PEM, the key without a "
            "password.\n  Hint: reticent doctor --tls-cert FILE --tls-key FILE checks them"
        ) from None
    return certificate, key


def _config(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """Of --config: the values in the file become the defaults of the options."""
    if path is None:
        return
    try:
        table = tomllib.loads(path.read_text())
    except ValueError as error:
        raise ReticentError(f"{path}: expected TOML: {error}.") from None
    known = {"plans" if isinstance(one, click.Argument) else one.opts[0][2:]: one
             for one in context.command.params if one.expose_value or one.name == "log_json"}  # fmt: skip
    context.meta[CONFIG] = path, {str(option.name): key for key, option in known.items()}
    defaults = {}
    for key, value in table.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(known)}"
            raise ReticentError(f"{path}: {key}: there is no such setting.\n  Hint: {hint}")
        defaults[str(known[key].name)] = _setting(f"{path}: {key}", known[key], value)
    context.default_map = defaults


def _setting(place: str, option: click.Parameter, value: object) -> object:
    """A value of a settings file as the default of an option."""
    several = option.multiple or option.nargs == -1
    if isinstance(option, click.Option) and option.is_flag:
        expected, fits = "true or false", isinstance(value, bool)
    elif several:
        expected = "a list of strings"
        fits = isinstance(value, list) and all(isinstance(part, str) for part in value)
    else:
        expected, fits = "a string or a number", type(value) in (str, int, float)
    if not fits:
        raise ReticentError(f"{place}: expected {expected}, got {value!r}.")
    return value if several or isinstance(value, bool) else str(value)


def address(host: str, port: int, tls: object) -> str:
    """
    Where a server listens.

    >>> address("::1", 8000, None)
    'http://[::1]:8000'
    """
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _log_json(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """Of --log-json: from here on, also what is wrong with the other options is an event."""
    if wanted:
        from reticent_collector.http.log import take_standard_error

        take_standard_error()


@contextmanager
def _logged_faults() -> Iterator[None]:
    """A failure to start as an event, where standard error has nothing else."""
    from reticent_collector.http import log

    try:
        yield
    except click.ClickException as error:
        if not log.only_json:
            raise
        log.log("start-failed", reason=error.format_message())
        log.log_queue.flush()
        raise SystemExit(error.exit_code) from None


class ServerCommand(VerbCommand):
    """A verb that listens: with --log-json its failures are events."""

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:
        """Read the arguments."""
        with _logged_faults():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        with _logged_faults():
            return super().invoke(ctx)


def say_address(url: str) -> None:
    """Where a server listens, now that it does."""
    from reticent_collector.http.log import announce

    announce("listening", f"Listening on {url}", url=url)


class Configured(ServerCommand):
    """A value that came from the settings file is refused with the file and the setting, not with an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line."""
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            name = str(error.param.name) if error.param else ""
            if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT_MAP:
                raise
            path, settings = ctx.meta[CONFIG]
            raise click.UsageError(f"{path}: {settings[name]}: {error.message}", ctx) from None


def server_options(listen: str) -> Decorator:
    """Of verbs that listen, by default on `listen`."""
    file: dict[str, Any] = {"type": click.Path(exists=True, dir_okay=False), "metavar": "FILE"}
    return together(
        click.option("--listen", default=listen, show_default=True, metavar="HOST:PORT", callback=listening,
                     help="Where to listen; port 0 is any that is free."),
        click.option("--tls-cert", **file, help="Certificate for HTTPS, in PEM."),
        click.option("--tls-key", **file, help="Its private key, in PEM, without a password."),
        click.option("--max-connections", type=click.IntRange(1), default=10_000, show_default=True, metavar="N",
                     help="Connections at a time; fewer where the system allows fewer open files."),
        click.option("--allow-origin", "origins", multiple=True, metavar="ORIGIN", callback=page_origins,
                     help="Pages of this origin may send reports; may be repeated."),
        click.option("--log-json", is_flag=True, is_eager=True, expose_value=False, callback=_log_json,
                     help="Write nothing but JSON objects to standard error: failures and the address, too."),
    )  # fmt: skip


@variables("RETICENT")
@click.command(cls=Configured, short_help="Take reports, seal rounds, show estimates.")
@click.argument(
    "plans", metavar="PLAN...", nargs=-1, required=True, envvar="RETICENT_PLANS", type=input_file_or_folder
)
@click.option("--config", is_eager=True, expose_value=False, callback=_config,
              type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="A TOML file with any of these options, such as workers = 2, and with plans = [...].")  # fmt: skip
@store_option
@server_options("127.0.0.1:8000")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, metavar="N",
              help="Processes that share the port and the store.")  # fmt: skip
@click.option("--behind-proxy", is_flag=True,
              help="An HTTPS proxy is in front: needs keys, and marks cookies secure.")  # fmt: skip
@click.option(
    "--trust-header",
    "trusted_header",
    metavar="NAME",
    callback=_header_name,
    help="A proxy on this machine lets readers in and names them in this header, which it takes from nobody "
    "else.",
)
@click.option("--max-body", type=click.IntRange(1024), default=16 << 20, show_default=True, metavar="BYTES",
              help="Largest body of a request.")  # fmt: skip
@click.option("--max-batch", type=click.IntRange(1), default=200_000, show_default=True, metavar="N",
              help="Most reports in a batch.")  # fmt: skip
@click.option("--read-timeout", type=click.FloatRange(0.1), default=20.0, show_default=True, metavar="SECONDS",
              help="How long a request may take to arrive.")  # fmt: skip
@click.option("--rate", type=click.FloatRange(0), default=0.0, show_default=True, metavar="N", callback=_rate,
              help="Reports per second and key, at least 1; 0 is no limit.")  # fmt: skip
@click.option("--queue", type=click.IntRange(1), default=1_000_000, show_default=True, metavar="N",
              help="Most reports that may wait for a commit.")  # fmt: skip
@click.option("--seal/--no-seal", "seals", default=True, show_default=True,
              help="Seal rounds that are over; --no-seal where another process seals them.")  # fmt: skip
@click.option("--clock-skew", type=click.FloatRange(0), default=300.0, show_default=True, metavar="SECONDS",
              help="How much a device's clock may run fast.")  # fmt: skip
@click.option("--public", "public", multiple=True, metavar="NAME",
              help="Show the results of this plan without a key, at /public; may be repeated; "
                   "all is every PLAN.")  # fmt: skip
@click.option("--wait-for-database", type=click.FloatRange(0), default=60.0, show_default=True, metavar="SECONDS",
              help="How long to wait for a PostgreSQL server that is not reachable yet.")  # fmt: skip
def serve(store: str, listen: tuple[str, int], workers: int, **settings: Any) -> None:
    """
    Take reports, seal rounds, and show estimates: the collector, for each PLAN.

    A PLAN is a file, or a folder whose *.toml files are plans. On SIGHUP all of them are read again, and new plans and
    versions are taken up.

    Every option can be set by an environment variable, such as RETICENT_STORE for --store, or in the file of
    --config. The command line comes first, then the environment, then the file. Listening beyond this machine
    needs keys: reticent keys create.

    \b
    Example:
      reticent serve examples/plan.toml --store sqlite:///reticent.db --listen 127.0.0.1:8000
    """
    # Nothing is imported here that starts threads: workers are forked from this process.
    # A collector multiplies small matrices only. Threads of BLAS wait for the next one in a loop, and take a core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from reticent_collector.http import Supervisor, bind, inherited, shown
    from reticent_collector.http.log import announce

    listeners, options = inherited(), SimpleNamespace(**settings)
    if not listeners:
        check_free(*listen, "--listen")
    if workers == 1:
        sys.exit(_serve(store, listen, listeners, None, options))
    if store == "memory:":
        raise ReticentError(
            f"--workers {workers}: a store in memory belongs to one process.\n"
            "  Hint: leave --workers out, or give a --store of sqlite://, postgresql:// or lake://"
        )
    listeners = listeners or bind(*listen)
    scheme = "https" if options.tls_cert else "http"

    def work(worker: Worker) -> int:
        try:
            with plain_faults():
                return _serve(store, listen, worker.listeners, worker, options)
        except click.ClickException as error:
            announce("start-failed", f"Error: {error.format_message()}", reason=error.format_message())
            return error.exit_code

    def started() -> None:
        say_address(f"{scheme}://{shown(listeners[0])}")

    sys.exit(Supervisor(workers, listeners, work, started).run())


def _opened(url: str, seconds: float) -> Store:
    """
    The store, once its database is reachable; SIGTERM ends the process, also a container's first one.

    At once, not with an exception: one that is raised in the middle of an import or a callback is lost or leaves a
    lock behind. A store is as safe as with SIGKILL, and nothing was acknowledged yet.
    """
    from reticent_collector.http.log import log
    from reticent_collector.stores import StoreAwayError, open_store

    begun = logged = time.monotonic()
    pause, before = 0.1, signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    try:
        while True:
            try:
                return open_store(url)
            except StoreAwayError as error:
                now = time.monotonic()
                left = begun + seconds - now
                if left <= 0:
                    raise
                if pause == 0.1 or now - logged >= WAIT_LOGGED_SECONDS:
                    log("waiting-for-database", reason=str(error), seconds_left=round(left))
                    logged = now
                time.sleep(min(pause, left))
                pause = min(2 * pause, 1.0)
    finally:
        signal.signal(signal.SIGTERM, before)


def _public(names: tuple[str, ...], plans: Sequence[Plan]) -> frozenset[str]:
    """Of --public: the names of the plans whose results need no key."""
    from reticent_collector.http.log import announce

    by_name = {plan.name: plan for plan in plans}
    chosen = frozenset(by_name if "all" in names else names)
    for name in sorted(chosen):
        if name not in by_name:
            raise ReticentError(
                f"--public {name}: expected the name of a plan that is served here, one of {', '.join(by_name)}.\n"
                "  Hint: the name is in the plan's [plan] table; all publishes every PLAN"
            )
        if by_name[name].min_reports == 1:
            announce(
                "public-single-reports",
                f"Warning: plan {name} has min_reports = 1: public results can show single reports.",
                plan=name,
            )
    return chosen


def read_plans(paths: Sequence[Path]) -> list[Plan]:
    """The plans in files and folders; one that cannot be read is logged, and the others go on."""
    from reticent_collector.http.log import announce

    plans = []
    for path in paths:
        for file in sorted(path.glob("*.toml")) if path.is_dir() else [path]:
            try:
                plans.append(Plan.load(file))
            except ReticentError as error:
                announce("plan-refused", f"Warning: not served: {error}", reason=str(error))
    return plans


def _warn_of_expired(plans: Sequence[Plan]) -> None:
    from reticent_collector.http.log import announce

    for plan in plans:
        if plan.has_expired(time.time()):
            announce(
                "plan-expired",
                f"Warning: plan {plan.name} expired on {plan.expires}: devices no longer answer it.",
                plan=plan.name,
                expires=str(plan.expires),
            )


def _reached_from_elsewhere(listen: tuple[str, int], listeners: Sequence[socket.socket]) -> str:
    """Where a collector listens, if other machines can reach it; else empty."""
    from reticent_collector.http import is_local, is_loopback, shown

    host, port = listen
    if all(map(is_local, listeners)) if listeners else is_loopback(host):
        return ""
    return ", ".join(map(shown, listeners)) or f"{host}:{port}"


def _check_is_private(store: str, where: str) -> None:
    """A collector whose store has no keys is reached from nowhere else."""
    if where:
        raise ReticentError(
            f"{where} can be reached from elsewhere, and the store has no keys.\n"
            f"  Hint: reticent keys create --store {store} --role ingest"
        )


def _check_hears_a_proxy(where: str) -> None:
    """A collector that trusts a header listens where only programs of this machine can send it."""
    if where:
        raise ReticentError(
            f"--trust-header: expected --listen on this machine only, got {where}, where anyone could send it.\n"
            "  Hint: --listen 127.0.0.1:8000, with the proxy on this machine"
        )


def _serve(
    store: str,
    listen: tuple[str, int],
    listeners: Sequence[socket.socket],
    worker: Worker | None,
    options: SimpleNamespace,
) -> int:
    """One process of the collector; returns its exit code."""
    from reticent_collector import dashboard
    from reticent_collector.http import Collector, Limits, make_server

    host, port = listen
    tls = tls_files(options.tls_cert, options.tls_key)
    limits = Limits(
        body=options.max_body,
        batch=options.max_batch,
        seconds=options.read_timeout,
        connections=options.max_connections,
    )
    folders = [path for path in options.plans if path.is_dir()]
    given = [Plan.load(path) for path in options.plans if path not in folders]
    loaded = [*given, *read_plans(folders)]
    if not loaded:
        raise ReticentError(
            f"{folders[0]}: expected plans in files named *.toml, found none that can be served."
        )
    public = _public(options.public, loaded)
    elsewhere = _reached_from_elsewhere(listen, listeners)
    if options.trusted_header:
        _check_hears_a_proxy(elsewhere)
    opened = _opened(store, options.wait_for_database)
    try:
        _warn_of_expired(loaded)
        collector = Collector(
            given,
            opened,
            limits=limits,
            rate=options.rate,
            most_waiting=options.queue,
            skew=options.clock_skew,
            secure_cookies=tls is not None or options.behind_proxy,
            pages=dashboard,
            public=public,
            allowed_origins=options.origins,
            trusted_header=options.trusted_header,
            seal_every=SEAL_SECONDS if options.seals else None,
            worker=worker,
            read_plans=lambda: read_plans(options.plans),
        )
        if folders:
            collector.take_up_plans()
        if collector.access.is_open:
            _check_is_private(opened.url, "A collector behind a proxy" if options.behind_proxy else elsewhere)
    except ReticentError:
        opened.close()
        raise

    def started(bound: str, number: int) -> None:
        if worker is not None:
            worker.ready()
        else:
            say_address(address(bound, number, tls) if number else bound)

    server = make_server(collector, host, port, limits, tls, started, listeners)
    server.run(worker.lifeline if worker else None)
    return 0 if server.started else 1
