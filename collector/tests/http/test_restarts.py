"""Sockets that outlive the process, and certificates that change while it runs."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.shared.collectors import Service, make_certificate, make_keys, make_reports, usage

from reticent.reports import to_json
from reticent_collector.stores import open_store

RETICENT = str(Path(sys.executable).with_name("reticent"))
HAND_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""


@contextmanager
def handed(service: Service, listener: socket.socket, status: int = 0) -> Iterator[subprocess.Popen[str]]:
    """`reticent serve` with a listening socket as its file 3, as systemd starts it; it ends with a status."""
    command = [RETICENT, "serve", *service.plan_files, "--store", service.store]
    with subprocess.Popen(
        [sys.executable, "-c", HAND_OVER, str(listener.fileno()), *command],
        pass_fds=[listener.fileno()], stderr=subprocess.PIPE, text=True,
        env={name: text for name, text in os.environ.items() if not name.startswith("RETICENT_")},
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            code = process.wait(30)
    assert code == status


def wait_for(process: subprocess.Popen[str], text: str) -> str:
    """The line of its log that has this text."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return line
    raise AssertionError("".join(lines))


@contextmanager
def listening(family: int = socket.AF_INET, address: Any = ("127.0.0.1", 0)) -> Iterator[socket.socket]:
    with socket.socket(family) as listener:
        listener.bind(address)
        listener.listen(4096)
        yield listener


def test_no_connection_is_refused_through_two_restarts(tmp_path: Path) -> None:
    """Each report has a connection of its own. Not one fails, and all of them are counted."""
    service = Service(tmp_path, usage())
    plan, seen, stop = service.plans[0], [], threading.Event()
    with listening() as listener:
        port = listener.getsockname()[1]

        def send(seed: int) -> None:
            for number in count():
                if stop.is_set():
                    return
                (report,) = make_reports(plan, service.now(plan), 1, f"{seed} {number}")
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                try:
                    connection.request(
                        "POST", "/v1/reports", to_json(report), {"Content-Type": "application/json"}
                    )
                    seen.append(connection.getresponse().status)
                except OSError as error:
                    seen.append(type(error))
                finally:
                    connection.close()
                time.sleep(0.002)

        clients = [threading.Thread(target=send, args=(seed,)) for seed in range(3)]
        try:
            for start in range(3):
                with handed(service, listener) as process:
                    assert wait_for(process, "Listening on") == f"Listening on http://127.0.0.1:{port}\n"
                    if start == 0:
                        for client in clients:
                            client.start()
                    time.sleep(0.3)
                    if start == 2:
                        stop.set()
                        for client in clients:
                            client.join()
        finally:
            stop.set()
    assert set(seen) == {202}
    assert len(seen) > 100
    store = open_store(service.store)
    assert [info.reports for info in store.rounds()] == [len(seen)]
    store.close()


def test_a_socket_of_another_process_is_not_taken(tmp_path: Path) -> None:
    """The variables of a parent that was started so itself: LISTEN_PID is not ours."""
    service = Service(tmp_path, usage(), LISTEN_FDS="1", LISTEN_PID=str(os.getpid())).start()
    assert service.get("/healthz").status == 200
    assert service.stop() == 0


@pytest.mark.parametrize("has_keys", [False, True])
def test_by_a_file_comes_a_proxy_and_so_it_needs_keys(tmp_path: Path, has_keys: bool) -> None:
    service, path = Service(tmp_path, usage()), str(tmp_path / "s")
    if has_keys:
        make_keys(service.store, "ingest")
    with (
        listening(socket.AF_UNIX, path) as listener,
        handed(service, listener, status=0 if has_keys else 1) as process,
    ):
        if not has_keys:
            wait_for(process, f"unix:{path} can be reached from elsewhere, and the store has no keys.")
            process.wait(30)
            return
        wait_for(process, f"Listening on {path}")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 OK\r\n")


def test_what_does_not_listen_is_said_so(tmp_path: Path) -> None:
    service = Service(tmp_path, usage())
    with socket.socket() as connection, handed(service, connection, status=1) as process:
        wait_for(process, "LISTEN_FDS: expected a listening stream socket, but file 3 is not one.")
        process.wait(30)


# Certificates


def presented(port: int) -> bytes:
    """The certificate that a new connection is shown."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        trusting.wrap_socket(plain) as connection,
    ):
        certificate = connection.getpeercert(binary_form=True)
        assert certificate is not None
        return certificate


def der(path: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(path.read_text())


def test_a_new_certificate_is_taken_up_while_it_runs(tmp_path: Path) -> None:
    """SIGHUP ended the process. Old connections go on; files that do not fit are not taken; and then a good pair is."""
    used, new = tmp_path / "used", tmp_path / "new"
    for folder in (used, new):
        folder.mkdir()
        make_certificate(folder)
    first, second = der(used / "cert.pem"), der(new / "cert.pem")
    service = Service(tmp_path, usage(), scheme="https")
    service.start("--tls-cert", str(used / "cert.pem"), "--tls-key", str(used / "key.pem"))
    assert service.process is not None
    try:
        trusted = ssl.create_default_context(cafile=str(used / "cert.pem"))
        old = http.client.HTTPSConnection("127.0.0.1", service.port, context=trusted, timeout=20)

        def hung_up(event: str) -> None:
            assert service.process is not None
            times = service.log.count(event)
            service.process.send_signal(signal.SIGHUP)
            end = time.monotonic() + 20
            while service.log.count(event) == times:
                assert time.monotonic() < end, service.log
                time.sleep(0.02)
            old.request("GET", "/healthz")
            assert old.getresponse().read() == b'{"status":"ok"}'

        old.request("GET", "/healthz")
        assert old.getresponse().read() == b'{"status":"ok"}'
        local = old.sock.getsockname()
        assert presented(service.port) == first
        hung_up("tls-reloaded")
        assert presented(service.port) == first
        shutil.copy(new / "cert.pem", used / "cert.pem")  # and its key is not there yet
        hung_up("tls-kept")
        assert presented(service.port) == first
        (used / "key.pem").write_text("nonsense")
        hung_up("tls-kept")
        assert presented(service.port) == first
        (used / "key.pem").unlink()
        hung_up("tls-kept")
        shutil.copy(new / "key.pem", used / "key.pem")
        hung_up("tls-reloaded")
        assert presented(service.port) == second
        assert old.sock.getsockname() == local  # one connection all the while
        old.close()
    finally:
        assert service.stop() == 0


def test_to_hang_up_without_tls_changes_nothing(tmp_path: Path) -> None:
    service = Service(tmp_path, usage()).start()
    assert service.process is not None
    service.process.send_signal(signal.SIGHUP)
    assert service.get("/healthz").status == 200
    assert service.stop() == 0
