"""Time spent in an app, day by day: a generator fitted to public recordings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log, pi, sin, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, ndtri

from reticent.errors import ParameterError
from reticent.mechanisms import Number, exact
from reticent_lab.fleet.draws import InBlocks

DAY = 86_400  # Seconds in a day
_SATURDAY = 5
_LARGEST = 2**31 - 1
_RANKS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AppUsage(InBlocks):
    """
    Seconds that each device spends in an app.

    Device *i* has a chance of use qᵢ ~ Beta(a, b) and is either engaged or dormant. On its first day it is
    engaged with probability e₀; from one day to the next an engaged device falls dormant with probability d·(1 -
    qᵢ)ᶜ and a dormant one comes back with probability r. On an engaged day the app is used with probability

        qᵢ · weekday factor · (1 + λ if it was used the day before),

    for a time ~ Gamma(shape κ, mean Mᵢ · weekday factor), where log Mᵢ ~ Normal(μ, σ²) has the rank correlation ρ
    with qᵢ (a Gaussian copula, Pearson 2·sin(πρ/6)). Times are rounded up to whole seconds and end with the day.

    A recording holds only people who were seen in it: with `seen_within` above 0, a device that does not use the
    app in so many days is drawn again, and ρ and the law of Mᵢ are among those seen. A share `never_users` never
    uses the app.

    With `rounds_per_day` above 1 a day's use is one sitting: it begins at a random moment of a round that is
    chosen with the weights `rhythm` (equal if left out), or, for a share `punctuality` of sittings, of the
    device's own round of the day; earlier if it would outlast the day. It runs on into the rounds that follow.
    """

    name: str
    use: float  #: a: pseudo-count of days with use, in the Beta law of the chance of use
    rest: float  #: b: pseudo-count of days without
    dormancy: float  #: d: chance of falling dormant, for a device that hardly uses the app
    loyalty: float  #: c: how much less that is for a device which uses it often
    comeback: float  #: r: chance of waking again
    engaged: float  #: e₀: share engaged on the first day
    habit: float  #: λ: how much more likely use is on the day after use
    log_seconds: float  #: μ: mean over devices of the logarithm of seconds on a used day
    log_spread: float  #: σ: its standard deviation over devices (sb in the table of fitted numbers)
    regularity: float  #: κ: shape of the Gamma law of a device's seconds; larger is steadier
    rank_correlation: float  #: ρ: who uses the app on more days uses it for longer
    seen_within: int = 0
    """Days in which every device uses the app at least once (but for the never-users); 0 asks for nothing."""
    never_users: float = 0.0  #: Share of devices that never use it: no recording of users can tell
    weekend_use: float = 1.0  #: Factor on the chance of use on Saturdays and Sundays
    weekend_seconds: float = 1.0  #: Factor on the seconds then
    first_weekday: int = 0  #: Weekday of the first day; 0 is Monday
    max_value: int = DAY  #: *m*: the seconds of a round, and the most a device can spend in one
    rounds_per_day: int = 1
    rhythm: tuple[float, ...] = ()  #: How likely a sitting begins in each round of a day; any scale
    punctuality: float = 0.0  #: Share of sittings that begin in the device's own round of the day

    def __post_init__(self) -> None:
        def check(names: str, expected: str, holds: Callable[[Any], bool]) -> None:
            for name in names.split():
                if not holds(getattr(self, name)):
                    raise ParameterError(name, expected, getattr(self, name))

        positive = "use rest log_spread regularity weekend_use weekend_seconds"
        check(positive, "a number > 0", lambda number: number > 0)
        check("loyalty habit", "a number >= 0", lambda number: number >= 0)
        check(
            "dormancy comeback engaged never_users punctuality",
            "a probability",
            lambda chance: 0 <= chance <= 1,
        )
        check("rank_correlation", "from -1 to 1", lambda number: -1 <= number <= 1)
        check("first_weekday", "0 (Monday) to 6", lambda day: day in range(7))
        check("seen_within", "a whole number >= 0", lambda days: type(days) is int and days >= 0)
        check("rounds_per_day", "a whole number >= 1", lambda rounds: type(rounds) is int and rounds >= 1)
        check_range(self.max_value)
        check("max_value", "a day below 2^31", lambda _: self._day <= _LARGEST)
        if self.rhythm:
            check(
                "rhythm",
                f"{self.rounds_per_day} weights >= 0, not all 0",
                lambda weights: (
                    len(weights) == self.rounds_per_day and min(weights) >= 0 and sum(weights) > 0
                ),
            )

    @property
    def _day(self) -> int:
        return self.max_value * self.rounds_per_day

    @property
    def seen_share(self) -> float:
        """The share of devices that use the app within `seen_within` days, were none drawn again."""
        return _seen(self)[0]

    def scaled(self, max_value: Number, rounds_per_day: int = 1, rhythm: tuple[float, ...] = ()) -> AppUsage:
        """The same shape over another range: all times grow in proportion to the length of the day."""
        top = whole_range(max_value)
        shift = log(top * rounds_per_day / self._day)
        return replace(
            self,
            max_value=top,
            rounds_per_day=rounds_per_day,
            rhythm=rhythm,
            log_seconds=self.log_seconds + shift,
        )

    def _fill(self, draw: np.random.Generator, values: NDArray[np.int32]) -> None:
        rounds, devices = values.shape
        days = -(-rounds // self.rounds_per_day)
        chance, used = self._days_of_use(draw, days, devices)
        # Each device's mean seconds on a used day: normal in its rank among those seen, and a part of its own.
        _, edges, shares = _seen(self)
        rank = np.interp(betainc(self.use, self.rest, chance), edges, shares)
        normal = ndtri(np.clip(rank, 1e-300, 1 - 2**-53))
        pearson = 2 * sin(pi * self.rank_correlation / 6)
        own = draw.standard_normal(devices) * sqrt(max(0.0, 1 - pearson**2))
        seconds = np.exp(self.log_seconds + self.log_spread * (pearson * normal + own))
        habits = self._beginning(draw, devices) if self.punctuality else None
        for day in range(days):
            who = np.flatnonzero(used[day])
            times = draw.standard_gamma(self.regularity, len(who)) * seconds[who]
            times *= self._weekend(day, self.weekend_seconds) / self.regularity
            today = np.minimum(np.ceil(times), self._day).astype(np.int32)
            first = day * self.rounds_per_day
            self._spread(draw, today, who, values[first : first + self.rounds_per_day], habits)

    def _weekend(self, day: int, factor: float) -> float:
        return factor if (self.first_weekday + day) % 7 >= _SATURDAY else 1.0

    def _days_of_use(
        self, draw: np.random.Generator, days: int, devices: int
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Each device's chance of use, and bool[days, devices]; who must be seen and is not is redrawn."""
        chance = np.empty(devices)
        used = np.empty((days, devices), dtype=bool)
        filled_up = 0
        while filled_up < devices:
            count = int((devices - filled_up) / self.seen_share * 1.01) + 16
            chances, uses = self._candidates(draw, max(days, self.seen_within), count)
            if self.seen_within:
                kept = np.flatnonzero(uses[: self.seen_within].any(axis=0))[: devices - filled_up]
            else:
                kept = np.arange(devices)
            place = slice(filled_up, filled_up + len(kept))
            chance[place], used[:, place] = chances[kept], uses[:days, kept]
            filled_up += len(kept)
        if self.never_users:
            used &= draw.random(devices) >= self.never_users
        return chance, used

    def _candidates(
        self, draw: np.random.Generator, days: int, count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        chance = draw.beta(self.use, self.rest, count)
        leave = self.dormancy * (1 - chance) ** self.loyalty
        engaged = draw.random(count) < self.engaged
        used = np.zeros((days, count), dtype=bool)
        for day in range(days):
            if day:
                moved = draw.random(count)
                engaged = np.where(engaged, moved >= leave, moved < self.comeback)
            likely = chance * self._weekend(day, self.weekend_use)
            if day:
                likely *= 1 + self.habit * used[day - 1]
            used[day] = engaged & (draw.random(count) < likely)
        return chance, used

    def _spread(
        self,
        draw: np.random.Generator,
        today: NDArray[np.int32],
        who: NDArray[np.intp],
        values: NDArray[np.int32],
        habits: NDArray[np.intp] | None,
    ) -> None:
        if self.rounds_per_day == 1:
            values[0, who] = today
            return
        begin = self._beginning(draw, len(who))
        if habits is not None:
            begin = np.where(draw.random(len(who)) < self.punctuality, habits[who], begin)
        start = (begin + draw.random(len(who))) * self.max_value
        start = np.minimum(start.astype(np.int32), self._day - today)
        for place, row in enumerate(values):
            left = place * self.max_value
            inside = np.minimum(start + today, left + self.max_value) - np.maximum(start, left)
            row[who] = np.maximum(inside, 0)

    def _beginning(self, draw: np.random.Generator, count: int) -> NDArray[np.intp]:
        weights = np.cumsum(self.rhythm or (1.0,) * self.rounds_per_day)
        begin = np.searchsorted(weights, draw.random(count) * weights[-1], side="right")
        return np.asarray(np.minimum(begin, self.rounds_per_day - 1))


@lru_cache(maxsize=32)
def _seen(usage: AppUsage) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """
    The share of devices that use the app within `seen_within` days, and the ranks of q among them, as a table.

    Given q, the chance of not being seen follows from the chain exactly, day after day.
    """
    edges = np.linspace(0, 1, _RANKS + 1)
    if not usage.seen_within:
        return 1.0, edges, edges
    chance = betaincinv(usage.use, usage.rest, (edges[1:] + edges[:-1]) / 2)
    leave = usage.dormancy * (1 - chance) ** usage.loyalty
    engaged = np.full(_RANKS, usage.engaged)
    dormant = np.full(_RANKS, 1 - usage.engaged)
    for day in range(usage.seen_within):
        if day:
            gone = engaged * leave
            back = dormant * usage.comeback
            engaged = engaged - gone + back
            dormant = dormant + gone - back
        engaged = engaged * (1 - np.minimum(1, chance * usage._weekend(day, usage.weekend_use)))
    total = np.append(0.0, np.cumsum(1 - engaged - dormant))
    if total[-1] < _RANKS / 1000:
        raise ParameterError(
            "seen_within", "days in which at least one device in a thousand uses the app", usage.seen_within
        )
    return float(total[-1] / _RANKS), edges, total / total[-1]


def check_range(max_value: object) -> None:
    """Refuse what cannot be the top of a population's range."""
    if type(max_value) is not int or not 0 < max_value <= _LARGEST:
        raise ParameterError("max_value", "a whole number > 0, below 2^31", max_value)


def whole_range(max_value: Number) -> int:
    """The top of a range as the whole number that a population needs."""
    top = exact(max_value, "max_value")
    check_range(top.numerator if top.denominator == 1 else max_value)
    return top.numerator


def _fitted(name: str, *numbers: float, **days: float) -> AppUsage:
    fields = (
        "use", "rest", "dormancy", "loyalty", "comeback", "engaged",
        "habit", "log_seconds", "log_spread", "regularity", "rank_correlation",
    )  # fmt: skip
    return AppUsage(name=name, **dict(zip(fields, numbers, strict=True)), **days)  # type: ignore[arg-type]


GRAN_TURISMO_SPORT = _fitted(
    "gran-turismo-sport",
    0.575, 2.262, 0.139, 1.227, 0.042, 0.741, 0.276, 8.027, 0.794, 1.065, 0.430,
    seen_within=61, first_weekday=3, weekend_use=1.05, weekend_seconds=1.10,
)  # fmt: skip
"""
Fitted to the daily play of 24,363 people over 61 days from Thursday 8 July 2021.

This and the two below stand for recordings by the publishers, in the data of M. Vuorre, N. Johannes,
K. Magnusson and A. K. Przybylski, "Time spent playing video games is unlikely to impact well-being"
(osf.io/fb38n, github.com/digital-wellbeing/gametime-longitudinal, commit c6ee3e78; CC BY 4.0). The fit is to
the data after sessions over 10 hours were dropped, overlapping ones merged, and all split at UTC midnight and
summed per day; only people with at least one session are in it, hence no never-users.
"""

FORZA_HORIZON_4 = _fitted(
    "forza-horizon-4",
    0.459, 1.973, 0.384, 2.055, 0.204, 0.776, 0.248, 8.066, 0.732, 1.555, 0.476,
    seen_within=52, first_weekday=1,
)  # fmt: skip
"""Fitted to 2,203 people over 52 days from Tuesday 20 July 2021; source and licence as above."""

THE_CREW_2 = _fitted(
    "the-crew-2",
    0.487, 2.305, 0.624, 2.330, 0.124, 0.689, 0.274, 8.407, 0.614, 1.431, 0.473,
    seen_within=55,
)  # fmt: skip
"""Fitted to 615 people over 55 days from Monday 14 June 2021; source and licence as above."""

EDITOR = _fitted("editor", 2.0, 1.0, 0.02, 1.0, 0.2, 0.9, 0.1, log(4 * 3600.0), 0.5, 2.0, 0.4)
"""An app that is used on most days for some hours: invented, for demonstrations; nothing was fitted."""
