"""The example of a store keeps the laws, and one that breaks a law is told so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from reticent.errors import ParameterError, StoreError
from reticent.plan import Plan
from reticent_collector.stores import Appended, Backend, Layout, RoundKey, Store
from reticent_collector.testing import BrokenLawError, check_store

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDER = EXAMPLES / "store"
PLAN = Plan.load(EXAMPLES / "plan.toml")
KEY = RoundKey(PLAN.name, PLAN.version, 81_652)
RECORD = bytes(range(16)) + bytes(Layout(PLAN).width - 16)


@pytest.fixture(scope="module")
def dict_store() -> Iterator[Any]:
    """The class of the example."""
    sys.path.insert(0, str(FOLDER))
    yield import_module("dict_store").DictStore
    sys.path.remove(str(FOLDER))
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_the_program_says_that_it_keeps_the_laws() -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "dict_store.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "DictStore keeps the laws of a store.\n", "")


def test_it_has_all_that_a_store_and_a_backend_have(dict_store: Any) -> None:
    def public(kind: Any) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(dict_store()) >= public(Store)
    assert public(dict_store().backend) == public(Backend)


def test_a_store_that_forgets_that_a_round_is_sealed_is_caught(dict_store: Any) -> None:
    class Forgetful(dict_store):  # type: ignore[misc]
        def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
            self.backend._sealed.clear()
            answer: dict[RoundKey, Appended] = super().append(records)
            return answer

    with pytest.raises(BrokenLawError, match="reports on a sealed round are late"):
        check_store(Forgetful, durable=False)


def test_a_store_in_one_object_is_not_durable(dict_store: Any) -> None:
    with pytest.raises(BrokenLawError, match="when the store is opened again"):
        check_store(dict_store)


@pytest.mark.parametrize(
    ("other", "records", "error"),
    [(KEY._replace(round=7), RECORD[:-1], ParameterError), (KEY._replace(version=9), RECORD, StoreError)],
    ids=["cut off", "not registered"],
)
def test_an_append_that_is_refused_keeps_nothing(
    dict_store: Any, other: RoundKey, records: bytes, error: type[Exception]
) -> None:
    store = dict_store()
    store.register(PLAN)
    with pytest.raises(error):
        store.append({KEY: RECORD, other: records})
    assert store.rounds() == []
    assert store.append({KEY: RECORD}) == {KEY: Appended(accepted=1)}


def test_it_says_what_open_rounds_hold(dict_store: Any) -> None:
    store = dict_store()
    store.register(PLAN)
    assert (store.open_reports, store.unsealed()) == (0, [])
    store.append({KEY: RECORD})
    assert (store.stored_reports(), store.unsealed()) == (1, [KEY])
    store.seal(KEY)
    assert (store.open_reports, store.unsealed()) == (0, [])
