"""`reticent doctor` finds what is wrong, says what to do, and touches nothing."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import ssl
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import closing
from email.utils import formatdate
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.cli.doctor.deployment import check_endpoint
from reticent_collector.cli.doctor.machine import Check, Requirement, of_package, package_of, packages, tls
from reticent_collector.stores import Layout, RoundKey, create_key, open_store

URL = "sqlite:///reticent.db"


def checked(run: Any, *options: object) -> dict[tuple[str, str], dict[str, str]]:
    """The checks by area and name."""
    done = run("doctor", *options, "--json")
    answer = json.loads(done.stdout)
    assert (done.exit_code == 3) == bool(answer["problems"]), done.output
    return {(each["area"], each["name"]): each for each in answer["checks"]}


def states(found: dict[tuple[str, str], dict[str, str]], area: str) -> dict[str, str]:
    return {name: each["state"] for (place, name), each in found.items() if place == area}


def fingerprint(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Every file with its mode, time and content."""
    return {
        path.relative_to(folder).as_posix(): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(folder.rglob("*"))
    }


def test_a_sound_installation_has_no_problems(run: Any) -> None:
    found = checked(run)
    assert {area for area, _ in found} == {"installation", "machine"}
    assert "problem" not in states(found, "installation").values()
    assert found["installation", "python"]["state"] == "ok"
    assert states(found, "installation")["reticent-collector"] == "ok"
    for each in found.values():
        assert set(each) == {"area", "name", "state", "message", "hint"}
        assert "\n" not in each["message"] + each["hint"]


def test_everything_is_looked_at_and_left_as_it_is(run: Any, folder: Path) -> None:
    before = fingerprint(folder)
    options = ("--store", URL, "--plan", "plan.toml", "--state", "telemetry.db")
    found = checked(run, *options)
    assert states(found, "store") == {
        "reachable": "ok", "permissions": "ok", "writable": "ok", "disk": "ok", "content": "ok", "keys": "ok",
        "rounds": "problem", "memory": "ok",
    }  # fmt: skip
    assert found["store", "rounds"]["message"].startswith("1 of 2 open rounds should have been sealed")
    assert found["store", "keys"]["message"] == "1 ingest, 1 reader"
    assert "200 reports of open rounds" in found["store", "memory"]["message"]
    assert states(found, "device") == {"permissions": "ok", "folder": "ok", "content": "ok"}
    assert states(found, "plan")["rules"] == "ok"
    assert run("doctor", *options).exit_code == 3
    assert fingerprint(folder) == before


def test_a_lake_is_looked_at_and_left_as_it_is(run: Any, folder: Path) -> None:
    before = fingerprint(folder)
    found = checked(run, "--store", "lake:///reticent-lake")
    assert states(found, "store")["content"] == "ok"
    assert states(found, "store")["rounds"] == "problem"
    assert "200 reports of open rounds" in found["store", "memory"]["message"]
    assert fingerprint(folder) == before


def test_a_store_in_use_is_looked_at_with_its_log(run: Any, folder: Path) -> None:
    store = open_store(URL)
    try:
        assert store.revoke_key(store.keys()[0].id, at=1)
        log = Path("reticent.db-wal").read_bytes()
        found = checked(run, "--store", URL)
        assert found["store", "keys"]["state"] == "note"  # revoked in the log, not yet in the file
        assert Path("reticent.db-wal").read_bytes() == log
    finally:
        store.close()


def test_what_is_not_there_is_not_made(run: Any, tmp_path: Path) -> None:
    options = ("--store", f"sqlite:///{tmp_path}/typo.db", "--state", tmp_path / "none.db")
    found = checked(run, *options, "--plan", tmp_path / "none.toml")
    assert found["store", "reachable"]["message"].endswith("there is no such store")
    assert found["device", "state file"]["state"] == "note"
    assert states(found, "plan") == {"rules": "problem"}
    assert list(tmp_path.iterdir()) == []


def test_files_that_others_may_reach_are_a_problem(run: Any, folder: Path) -> None:
    os.chmod("reticent.db", 0o640)
    os.chmod("telemetry.db", 0o604)
    os.chmod(folder, 0o777)  # noqa: S103
    found = checked(run, "--store", URL, "--state", "telemetry.db")
    assert found["store", "permissions"]["message"] == "its group can access reticent.db"
    assert found["store", "permissions"]["hint"] == "chmod 600 reticent.db"
    assert found["device", "permissions"]["message"].startswith("everybody can access telemetry.db")
    assert found["device", "folder"]["state"] == "problem"


