"""Readers of some plans, readers whom a proxy lets in, and notes, which only administrators add."""

from __future__ import annotations

import csv
import hmac
import io
import json
import shutil
import socket
import subprocess
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.error import HTTPError
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, OpenerDirector, Request, build_opener

import pytest
from click.testing import CliRunner
from tests.shared.collectors import Service, bearer, in_thread, make_reports, usage
from tests.shared.plans import SAMPLED

from reticent.plan import Plan
from reticent_collector import dashboard
from reticent_collector.cli.root import reticent as command
from reticent_collector.http import Collector
from reticent_collector.stores import Layout, RoundKey, create_key, open_store

PLANS = [Plan.from_toml(usage()), Plan.from_toml(SAMPLED)]
OURS, THEIRS = (plan.name for plan in PLANS)
HEADER = "X-Forwarded-User"
CONFIG = Path(__file__).parents[3] / "deploy" / "proxy" / "nginx-login.conf"


@contextmanager
def serving(folder: Path, **options: Any) -> Iterator[tuple[Service, dict[str, str], Any]]:
    store = open_store(f"sqlite:///{folder / 'store.db'}")
    keys = {}
    for name, role, plans in (
        ("limited", "reader", [OURS]),
        ("reader", "reader", []),
        ("ingest", "ingest", []),
        ("admin", "admin", []),
    ):
        keys[name], key = create_key(role, name, int(time.time()), plans)
        store.add_key(key)
    for plan in PLANS:
        store.register(plan)
        key = RoundKey(plan.name, plan.version, 100)
        store.append({key: b"".join(map(Layout(plan).pack, make_reports(plan, 100, 300)))})
        store.seal(key)
    with in_thread(Collector(PLANS, store, pages=dashboard, seal_every=None, **options)) as service:
        yield service, keys, store


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict[str, str], Any]]:
    with serving(tmp_path_factory.mktemp("served")) as made:
        yield made


# Readers of some plans


@pytest.mark.parametrize(
    ("path", "of_theirs"),
    [
        ("/v1/estimates?plan={}", 404),
        ("/v1/changes?plan={}", 404),
        ("/v1/differences?plan={}", 404),
        ("/v1/trends?plan={}", 404),
        ("/v1/notes?plan={}", 404),
        ("/v1/rounds?plan={}", 404),
        ("/v1/plans/{}", 404),
        ("/plans/{}", 404),
        ("/plans/{}/what-if", 404),
        ("/plans/{}/metrics/minutes", 404),
        ("/plans/{}/metrics/minutes.csv", 404),
    ],
)
def test_a_limited_reader_sees_its_plans_alone(served: Any, path: str, of_theirs: int) -> None:
    """Others are as if they were not there: the answer is that of a plan with another name."""
    service, keys, _ = served
    assert service.get(path.format(OURS), keys["limited"]).status == 200
    theirs = service.get(path.format(THEIRS), keys["limited"])
    nothing = service.get(path.format("nothing"), keys["limited"])
    assert theirs.status == nothing.status == of_theirs
    assert theirs.body.replace(THEIRS.encode(), b"nothing") == nothing.body
    if "minutes" not in path:
        assert service.get(path.format(THEIRS), keys["reader"]).status == 200


def test_lists_hold_the_plans_of_a_limited_reader_alone(served: Any) -> None:
    service, keys, _ = served
    for role, names in (("limited", {OURS}), ("reader", {OURS, THEIRS})):
        assert {plan["name"] for plan in service.get("/v1/plans", keys[role]).json["plans"]} == names
        assert {row["plan"] for row in service.get("/v1/rounds", keys[role]).json["rounds"]} == names
        page = service.get("/", keys[role]).body.decode()
        assert f"/plans/{OURS}" in page
        assert (f"/plans/{THEIRS}" in page) == (THEIRS in names)
    for path in ("/metrics", "/health", "/health.json"):
        refused = service.get(path, keys["limited"])
        assert (refused.status, service.get(path, keys["reader"]).status in (200, 404)) == (403, True)


