"""The interface as an OpenAPI 3.1 document; also committed as docs/reference/openapi.json."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from reticent.collector.problems import DETAILS

_NUMBER = {"type": "number"}
_TEXT = {"type": "string"}
_WHOLE = {"type": "integer", "minimum": 0}
_ROUNDS = {"type": "string", "pattern": "^[0-9]{1,16}(-[0-9]{1,16})?$"}
_PATTERN = "^[a-z][a-z0-9_-]{0,63}$"

_ESTIMATE = {
    "value": _NUMBER,
    "lower": _NUMBER,
    "upper": _NUMBER,
    "confidence": _NUMBER,
    "reports": _WHOLE,
    "unit": _TEXT,
    "half_width": _NUMBER,
    "noise_half_width": _NUMBER,
    "sampling_half_width": _NUMBER,
    "paper_bound": _NUMBER,
    "manipulation": _NUMBER,
    "consistent": {"type": "boolean"},
}
_ROW = {
    "type": "object",
    "required": ["row", "reports", "expected", "p_value"],
    "properties": {"row": _WHOLE, "reports": _WHOLE, "expected": _NUMBER, "p_value": _NUMBER},
}
_BALANCE = {
    "type": "object",
    "description": "A histogram's reports on each row (bucket of dBitFlip, row of the Hadamard bit) held "
    "against chance. Uneven below 10^-6: somebody picks cohorts, or a client draws them wrongly.",
    "required": ["p_value", "even", "over", "under"],
    "properties": {
        "p_value": {"type": "number", "minimum": 0, "maximum": 1},
        "even": {"type": "boolean"},
        "over": {"type": "array", "items": _ROW, "description": "Rows with more reports than chance gives"},
        "under": {"type": "array", "items": _ROW, "description": "Rows with fewer"},
    },
}
_WHERE = {
    "plan": _TEXT,
    "version": _WHOLE,
    "metric": _TEXT,
    "kind": {"enum": ["mean", "histogram"]},
    "round": _WHOLE,
    "start": _WHOLE,
    "end": _WHOLE,
    "state": {"enum": ["open", "sealed"], "description": "open: provisional, reports still come in"},
    "segment": {"type": "object", "additionalProperties": _TEXT},
}
_SCHEMAS: dict[str, Any] = {
    "Report": {
        "type": "object",
        "description": "One report; see docs/reference/wire.md. Nothing else may be in it.",
        "required": ["plan", "version", "round", "id", "bits"],
        "additionalProperties": False,
        "properties": {
            "plan": {"type": "string", "pattern": _PATTERN},
            "version": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
            "round": {"type": "integer", "minimum": 0, "maximum": 2**53 - 1},
            "id": {
                "type": "string",
                "pattern": "^[A-Za-z0-9_-]{21}[AQgw]$",
                "description": "16 bytes, base64url",
            },
            "cohort": {"type": "integer", "minimum": 0, "maximum": 255},
            "bits": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "description": "Answers, base64url"},
            "segment": {"type": "object", "additionalProperties": _TEXT},
        },
    },
    "Accepted": {
        "type": "object",
        "required": ["accepted"],
        "properties": {
            "accepted": {**_WHOLE, "description": "Durable, and counted once each"},
            "rejected": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["index", "code"],
                    "properties": {"index": _WHOLE, "code": _TEXT},
                },
            },
        },
    },
    "Estimates": {
        "type": "object",
        "required": ["estimates"],
        "properties": {
            "estimates": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": [*_WHERE, "confidence", "reports"],
                    "properties": {
                        **_WHERE,
                        **_ESTIMATE,
                        "balance": _BALANCE,
                        "buckets": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["edges", "value", "lower", "upper"],
                                "properties": {
                                    "edges": {
                                        "type": "array",
                                        "items": _NUMBER,
                                        "minItems": 2,
                                        "maxItems": 2,
                                    },
                                    **_ESTIMATE,
                                },
                            },
                        },
                    },
                },
            }
        },
    },
    "Rounds": {
        "type": "object",
        "required": ["rounds"],
        "properties": {
            "rounds": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["plan", "version", "round", "start", "end", "closes", "state", "reports"],
                    "properties": {
                        "plan": _TEXT,
                        "version": _WHOLE,
                        "round": _WHOLE,
                        "start": _WHOLE,
                        "end": _WHOLE,
                        "closes": _WHOLE,
                        "state": {"enum": ["open", "sealed"]},
                        "reports": _WHOLE,
                    },
                },
            }
        },
    },
    "Plan": {
        "type": "object",
        "required": ["name", "version", "round_seconds", "grace_seconds", "metrics", "segments", "toml"],
        "properties": {
            "name": _TEXT,
            "version": _WHOLE,
            "round_seconds": _WHOLE,
            "grace_seconds": _WHOLE,
            "owner": _TEXT,
            "expires": {"type": ["string", "null"], "format": "date"},
            "metrics": {"type": "array", "items": {"type": "object"}},
            "segments": {"type": "object", "additionalProperties": {"type": "array", "items": _TEXT}},
            "toml": _TEXT,
        },
    },
    "Plans": {
        "type": "object",
        "required": ["plans"],
        "properties": {"plans": {"type": "array", "items": {"$ref": "#/components/schemas/Plan"}}},
    },
    "Status": {"type": "object", "required": ["status"], "properties": {"status": _TEXT}},
    "Problem": {
        "type": "object",
        "description": "RFC 9457",
        "required": ["type", "title", "status", "code", "detail"],
        "properties": {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "code": {"enum": sorted(DETAILS)},
            "detail": _TEXT,
        },
    },
}


def openapi_document() -> dict[str, Any]:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "reticent collector",
            "version": version("reticent"),
            "description": "Private telemetry for counters: noisy bits in, estimates with intervals out.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"key": []}],
        "paths": _paths(),
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _paths() -> dict[str, Any]:
    plan_name = _parameter("name", "path", {"type": "string", "pattern": _PATTERN}, required=True)
    plan = _parameter("plan", "query", {"type": "string", "pattern": _PATTERN})
    last = _parameter(
        "last", "query", {"type": "integer", "minimum": 1, "maximum": 10_000}, "Latest rounds only"
    )
    return {
        "/v1/reports": {
            "post": {
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
                    "Accepted", 400, 404, 408, 409, 410, 413, 415, 425, 429, 431, 503, ok=202
                ),
            }
        },
        "/v1/plans": {"get": _get("listPlans", "The newest version of every plan.", "Plans")},
        "/v1/plans/{name}": {
            "get": {
                **_get("getPlan", "A plan as plan.toml, or described in JSON. Has an ETag.", "Plan", 404),
                "parameters": [plan_name],
            }
        },
        "/v1/estimates": {
            "get": {
                **_get("getEstimates", "Estimates with their intervals.", "Estimates", 400, 404, 406),
                "parameters": [
                    {**plan, "required": True},
                    _parameter("metric", "query", {"type": "string", "pattern": _PATTERN}),
                    _parameter("round", "query", _ROUNDS, "N, or FIRST-LAST"),
                    last,
                    _parameter("segment", "query", {"type": "string"}, "NAME:TAG, several may be given"),
                    _parameter("by", "query", {"type": "string"}, "Estimate the tags of this segment apart"),
                    _parameter(
                        "confidence",
                        "query",
                        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                    ),
                    _parameter("format", "query", {"enum": ["json", "csv", "arrow"]}),
                ],
            }
        },
        "/v1/rounds": {
            "get": {
                **_get("listRounds", "Rounds, latest first.", "Rounds", 400, 404),
                "parameters": [plan, last],
            }
        },
        "/metrics": {
            "get": _plain("getMetrics", "Health and newest estimates, for Prometheus.", "text/plain")
        },
        "/healthz": {"get": {**_get("isAlive", "Whether the process answers.", "Status"), **_public()}},
        "/readyz": {"get": {**_get("isReady", "Whether the store answers.", "Status", 503), **_public()}},
        "/openapi.json": {"get": _plain("getOpenapi", "This document.", "application/json")},
    }


def _public() -> dict[str, Any]:
    return {"security": [], "x-roles": ["public"]}


def _get(name: str, summary: str, schema: str, *problems: int) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "x-roles": ["reader", "admin"],
        "responses": _responses(schema, *problems),
    }


def _plain(name: str, summary: str, kind: str) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "x-roles": ["reader", "admin"],
        "responses": {"200": {"description": "OK", "content": {kind: {}}}, **_problems(401, 403, 503)},
    }


def _responses(schema: str, *problems: int, ok: int = 200) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": _reference(schema)}}
    if schema == "Estimates":
        content |= {"text/csv": {}, "application/vnd.apache.arrow.stream": {}}
    if schema == "Plan":
        content |= {"application/toml": {}}
    codes = sorted({401, 403, 503, *problems})
    return {str(ok): {"description": "OK", "content": content}, **_problems(*codes)}


def _problems(*codes: int) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": _reference("Problem")}}
    return {str(code): {"description": "Refused", "content": content} for code in codes}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _parameter(
    name: str, place: str, schema: dict[str, Any], text: str = "", required: bool = False
) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "description": text, "schema": schema}
