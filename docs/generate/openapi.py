"""
Write docs/reference/openapi.json, the interface of the collector, and openapi.md beside it, which shows it.

    python docs/generate/openapi.py            write them
    python docs/generate/openapi.py --check    say which of them is not current, and exit with 3
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from writing import ROOT, main, table

from reticent.collector import DETAILS, openapi_document

HEAD = """\
# The interface, route by route

What [openapi.json](openapi.json) says, for people; the collector serves the same at `/openapi.json`. How to
run a collector, and what its answers mean, is in [http](http.md). Keys travel as `Authorization: Bearer KEY`.
"""

WORDS = {
    "string": "text", "integer": "whole number", "number": "number", "boolean": "true or false",
    "object": "object", "null": "null",
}  # fmt: skip


def page(document: dict[str, Any]) -> str:
    """The whole page."""
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = document["components"]["schemas"]
    routes = table(
        ("route", "who", "does"),
        ((f"`{name}`", who(each), each["summary"]) for name, each in operations),
    )
    return "\n".join(
        [
            HEAD,
            "## Routes\n",
            routes,
            *(section(name, operation) for name, operation in operations),
            "## Bodies\n",
            "`[]` stands for each item of a list.\n",
            *(body(name, schema) for name, schema in schemas.items()),
            "## Codes of problems\n",
            "With which status each comes, and whether to send again: [http](http.md#problems).\n",
            table(("code", "detail"), ((f"`{code}`", detail) for code, detail in sorted(DETAILS.items()))),
        ]
    )


def who(operation: dict[str, Any]) -> str:
    """Whose keys open it."""
    return "anybody" if operation["x-roles"] == ["public"] else ", ".join(operation["x-roles"])


def section(name: str, operation: dict[str, Any]) -> str:
    """One route: its parameters, what it takes, what it answers."""
    parts = [f"### `{name}`\n", f"{operation['summary']} For: {who(operation)}.\n"]
    if parameters := operation.get("parameters"):
        parts.append(table(("parameter", "in", "is", "needed", "meaning"), map(parameter, parameters)))
    if taken := operation.get("requestBody"):
        parts.append(table(("takes", "body"), contents(taken["content"])))
    parts.append(table(("answers", "type", "body"), answers(operation["responses"])))
    return "\n".join(parts)


def parameter(described: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table of parameters."""
    is_needed, about = needed(described["required"]), described["description"]
    return f"`{described['name']}`", described["in"], kind(described["schema"]), is_needed, about


def answers(responses: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row per kind of answer; all refusals, which have one shape, in one."""
    refused = [status for status, answer in responses.items() if answer["description"] == "Refused"]
    for status, answer in responses.items():
        if status not in refused:
            yield from ((status, *row) for row in contents(answer["content"]))
    if refused:
        yield ", ".join(refused), "`application/problem+json`", reference("Problem")


def contents(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A row per content type."""
    for content_type, described in content.items():
        yield f"`{content_type}`", kind(described.get("schema", {}))


def body(name: str, schema: dict[str, Any]) -> str:
    """One schema: a row per field, those of lists and objects inside it too."""
    about = f"{schema['description']}\n\n" if "description" in schema else ""
    return f"### {name}\n\n{about}" + table(("field", "is", "needed", "meaning"), fields(schema))


def fields(schema: dict[str, Any], before: str = "") -> Iterator[tuple[str, ...]]:
    """The fields of an object in their order, each followed by its own."""
    for name, each in schema.get("properties", {}).items():
        is_needed = needed(name in schema.get("required", ()))
        yield f"`{before}{name}`", kind(each), is_needed, each.get("description", "")
        yield from fields(each, f"{before}{name}.")
        yield from fields(each.get("items", {}), f"{before}{name}[].")


def needed(is_needed: bool) -> str:
    """How a table says it."""
    return "yes" if is_needed else ""


def reference(name: str) -> str:
    """A link to a schema on this page."""
    return f"[{name}](#{name.lower()})"


def kind(schema: dict[str, Any]) -> str:
    """What a value may be, in few words."""
    match schema:
        case {"$ref": str(path)}:
            return reference(path.rsplit("/", 1)[1])
        case {"enum": values}:
            return ", ".join(f"`{value}`" for value in values)
        case {"type": "array", "items": items}:
            return f"list of {kind(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"object: name → {kind(values)}"
        case {"type": list(names)}:
            return " or ".join(WORDS[name] for name in names)
    return simple_kind(schema)


def simple_kind(schema: dict[str, Any]) -> str:
    """What a value may be that holds no others."""
    match schema:
        case {"type": "string", "format": "binary"}:
            return "bytes"
        case {"type": "string", "pattern": pattern}:
            return f"text matching `{pattern}`"
        case {"type": name}:
            return WORDS[name] + limits(schema)
    return "as its type says"


def limits(schema: dict[str, Any]) -> str:
    """The range of a number."""
    words = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    said: Iterable[str] = (f"{sign} {schema[word]:,}" for word, sign in words.items() if word in schema)
    return "".join(f" {each}" if place == 0 else f", {each}" for place, each in enumerate(said))


def pages() -> dict[Path, str]:
    """Both files and their texts."""
    folder = ROOT / "docs" / "reference"
    document = openapi_document()
    return {
        folder / "openapi.json": json.dumps(document, indent=2) + "\n",
        folder / "openapi.md": page(document),
    }


if __name__ == "__main__":
    main(pages)
