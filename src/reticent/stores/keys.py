"""Keys: who may write, read or administer. Only a hash of a key is ever kept."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Literal, get_args

from reticent.errors import ParameterError

Role = Literal["ingest", "reader", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

PREFIX = "reticent"


@dataclass(frozen=True, slots=True)
class Key:
    """What is kept of a key. Its secret has 256 random bits, so a plain hash of it cannot be guessed."""

    id: str
    role: Role
    hash: bytes
    label: str
    created_at: int
    """Unix seconds."""
    revoked_at: int | None = None

    @property
    def active(self) -> bool:
        """Whether the key still opens anything."""
        return self.revoked_at is None


def create_key(role: str, label: str, now: int) -> tuple[str, Key]:
    """
    A new key: the text to hand out, which exists only now, and what is kept of it.

    >>> text, kept = create_key("ingest", "", now=0)
    >>> text.startswith("reticent_ingest_"), matches(text, kept), matches(text + "x", kept)
    (True, True, False)
    """
    if role not in ROLES:
        raise ParameterError("role", " or ".join(ROLES), role)
    key_id = secrets.token_hex(4)
    text = f"{PREFIX}_{role}_{key_id}_{secrets.token_urlsafe(32)}"
    return text, Key(key_id, role, hash_of(text), label, now)


def hash_of(text: str) -> bytes:
    """The hash of a key's text."""
    return sha256(text.encode()).digest()


def matches(text: str, key: Key) -> bool:
    """Whether a text is the key, in a time that does not depend on how much of it is right."""
    return compare_digest(hash_of(text), key.hash)
