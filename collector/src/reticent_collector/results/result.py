"""One answer about a metric in a period: a `Result`, or `Withheld` where there are too few reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any

from reticent.plan import Metric, Plan
from reticent_collector.columns import QUANTILES
from reticent_collector.counts import ABOUT, Counts
from reticent_collector.estimates import Estimate, HistogramEstimate, cumulative
from reticent_collector.estimates.cohort_balance import Balance, balance
from reticent_collector.estimates.distribution import CumulativeEstimate, Quantile
from reticent_collector.estimates.table import quantile_columns, subject_row
from reticent_collector.results.periods import Every, Period, PeriodState

AT_LEAST_ONCE = (
    "The share of a flag or a label over several rounds is that of a usual round. How many devices had it at least"
    " once in the period is not known, since answers of a device are not linked."
)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a figure is about: a metric, in a period, in a segment."""

    period: Period
    metric: Metric
    segment: Mapping[str, str]  #: the chosen tags; empty for the whole fleet

    # These have the names that tables use.

    @property
    def plan(self) -> str:
        """The name of the plan."""
        return self.period.plan.name

    @property
    def version(self) -> int:
        """The newest version of the plan with reports in the period."""
        return self.period.plan.version

    @property
    def every(self) -> Every:
        """What kind of period it is."""
        return self.period.every

    @property
    def round(self) -> int:
        """The first round of the period."""
        return self.period.first

    @property
    def to(self) -> int:
        """The last round of the period."""
        return self.period.last

    @property
    def start(self) -> int:
        """When the period begins, in unix seconds."""
        return self.period.start

    @property
    def end(self) -> int:
        """When the period ends, in unix seconds."""
        return self.period.end

    @property
    def state(self) -> PeriodState:
        """Whether it is "open" (provisional: reports still come in), "sealed" (final) or "damaged"."""
        return self.period.state

    def to_dict(self) -> dict[str, Any]:
        """The subject as in `GET /v1/estimates`, without the figure."""
        return {**subject_row(self), "kind": self.metric.kind}


@dataclass(frozen=True, slots=True)
class Result(Subject):
    """The estimate of one metric in one period and segment: a figure of the table of results, or one like it."""

    estimate: Estimate | HistogramEstimate
    rounds: int  #: that it is made of
    quantiles: tuple[Quantile, ...] = ()  #: of a histogram, at the levels of `columns.QUANTILES`
    balance: Balance | None = None
    """The reports of each row against chance; None for several rounds with memoization, where rows repeat."""
    by_round: Mapping[int, Counts] = field(default_factory=dict)
    """The counts that it is made of, by round; none where it was read from the table: see `Results.with_counts`."""
    added: tuple[int, ...] = ()  #: the versions of the plan whose counts are in it, in order; empty: its own

    @classmethod
    def of_counts(
        cls,
        period: Period,
        metric: Metric,
        segment: Mapping[str, str],
        estimate: Estimate | HistogramEstimate,
        by_round: Mapping[int, Counts],
        added: tuple[int, ...] = (),
    ) -> Result:
        """All that is said of a figure, from its counts."""
        result = cls(period, metric, segment, estimate, len(by_round), by_round=by_round, added=added)
        has_balance = len(by_round) == 1 or period.plan.answers.sampled
        return replace(
            result,
            quantiles=result.cumulative.quantiles(QUANTILES) if metric.kind == "histogram" else (),
            balance=balance(metric, result.counts) if has_balance else None,
        )

    @property
    def counts(self) -> Counts:
        """The counts of all its rounds. With memoization, they are not that many independent reports."""
        return reduce(add, self.by_round.values())

    @property
    def rounds_missing(self) -> int:
        """Rounds of the period that are not in it: without enough reports, or not over yet."""
        return self.period.possible_rounds - self.rounds

    @property
    def cumulative(self) -> CumulativeEstimate:
        """The cumulative histogram, for quantiles; only for histograms, and with counts."""
        return cumulative(
            self.metric, self.by_round, self.estimate.confidence, self.period.plan, self.estimate
        )

    @property
    def median(self) -> Quantile | None:
        """The median of a histogram."""
        return next((quantile for quantile in self.quantiles if quantile.level == 0.5), None)

    # The columns `FIGURE` of tables

    @property
    def versions(self) -> str:
        """The versions of the plan whose counts are in it: "1,2"."""
        return ",".join(map(str, self.added or (self.version,)))

    @property
    def cohort_p_value(self) -> float | None:
        """The probability that honest devices answer the rows of a histogram as unevenly."""
        return self.balance.p_value if self.balance else None

    def to_dict(self) -> dict[str, Any]:
        """The answer of `GET /v1/estimates`."""
        return {
            **Subject.to_dict(self),
            "versions": list(self.added or (self.version,)),
            "rounds": self.rounds,
            "rounds_missing": self.rounds_missing,
            **quantile_columns(self.quantiles),
            **self.estimate.to_dict(),
            **({"balance": self.balance.to_dict()} if self.balance else {}),
        }


@dataclass(frozen=True, slots=True)
class Withheld(Subject):
    """A figure that is not shown, since there are too few reports for it, or none."""

    @property
    def estimate(self) -> None:
        """There is none."""

    @property
    def reason(self) -> str:
        """Why, in the same words for any number of reports that is too small."""
        if self.period.possible_rounds == 1:
            return reason_of(self.period.plan, self.state)
        yet = "" if self.state == "sealed" else " to show yet"
        return f"no round has {self.period.plan.min_reports:,} reports{yet}"

    def to_dict(self) -> dict[str, Any]:
        """The entry in `withheld` of `GET /v1/estimates`."""
        return {**Subject.to_dict(self), "unit": self.metric.unit, "reports": None, "reason": self.reason}


def reason_of(plan: Plan, state: PeriodState) -> str:
    """Why nothing is shown of a round, in the same words for any number of reports that is too small."""
    if state == "damaged":
        return "damaged: see reticent store check"
    least = f"{plan.min_reports:,} reports"
    return (
        f"fewer than {least}" if state == "sealed" else f"an open round is shown in steps of at least {least}"
    )


def at_least_once(metric: Metric, period: Period) -> str:
    """What a share over several answers is not, for where it is shown; nothing for other figures."""
    answers = period.possible_rounds
    if period.plan.answers.sampled:
        answers = -(-answers // period.plan.answers.window)
    return AT_LEAST_ONCE if metric.kind in ("flag", "choice") and answers > 1 else ""


class Estimates(list[Result]):
    """Estimates, latest first, and the `withheld` figures."""

    def __init__(self, figures: Iterable[Result | Withheld] = ()) -> None:
        self.withheld: list[Withheld] = []
        for shown in figures:
            if isinstance(shown, Result):
                self.append(shown)
            else:
                self.withheld.append(shown)

    def to_dict(self) -> dict[str, Any]:
        """The answer of `GET /v1/estimates`."""
        estimates, withheld = ([shown.to_dict() for shown in figures] for figures in (self, self.withheld))
        remarks = {at_least_once(result.metric, result.period): None for result in self}
        return {
            "about": ABOUT,
            "estimates": estimates,
            "withheld": withheld,
            "remarks": [remark for remark in remarks if remark],
        }

    @property
    def rows(self) -> list[Result | Withheld]:
        """All figures, for a table; withheld ones come last."""
        return [*self, *self.withheld]