def test_only_readers_can_be_limited(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(command, ["keys", *arguments, "--store", url])

    refused = run("create", "--role", "ingest", "--plan", OURS)
    assert (refused.exit_code, "--plan goes with --role reader" in refused.output) == (2, True)
    made = run("create", "--role", "reader", "--plan", OURS, "--plan", THEIRS, "--json")
    assert made.exit_code == 0, made.output
    (listed,) = json.loads(run("list", "--json").output)["keys"]
    assert sorted(listed["plans"]) == sorted([OURS, THEIRS])
    log = CliRunner().invoke(command, ["store", "log", "--store", url, "--json"])
    assert f"plans {', '.join(sorted([OURS, THEIRS]))}" in log.output


# Notes


def test_notes_are_added_by_administrators_once_and_logged(served: Any) -> None:
    service, keys, store = served

    def post(body: Any, key: str | None, kind: str = "application/json") -> Any:
        sent = {"Content-Type": kind, **bearer(key)}
        return service.call("POST", "/v1/notes", json.dumps(body).encode(), sent)

    release = {"text": "2.3 released", "at": "2026-11-01", "plan": THEIRS}
    for role, status in (("reader", 403), ("limited", 403), ("ingest", 403), (None, 401)):
        assert post(release, keys.get(role) if role else None).status == status
    assert post(release, keys["admin"], "text/plain").status == 415
    for _ in range(2):
        assert post([release, {"text": "holiday", "at": "2026-12-24T00:00Z"}], keys["admin"]).status == 201
    notes = service.get("/v1/notes", keys["reader"]).json["notes"]
    assert [(note["text"], note["at"], note["plan"]) for note in notes] == [
        ("2.3 released", "2026-11-01T00:00:00Z", THEIRS),
        ("holiday", "2026-12-24T00:00:00Z", None),
    ]
    in_between = service.get("/v1/notes?since=2026-11-02&until=2027-01-01", keys["reader"]).json["notes"]
    assert in_between == notes[1:]
    table = service.get("/v1/notes?format=csv", keys["reader"]).body.decode()
    assert [row["text"] for row in csv.DictReader(io.StringIO(table))] == ["2.3 released", "holiday"]
    assert [note["text"] for note in service.get("/v1/notes", keys["limited"]).json["notes"]] == ["holiday"]
    entries = [entry for entry in store.noted() if entry.action == "note added"]
    assert any("2.3 released" in entry.about and entry.user.startswith("key ") for entry in entries)
    for body in ([], {}, {"text": ""}, {"text": "a\nb"}, {"text": "x", "plan": "nothing"}, {"text": "x", "by": "me"},
                 {"text": "x", "at": "yesterday"}, {"text": "x" * 201}, "x", None):  # fmt: skip
        assert post(body, keys["admin"]).status == 400, body
    assert post([{"text": "x" * 200}] * 600, keys["admin"]).status == 413


def test_the_command_adds_notes_of_a_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    file = tmp_path / "releases.json"
    file.write_text('[{"text": "outage", "at": "2026-10-01"}, {"text": "2.3", "at": "2026-11-01"}]')
    for _ in range(2):
        done = CliRunner().invoke(command, ["store", "notes", str(file), "--store", url, "--json"])
        assert done.exit_code == 0, done.output
    more = ["store", "notes", "--store", url, "--add", "outage", "--at", "2026-10-15", "--json"]
    answer = json.loads(CliRunner().invoke(command, more).output)
    assert [note["text"] for note in answer["notes"]] == ["outage", "outage", "2.3"]
    refused = CliRunner().invoke(command, ["store", "notes", "--store", url, "--at", "2026-10-15"])
    assert refused.exit_code == 2


# Readers whom a proxy lets in


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict[str, str], Any]]:
    with serving(tmp_path_factory.mktemp("trusting"), trusted_header=HEADER) as made:
        yield made


