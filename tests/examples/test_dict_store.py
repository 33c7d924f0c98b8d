"""The example of a store keeps the laws, and one that breaks a law is told so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from tacit.stores import Appended, BrokenLawError, RoundKey, check_store

PROGRAM = Path(__file__).parents[2] / "examples" / "dict_store.py"


def dict_store() -> Any:
    specification = spec_from_file_location("dict_store", PROGRAM)
    assert specification is not None
    assert specification.loader is not None
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.DictStore


def test_the_program_says_that_it_keeps_the_laws() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "DictStore keeps the laws of a store.\n", "")


def test_a_store_that_forgets_that_a_round_is_sealed_is_caught() -> None:
    class Forgetful(dict_store()):  # type: ignore[misc]
        def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
            self._sealed.clear()
            answer: dict[RoundKey, Appended] = super().append(records)
            return answer

    with pytest.raises(BrokenLawError, match="reports on a sealed round are late"):
        check_store(Forgetful, durable=False)


def test_a_store_in_one_object_is_not_durable() -> None:
    with pytest.raises(BrokenLawError, match="when the store is opened again"):
        check_store(dict_store())
