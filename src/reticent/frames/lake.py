"""The rounds of a lake, counted by an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from reticent.errors import ParameterError, ReticentError
from reticent.frames.engines import Engine
from reticent.frames.errors import BadFileError
from reticent.frames.files import Checked, place_of
from reticent.plan import Plan
from reticent.stores import CountsByTags, RoundKey
from reticent.stores.lake import LakeReader, read_lake
from reticent.stores.lake.layout import COUNTS

_LOOKS = 20
"""How often files are listed anew because collectors merged them, or sealed the round, meanwhile."""


@dataclass(frozen=True, slots=True)
class RoundCount:
    """What a round of a lake comes to."""

    key: RoundKey
    state: str
    """"open": provisional; "closing": which files count is fixed; "sealed": final."""
    counts: CountsByTags
    files: int = 0
    """How many files were counted; none of a sealed round, whose counts are kept."""
    skipped: dict[str, str] = field(default_factory=dict)
    """By path, why a file was left out."""

    @property
    def reports(self) -> int:
        """How many distinct reports there were."""
        return sum(next(iter(by_metric.values())).devices for by_metric in self.counts.values())


def lake_rounds(
    url: str,
    plan: str | None = None,
    version: int | None = None,
    rounds: Iterable[int] | None = None,
    sealed: bool = False,
) -> list[RoundKey]:
    """The rounds of a lake that are open or closing, `sealed` ones too if wanted; or those that are named."""
    lake = read_lake(url)
    wanted = None if rounds is None else set(rounds)
    found = set(lake.unsealed(plan))
    if sealed or wanted is not None:
        found |= set(lake.round_keys(COUNTS, plan))
    chosen = [
        key
        for key in sorted(found)
        if version in (None, key.version) and (wanted is None or key.round in wanted)
    ]
    missing = (wanted or set()) - {key.round for key in chosen}
    if missing:
        raise ParameterError("round", "a round of this lake", ", ".join(map(str, sorted(missing))))
    return chosen


def count_lake(
    url: str, keys: Iterable[RoundKey], engine: Engine, *, skip_bad: bool = False
) -> Iterator[RoundCount]:
    """
    Count rounds of a lake, one after the other.

    Sealed rounds are what they were sealed as. Of others, the footers of all files are looked at first: a
    file that cannot be read, is of another plan, version or round, or lacks a column raises `BadFileError`
    with its name and the reason, before anything is counted. So does a damaged page, whose checksum is
    compared either by the engine or before it starts. With `skip_bad`, such files are left out and listed.
    """
    lake = read_lake(url)
    for key in keys:
        yield _Counting(lake, url, key, engine, skip_bad).count()


class _VanishedError(Exception):
    """A file is gone: merged with others, or counted and removed."""


class _Counting:
    """One round on its way to its counts."""

    def __init__(self, lake: LakeReader, url: str, key: RoundKey, engine: Engine, skip_bad: bool) -> None:
        self._lake, self._key, self._engine, self._skip_bad = lake, key, engine, skip_bad
        self._place = place_of(url)
        self._plan: Plan = lake.layout(key).plan
        self._files = Checked(self._place, lake.columns(key), key)

    def count(self) -> RoundCount:
        for _ in range(_LOOKS):
            final = self._lake.final(self._key)
            if final is not None:
                return RoundCount(self._key, "sealed", final.counts, skipped=final.left_out)
            try:
                return self._counted()
            except _VanishedError:
                continue
        raise ReticentError(
            f"{self._lake.url}: round {self._key.round}: files vanish while they are being counted"
        )

    def _counted(self) -> RoundCount:
        state = "closing" if self._lake.seals.is_closing(self._key) else "open"
        paths = self._lake.parts(self._key)
        bad = self._look(self._files.heads, paths)
        if not self._engine.checks_pages:
            bad |= self._look(self._files.pages, [path for path in paths if path not in bad])
        while True:
            self._refuse(bad)
            good = [path for path in paths if path not in bad]
            try:
                found = self._engine.count(self._plan, self._key, self._place, good) if good else {}
            except Exception as error:  # engines have trees of exceptions of their own
                damaged = self._look(self._files.pages, good)
                if not damaged:
                    raise _of_engine(self._lake.url, error) from error
                bad |= damaged
                continue
            counts = {tags: by_metric for (_, tags), by_metric in found.items()}
            return RoundCount(self._key, state, counts, len(good), dict(sorted(bad.items())))

    def _look(self, look: Callable[[list[str]], dict[str, str]], paths: list[str]) -> dict[str, str]:
        """Look at files; what is gone for good is bad, what is merged or sealed is listed anew."""
        try:
            return look(paths)
        except FileNotFoundError as error:
            if self._lake.seals.kept(self._key) is None or self._lake.seals.is_sealed(self._key):
                raise _VanishedError from error
        gone = {path: "is gone, and its reports with it" for path in paths if not self._is_there(path)}
        return gone | self._look(look, [path for path in paths if path not in gone])

    def _is_there(self, path: str) -> bool:
        try:
            self._place.open(path).close()
        except FileNotFoundError:
            return False
        return True

    def _refuse(self, bad: dict[str, str]) -> None:
        if bad and not self._skip_bad:
            raise BadFileError(self._lake.url, dict(sorted(bad.items())))


def _of_engine(url: str, error: Exception) -> ReticentError:
    if isinstance(error, ReticentError):
        return error
    said = str(error).strip().splitlines() or [""]
    return ReticentError(f"{url}: the engine failed: {type(error).__name__}: {said[0]}")