def test_a_named_reader_reads_and_does_nothing_else(trusting: Any, served: Any) -> None:
    service, _, _ = trusting
    named = {HEADER: "ann@example.org"}
    assert service.get("/v1/plans", **named).status == 200
    assert service.get("/", **named).status == 200
    assert service.get("/v1/plans").status == 401
    for empty in ("", " "):
        assert service.get("/v1/plans", **{HEADER: empty}).status == 401
    json_type = {"Content-Type": "application/json"}
    assert service.call("POST", "/v1/notes", b'{"text": "x"}', {**named, **json_type}).status == 401
    assert service.call("POST", "/v1/reports", b"{}", {**named, **json_type}).status == 401
    twice = f"GET /v1/plans HTTP/1.1\r\nHost: localhost\r\n{HEADER}: a\r\n{HEADER}: b\r\nConnection: close\r\n\r\n"
    assert service.raw(twice.encode()).startswith(b"HTTP/1.1 401")
    untrusting, _, _ = served
    assert untrusting.get("/v1/plans", **named).status == 401


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_a_header_is_not_trusted_from_other_machines(tmp_path: Path, listen: str) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(usage())
    asked = ["serve", str(plan), "--store", f"sqlite:///{tmp_path / 'store.db'}", "--listen", listen]
    done = CliRunner().invoke(command, [*asked, "--trust-header", HEADER])
    assert (done.exit_code, "--trust-header: expected --listen on this machine only" in done.output) == (
        1,
        True,
    )
    for name in ("Host", "Cookie", "a b", "Authorization"):
        refused = CliRunner().invoke(command, [*asked, "--trust-header", name])
        assert (refused.exit_code, "expected a header of its own" in refused.output) == (2, True)


class LoginService(BaseHTTPRequestHandler):
    """What an OIDC proxy answers to nginx: who has the session of a cookie."""

    def do_GET(self) -> None:
        known = "session=ann" in self.headers.get("Cookie", "")
        self.send_response(202 if known else 401)
        if known:
            self.send_header("X-Auth-Request-User", "ann@example.org")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.skipif(shutil.which("nginx", path="/usr/sbin:/usr/bin") is None, reason="nginx is not installed")
