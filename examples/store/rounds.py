"""The rounds of a store: open ones take records, sealed ones are counts."""

from collections.abc import Mapping

from books import DictBooks

from reticent.stores import Appended, CountsByTags, OpenRound, Records, RoundInfo, RoundKey


class DictRounds(DictBooks):
    """Rounds in dictionaries, beside the books; a round is in one of the two, and moves once."""

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[RoundKey, OpenRound] = {}
        self._sealed: dict[RoundKey, tuple[int, CountsByTags]] = {}

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        """Put records into their rounds: all of them, or none when some cannot be read."""
        with self.lock:
            groups = {key: self.layout(key).array(group) for key, group in records.items()}
            return {key: self._add(key, group) for key, group in groups.items()}

    def _add(self, key: RoundKey, records: Records) -> Appended:
        if key in self._sealed or not len(records):
            return Appended(late=len(records))
        found = self._open.setdefault(key, OpenRound(self.layout(key)))
        fresh = found.missing(records)  # of those with one id, the first that came
        found.add(fresh)  # a durable store has written them by now
        return Appended(accepted=len(fresh), duplicate=len(records) - len(fresh))

    def seal(self, key: RoundKey) -> bool:
        """Turn records into counts; False when that was done already, or there are none."""
        with self.lock:
            if key not in self._open:
                return False
            self._sealed[key] = len(self._open[key]), self._open[key].counts()
            del self._open[key]
            return True

    def counts(self, key: RoundKey) -> CountsByTags:
        """Provisional while the round is open, final afterwards."""
        with self.lock:
            if key in self._open:
                return self._open[key].counts()
            return self._sealed.get(key, (0, {}))[1]

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """Latest first, the `last` ones of each plan."""
        with self.lock:
            known = [RoundInfo(key, "open", len(found)) for key, found in self._open.items()]
            known += [RoundInfo(key, "sealed", reports) for key, (reports, _) in self._sealed.items()]
        known.sort(key=lambda info: (info.key.round, info.key.version), reverse=True)
        plans = sorted({info.key.plan for info in known}) if plan is None else [plan]
        return [info for name in plans for info in [each for each in known if each.key.plan == name][:last]]
