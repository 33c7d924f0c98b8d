"""Where a collector listens: addresses, and sockets created here or inherited from systemd."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket

from reticent.errors import ParameterError, ReticentError

BACKLOG = 4096  # connections waiting to be accepted, also while a process restarts
FIRST_INHERITED = 3  # the first file descriptor from systemd (sd_listen_fds(3))


def parse_listen(text: str) -> tuple[str, int]:
    """
    HOST:PORT, with [::1]:PORT for IPv6.

    >>> parse_listen("127.0.0.1:8000"), parse_listen("[::1]:0")
    (('127.0.0.1', 8000), ('::1', 0))
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ParameterError("listen", "HOST:PORT", text, "for example 127.0.0.1:8000")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """
    Whether only this machine can reach a host.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> list[socket.socket]:
    """A listening socket for each address of a name; raises `OSError`."""
    listeners: list[socket.socket] = []
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, address in dict.fromkeys((entry[0], entry[4][:2]) for entry in entries):
        try:
            listeners.append(socket.create_server(address, family=family, backlog=BACKLOG))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL and listeners:  # a machine without IPv6
                continue
            for other in listeners:
                other.close()
            raise
    return listeners


def inherited() -> list[socket.socket]:
    """The sockets this process was started with (`LISTEN_FDS`, `LISTEN_PID`): clients wait through a restart."""
    count, process = os.environ.pop("LISTEN_FDS", ""), os.environ.pop("LISTEN_PID", "")
    if process != str(os.getpid()):  # they were meant for another process, whose environment this one got
        return []
    listeners = []
    for number in range(FIRST_INHERITED, FIRST_INHERITED + int(count if count.isdecimal() else 0)):
        try:
            os.set_inheritable(number, False)
            listener = socket.socket(fileno=number)
            is_listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        except OSError:
            is_listening = 0
        if not is_listening or listener.type != socket.SOCK_STREAM:
            raise ReticentError(
                f"LISTEN_FDS: expected a listening stream socket, but file {number} is not one.\n"
                "  Hint: the socket unit needs ListenStream= and no Accept=yes"
            )
        listeners.append(listener)
    return listeners


def shown(listener: socket.socket) -> str:
    """
    The address of a socket, as text.

    >>> listener = bind("127.0.0.1", 0)[0]
    >>> shown(listener).startswith("127.0.0.1:")
    True
    >>> listener.close()
    """
    address = listener.getsockname()
    if not isinstance(address, tuple):
        return f"unix:{address}"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_local(listener: socket.socket) -> bool:
    """Whether a socket is meant for programs on this machine only, and not for a proxy on it."""
    address = listener.getsockname()
    return isinstance(address, tuple) and is_loopback(address[0])
