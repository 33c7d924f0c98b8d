"""Requests as bytes whose end two servers might see in different places, and how many answers came."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

CHUNKED = "Transfer-Encoding: chunked"
END = b"0\r\n\r\n"

Case = Callable[[int], tuple[list[str], bytes]]
"""From the length of a right body, what is added to a right head, and what stands instead of the body."""

DOUBTFUL: dict[str, Case] = {
    "two lengths, alike": lambda size: ([f"Content-Length: {size}"] * 2, b""),
    "two lengths": lambda size: ([f"Content-Length: {size}", "Content-Length: 5"], b""),
    "two lengths, the smaller first": lambda size: (["Content-Length: 5", f"Content-Length: {size}"], b""),
    "a list of lengths": lambda size: ([f"Content-Length: {size}, {size}"], b""),
    "a length with a sign": lambda size: ([f"Content-Length: +{size}"], b""),
    "a negative length": lambda size: (["Content-Length: -1"], b""),
    "a length in another base": lambda size: ([f"Content-Length: {size:#x}"], b""),
    "a length with a space in it": lambda size: ([f"Content-Length: {size // 10} {size % 10}"], b""),
    "a length with a point": lambda size: ([f"Content-Length: {size}.0"], b""),
    "an empty length": lambda size: (["Content-Length:"], b""),
    "a length beyond 64 bits": lambda size: ([f"Content-Length: {2**64 + size}"], b""),
    "a folded length": lambda size: ([f"Content-Length: {size // 10}\r\n {size % 10}"], b""),
    "chunks and a length": lambda size: ([CHUNKED, f"Content-Length: {size}"], END),
    "a length and chunks": lambda size: (["Content-Length: 5", CHUNKED], END),
    "an unknown coding": lambda size: (["Transfer-Encoding: xchunked"], END),
    "identity": lambda size: (["Transfer-Encoding: identity"], b""),
    "another coding, then chunks": lambda size: (["Transfer-Encoding: gzip, chunked"], END),
    "chunks, then another coding": lambda size: (["Transfer-Encoding: chunked, identity"], END),
    "two codings": lambda size: ([CHUNKED, "Transfer-Encoding: identity"], END),
    "a space before the colon": lambda size: (["Transfer-Encoding : chunked"], END),
    "a control before the coding": lambda size: (["Transfer-Encoding: \x0bchunked"], END),
    "a folded coding": lambda size: (["Transfer-Encoding:\r\n chunked"], END),
    "a folded header": lambda size: (["X: a\r\n b", f"Content-Length: {size}"], b""),
    "a bare line feed": lambda size: ([f"X: a\nContent-Length: {size}"], b""),
    "a bare carriage return": lambda size: ([f"X: a\rContent-Length: {size}"], b""),
    "two carriage returns": lambda size: (["X: a\r", f"Content-Length: {size}"], b""),
    "NUL in a header": lambda size: (["X: a\0b", f"Content-Length: {size}"], b""),
    "NUL in a name": lambda size: (["X\0Y: a", f"Content-Length: {size}"], b""),
    "a header that begins with a space": lambda size: ([" X: y", f"Content-Length: {size}"], b""),
    "a header without a colon": lambda size: (["nonsense", f"Content-Length: {size}"], b""),
    "a header without a name": lambda size: ([": x", f"Content-Length: {size}"], b""),
    "a chunk's size with 0x": lambda size: ([CHUNKED], b"0x2\r\n{}\r\n" + END),
    "a negative chunk": lambda size: ([CHUNKED], b"-2\r\n{}\r\n" + END),
    "a chunk beyond 64 bits": lambda size: ([CHUNKED], b"10000000000000002\r\n{}\r\n" + END),
    "chunks with bare line feeds": lambda size: ([CHUNKED], b"2\n{}\n0\n\n"),
    "a chunk longer than it says": lambda size: ([CHUNKED], b"2\r\n{}}\r\n" + END),
    "a line feed in a chunk's extension": lambda size: ([CHUNKED], b"2;a\nb\r\n{}\r\n" + END),
    "a space after a chunk's size": lambda size: ([CHUNKED], b"2 \r\n{}\r\n" + END),
    "an empty chunk size": lambda size: ([CHUNKED], b"\r\n{}\r\n" + END),
}

REQUESTS = Path(__file__).with_name("requests.txt")
ROWS = [
    (text.encode().decode("unicode_escape").encode("latin-1"), int(status))
    for status, text in re.findall(r"^(\d+) (.+)$", REQUESTS.read_text(), re.MULTILINE)
]
"""What is sent, and the status of its answer."""


def statuses(received: bytes) -> list[int]:
    """Of the answers, without those that say 100 Continue."""
    answers = [int(part.split()[0]) for part in received.split(b"HTTP/1.1 ")[1:]]
    return [status for status in answers if status != 100]


def in_turn(service: Any, *requests: tuple[bytes, ...]) -> bytes:
    """All that is answered to requests, each in parts; the next one is sent when one is answered."""
    received = b""
    with socket.create_connection((service.host, service.port), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionError, TimeoutError):
            for number, parts in enumerate(requests, 1):
                for part in parts:
                    connection.sendall(part)
                while len(statuses(received)) < number:
                    more = connection.recv(1 << 16)
                    if not more:
                        return received
                    received += more
            while more := connection.recv(1 << 16):
                received += more
    return received
