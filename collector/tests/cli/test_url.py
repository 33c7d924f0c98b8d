"""What the commands show of a running collector is what they show of its store."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from tests.shared.collectors import Service, in_thread, make_certificate, make_keys, make_reports, usage
from tests.shared.commands import Run
from tests.shared.plans import SAMPLED

from reticent.plan import Plan
from reticent_collector.http import Collector
from reticent_collector.stores import Layout, RoundKey, open_store

PLANS = [Plan.from_toml(usage()), Plan.from_toml(SAMPLED)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two sealed rounds and an open one of each of two plans, and keys."""
    folder = tmp_path_factory.mktemp("url")
    url = f"sqlite:///{folder / 'store.db'}"
    store = open_store(url)
    for plan in PLANS:
        store.register(plan)
        now = plan.round_at(time.time())
        for number in (100, 101, now):
            key = RoundKey(plan.name, plan.version, number)
            store.append({key: b"".join(map(Layout(plan).pack, make_reports(plan, number, 400)))})
            if number != now:
                store.seal(key)
    store.close()
    for role, text in make_keys(url, "reader", "ingest").items():
        (folder / role).write_text(f"{text}\n")
    (folder / "unknown").write_text("reticent_reader_unknown")
    return folder


@pytest.fixture(scope="module")
def store(folder: Path) -> tuple[str, ...]:
    return "--store", f"sqlite:///{folder / 'store.db'}"


@pytest.fixture(scope="module")
def remote(folder: Path, store: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    with in_thread(Collector(PLANS, open_store(store[1]), seal_every=3600.0)) as service:
        yield "--url", address(service), "--key-file", str(folder / "reader")


def address(service: Service) -> str:
    return f"http://127.0.0.1:{service.port}"


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    "asked",
    [
        ("rounds",),
        ("rounds", "--plan", "sampled", "--last", 2),
        ("estimate", "--plan", "app-usage"),
        ("estimate", "--plan", "app-usage", "--metric", "minutes", "--by", "os", "--last", 1),
        ("estimate", "--plan", "app-usage", "--segment", "os:linux", "--segment", "channel:beta"),
        ("estimate", "--plan", "app-usage", "--metric", "spread", "--confidence", 0.6800000000000001),
        (
            "estimate",
            "--plan",
            "app-usage",
            "--every",
            "week",
            "--since",
            "2020-01-01",
            "--until",
            "2100-01-01",
        ),
        ("estimate", "--plan", "sampled"),
        ("estimate", "--plan", "sampled", "--every", "round", "--by", "os"),
    ],
    ids=str,
)
def test_the_same_is_shown(
    run: Run, store: tuple[str, ...], remote: tuple[str, ...], asked: tuple[Any, ...], form: tuple[str, ...]
) -> None:
    of_store, of_collector = run(*asked, *store, *form), run(*asked, *remote, *form)
    assert of_store.exit_code == 0, of_store.output
    assert of_collector.output == of_store.output
    assert len(of_store.output.splitlines()) > 2


@pytest.mark.parametrize("asked", [(), ("--last", 1, "--by", "os")])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_same_is_exported(
    run: Run, store: Any, remote: Any, tmp_path: Path, suffix: str, asked: tuple[Any, ...]
) -> None:
    said = []
    for name, source in (("store", store), ("remote", remote)):
        file = tmp_path / f"{name}.{suffix}"
        result = run("export", file, "--plan", "app-usage", "--every", "round", *asked, *source, "--json")
        assert result.exit_code == 0, result.output
        said.append(json.loads(result.stdout)["estimates"])
    one, other = tmp_path / f"store.{suffix}", tmp_path / f"remote.{suffix}"
    assert said[0] == said[1] == (9 if not asked else 12)
    if suffix == "csv":
        assert one.read_bytes() == other.read_bytes()
    else:
        assert parquet.read_table(one).equals(parquet.read_table(other))


