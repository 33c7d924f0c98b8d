from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that runs the tests may not want to be tracked; these devices must not know."""
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
