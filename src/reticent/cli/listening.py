"""Whether a collector could listen somewhere, asked before it opens its store."""

from __future__ import annotations

import socket

from reticent.errors import ReticentError


def check_free(host: str, port: int, option: str) -> None:
    """Raise `ReticentError` when nothing can listen there; port 0 always can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except OSError as error:
        raise ReticentError(
            f"{host}:{port}: nothing can listen there: {error.strerror}.\n  Hint: give another {option}"
        ) from error