def test_damage_is_found(run: Any, folder: Path) -> None:
    data = bytearray(Path("telemetry.db").read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    Path("telemetry.db").write_bytes(data)
    database = sqlite3.connect("reticent.db")
    database.execute("UPDATE rounds SET state = 'odd' WHERE round = 100")
    database.commit()
    database.close()
    found = checked(run, "--store", URL, "--state", "telemetry.db")
    assert "got odd" in found["store", "content"]["message"]
    assert found["store", "content"]["hint"] == f"reticent store check --store {URL}"
    assert found["device", "content"]["state"] == "problem"


@pytest.mark.parametrize("name", ["plan.toml", "picture.png", "reticent.db"])
def test_files_of_another_kind_are_told_apart(run: Any, folder: Path, name: str) -> None:
    found = checked(run, "--state", name)
    assert found["device", "content"]["state"] == "problem"
    if name != "reticent.db":
        assert checked(run, "--store", f"sqlite:///{name}")["store", "reachable"]["state"] == "problem"
    assert checked(run, "--store", "sqlite:///telemetry.db")["store", "reachable"]["state"] == "problem"


def test_a_state_of_another_plan_and_a_plan_that_breaks_rules(run: Any, folder: Path) -> None:
    text = Path("plan.toml").read_text()
    Path("other.toml").write_text(text.replace('name = "app-usage"', 'name = "other"'))
    found = checked(run, "--plan", "other.toml", "--state", "telemetry.db")
    assert found["device", "content"]["message"] == "the state of plan app-usage, not of other"
    Path("bad.toml").write_text(text.replace("epsilon = 1.0", "epsilon = 0"))
    done = run("doctor", "--plan", "bad.toml", "--json")
    problems = [each for each in json.loads(done.stdout)["checks"] if each["state"] == "problem"]
    assert len(problems) == text.count("epsilon = 1.0")
    assert all("epsilon: expected" in each["message"] for each in problems)


def test_no_key_id_secret_or_password_is_shown(run: Any, folder: Path) -> None:
    store = open_store(URL)
    known = store.keys()
    ids = [key.id for key in known]
    store.close()
    database = sqlite3.connect("telemetry.db")
    ((secret,),) = database.execute("SELECT secret FROM device")
    database.close()
    shown = run("doctor", "--store", URL, "--state", "telemetry.db").output
    assert not [word for word in [*ids, secret.hex(), "12345"] if word in shown]
    shown = run("doctor", "--store", "postgresql://user:sekret@127.0.0.1:1/x").output
    assert "sekret" not in shown
    assert "postgresql://user@127.0.0.1:1/x" in shown


def test_packages_too_old_or_missing_are_named() -> None:
    old = of_package("reticent-lab", (Requirement("numpy", "999"), Requirement("scipy", "1")))
    assert old.state == "problem"
    assert old.message.startswith("too old: numpy ")
    assert old.hint == "pip install --upgrade 'reticent-lab'"
    missing = of_package("reticent-lab", (Requirement("numpy", "1"), Requirement("no-such-library", "1")))
    assert missing.state == "note"
    assert missing.hint == "if you need it: pip install 'reticent-lab', in a clone './lab'"
    assert "no-such-library" in missing.message


def test_the_metadata_names_every_package_and_extra() -> None:
    root = Path(__file__).parents[3]
    named = set()
    for house in ("collector", "lake", "lab", "otel"):
        project = tomllib.loads((root / house / "pyproject.toml").read_text())["project"]
        named |= {
            project["name"],
            *(f"{project['name']}[{extra}]" for extra in project.get("optional-dependencies", ())),
        }
    assert set(packages()) == named
    assert [package_of(name) for name in ("click", "httptools", "psycopg", "duckdb", "pyspark", "matplotlib")] == [
        "reticent-collector", "reticent-collector", "reticent-collector[postgres]", "reticent-lake",
        "reticent-lake[spark]", "reticent-lab",
    ]  # fmt: skip


class Collector(BaseHTTPRequestHandler):
    """Answers as a collector behind a proxy does, with a Date; readiness and clock as the test wishes."""

    ready, ahead = 200, 0.0

    def do_GET(self) -> None:
        self.send_response_only({"/healthz": 200, "/readyz": self.ready}.get(self.path, 404))
        self.send_header("Date", formatdate(time.time() + self.ahead, usegmt=True))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[tuple[str, type[Collector]]]:
    handler = type("Handler", (Collector,), {})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    thread.join(30)
    server.server_close()


def by_name(checks: Iterator[Check]) -> dict[str, str]:
    return {each.name: each.state for each in checks}


def test_an_endpoint_is_asked(collector: tuple[str, type[Collector]]) -> None:
    url, handler = collector
    assert by_name(check_endpoint(url)) == {"reachable": "ok", "ready": "ok", "clock": "ok"}
    handler.ready, handler.ahead = 503, 3600.0
    assert by_name(check_endpoint(url)) == {"reachable": "ok", "ready": "problem", "clock": "problem"}


def test_an_endpoint_that_is_none(collector: tuple[str, type[Collector]]) -> None:
    url, _ = collector
    assert by_name(check_endpoint(f"{url}/elsewhere")) == {"reachable": "problem"}
    assert by_name(check_endpoint("http://127.0.0.1:1")) == {"reachable": "problem"}
    assert by_name(check_endpoint(url.replace("http:", "https:"))) == {"reachable": "problem"}
    assert by_name(check_endpoint("http://collector.example.org")) == {"address": "problem"}
    assert by_name(check_endpoint("ftp://x")) == {"address": "problem"}


def test_a_real_collector_sends_no_date_and_this_is_said(folder: Path, run: Any) -> None:
    from reticent_collector.http import Collector as RealCollector
    from reticent_collector.http import make_server

    listening, place = threading.Event(), []

    def started(host: str, port: int) -> None:
        place.append(f"http://{host}:{port}")
        listening.set()

    real = RealCollector([Plan.load("plan.toml")], open_store("sqlite:///fresh.db"))
    server = make_server(real, "127.0.0.1", 0, real.limits, started=started)
    thread = threading.Thread(target=server.run)
    thread.start()
    assert listening.wait(30)
    found = checked(run, "--endpoint", place[0], "--store", "sqlite:///fresh.db")
    server.stop()
    thread.join(30)
    assert states(found, "endpoint") == {"reachable": "ok", "ready": "ok", "clock": "note"}
    assert states(found, "store")["keys"] == "note"
    assert states(found, "store")["rounds"] == "ok"


def test_a_key_that_others_may_read_or_that_does_not_fit(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    key.write_text("no key")
    certificate.write_text("no certificate")
    key.chmod(0o644)
    assert by_name(tls(certificate, key)) == {"key": "problem", "certificate": "problem"}
    key.chmod(0o600)
    assert by_name(tls(None, key)) == {"key": "ok", "certificate": "note"}
    assert by_name(tls(certificate, None)) == {"certificate": "note"}
    with pytest.raises(ssl.SSLError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)


def test_a_state_file_without_one_of_its_tables(run: Any, folder: Path) -> None:
    with closing(sqlite3.connect("telemetry.db")) as connection:
        connection.execute("DROP TABLE ledger")
    found = checked(run, "--state", "telemetry.db")["device", "content"]
    assert (found["state"], found["message"]) == ("problem", "damaged")


def test_a_file_that_is_not_there_ends_only_its_own_checks(run: Any) -> None:
    done = run("doctor", "--tls-cert", "none.pem", "--tls-key", "none.pem", "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["problems"]) == (3, 1)
    assert found["checks"][-1]["message"] == "none.pem: No such file or directory"


def test_a_database_is_asked_and_nothing_is_made_in_it(run: Any, folder: Path, postgres: Any) -> None:
    url = postgres.new_database()
    empty = checked(run, "--store", url)
    assert empty["store", "reachable"]["message"].endswith("has no tables of reticent")
    with psycopg.connect(url) as connection:
        assert connection.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        ).fetchone() == (0,)
    store = open_store(url)
    store.register(Plan.load("plan.toml"))
    store.add_key(create_key("admin", "", now=0)[1])
    store.append({RoundKey("app-usage", 1, 100): bytes(Layout(Plan.load("plan.toml")).width)})
    store.close()
    found = checked(run, "--store", url)
    assert states(found, "store") == {
        "reachable": "ok", "writable": "ok", "disk": "note", "content": "ok", "keys": "ok",
        "rounds": "problem", "memory": "ok",
    }  # fmt: skip
    with psycopg.connect(url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only TO on')
    assert checked(run, "--store", url)["store", "writable"]["state"] == "problem"
    with pytest.raises(StoreError, match="read-only"), closing(open_store(url, readonly=True)) as looked:
        looked.add_key(create_key("reader", "", now=0)[1])


def test_a_store_that_is_looked_at_cannot_be_written(folder: Path) -> None:
    with pytest.raises(StoreError, match="read-only"), closing(open_store(URL, readonly=True)) as looked:
        looked.add_key(create_key("reader", "", now=0)[1])
    with pytest.raises(StoreError, match="expected sqlite"):
        open_store("memory:", readonly=True)


@pytest.fixture
def certified(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for this machine that lasts three days, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
         "3", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
         certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o600)
    return certificate, key


def test_a_certificate_and_its_key(certified: tuple[Path, Path]) -> None:
    assert by_name(tls(*certified)) == {"key": "ok", "certificate": "ok"}


def test_an_endpoint_is_trusted_as_far_as_its_certificate(
    certified: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = HTTPServer(("127.0.0.1", 0), type("Handler", (Collector,), {}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certified)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *arguments: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"https://127.0.0.1:{server.server_port}"
    strangers = by_name(check_endpoint(url))
    monkeypatch.setenv("SSL_CERT_FILE", str(certified[0]))
    checks = {check.name: check for check in check_endpoint(url)}
    server.shutdown()
    thread.join(30)
    server.server_close()
    assert strangers == {"reachable": "problem"}
    assert {name: check.state for name, check in checks.items()} == {
        "reachable": "ok", "ready": "ok", "certificate": "note", "clock": "ok",
    }  # fmt: skip
    assert checks["certificate"].message == "lasts 3 more days"
