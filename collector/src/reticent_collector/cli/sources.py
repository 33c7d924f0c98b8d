"""Where verbs read from: a store, or a running collector over HTTP. Both answer the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reticent.errors import ReticentError
from reticent_collector.cli import options

if TYPE_CHECKING:
    import asyncio

    from reticent.plan import Plan
    from reticent_collector.http import Client
    from reticent_collector.results import Listing, Selection
    from reticent_collector.stores import Store

MOST_ROUNDS = 10_000
"""As many as a collector shows at once."""
TABLES: dict[str, Listing] = {name: name for name in ("differences", "trends", "rounds", "plans")}
"""What can be written as a table besides estimates, by the name of --table."""
SHOWN = {
    "rounds": {"plan", "round", "start", "end", "state", "reports"},
    "estimates": {"version", "metric", "kind", "unit", "every", "start_time", "end_time", "segment", "state", "rounds",
                  "rounds_missing", "versions"},
    "changes": {"version", "metric", "start_time", "segment", "versions"},
    "differences": {"version", "metric", "start_time", "segment", "versions"},
    "trends": {"metric", "segment", "words"},
    "withheld": {"state", "reason"},
}  # fmt: skip
"""What is shown of each object in a collector's answers; an older collector may lack some of it."""


def checked(source: Local | Remote, plan: str | None, **selection: Any) -> Selection:
    """What a command selects, with the plan if there is one only; raises `ReticentError` for unknown names."""
    from reticent_collector.results import Selection

    since, until = selection["since"], selection["until"]
    if since is not None and until is not None and until <= since:
        raise ReticentError("--until: expected a time after --since.")
    plans = source.plans()
    options.check_name("plan", plan, plans)
    if plan is None and len(plans) > 1:
        raise ReticentError(
            f"plan: expected one of {', '.join(plans)}, got none.\n  Hint: --plan {next(iter(plans))}"
        )
    chosen = plans[plan or next(iter(plans))]
    segments = [segment.name for segment in chosen.segments]
    if isinstance(source, Local):  # a collector itself knows the metrics of older versions
        options.check_name("metric", selection["metric"], source.metrics(chosen.name))
    options.check_name("by", selection["by"], segments)
    for name in selection["segment"]:
        options.check_name("segment", name, segments)
    asked = Selection(chosen.name, **selection)
    replace(asked, metric=None).check(chosen)
    return asked


@contextmanager
def opened_source(store: str | None, url: str | None, key: str | None) -> Iterator[Local | Remote]:
    """A store, or a collector: what the options of a verb name."""
    options.one_source(store, url)
    if url is not None:
        with options.opened_client(url, key) as (client, runner):
            yield Remote(client, runner)
    else:
        with options.opened_store(str(store)) as opened:
            yield Local(opened)


def _shows(row: Any, kind: str) -> bool:
    """Whether an entry of an answer has what is shown of it: a sentence, or an object."""
    if kind == "remarks":
        return isinstance(row, str)
    return isinstance(row, dict) and row.keys() >= SHOWN.get(kind, set())


class Local:
    """What a store knows."""

    def __init__(self, store: Store) -> None:
        from reticent_collector.results import Results

        self.store = store
        self._results = results = Results(store)
        self.plans, self.rounds = results.plans, results.rounds

    def metrics(self, plan: str) -> list[str]:
        """The metrics of all versions of a plan, but for deleted ones, those of the newest first."""
        return [*self._results.metrics(plan)]

    def estimates(self, selection: Selection) -> dict[str, list[dict[str, Any]]]:
        """The answer of `/v1/estimates`."""
        return self._results.estimates(selection).to_dict()

    def changes(self, selection: Selection) -> list[dict[str, Any]]:
        """The changes of `/v1/changes`."""
        return [change.to_dict() for change in self._results.changes(selection)]

    def differences(self, selection: Selection) -> list[dict[str, Any]]:
        """Those of `/v1/differences`."""
        return [difference.to_dict() for difference in self._results.differences(selection)]

    def trends(self, selection: Selection) -> list[dict[str, Any]]:
        """Those of `/v1/trends`."""
        return [trend.to_dict() for trend in self._results.trends(selection)]

    def csv(self, selection: Selection) -> str:
        """The table of estimates as CSV."""
        from reticent_collector.estimates.table import csv_text

        return csv_text(self._results.estimates(selection).rows)

    def listing(self, name: Listing, selection: Selection) -> str:
        """Another table as CSV."""
        from reticent_collector.estimates.table import rows_as_csv
        from reticent_collector.results import listing

        return rows_as_csv(*listing(self._results, name, selection))

    def arrow(self, selection: Selection) -> Any:
        """The table of estimates as an Arrow table."""
        from reticent_collector.estimates import estimates_to_frame

        return estimates_to_frame(self._results.estimates(selection).rows)