@pytest.mark.parametrize(
    ("kind", "asked", "rows"),
    [
        ("rounds", (), 3),
        ("rounds", ("--last", 2), 2),
        ("plans", (), 3),
        ("differences", ("--every", "round"), 1 + 8 + 16),
        (
            "differences",
            ("--every", "round", "--by", "os", "--baseline", "linux", "--metric", "minutes"),
            2 * 3,
        ),
        ("trends", ("--every", "round"), 0),  # no round a week before
    ],
)
def test_other_tables_are_exported(
    run: Run, store: Any, remote: Any, tmp_path: Path, kind: str, asked: tuple[Any, ...], rows: int
) -> None:
    texts = []
    for name, source in (("store", store), ("remote", remote)):
        file = tmp_path / f"{name}.csv"
        result = run("export", file, "--table", kind, "--plan", "app-usage", *asked, *source, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["rows"] == rows
        texts.append(file.read_text())
        printed = run("export", "-", "--table", kind, "--plan", "app-usage", *asked, *source)
        assert printed.stdout == texts[-1]
    assert texts[0] == texts[1]
    refused = run("export", tmp_path / "x.parquet", "--table", kind, "--plan", "app-usage", *store)
    assert refused.exit_code == 2


@pytest.mark.parametrize(
    "asked",
    [
        ("estimate",),
        ("estimate", "--plan", "app-usag"),
        ("estimate", "--plan", "app-usage", "--by", "o"),
        ("estimate", "--plan", "app-usage", "--segment", "os:beos"),
        ("rounds", "--plan", "app-usag"),
    ],
)
def test_names_that_nothing_has_are_told_alike(run: Run, store: Any, remote: Any, asked: Any) -> None:
    of_store, of_collector = run(*asked, *store), run(*asked, *remote)
    assert of_store.exit_code == of_collector.exit_code == 1
    assert of_collector.output == of_store.output


def test_a_metric_that_no_version_has_is_told_by_who_knows_the_versions(
    run: Run, store: Any, remote: Any
) -> None:
    asked = ("estimate", "--plan", "app-usage", "--metric", "minute")
    of_store, of_collector = run(*asked, *store), run(*asked, *remote)
    assert of_store.exit_code == of_collector.exit_code == 1
    for answer in (of_store, of_collector):
        assert "metric: expected one of minutes, spread, windows, got minute." in answer.output


def test_what_a_collector_refuses_is_told_in_its_words(run: Run, remote: Any) -> None:
    refused = run("estimate", "--plan", "app-usage", "--every", "window", *remote)
    assert refused.exit_code == 1
    assert "one of round, day, week, month" in refused.output


# What stands in the way


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Something that says the same to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ok(b"<html>log in</html>"), "not a collector"),
        (ok(b'{"plans": 7}'), "not a collector"),
        (ok(b'{"plans": [{"name": "a"}]}'), "the collector is too old to be read by this version."),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "a version that is too old: status 404"),
        (b"HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n", "not a collector, or a version"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the response is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", "closed before the answer was complete"),
        (b"", "closed before the answer was complete"),
    ],
    ids=["page", "number", "old", "nothing", "login", "ssh", "cut", "silent"],
)  # fmt: skip
def test_what_is_not_a_collector_is_told(run: Run, answer: bytes, words: str) -> None:
    with answering(answer) as url:
        result = run("rounds", "--url", url)
    assert result.exit_code == 1
    assert words in result.output
    assert url in result.output


def test_a_collector_whose_answers_lack_something_is_told(run: Run) -> None:
    empty = json.dumps({name: [{}] for name in ("rounds", "estimates", "changes", "withheld")}).encode()
    with made_up(lambda target: empty) as url:
        for verb in (("rounds",), ("estimate",), ("export", "x.parquet", "--last", 1)):
            done = run(*verb, "--url", url)
            message = f"Error: {url}: what answers is not a collector, or one that is too old.\n"
            assert (done.exit_code, done.stderr) == (1, message)


def test_a_body_may_end_with_the_connection(run: Run) -> None:
    with answering(b'HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"plans": [], "rounds": []}') as url:
        assert run("rounds", "--url", url).output.startswith("No rounds yet: no reports have arrived.\n")


