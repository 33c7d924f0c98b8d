"""
What the site has and the repository has not: pages of docstrings, and the help of every verb.

A module in the list of docs/reference/python.md gets a page in docs/reference/python, written for each build and
ignored by git. `<!-- help -->` becomes what `reticent VERB --help` prints.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

PYTHON = Path(__file__).parents[1] / "reference" / "python"
LISTED = re.compile(r"(?<=^- \[`)(reticent[._]\w+(?:\.\w+)*)`\]\([^)]*\)", re.MULTILINE)
"""A module in the list, with its link to the source."""


def documented_modules() -> list[str]:
    """The modules that the list names."""
    return LISTED.findall(PYTHON.with_suffix(".md").read_text())


def public_names(module: ModuleType) -> list[str]:
    """`__all__`, or the public classes and functions that a module without it defines."""
    defined = [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    ]
    return list(getattr(module, "__all__", defined))


def constants(module: ModuleType) -> dict[str, str]:
    """The public names that autodoc does not see by itself, each with the string below its assignment."""
    inside = [name for name in sys.modules if f"{name}.".startswith(f"{module.__name__}.")]
    found = {
        name: "\n".join(lines)
        for part in inside
        for (scope, name), lines in ModuleAnalyzer.for_module(part).find_attr_docs().items()
        if not scope
    }
    own = ModuleAnalyzer.for_module(module.__name__).find_attr_docs()
    things = {name: getattr(module, name) for name in public_names(module) if ("", name) not in own}
    return {
        name: found.get(name, "")
        for name, thing in things.items()
        if not inspect.isclass(thing) and not inspect.isroutine(thing)
    }


def write_python(app: Sphinx) -> None:
    """A page per module, which autodoc fills."""
    PYTHON.mkdir(exist_ok=True)
    for name in documented_modules():
        module = importlib.import_module(name)
        vars(module).update(
            {each: getattr(module, each) for each in public_names(module)}
        )  # the lazy ones too
        members = ["   :imported-members:"] if hasattr(module, "__all__") else []
        data = [
            f"\n.. autodata:: {constant}\n   :no-value:\n\n{indent(about.replace('`', '``'), '   ')}"
            for constant, about in constants(module).items()
        ]
        directive = "\n".join([f".. automodule:: {name}", *members, *data])
        page, text = PYTHON / f"{name}.md", f"# {name}\n\n```{{eval-rst}}\n{directive}\n```\n"
        if not page.exists() or page.read_text() != text:  # a page that stays the same is not built again
            page.write_text(text)


def show(app: Sphinx, docname: str, source: list[str]) -> None:
    """Lead from the list to the pages, and show the help of the verbs."""
    if docname == "docs/reference/python":
        source[0] = LISTED.sub(r"\1`](python/\1.md)", source[0])
    if "<!-- help -->" in source[0]:
        source[0] = source[0].replace("<!-- help -->", help_of_verbs())


def help_of_verbs() -> str:
    """A section per verb, with what the command prints; those of a device read their arguments themselves."""
    import click
    from click.testing import CliRunner

    from reticent.cli import DEVICE_VERBS
    from reticent_collector.cli.root import reticent

    def section(*path: str) -> str:
        shown = CliRunner().invoke(reticent, [*path, "--help"], prog_name="reticent").output
        return f"## reticent {' '.join(path)}\n\n```text\n{shown}```\n"

    sections = []
    context = click.Context(reticent)
    for name in reticent.list_commands(context):
        command = reticent.get_command(context, name)
        below = DEVICE_VERBS if name == "device" else getattr(command, "commands", {})
        sections += [section(name), *(section(name, verb) for verb in sorted(below))]
    return "\n".join(sections)


def setup(app: Sphinx) -> dict[str, Any]:
    """Before pages are looked for, and when one is read."""
    app.connect("builder-inited", write_python)
    app.connect("source-read", show)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