class Remote:
    """What a running collector knows: the same, by HTTP."""

    def __init__(self, client: Client, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def plans(self) -> dict[str, Plan]:
        """The newest version of every plan."""
        from reticent.plan import Plan

        rows = self._lists("plans", [])["plans"]
        if not all(isinstance(row.get("toml"), str) for row in rows):
            raise ReticentError(f"{self._client.url}: the collector is too old to be read by this version.")
        return {plan.name: plan for plan in (Plan.from_toml(row["toml"]) for row in rows)}

    def rounds(self, plan: str | None, last: int) -> list[dict[str, Any]]:
        """The latest rounds."""
        return self._lists("rounds", [("last", str(last)), *([("plan", plan)] if plan else [])])["rounds"]

    def estimates(self, selection: Selection) -> dict[str, list[dict[str, Any]]]:
        """The answer of `/v1/estimates`."""
        return self._lists("estimates", self._query(selection), "withheld", "remarks")

    def changes(self, selection: Selection) -> list[dict[str, Any]]:
        """The changes of `/v1/changes`."""
        return self._lists("changes", self._query(selection, selection.against_query))["changes"]

    def differences(self, selection: Selection) -> list[dict[str, Any]]:
        """Those of `/v1/differences`."""
        query = self._query(selection, selection.against_query)
        return self._lists("differences", query)["differences"]

    def trends(self, selection: Selection) -> list[dict[str, Any]]:
        """Those of `/v1/trends`."""
        return self._lists("trends", self._query(selection))["trends"]

    def csv(self, selection: Selection) -> str:
        """The table of estimates as CSV."""
        return self._body("estimates", [*self._query(selection), ("format", "csv")]).decode()

    def listing(self, name: Listing, selection: Selection) -> str:
        """Another table as CSV."""
        query = [("plan", selection.plan)]
        if name == "rounds":
            query.append(("last", str(selection.last or MOST_ROUNDS)))
        elif name != "plans":
            query = self._query(selection, [] if name == "trends" else selection.against_query)
        return self._body(name, [*query, ("format", "csv")]).decode()

    def arrow(self, selection: Selection) -> Any:
        """The table of estimates as an Arrow table."""
        from pyarrow import ipc

        body = self._body("estimates", [*self._query(selection), ("format", "arrow")])
        try:
            return ipc.open_stream(body).read_all()
        except (ValueError, OSError):
            raise self._unlike_a_collector() from None

    def _query(self, selection: Selection, more: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        if (
            selection.last is None and selection.since is None
        ):  # with a time, the collector takes all or refuses
            if len(self.rounds(selection.plan, MOST_ROUNDS)) >= MOST_ROUNDS:
                raise ReticentError(
                    f"{self._client.url}: there are more rounds than a collector shows at once.\n"
                    "  Hint: --last N picks the latest"
                )
            selection = replace(selection, last=MOST_ROUNDS)
        return [*selection.query(), *more]

    def _lists(
        self, name: str, query: list[tuple[str, str]], *others: str
    ) -> dict[str, list[dict[str, Any]]]:
        """The lists of objects in the collector's answer, by name."""
        try:
            document = json.loads(self._body(name, query))
            lists = {key: document[key] for key in (name, *others)}
            if all(
                isinstance(rows, list) and all(_shows(row, key) for row in rows)
                for key, rows in lists.items()
            ):
                return lists
        except (ValueError, KeyError, TypeError):
            pass
        raise self._unlike_a_collector()

    def _unlike_a_collector(self) -> ReticentError:
        return ReticentError(f"{self._client.url}: what answers is not a collector, or one that is too old.")

    def _body(self, name: str, query: list[tuple[str, str]]) -> bytes:
        response = self._runner.run(self._client.get(f"/v1/{name}", query))
        if response.status != 200:
            raise ReticentError(self._client.problem(response))
        return response.body
