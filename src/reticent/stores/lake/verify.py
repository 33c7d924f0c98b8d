"""Whether what a lake holds fits together: the part of `reticent store check` that reads files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from reticent.errors import StoreError
from reticent.stores.lake.counting import GONE, NOT_A_PART
from reticent.stores.lake.layout import COUNTS, LAKE, REPORTS, Part, folder_of
from reticent.stores.records import RoundKey

if TYPE_CHECKING:
    from reticent.stores.lake.backend import LakeBackend


def problems_of(lake: LakeBackend) -> list[str]:
    """
    What is wrong, a sentence each. Every part that counts is read, with its checksums.

    Parts of a sealed round are no problem: they are never counted, and go when the lake is opened.
    """
    problems = [] if lake.files.read(LAKE) is not None else [f"{LAKE} is gone"]
    for path in lake.plan_paths():
        problems += _complaints(lake, partial(lake.plan_at, path))
    problems += _complaints(lake, lake.keys)
    sealed = set(lake.seals.round_keys(COUNTS))
    for key in sorted(sealed):
        problems += _sealed(lake, key)
    for key in sorted(set(lake.seals.round_keys(REPORTS)) - sealed):
        problems += _open(lake, key)
    return problems


def _complaints(lake: LakeBackend, work: Callable[[], object]) -> list[str]:
    """What work complains of, on one line and without the address."""
    try:
        work()
    except StoreError as error:
        return [str(error).splitlines()[0].removeprefix(f"{lake.url}: ")]
    return []


def _sealed(lake: LakeBackend, key: RoundKey) -> Iterator[str]:
    """A round of counts: every metric was answered by all its reports."""
    where = f"round {key.round} of {key.plan} version {key.version}"
    problems = _complaints(lake, lambda: lake.final(key))
    count = None if problems else lake.final(key)
    if count is None:
        yield from problems
        return
    for metric in lake.layout(key).plan.by_name:
        devices = sum(by_metric[metric].devices for by_metric in count.counts.values())
        if devices != count.reports:
            yield f"{where}: {metric}: expected the counts of {count.reports} reports, got {devices}"


def _open(lake: LakeBackend, key: RoundKey) -> Iterator[str]:
    """A round with reports: each part that counts is there, whole, and of this round."""
    problems = _complaints(lake, lambda: lake.columns(key))
    if problems:
        yield from problems
        return
    for name in lake.seals.countable(key):
        part = Part.parse(name)
        path = f"{folder_of(key)}/{name}"
        if part is None:
            yield f"{path}: {NOT_A_PART}"
            continue
        try:
            gone = lake.read(key, part) is None
        except StoreError as error:
            yield f"{path}: {error}"
            continue
        if gone and lake.seals.kept(key) is not None and not lake.seals.is_sealed(key):
            yield f"{path}: {GONE}"
