"""Access: keys in headers, sessions in cookies, the rate of each key, and logging in."""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import sha256
from typing import Protocol
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from reticent_collector.http.health import Health
from reticent_collector.http.log import log, log_fault
from reticent_collector.http.problems import ProblemError
from reticent_collector.results import Results
from reticent_collector.stores import Key

REFRESH_SECONDS = 5.0
KEYS_SECONDS = 600.0  # for which known keys stay valid while they cannot be read again
SESSION_SECONDS = 12 * 3600
COOKIE = "reticent_session"
LONGEST_FORM = 4096
MOST_SECONDS = 10.0  # of a key's rate that one request may use, and so the longest wait

_LOCAL = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)

Header = tuple[bytes, bytes]
BY_PROXY = Key("proxy", "reader", b"", "let in by a proxy", 0)
"""What a reader has whose name a trusted proxy says; it is in no store, and opens nothing by itself."""


class Allowance:
    """
    What one key may send: a bucket that fills with `rate` reports a second, up to one second's worth.

    A request is admitted while the bucket is not empty, and takes out its number of reports, so a batch may leave
    a debt. No request has more than ten seconds' worth. So a refused client waits for ten seconds at most, and
    within any *t* seconds a key sends fewer than rate · (t + 11) reports.
    """

    __slots__ = ("_at", "_level", "_rate", "most")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = self._level = rate
        self._at = now
        self.most = max(1, int(rate * MOST_SECONDS))  # reports of one request

    def spend(self, reports: int, now: float) -> int:
        """Take reports out; returns 0, or the seconds to wait when the bucket is empty."""
        self._level = min(self._rate, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level <= 0:
            return int(-self._level / self._rate) + 1
        self._level -= reports
        return 0


class KeySource(Protocol):
    """Where keys are read from."""

    def keys(self) -> list[Key]:
        """All keys, revoked ones too; `StoreError` when they cannot be read."""


class Access:
    """
    The keys of a store, looked up by hash and read again every few seconds.

    A store that never had a key is open to this machine: to requests whose Host names it, since a page from
    elsewhere can make its own name resolve here (DNS rebinding). `serve` refuses to listen beyond loopback then.
    Revoking the last key opens nothing, and neither does a store that has lost its keys, such as an unmounted lake.

    The look-up is by SHA-256 of what was sent, so neither the look-up nor the comparison leaks the right key
    through its timing.
    """

    def __init__(
        self,
        store: KeySource,
        rate: float = 0.0,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        secret: bytes | None = None,
        trusted_header: str | None = None,
    ) -> None:
        self._store = store
        self._trusted = None if trusted_header is None else trusted_header.lower().encode()
        self.rate = rate  # reports a second of each key; 0: no limit
        self._clock, self._steady = clock, steady
        self._keys: dict[bytes, Key] = {}
        self.all_keys: tuple[Key, ...] = ()  # revoked ones too; never a secret
        self.is_open = self._had_keys = False  # whether no key is needed; whether there ever was one
        self._secret = secret or secrets.token_bytes(32)
        self._read_at = float("-inf")
        self._failing_since: float | None = None  # since when keys cannot be read
        self.readings = 0  # how often keys were read: what an earlier reading allowed is checked again
        self._lock = threading.Lock()
        self._allowances: dict[str, Allowance] = {}
        self.refresh()

    def refresh(self) -> None:
        """
        Read the keys again; the known ones stay for ten minutes when the store cannot be read.

        A key may have been revoked meanwhile: after that all of them are refused until keys can be read again.
        """
        now = self._read_at = self._steady()
        try:
            keys = self._store.keys()
        except Exception as error:
            if self._failing_since is None:  # one line for an outage, not one for each attempt
                self._failing_since = now
                log_fault("keys-failed", error)
            return
        if self._failing_since is not None:
            log("keys-read", after_seconds=round(now - self._failing_since, 1))
            self._failing_since = None
        self._keys = {key.hash: key for key in keys if key.active}
        self.is_open = not keys and not self._had_keys
        self._had_keys |= bool(keys)
        self.all_keys = tuple(keys)
        self.readings += 1

    def is_stale(self) -> bool:
        """Whether it is time to refresh."""
        return self._steady() - self._read_at > REFRESH_SECONDS

    async def refresh_when_stale(self) -> None:
        """Refresh if it is time to, on another thread."""
        if self.is_stale():
            await asyncio.to_thread(self.refresh)

    def key_of(self, headers: Iterable[Header]) -> Key | None:
        """The key in the Authorization header; None when there is none or it is unknown."""
        for name, value in headers:
            if name == b"authorization":
                scheme, _, text = value.partition(b" ")
                if scheme.lower() == b"bearer":
                    return self.known(text.strip())
        return None

    def known(self, text: bytes) -> Key | None:
        """The active key with this secret."""
        digest = sha256(text).digest()
        key = self._keys.get(digest)
        return key if key is not None and hmac.compare_digest(key.hash, digest) else None

    def require(self, headers: Iterable[Header], roles: tuple[str, ...]) -> Key | None:
        """
        The key that allows a request, from its header, its session or a proxy; None where no key is needed.

        Raises 401 or 403. For reading only: a browser attaches cookies to any request a page makes it send.
        """
        key = None
        if not self.is_open:
            key = self.key_of(headers) or self._session_of(headers) or self._named_by_proxy(headers)
        self.allow(key, roles, headers)
        return key

    def _named_by_proxy(self, headers: Iterable[Header]) -> Key | None:
        """A reader whom a proxy on this machine has let in, by the one header that it sets; for reading only."""
        users = [value for name, value in headers if name == self._trusted and value.strip()]
        return BY_PROXY if len(users) == 1 else None

    def allow(self, key: Key | None, roles: tuple[str, ...], headers: Iterable[Header]) -> None:
        """Raise 401 without a key, 403 for the wrong role; where no key is needed, check the Host."""
        if self.is_open:
            if not any(name == b"host" and _LOCAL.fullmatch(value) for name, value in headers):
                raise ProblemError(
                    403, "forbidden", "Without keys, the Host must be localhost, 127.0.0.1 or [::1]."
                )
            return
        if self._failing_since is not None and self._steady() - self._failing_since > KEYS_SECONDS:
            raise ProblemError(
                503, "unavailable", "The keys cannot be read at the moment; send again.", retry_after=5
            )
        if key is None:
            raise ProblemError(401, "unauthorized")
        if key.role not in roles:
            detail = f"This key does not allow that: its role is {key.role}, expected {' or '.join(roles)}."
            raise ProblemError(403, "forbidden", detail)

    def spend(self, key: Key | None, reports: int) -> None:
        """
        Take reports from a key's allowance; 0 reports check it before a batch is read.

        Raises 429 when nothing is left, and 413 for more than one request may have.
        """
        if not self.rate:
            return
        name, now = key.id if key else "", self._steady()
        with self._lock:
            allowance = self._allowances.setdefault(name, Allowance(self.rate, now))
            if reports > allowance.most:
                text = f"This key may send {self.rate:,g} reports a second, and {allowance.most:,} per batch."
                raise ProblemError(413, "too_large", text)
            wait = allowance.spend(reports, now)
        if wait:
            raise ProblemError(429, "rate_limited", retry_after=wait)

    # Sessions of the dashboard

    def session(self, key: Key) -> str:
        """
        A cookie for a key: its id, its expiry, and a MAC under a secret of this process.

        Revoking the key ends its sessions, and so does a restart. The secret is not in the store: the hashes in a
        stolen copy of it are not enough to forge a session.
        """
        end = int(self._clock()) + SESSION_SECONDS
        return f"{key.id}.{end}.{self._seal(key, end)}"

    def _session_of(self, headers: Iterable[Header]) -> Key | None:
        """The key of the first session cookie; None when it is invalid or expired."""
        cookies = (part.strip() for name, value in headers if name == b"cookie" for part in value.split(b";"))
        prefix = f"{COOKIE}=".encode()
        session = next((cookie for cookie in cookies if cookie.startswith(prefix)), prefix)
        key_id, *parts = session.removeprefix(prefix).decode("ascii", "replace").split(".")
        if len(parts) != 2 or not (parts[0].isascii() and parts[0].isdigit()) or len(parts[0]) > 12:
            return None
        for key in self._keys.values():
            if key.id == key_id:
                right = hmac.compare_digest(self._seal(key, int(parts[0])).encode(), parts[1].encode())
                return key if right and int(parts[0]) > self._clock() else None
        return None

    def _seal(self, key: Key, end: int) -> str:
        message = b"session %s %d " % (key.id.encode(), end)
        return hmac.new(self._secret, message + key.hash, sha256).hexdigest()


# Logging in to the dashboard with a key, and logging out


class Pages(Protocol):
    """The pages for people: `reticent_collector.dashboard`."""

    def handlers(
        self, results: Results, health: Callable[[], Health], public: Collection[str] = ()
    ) -> Mapping[str, Callable[[Request], Response]]:
        """The pages by path, in matching order; they block. Below `/public`: no key, only the plans in `public`."""

    def static(self, request: Request) -> Response:
        """A static file, at `/static/{name}`."""

    def login_page(self, message: str, next_path: str) -> str:
        """The page that asks for a key."""

    def problem_page(self, status: int, message: str, *, path: str, logged_in: bool) -> str:
        """The page of a refused request: the reason, and what to do."""


class Login:
    """Gives a session cookie for a reader key, and deletes it."""

    def __init__(self, access: Access, pages: Pages, secure_cookies: bool) -> None:
        self._access = access
        self._pages = pages
        self._secure = secure_cookies

    def routes(self) -> list[BaseRoute]:
        """Its paths, which need no key."""
        return [
            Route("/login", self._page),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]

    async def _page(self, request: Request) -> Response:
        return self._form("", request.query_params.get("next", "/"), 200)

    async def _log_in(self, request: Request) -> Response:
        _require_same_site(request)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_FORM:
                raise ProblemError(413, "too_large")
        fields = parse_qs(body.decode("utf-8", "replace"))
        key = self._access.known(fields.get("key", [""])[0].strip().encode())
        target = _local(fields.get("next", ["/"])[0])
        if key is None or key.role not in ("reader", "admin"):
            return self._form("This is not a reader key.", target, 401)
        response = RedirectResponse(target, status_code=303)
        response.set_cookie(
            COOKIE,
            self._access.session(key),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=self._secure,
            path="/",
        )
        return response

    async def _log_out(self, request: Request) -> Response:
        _require_same_site(request)
        response = RedirectResponse("/login", status_code=303)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=self._secure)
        return response

    def _form(self, message: str, target: str, status: int) -> Response:
        page = self._pages.login_page(message, _local(target))
        return Response(page, status_code=status, media_type="text/html")


def _require_same_site(request: Request) -> None:
    """Refuse a form sent by another site, whatever cookies come with it; by Origin in older browsers."""
    origin = request.headers.get("origin")
    by_name = origin is None or origin.partition("://")[2] == request.headers.get("host")
    site = request.headers.get("sec-fetch-site")
    if site not in ("same-origin", "none") if site is not None else not by_name:
        raise ProblemError(403, "forbidden")


def _local(target: str) -> str:
    """A path on this server; a target elsewhere becomes the start page."""
    safe = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if safe and "\\" not in target else "/"
