"""Keys: the text exists once, its hash is kept."""

from __future__ import annotations

import pytest

from reticent.errors import ParameterError
from reticent_collector.stores import ROLES, create_key, hash_of, matches


@pytest.mark.parametrize("role", ROLES)
def test_a_key_opens_only_with_its_own_text(role: str) -> None:
    text, kept = create_key(role, "note", now=5)
    other, _ = create_key(role, "note", now=5)
    assert matches(text, kept)
    assert not matches(other, kept)
    assert text not in repr(kept)
    assert (kept.role, kept.label, kept.created_at, kept.active) == (role, "note", 5, True)
    assert kept.hash == hash_of(text)


def test_a_role_that_there_is_not_is_refused() -> None:
    with pytest.raises(ParameterError, match="expected ingest or reader or admin, got root"):
        create_key("root", "", now=0)
