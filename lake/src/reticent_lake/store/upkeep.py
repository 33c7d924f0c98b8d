"""Problems of a lake, and repairs of a damaged round."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from reticent.errors import StoreError
from reticent_collector.stores.backend import DamagedError, Repair
from reticent_collector.stores.records import RoundKey, misfits
from reticent_lake.store.counting import RoundParts
from reticent_lake.store.files import UnusablePathError
from reticent_lake.store.layout import (
    COUNTS,
    DAMAGED,
    LAKE,
    REPORTS,
    SEALS,
    Part,
    folder_of,
    plan_path,
    seal_path,
)
from reticent_lake.store.seals import GONE

if TYPE_CHECKING:
    from reticent_lake.store.backend import LakeBackend

STRAY = "is not a file of this lake: it is not counted, and was not changed"
NOT_A_FOLDER = "is a file where the folder of a round should be"


def problems_of(lake: LakeBackend) -> list[str]:
    """The problems, a sentence each. Every part that counts is read, with its checksums."""
    problems = [] if lake.files.read(LAKE) is not None else [f"{LAKE} is gone"]
    keys = {key for top in (COUNTS, REPORTS, SEALS) for key in lake.seals.round_keys(top)}
    checks: list[Callable[[], object]] = [
        *(partial(lake.plan_at, path) for path in lake.plan_paths()),
        lake.keys,
        *(partial(problems.extend, _problems_of_round(lake, key)) for key in sorted(keys)),
    ]
    for check in checks:
        try:
            check()
        except StoreError as error:
            problems.append(str(error).splitlines()[0].removeprefix(f"{lake.url}: "))
    return problems


def _problems_of_round(lake: LakeBackend, key: RoundKey) -> Iterator[str]:
    _, strays = lake.seals.listed(key)
    for name in strays:
        yield f"{folder_of(key)}/{name}: {STRAY}"
    final = lake.final(key)
    if final is not None:
        for problem in misfits(lake.layout(key).plan, final):
            yield f"round {key.round} of {key.plan} version {key.version}: {problem}"
    else:
        for path, reason in bad_files(lake, key).items():
            yield f"{path}: {reason}"


def bad_files(lake: LakeBackend, key: RoundKey) -> dict[str, str]:
    """The files that keep a round that is not sealed from being counted, and why; every part is read."""
    try:
        if is_not_a_folder(lake, key):
            return {folder_of(key): NOT_A_FOLDER}
        names = lake.seals.countable(key)
    except DamagedError as error:
        path = seal_path(key, "parts")
        return {path: str(error).removeprefix(f"{lake.url}: {path}: ")}
    parts = RoundParts(lake.files, lake.columns(key), key)
    bad = parts.problems(names, pages=True)
    if GONE in bad.values() and (lake.seals.kept(key) is None or lake.seals.is_sealed(key)):
        bad = {name: reason for name, reason in bad.items() if reason != GONE}  # merged, or counted and swept
    if not lake.seals.is_sealed(key):
        bad |= lake.seals.gaps(key)
    return {f"{parts.folder}/{name}": reason for name, reason in sorted(bad.items())}


def is_not_a_folder(lake: LakeBackend, key: RoundKey) -> bool:
    """Whether a file is where the folder of a round should be."""
    try:
        return not lake.files.names(folder_of(key)) and lake.files.read(folder_of(key)) is not None
    except UnusablePathError:  # an empty folder
        return False


def repair(lake: LakeBackend, key: RoundKey, *, dry: bool) -> Repair | None:
    """
    Set aside what keeps a round from being counted; None when nothing does.

    A damaged part is moved to `damaged/`, and a file in its place marks it as left out. An unreadable list of
    parts is made again: all that was acknowledged is in the folder. Nothing can be done about damaged counts,
    because their parts are gone.
    """
    if lake.files.read(plan_path(key.plan, key.version)) is None:
        return None
    try:
        bad = {} if lake.final(key) is not None else bad_files(lake, key)
    except (DamagedError, UnusablePathError) as error:
        return Repair(str(error).removeprefix(f"{lake.url}: "), 0, "")
    if not bad:
        return None
    parts, _ = lake.seals.listed(key)
    readable = sum(part.rows for part in parts if f"{folder_of(key)}/{part.name}" not in bad)
    moved = ", ".join(path.rpartition("/")[2] for path, reason in bad.items() if reason != GONE)
    action = f"seal the round without {len(bad)} of its files"
    if moved:
        action = f"move {moved} to {folder_of(key, DAMAGED)}, and count the round without them"
    if not dry:
        _set_aside(lake, key, bad)
    damage = "; ".join(f"{path}: {reason}" for path, reason in bad.items())
    return Repair(damage, readable, action)


def _set_aside(lake: LakeBackend, key: RoundKey, bad: Mapping[str, str]) -> None:
    """Leave bad files out of a round, and move them away."""
    for path, reason in bad.items():
        name = path.rpartition("/")[2]
        if Part.parse(name) is not None:
            lake.seals.leave_out(key, name, reason)  # first: else the moved part would be missed
        if reason != GONE:
            lake.files.move(path, f"{folder_of(key, DAMAGED)}/{secrets.token_hex(4)}-{name}")
    if seal_path(key, "parts") in bad:
        lake.seals.frozen(key)
