"""What comes out: estimates in three forms, plans, rounds and metrics, equal to what is computed directly."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from reticent.plan import Plan
from reticent.reports import Report, to_ndjson, to_packed
from reticent_collector.columns import COLUMNS, seconds_of
from reticent_collector.counts import count_reports
from reticent_collector.estimates import Estimate, cumulative, estimate
from reticent_collector.estimates.cohort_balance import balance
from reticent_collector.results import Selection

COUNT = 400
SENT = (slice(20), slice(10, 500), slice(400, None))
"""Which reports are sent alone, as lines and packed: some of them twice."""


@pytest.fixture(scope="module")
def plan(tools: Any) -> Plan:
    return Plan.from_toml(tools.usage())


@pytest.fixture(scope="module")
def sent(start: Callable[..., Any], tools: Any) -> tuple[Any, list[Report]]:
    """A collector and the reports of two open rounds in it, sent in all three ways and some of them twice."""
    service = start(tools.usage())
    plan = service.plans[0]
    now = service.now(plan)
    reports = [*tools.make_reports(plan, now, COUNT), *tools.make_reports(plan, now - 1, COUNT)]
    random.Random(1).shuffle(reports)
    alone, lines, packed = (reports[part] for part in SENT)
    for report in alone:
        assert service.send(report).status == 202
    assert service.post(to_ndjson(lines), "application/x-ndjson").status == 202
    assert service.post(to_packed(packed, plan), "application/vnd.reticent.packed").status == 202
    return service, reports


def expected(
    reports: list[Report], plan: Plan, number: int, metric: str, confidence: float = 0.95, **tags: str
) -> dict[str, Any]:
    """The estimate of those reports that have these tags, without a collector."""
    names = [segment.name for segment in plan.segments]
    counts = [
        by_metric[metric]
        for (of_round, of_tags), by_metric in count_reports(reports, plan).items()
        if of_round == number and tags.items() <= dict(zip(names, of_tags, strict=True)).items()
    ]
    total: Any = sum(counts)
    against_chance = balance(plan.by_name[metric], total)
    plain = estimate(plan.by_name[metric], total, confidence).to_dict()
    if against_chance:
        plain["balance"] = against_chance.to_dict()
    if plan.by_name[metric].kind == "histogram":
        band = cumulative(plan.by_name[metric], [total], confidence)
        for percent in (10, 25, 50, 75, 90, 99):
            name = "median" if percent == 50 else f"p{percent}"
            quantile = band.quantile(percent / 100)
            plain |= {f"{name}_lower": quantile.lower, f"{name}_upper": quantile.upper}
    return json.loads(json.dumps(plain))


def where(found: dict[str, Any]) -> tuple[Any, ...]:
    return found["round"], found["metric"], tuple(found["segment"].items())


def numbers(found: dict[str, Any]) -> dict[str, Any]:
    names = (
        "plan version metric every round last_round start_time end_time state segment rounds rounds_missing"
        " versions"
    )
    return {name: value for name, value in found.items() if name not in names.split()}


def test_estimates_are_those_of_the_reports(sent: tuple[Any, list[Report]], plan: Plan) -> None:
    service, reports = sent
    answer = service.get("/v1/estimates?plan=app-usage&every=round").json
    found = answer["estimates"]
    assert "devices that take part" in answer["about"]
    rounds = sorted({report.round for report in reports}, reverse=True)
    assert [where(each) for each in found] == [
        (number, metric.name, ()) for number in rounds for metric in plan.metrics
    ]
    for each in found:
        assert numbers(each) == expected(reports, plan, each["round"], each["metric"])
        assert (each["plan"], each["version"], each["state"]) == ("app-usage", 1, "open")
        ends = (each["round"] * 3600, each["round"] * 3600 + 3600)
        assert (seconds_of(each["start_time"]), seconds_of(each["end_time"])) == ends
    assert {each["reports"] for each in found} == {COUNT}


@pytest.mark.parametrize("confidence", ["0.5", "0.999", "1e-3"])
def test_confidence(sent: tuple[Any, list[Report]], plan: Plan, confidence: str) -> None:
    service, reports = sent
    for each in service.get(f"/v1/estimates?every=round&plan=app-usage&confidence={confidence}").json[
        "estimates"
    ]:
        assert numbers(each) == expected(reports, plan, each["round"], each["metric"], float(confidence))


def test_a_metric_a_round_and_a_segment(sent: tuple[Any, list[Report]], plan: Plan) -> None:
    service, reports = sent
    newest = max(report.round for report in reports)
    query = f"plan=app-usage&metric=windows&round={newest}&segment=os:linux&segment=channel:beta"
    (found,) = service.get(f"/v1/estimates?every=round&{query}").json["estimates"]
    assert found["segment"] == {"os": "linux", "channel": "beta"}
    assert numbers(found) == expected(reports, plan, newest, "windows", os="linux", channel="beta")


def test_tags_apart(sent: tuple[Any, list[Report]], plan: Plan) -> None:
    service, reports = sent
    newest = max(report.round for report in reports)
    query = f"plan=app-usage&metric=minutes&round={newest}&by=os&segment=channel:stable"
    found = service.get(f"/v1/estimates?every=round&{query}").json["estimates"]
    assert [each["segment"]["os"] for each in found] == ["windows", "macos", "linux", "other"]
    for each in found:
        assert numbers(each) == expected(reports, plan, newest, "minutes", **each["segment"])


def test_rounds_are_picked_by_number_and_by_age(sent: tuple[Any, list[Report]]) -> None:
    service, reports = sent
    newest = max(report.round for report in reports)
    for query, wanted in (
        (f"round={newest}", [newest]),
        (f"round={newest - 1}", [newest - 1]),
        (f"round={newest - 9}-{newest}", [newest, newest - 1]),
        (f"round={newest - 1}&round={newest}", [newest, newest - 1]),
        ("round=5", []),
        ("last=1", [newest]),
        ("last=2", [newest, newest - 1]),
    ):
        found = service.get(f"/v1/estimates?every=round&plan=app-usage&metric=minutes&{query}").json[
            "estimates"
        ]
        assert [each["round"] for each in found] == wanted
    found = service.get("/v1/rounds?plan=app-usage&last=1").json["rounds"]
    assert [(each["round"], each["reports"], each["state"]) for each in found] == [(newest, COUNT, "open")]
    assert found[0]["closes"] == found[0]["end"] + 3600


def test_tables_say_the_same_as_json(sent: tuple[Any, list[Report]]) -> None:
    service, _ = sent
    query = "/v1/estimates?every=round&plan=app-usage&by=os"
    found = service.get(query).json["estimates"]
    flat = [
        {
            **each,
            **number,
            "segment": json.dumps(each["segment"], separators=(",", ":")),
            "versions": ",".join(map(str, each["versions"])),
            **({"cohort_p_value": each["balance"]["p_value"]} if "balance" in each else {}),
        }
        for each in found
        for number in each.get("buckets", [each])
    ]
    arrow = service.get(f"{query}&format=arrow")
    assert arrow.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(arrow.body).read_all().to_pylist()
    text = service.get(query, Accept="text/csv")
    assert text.headers["content-type"].startswith("text/csv")
    lines = list(csv.DictReader(io.StringIO(text.body.decode())))
    assert len(flat) == len(table) == len(lines) == 2 * 4 * (1 + 8 + 16)
    for plain, row, line in zip(flat, table, lines, strict=True):
        assert list(row) == list(line) == [column.name for column in COLUMNS]
        row |= {name: f"{row[name]:%Y-%m-%dT%H:%M:%SZ}" for name in ("start_time", "end_time")}
        assert {name: cell for name, cell in row.items() if cell is not None} == {
            name: plain[name] for name in row if name in plain
        }
        for name in row:
            assert line[name] == ("" if row[name] is None else str(row[name]))
    assert service.get(query, Accept="application/vnd.apache.arrow.stream").body == arrow.body


def test_plans(sent: tuple[Any, list[Report]], plan: Plan, tools: Any) -> None:
    service, _ = sent
    text = service.get("/v1/plans/app-usage")
    assert (text.status, text.body.decode()) == (200, tools.usage())
    assert text.headers["content-type"].startswith("application/toml")
    described = service.get("/v1/plans/app-usage", Accept="application/json")
    assert [each["name"] for each in described.json["metrics"]] == [metric.name for metric in plan.metrics]
    assert described.json["segments"]["os"] == ["windows", "macos", "linux", "other"]
    assert service.get("/v1/plans").json["plans"] == [described.json]
    assert text.headers["etag"] != described.headers["etag"]
    for answer, accept in ((text, "*/*"), (described, "application/json")):
        again = service.get(
            "/v1/plans/app-usage", **{"Accept": accept, "If-None-Match": answer.headers["etag"]}
        )
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", answer.headers["etag"])
        other = service.get("/v1/plans/app-usage", **{"Accept": accept, "If-None-Match": '"x"'})
        assert other.status == 200


def lines_of(answer: Any) -> list[dict[str, str]]:
    assert answer.headers["content-type"].startswith("text/csv")
    return [*csv.DictReader(io.StringIO(answer.body.decode()))]


def test_rounds_as_csv_are_those_of_json(sent: tuple[Any, list[Report]]) -> None:
    service, _ = sent
    for query in ("", "?plan=app-usage", "?plan=app-usage&last=1"):
        rounds = service.get(f"/v1/rounds{query}").json["rounds"]
        lines = lines_of(service.get(f"/v1/rounds{query}", Accept="text/csv"))
        assert len(lines) == len(rounds) == (1 if "last" in query else 2)
        for line, info in zip(lines, rounds, strict=True):
            for name in ("plan", "version", "round", "state", "reports"):
                assert line[name] == str(info[name])
            for name in ("start", "end", "closes"):
                assert seconds_of(line[f"{name}_time"]) == info[name]
            assert line["reason"] == info.get("reason", "")
    assert service.get("/v1/rounds?plan=app-usage&format=xml").status == 400


def test_plans_as_csv_have_a_row_per_metric(sent: tuple[Any, list[Report]], plan: Plan) -> None:
    service, _ = sent
    lines = lines_of(service.get("/v1/plans?format=csv"))
    assert lines == lines_of(service.get("/v1/plans?plan=app-usage", Accept="text/csv"))
    (described,) = service.get("/v1/plans?plan=app-usage").json["plans"]
    for line, metric in zip(lines, described["metrics"], strict=True):
        assert [line[name] for name in ("kind", "unit", "description")] == [
            metric[name] for name in ("kind", "unit", "description")
        ]
        assert (line["metric"], line["plan"], line["ended"]) == (metric["name"], "app-usage", "0")
        assert json.loads(line["segments"]) == described["segments"]
        for name in ("version", "round_seconds", "grace_seconds", "min_reports"):
            assert line[name] == str(described[name])
    assert service.get("/v1/plans?plan=nobody").status == 404


def test_head_has_the_headers_and_no_body(sent: tuple[Any, list[Report]]) -> None:
    service, _ = sent
    for path in ("/v1/plans", "/healthz", "/v1/estimates?plan=app-usage&every=round", "/nowhere"):
        full, head = service.get(path), service.call("HEAD", path)
        assert (head.status, head.body) == (full.status, b"")


def test_metrics_can_be_parsed_in_both_forms(sent: tuple[Any, list[Report]]) -> None:
    service, reports = sent
    service.post(b"nonsense")
    for accept, parse in (
        ("text/plain", text_families),
        ("application/openmetrics-text", openmetrics_families),
    ):
        answer = service.get("/metrics", Accept=accept)
        assert answer.headers["content-type"].startswith(accept)
        values = {
            (sample.name, *sample.labels.values()): sample.value
            for family in parse(answer.body.decode())
            for sample in family.samples
        }
        stored = sum(len(reports[part]) for part in SENT)
        assert values["reticent_open_reports",] == values["reticent_accepted_total",] == stored
        assert values["reticent_duplicate_total",] == 0  # they are found when their round is sealed
        assert values["reticent_rejected_total", "malformed"] >= 1
        # A histogram adds up over collectors; all commits are in it, whatever they took.
        commits = values["reticent_commits_total",]
        assert commits == values["reticent_commit_duration_seconds_count",] > 0
        assert commits == values["reticent_commit_duration_seconds_bucket", "+Inf"]
        assert values["reticent_commit_duration_seconds_sum",] > 0


def test_figures_are_of_weeks_unless_asked_for_by_another_period(sent: tuple[Any, list[Report]]) -> None:
    service, _ = sent
    path = "/v1/estimates?plan=app-usage&metric=minutes"
    rounds = service.get(f"{path}&every=round").json["estimates"]
    assert all(row["last_round"] == row["round"] for row in rounds)
    (week, *_) = service.get(path).json["estimates"]
    assert (week["every"], week["rounds"] + week["rounds_missing"]) == ("week", 7 * 24)
    path += "&every=day"
    days = service.get(path).json["estimates"]
    assert {(row["every"], row["start_time"][10:], row["end_time"][10:]) for row in days} == {
        ("day", "T00:00:00Z", "T00:00:00Z")
    }
    assert sum(row["rounds"] for row in days) == len({row["round"] for row in rounds})
    start = days[0]["start_time"]
    assert service.get(f"{path}&since={start}").json["estimates"] == days[:1]
    assert service.get(f"{path}&until={start}").json["estimates"] == days[1:]
    changes = service.get(f"/v1/changes?plan=app-usage&metric=minutes&every=round&until={start}")
    assert (changes.status, changes.json["changes"]) == (200, [])  # no round is sealed
    for refused in ("every=window", "every=year", "since=yesterday", "until=2026-13-01"):
        for kind in ("estimates", "changes"):
            answer = service.get(f"/v1/{kind}?plan=app-usage&{refused}")
            assert answer.status == 400
            assert refused.partition("=")[0] in answer.json["detail"]
    assert service.get("/v1/changes?plan=other").status == 404
    assert service.get("/v1/changes?plan=app-usage&round=3").status == 400


def test_health(sent: tuple[Any, list[Report]]) -> None:
    service, _ = sent
    assert service.get("/healthz").json == {"status": "ok"}
    assert service.get("/readyz").json == {"status": "ready"}


def test_the_python_reader_says_the_same(sent: tuple[Any, list[Report]]) -> None:
    """Two processes on one store: what a command shows is what the collector answers."""
    from reticent_collector.results import Results
    from reticent_collector.stores import open_store

    service, _ = sent
    store = open_store(service.store)
    found = Results(store).estimates(Selection("app-usage", by="channel", confidence=0.9, every="round"))
    assert isinstance(found[0].estimate, Estimate)
    asked = service.get("/v1/estimates?every=round&plan=app-usage&by=channel&confidence=0.9").json[
        "estimates"
    ]
    assert [json.loads(json.dumps(each.to_dict())) for each in found] == asked
    store.close()
