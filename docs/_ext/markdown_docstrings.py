"""
Docstrings as they are written here, shown as they are meant.

They are plain text: `names` in backticks, *symbols* in stars, formulas and tables indented, sessions with
prompts. reStructuredText reads a `|` or a trailing `_` as markup, and breaks the lines of a formula; so the
text is escaped, names in backticks become code (with a link where they are public), and what is indented is
kept as it is.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

from from_code import documented_modules, public_names
from sphinx.application import Sphinx

INLINE = re.compile(r"`+([^`]+)`+|\*\*([^*]+)\*\*|(?<!\w)\*([^*\s](?:[^*\n]*[^*\s])?)\*(?!\w)")
LIST = re.compile(r"(- |\d+\. )")


def converted(lines: list[str], links: dict[str, str]) -> Iterator[str]:
    """The lines as reStructuredText."""
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield from _block(block, links)
            block = []
            yield ""


def _block(block: list[str], links: dict[str, str]) -> Iterator[str]:
    if block[0].lstrip().startswith(">>> "):
        yield from block
    elif block[0].startswith("    "):
        yield from (".. code-block:: text", "", *(f"    {line}" for line in block))
    else:
        for line in _joined(block):
            mark = LIST.match(line)
            start = mark[0] if mark else ""
            yield start + inline(line[len(start) :], links)


def _joined(block: list[str]) -> list[str]:
    """Lines of a paragraph in one, as code may run over an end of line; items of a list one by one."""
    joined: list[str] = []
    for line in block:
        if joined and not LIST.match(line):
            joined[-1] += " " + line.strip()
        else:
            joined.append(line)
    return joined


def inline(text: str, links: dict[str, str]) -> str:
    """One paragraph with its markup, everything else escaped."""
    out, place = [], 0
    for found in INLINE.finditer(text):
        out.append(_plain(text[place : found.start()]))
        out.append(_marked(found, links))
        place = found.end()
    return "".join([*out, _plain(text[place:])])


def _marked(found: re.Match[str], links: dict[str, str]) -> str:
    code, strong, symbol = found.groups()
    if strong:
        return rf"\ **{_plain(strong)}**\ "
    if symbol:
        return rf"\ *{_plain(symbol)}*\ "
    if target := links.get(code.removesuffix("()")):
        return rf"\ :py:obj:`{code} <{target}>`\ "
    return rf"\ ``{code}``\ "


def _plain(text: str) -> str:
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def public_links() -> dict[str, str]:
    """Each public name by itself, and where it is documented."""
    return {
        name: f"{module}.{name}"
        for module in documented_modules()
        for name in public_names(importlib.import_module(module))
    }


def setup(app: Sphinx) -> dict[str, Any]:
    """Convert every docstring before it is read."""
    links: dict[str, str] = {}

    def convert(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
        if not links:
            links.update(public_links())
        lines[:] = converted(lines, links)

    app.connect("autodoc-process-docstring", convert)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