@contextmanager
def made_up(answer: Callable[[str], bytes]) -> Iterator[str]:
    """A collector that serves a plan, and made-up answers to everything else that it is asked."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        target = f"{scope['path']}?{scope['query_string'].decode()}"
        plans = json.dumps({"plans": [{"toml": usage()}]}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        body = plans if scope["path"] == "/v1/plans" else answer(target)
        await send({"type": "http.response.body", "body": body})

    with in_thread(app) as service:
        yield address(service)


@pytest.mark.parametrize("rounds", [9_999, 10_000])
def test_an_export_asks_for_all_rounds_or_says_that_there_are_too_many(
    run: Run, tmp_path: Path, rounds: int
) -> None:
    """A collector shows 100 rounds to who does not say how many, and 10,000 at most."""
    asked: list[str] = []

    def answer(target: str) -> bytes:
        asked.append(target)
        others = dict.fromkeys(("plan", "start", "end", "state", "reports"))
        rows = [{"round": number, **others} for number in range(rounds)]
        return b"bucket\n" if "csv" in target else json.dumps({"rounds": rows}).encode()

    with made_up(answer) as url:
        done = run("export", tmp_path / "all.csv", "--url", url)
    assert all("last=10000" in target for target in asked)
    if rounds < 10_000:
        assert (done.exit_code, len(asked), "0 estimates written" in done.output) == (0, 2, True)
    else:
        assert (done.exit_code, "more rounds than a collector shows at once" in done.output) == (1, True)


def test_nothing_since_a_time_is_cut(run: Run) -> None:
    """Without a number, the collector takes all periods since then, or says that they are too many."""
    asked: list[str] = []
    with made_up(lambda target: asked.append(target) or b"bucket\n") as url:
        assert run("export", "-", "--url", url, "--since", "2020-01-01").exit_code == 0
    assert ["last=" in target for target in asked] == [False]


def test_what_has_no_bound_is_null_in_json_and_said_so_to_people(run: Run) -> None:
    row = {
        **{
            "version": 1,
            "metric": "minutes",
            "every": "round",
            "kind": "mean",
            "unit": "minute",
            "start_time": "1970-01-01T00:00:00Z",
            "end_time": "1970-01-01T00:01:00Z",
            "state": "sealed",
            "segment": {},
            "versions": [1],
        },
        **{
            "rounds": 1,
            "rounds_missing": 0,
            "value": 1.0,
            "half_width": None,
            "lower": None,
            "upper": None,
            "reports": 7,
        },
    }
    with made_up(
        lambda _: json.dumps(
            {"estimates": [row], "withheld": [], "changes": [], "trends": [], "remarks": []}
        ).encode()
    ) as url:
        shown = run("estimate", "--url", url).output
    assert "1.000 ± no bound" in shown
    assert shown.count("no bound") == 3


def test_the_wrong_key_none_and_no_collector(run: Run, folder: Path, remote: Any) -> None:
    url = remote[1]
    for options, words in (
        ((), "a key is required.\n  Hint: pass --key-file FILE"),
        (("--key-file", folder / "unknown"), "the key is unknown or revoked"),
        (("--key-file", folder / "ingest"), "its role is ingest, expected reader or admin"),
    ):
        result = run("estimate", "--url", url, *options)
        assert (result.exit_code, words in result.output) == (1, True), result.output
    result = run("rounds", "--url", "http://127.0.0.1:1")
    assert (result.exit_code, "Hint: check host and port" in result.output) == (1, True)
    result = run("rounds", "--url", "https://no-such-host.invalid")
    assert (result.exit_code, "the host no-such-host.invalid cannot be resolved" in result.output) == (
        1,
        True,
    )


def test_tls_is_verified(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = make_certificate(tmp_path)
    service = Service(tmp_path, usage(), scheme="https")
    service.start("--tls-cert", str(certificate), "--tls-key", str(key))
    try:
        url = f"https://127.0.0.1:{service.port}"
        untrusted = run("rounds", "--url", url)
        assert (untrusted.exit_code, "the certificate is not trusted" in untrusted.output) == (1, True)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert run("rounds", "--url", url).exit_code == 0
    finally:
        service.stop()
    with answering(ok(b"{}")) as plain:
        result = run("rounds", "--url", plain.replace("http:", "https:"))
        assert (result.exit_code, "does not speak TLS, or no secure version" in result.output) == (1, True)


def test_one_source_at_a_time(run: Run, store: Any, remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("estimate", *store, *remote).exit_code == 2
    assert run("rounds", "--seal", *remote).exit_code == 2
    assert "Give --store URL or --url URL." in run("rounds").output
    assert "Give --store URL or --url URL." in run("estimate").output
    monkeypatch.setenv("RETICENT_STORE", "sqlite:///nope.db")
    assert run("rounds", *remote).exit_code == 0
