"""One HTTP request to the collector, with one limit on time and on bytes."""

from __future__ import annotations

import io
import re
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

_LARGEST_ANSWER = 4096
_LARGEST_EXCHANGE = 65_536  # most bytes read in one attempt, with headers and "100 Continue"


def post(
    host: str,
    port: int | None,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    timeout: float,
    *,
    secure: bool,
) -> tuple[int, str | None, bytes] | str:
    """
    Post a body and read the answer within `timeout` seconds in total.

    Returns its status, Retry-After and content; a fault of `Retry` where that fails.
    """
    deadline = time.monotonic() + timeout
    line = None
    try:
        connection = HTTPConnection(f"[{host}]" if ":" in host else host, port)
        connection.sock = line = _connect(host, port, deadline, secure=secure)
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        content = b"" if response.status == 202 else response.read(_LARGEST_ANSWER)
        return response.status, response.getheader("Retry-After"), content
    except _ProxyError:
        return "proxy"
    except (OSError, HTTPException, ValueError) as error:  # a chunk of negative length is a `ValueError`
        return _fault(error)
    finally:
        if line is not None:
            line.hang_up()


class _ProxyError(Exception):
    """The proxy does not connect to the collector."""


def _connect(host: str, port: int | None, deadline: float, *, secure: bool) -> _Bounded:
    number = port or (443 if secure else 80)
    proxy = _proxy_for(host) if secure else None  # plain HTTP stays on this machine
    failure: OSError = TimeoutError()
    first, door = (proxy.hostname or "", proxy.port or 80) if proxy else (host, number)
    for family, kind, protocol, _, address in socket.getaddrinfo(first, door, type=socket.SOCK_STREAM):
        plain = socket.socket(family, kind, protocol)
        try:
            plain.settimeout(_left(deadline))
            plain.connect(address)
            if proxy:
                _open_tunnel(
                    plain, proxy, f"[{host}]:{number}" if ":" in host else f"{host}:{number}", deadline
                )
            if secure:
                context = ssl.create_default_context()
                return _Bounded(context.wrap_socket(plain, server_hostname=host), deadline)
            return _Bounded(plain, deadline)
        except OSError as error:
            plain.close()
            failure = error
        except _ProxyError:
            plain.close()
            raise
    raise failure


def _proxy_for(host: str) -> SplitResult | None:
    """The proxy for HTTPS that the environment or the system names; None: none."""
    address = getproxies().get("https")
    if not address or proxy_bypass(host):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if parts.scheme != "http" or not parts.hostname:
        raise _ProxyError
    return parts


def _open_tunnel(plain: socket.socket, proxy: SplitResult, target: str, deadline: float) -> None:
    """Ask the proxy for a connection to the collector."""
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username is not None:
        user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {b64encode(user.encode()).decode()}")
    plain.sendall("\r\n".join([*lines, "", ""]).encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):  # byte by byte: what follows belongs to the collector
        plain.settimeout(_left(deadline))
        byte = plain.recv(1)
        if not byte or len(answer) > _LARGEST_ANSWER:
            raise _ProxyError
        answer += byte
    if not re.match(rb"HTTP/1\.[01] 200\b", answer):
        raise _ProxyError


class _Bounded(io.RawIOBase):
    """One limit of time and bytes for the whole attempt: a socket's is per read, and a slow server never meets it."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._bytes_left = _LARGEST_EXCHANGE

    def makefile(self, mode: str) -> io.BufferedReader:
        """What `http.client` reads from."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is, within the limits."""
        if self._bytes_left <= 0:
            raise HTTPException
        self._connection.settimeout(_left(self._deadline))
        count = self._connection.recv_into(buffer)
        self._bytes_left -= count
        return count

    def sendall(self, data: bytes) -> None:
        """Send all of it, within the limit of time."""
        self._connection.settimeout(_left(self._deadline))
        self._connection.sendall(data)

    def close(self) -> None:
        """`http.client` does this before it reads the answer; see `hang_up`."""

    def hang_up(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _fault(error: Exception) -> str:
    kinds: tuple[tuple[type[Exception], str], ...] = (
        (ssl.SSLCertVerificationError, "certificate"),
        (ssl.SSLError, "not-https"),
        (socket.gaierror, "bad-name"),
        (UnicodeError, "bad-name"),
        (ConnectionRefusedError, "refused"),
        (TimeoutError, "timeout"),
        (OSError, "network"),
    )
    return next((fault for kind, fault in kinds if isinstance(error, kind)), "bad-answer")
