"""The interface as an OpenAPI 3.1 document; also committed as docs/reference/openapi.json."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from reticent.plan.parse import NAME
from reticent_collector.columns import COLUMNS, FIGURE, QUANTILES, SUBJECT
from reticent_collector.http.problems import DETAILS

Schema = dict[str, Any]

_NUMBER = {"type": "number"}
_TEXT = {"type": "string"}
_WHOLE = {"type": "integer", "minimum": 0}
_BASE64 = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}
_NAME = {"type": "string", "pattern": f"^{NAME}$"}
_STATE = {"enum": ["open", "sealed", "damaged"]}
_EVERY = {"enum": ["round", "window", "day", "week", "month"]}
_TAGS = {"type": "object", "additionalProperties": _TEXT}


def _all(names: str, schema: Schema) -> dict[str, Schema]:
    return dict.fromkeys(names.split(), schema)


def _object(
    properties: dict[str, Any], required: Sequence[str] | None = None, description: str = "", **more: Any
) -> Schema:
    """An object whose properties are all required, unless `required` names some."""
    described = {"description": description} if description else {}
    names = list(properties) if required is None else list(required)
    return {"type": "object", **described, "required": names, **more, "properties": properties}


def _array(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


_TYPES: dict[str, Schema] = {
    "text": _TEXT,
    "int64": _WHOLE,
    "float64": _NUMBER,
    "timestamp": {"type": "string", "format": "date-time"},
    "json": _TAGS,
}
_COLUMNS = {column.name: {**_TYPES[column.type], "description": column.meaning} for column in COLUMNS} | {
    "value": {"type": ["number", "null"], "description": "null for a bucket without reports"},
    "kind": {"enum": ["mean", "histogram", "choice", "flag", "split"]},
    "state": {**_STATE, "description": "open: provisional, reports still come in"},
}
_WHERE = {name: _COLUMNS[name] for name in (*SUBJECT, "kind")}
_ESTIMATE = {
    **{name: column for name, column in _COLUMNS.items() if name not in (*_WHERE, *FIGURE)},
    "consistent": {"type": "boolean", "description": "whether any true value explains the reports"},
}
_ROW = _object({"row": _WHOLE, "reports": _WHOLE, "expected": _NUMBER, "p_value": _NUMBER})
_BALANCE = _object(
    {
        "p_value": {"type": "number", "minimum": 0, "maximum": 1},
        "even": {"type": "boolean"},
        "over": _array(_ROW, description="Rows with more reports than chance explains"),
        "under": _array(_ROW, description="Rows with fewer"),
    },
    description="A histogram's reports on each row (bucket of dBitFlip, row of the Hadamard bit) held "
    "against chance. Uneven below 10^-6: some client chooses cohorts, or draws them wrongly.",
)
_BUCKET = _object(_ESTIMATE, ["bucket", "value", "lower", "upper"])
_ROUNDS = {
    "rounds": _COLUMNS["rounds"],
    "rounds_missing": {**_WHOLE, "description": "Rounds of the period that are missing"},
}
_VERSIONS = {
    "versions": _array(_WHOLE, description="Versions of the plan whose reports are added in the figure")
}
_QUANTILES = {
    f"{name}_{end}": _COLUMNS[f"{name}_{end}"] for name in QUANTILES.values() for end in ("lower", "upper")
}
_CLEAR = {
    "clear": {"type": "boolean", "description": "Whether the interval excludes 0"},
    "words": {**_TEXT, "description": "The change in words"},
}
_VALUES = _all("value lower upper half_width", _NUMBER) | {
    "values": _array({"type": ["number", "null"]}, description="Of the buckets")
}
_ABOUT = {**_TEXT, "description": "Which devices the figures describe, in a sentence"}
_SUBTRACTED = {"segment": _TAGS, **dict.fromkeys(("start_time", "end_time"), _TYPES["timestamp"])}


def _difference(figure: str, baseline: str, description: str) -> Schema:
    """One figure less another; with `against`, a difference has the members of a change."""
    sides = {figure: _object(_VALUES, []), baseline: _object(_SUBTRACTED | _VALUES, [*_SUBTRACTED])}
    return _object(
        {
            **_WHERE,
            **_VERSIONS,
            **_ROUNDS,
            **_ESTIMATE,
            **_CLEAR,
            **sides,
            "buckets": _array(_object({**_ESTIMATE, **_CLEAR}, ["value", *_CLEAR])),
        },
        [*_WHERE, *_VERSIONS, *_ROUNDS, *_CLEAR, *sides, "confidence", "reports"],
        description,
    )


_EARLIER = {
    "type": ["object", "null"],
    "properties": {
        **dict.fromkeys(("start_time", "end_time"), _TYPES["timestamp"]),
        **_all("difference lower upper half_width", _NUMBER),
        "rounds": _WHOLE,
    },
}
_TREND = _object(
    {
        **_WHERE,
        **_VERSIONS,
        **{name: _COLUMNS[name] for name in ("bucket", "label", "unit")},
        "direction": {"enum": ["rises", "falls", None]},
        "since": {**_EARLIER, "description": "The difference to the latest period since which it does"},
        "whole": {**_EARLIER, "description": "The difference to the earliest one that is clearly apart"},
        "compared": {**_WHOLE, "description": "How many earlier periods were compared"},
        "confidence": {**_NUMBER, "description": "With which nothing is said of any figure, if none changed"},
        "words": {**_TEXT, "description": "The trend in words"},
    },
    [*_WHERE, *_VERSIONS, "unit", "direction", "since", "whole", "compared", "confidence", "words"],
    "Whether a mean, or the share of a bucket, rises or falls over the periods that are shown",
)
_ROUND = _object(
    {
        "plan": _TEXT,
        **_all("version round start end closes", _WHOLE),
        "state": _STATE,
        "reports": {
            "type": ["integer", "null"],
            "description": "As far as readers may see them; null: too few",
        },
        "reason": {"type": "string", "description": "Why none are shown, if so"},
    },
    ["plan", "version", "round", "start", "end", "closes", "state", "reports"],
)
_NOTE = _object(
    {
        "id": _TEXT,
        "plan": {"type": ["string", "null"], "description": "null: of all plans"},
        "at": {**_TYPES["timestamp"], "description": "When it happened"},
        "text": _TEXT,
    }
)
_NOTE_ADDED = _object(
    {
        "text": {**_TEXT, "maxLength": 200},
        "at": {**_TEXT, "description": "A date, or ISO 8601; now when left out"},
        "plan": {**_TEXT, "description": "Of all plans when left out"},
    },
    ["text"],
    additionalProperties=False,
)
_NOTES_ADDED = {"oneOf": [_NOTE_ADDED, _array(_NOTE_ADDED)]}
_SCHEMAS: dict[str, Any] = {
    "Report": _object(
        {
            "plan": _NAME,
            "version": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
            "round": {"type": "integer", "minimum": 0, "maximum": 2**53 - 1},
            "id": {"pattern": "^[A-Za-z0-9_-]{21}[AQgw]$", **_TEXT, "description": "16 bytes, base64url"},
            "cohort": {**_WHOLE, "maximum": 255},
            "asked": {
                **_BASE64,
                "description": "The answered metrics, one bit each, base64url; only if not all are",
            },
            "bits": {**_BASE64, "description": "Answers, base64url"},
            "segment": _TAGS,
        },
        ["plan", "version", "round", "id", "bits"],
        "One report; see spec/wire.md. Nothing else may be in it.",
        additionalProperties=False,
    ),
    "Accepted": _object(
        {
            "accepted": {**_WHOLE, "description": "Durable, and counted once each"},
            "rejected": _array(_object({"index": _WHOLE, "code": _TEXT})),
        },
        ["accepted"],
    ),
    "Estimates": _object(
        {
            "about": _ABOUT,
            "estimates": _array(
                _object(
                    {
                        **_WHERE,
                        **_VERSIONS,
                        **_ROUNDS,
                        **_QUANTILES,
                        **_ESTIMATE,
                        "balance": _BALANCE,
                        "buckets": _array(_BUCKET),
                    },
                    [*_WHERE, *_VERSIONS, *_ROUNDS, "confidence", "reports"],
                )
            ),
            "remarks": _array(_TEXT, description="Sentences to show beside the figures"),
            "withheld": _array(
                _object({**_WHERE, "unit": _TEXT, "reports": {"type": "null"}, "reason": _TEXT}),
                description="Requested figures with fewer reports than the plan's min_reports",
            ),
            "damaged": _array(
                _object({"plan": _TEXT, "version": _WHOLE, "round": _WHOLE, "reason": _TEXT}),
                description="Rounds that cannot be read: no estimate until they are repaired",
            ),
        }
    ),
    "Changes": _object(
        {
            "about": _ABOUT,
            "changes": _array(
                _difference(
                    "after", "before", "The later period minus the earlier one: value, lower and upper"
                )
            ),
        }
    ),
    "Differences": _object(
        {
            "about": _ABOUT,
            "differences": _array(
                _difference("figure", "baseline", "The devices of a tag less those of the baseline")
            ),
        }
    ),
    "Trends": _object({"about": _ABOUT, "trends": _array(_TREND)}),
    "Rounds": _object({"rounds": _array(_ROUND)}),
    "Notes": _object({"notes": _array(_NOTE)}),
    "Plan": _object(
        {
            "name": _TEXT,
            **_all("version round_seconds grace_seconds min_reports", _WHOLE),
            "owner": _TEXT,
            "expires": {"type": ["string", "null"], "format": "date"},
            "metrics": _array({"type": "object"}),
            "segments": {"type": "object", "additionalProperties": _array(_TEXT)},
            "ended": _array(_NAME, description="Metrics of older versions that this one does not have"),
            "toml": _TEXT,
        },
        ["name", "version", "round_seconds", "grace_seconds", "min_reports", "metrics", "segments", "toml"],
    ),
    "Plans": _object({"plans": _array(_reference("Plan"))}),
    "Status": _object({"status": _TEXT}),
    "Problem": _object(
        {
            **_all("type title detail", _TEXT),
            "status": {"type": "integer"},
            "code": {"enum": sorted(DETAILS)},
        },
        description="RFC 9457",
    ),
}


def openapi_document() -> Schema:
    """The whole document."""
    plan = _parameter("plan", "query", _NAME)
    last = _parameter(
        "last", "query", {"type": "integer", "minimum": 1, "maximum": 10_000}, "Latest periods or rounds only"
    )
    rounds = {"type": "string", "pattern": "^[0-9]{1,16}(-[0-9]{1,16})?$"}
    confidence = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    since = _parameter("since", "query", _TEXT, "From this time on: a date, or ISO 8601; UTC")
    until = _parameter("until", "query", _TEXT, "Before this time; of a period, its start")
    selection = [
        {**plan, "required": True},
        _parameter("metric", "query", _NAME),
        _parameter("every", "query", _EVERY, "The period of a figure; default: a week for most plans"),
        since,
        until,
        last,
        _parameter("segment", "query", _TEXT, "NAME:TAG; may be repeated"),
        _parameter("by", "query", _TEXT, "One estimate per tag of this segment"),
        _parameter("confidence", "query", confidence),
        _parameter(
            "version", "query", {**_WHOLE, "minimum": 1}, "This version of the plan, apart from the others"
        ),
    ]
    listed = _parameter("format", "query", {"enum": ["json", "csv"]})
    against = _parameter(
        "against",
        "query",
        _TEXT,
        "before (default), week, 4-weeks or year: the period so long before; or the period of a date",
    )
    baseline = _parameter("baseline", "query", _TEXT, "The tag of `by` that is subtracted from the others")
    public = {"security": [], "x-roles": ["public"]}
    gets: dict[str, dict[str, Any]] = {
        "/v1/plans": {
            **_get(
                "listPlans", "The newest version of every plan; as CSV, a row per metric.", "Plans", 400, 404
            ),
            "parameters": [plan, listed],
        },
        "/v1/plans/{name}": {
            **_get("getPlan", "A plan as plan.toml, or described in JSON. Has an ETag.", "Plan", 404),
            "parameters": [_parameter("name", "path", _NAME, required=True)],
        },
        "/v1/estimates": {
            **_get("getEstimates", "Estimates with their intervals.", "Estimates", 400, 404, 406),
            "parameters": [
                *selection,
                _parameter("round", "query", rounds, "N, or FIRST-LAST"),
                _parameter("format", "query", {"enum": ["json", "csv", "arrow"]}),
            ],
        },
        "/v1/changes": {
            **_get("getChanges", "Changes of figures from another period.", "Changes", 400, 404),
            "parameters": [*selection, against, listed],
        },
        "/v1/differences": {
            **_get("getDifferences", "Tags held against one, or as changes.", "Differences", 400, 404),
            "parameters": [*selection, against, baseline, listed],
        },
        "/v1/trends": {
            **_get("getTrends", "What rises or falls over the periods asked for.", "Trends", 400, 404),
            "parameters": [*selection, listed],
        },
        "/v1/notes": {
            **_get("listNotes", "Notes of releases and other events, the oldest first.", "Notes", 400, 404),
            "parameters": [plan, since, until, listed],
        },
        "/v1/rounds": {
            **_get("listRounds", "Rounds, latest first.", "Rounds", 400, 404),
            "parameters": [plan, last, listed],
        },
        "/metrics": _get("getMetrics", "Health and newest estimates, for Prometheus.", "text/plain"),
        "/healthz": {**_get("isAlive", "Whether the process answers.", "Status"), **public},
        "/readyz": {**_get("isReady", "Whether the store answers.", "Status", 503), **public},
        "/openapi.json": _get("getOpenapi", "This document.", "application/json"),
    }
    send = {
        "operationId": "sendReports",
        "summary": "Send one report, or a batch. 202 means durable, and counted once.",
        "x-roles": ["ingest", "admin"],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": _reference("Report")},
                "application/x-ndjson": {"schema": _TEXT},
                "application/vnd.reticent.packed": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        "responses": _responses(
            "Accepted", 400, 404, 408, 409, 410, 413, 415, 425, 429, 431, 503, status=202
        ),
    }
    note = {
        "operationId": "addNotes",
        "summary": "Add a note, or a list of them; one that is there already is not added again.",
        "x-roles": ["admin"],
        "requestBody": {"required": True, "content": {"application/json": {"schema": _NOTES_ADDED}}},
        "responses": _responses("Notes", 400, 413, 415, status=201),
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "reticent collector",
            "version": version("reticent"),
            "description": "Private telemetry for counters: noisy bits in, estimates with intervals out.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"key": []}],
        "paths": {
            "/v1/reports": {"post": send},
            **{path: {"get": get} for path, get in gets.items()},
            "/v1/notes": {"get": gets["/v1/notes"], "post": note},
        },
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _get(name: str, summary: str, answer: str, *problems: int) -> Schema:
    """A GET that answers with a schema, or with a media type."""
    return {
        "operationId": name,
        "summary": summary,
        "x-roles": ["reader", "admin"],
        "responses": _responses(answer, *problems),
    }


def _responses(answer: str, *problems: int, status: int = 200) -> Schema:
    content: dict[str, Any] = {answer: {}}
    if answer in _SCHEMAS:
        content = {"application/json": {"schema": _reference(answer)}}
    if answer in ("Estimates", "Changes", "Differences", "Trends", "Notes", "Plans", "Rounds"):
        content |= {"text/csv": {}}
    if answer == "Estimates":
        content |= {"application/vnd.apache.arrow.stream": {}}
    if answer == "Plan":
        content |= {"application/toml": {}}
    problem = {"application/problem+json": {"schema": _reference("Problem")}}
    refused = {"description": "Refused", "content": problem}
    codes = sorted({401, 403, 503, *problems})
    return {
        str(status): {"description": "OK", "content": content},
        **{str(code): refused for code in codes},
    }


def _parameter(
    name: str, place: str, schema: dict[str, Any], text: str = "", required: bool = False
) -> Schema:
    return {"name": name, "in": place, "required": required, "description": text, "schema": schema}
