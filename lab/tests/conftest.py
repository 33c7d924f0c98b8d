"""What tests of the laboratory share: recordings of real people, which are not part of the project."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The folder of recordings, beside the project."""
    folder = Path(__file__).parents[2].parent / "shared" / "data"
    if not list(folder.glob("*_daily_seconds.csv.gz")):
        pytest.skip("the recordings are not here")
    return folder