def test_nginx_lets_readers_in_by_the_file_of_deploy(trusting: Any, tmp_path: Path) -> None:
    service, _, _ = trusting
    login = ThreadingHTTPServer(("127.0.0.1", 0), LoginService)
    threading.Thread(target=login.serve_forever, daemon=True).start()
    locations = CONFIG.read_text().replace("127.0.0.1:4180", f"127.0.0.1:{login.server_port}")
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid;\nerror_log stderr emerg;\nevents {{}}\nhttp {{\n access_log off;\n"
        + "".join(
            f" {name}_temp_path {tmp_path}/{name};\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        + f" upstream collector {{ server 127.0.0.1:{service.port}; }}\n"
        f" server {{ listen unix:{tmp_path}/front;\n proxy_set_header Host $host;\n{locations}\n }}\n}}\n"
    )
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    front = subprocess.Popen([str(nginx), "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off;"])
    try:
        while not (tmp_path / "front").exists():
            assert front.poll() is None
            time.sleep(0.01)

        def asked(path: str, *headers: str) -> int:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(tmp_path / "front"))
                lines = [f"GET {path} HTTP/1.1", "Host: collector", "Connection: close", *headers, "", ""]
                connection.sendall("\r\n".join(lines).encode())
                return int(connection.makefile("rb").readline().split()[1])

        assert asked("/v1/plans", "Cookie: session=ann") == 200
        assert asked("/v1/plans") == 302
        assert asked("/v1/plans", f"{HEADER}: ann@example.org") == 302, (
            "what a client says of itself is nothing"
        )
        assert asked("/v1/plans", f"{HEADER}: mallory", "Cookie: session=mallory") == 302
        assert asked("/v1/reports", f"{HEADER}: ann@example.org") == 405
    finally:
        front.terminate()
        front.wait(20)
        login.shutdown()
        login.server_close()


class OpenIdProvider(BaseHTTPRequestHandler):
    """Everybody who is sent here is Ann: the authorization code flow, with a signed token."""

    secret = "s" * 32
    nonces: ClassVar[list[str]] = []

    @property
    def home(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = dict(parse_qsl(url.query))
        if url.path == "/authorize":
            self.nonces.append(asked["nonce"])
            code = {"code": str(len(self.nonces) - 1), "state": asked["state"]}
            self.send_response(302)
            self.send_header("Location", f"{asked['redirect_uri']}?{urlencode(code)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        self._say(
            {
                "issuer": self.home,
                **{name: f"{self.home}/{place}" for name, place in places.items()},
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["HS256"],
            }
        )

    def do_POST(self) -> None:
        asked = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        now = int(time.time())
        who = {"iss": self.home, "aud": "reticent", "sub": "7", "email": "ann@example.org"}
        claims = {**who, "iat": now, "exp": now + 60, "nonce": self.nonces[int(asked["code"])]}
        signed = f"{self._part({'alg': 'HS256'})}.{self._part(claims)}"
        digest = hmac.digest(self.secret.encode(), signed.encode(), "sha256")
        self._say({"access_token": "x", "token_type": "Bearer", "id_token": f"{signed}.{self._part(digest)}"})

    def _part(self, content: Any) -> str:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        return urlsafe_b64encode(data).decode().rstrip("=")

    def _say(self, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


MODULES = Path("/usr/lib/apache2/modules")


@pytest.mark.skipif(
    not (MODULES / "mod_auth_openidc.so").exists(), reason="libapache2-mod-auth-openidc is not installed"
)
def test_readers_log_in_at_an_openid_provider_through_apache(trusting: Any, tmp_path: Path) -> None:
    """The whole login, by the file of deploy and a proxy that is certified for OpenID Connect."""
    service, _, _ = trusting
    provider = ThreadingHTTPServer(("127.0.0.1", 0), OpenIdProvider)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = CONFIG.with_name("apache-login.conf").read_text()
    for ours, theirs in (
        ("https://id.example.org", f"http://127.0.0.1:{provider.server_port}"),
        ("127.0.0.1:8000", f"127.0.0.1:{service.port}"),
        ('"exec:/bin/cat /etc/reticent/oidc-secret"', OpenIdProvider.secret),
        ('"exec:/bin/cat /etc/reticent/oidc-passphrase"', "p" * 32),
    ):
        assert ours in config
        config = config.replace(ours, theirs)
    modules = "mpm_event authn_core authz_core authz_user headers proxy proxy_http auth_openidc"
    (tmp_path / "apache.conf").write_text(
        f"ServerRoot {tmp_path}\nServerName 127.0.0.1\nListen 127.0.0.1:{port}\nDefaultRuntimeDir {tmp_path}\n"
        f"PidFile {tmp_path}/pid\nErrorLog {tmp_path}/log\nUser nobody\nGroup nogroup\n"
        + "".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so\n" for name in modules.split())
        + config
    )
    apache = subprocess.Popen(
        ["/usr/sbin/apache2", "-f", str(tmp_path / "apache.conf"), "-DFOREGROUND"], stderr=subprocess.DEVNULL
    )
    home = f"http://127.0.0.1:{port}"

    class StayHere(HTTPRedirectHandler):
        """Follows nothing."""

        def redirect_request(self, *_: Any) -> None:
            return None

    def ask(opener: OpenerDirector, path: str, **headers: str) -> tuple[int, bytes]:
        headers = {"Accept": "text/html", **{name.replace("_", "-"): text for name, text in headers.items()}}
        try:
            with opener.open(Request(home + path, headers=headers), timeout=20) as answer:  # noqa: S310
                return answer.status, answer.read()
        except HTTPError as refused:
            return refused.code, refused.read()

    try:
        ann, stranger = build_opener(HTTPCookieProcessor()), build_opener(StayHere())
        for _ in range(500):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert apache.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.01)
        mallory = {"X_Forwarded_User": "mallory"}
        assert ask(stranger, "/v1/plans", **mallory)[0] == 302
        assert ask(stranger, "/v1/plans", Accept="application/json", **mallory)[0] == 401
        assert ask(stranger, "/v1/plans", Cookie="mod_auth_openidc_session=guessed", **mallory)[0] == 302
        status, body = ask(ann, "/v1/plans")
        assert (status, {plan["name"] for plan in json.loads(body)["plans"]}) == (200, {OURS, THEIRS})
        assert ask(ann, "/v1/plans", **mallory) == (status, body)
        assert ask(stranger, "/v1/reports", **mallory)[0] == 405
        assert ask(ann, "/v1/reports/../plans")[0] == 200
        assert ask(stranger, "/v1/reports/../plans", **mallory)[0] == 302
    finally:
        apache.terminate()
        apache.wait(20)
        provider.shutdown()
        provider.server_close()
