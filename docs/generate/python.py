"""
Write docs/reference/python.md, the list of public names, and the pages that autodoc fills.

    python docs/generate/python.py            write them
    python docs/generate/python.py --check    say which of them is not current, and exit with 3
"""

from __future__ import annotations

import ast
import importlib
import inspect
from functools import cache
from itertools import zip_longest
from pathlib import Path
from textwrap import indent
from types import ModuleType

from writing import ROOT, main

import reticent

PACKAGE = Path(str(reticent.__file__)).parent
"""Where reticent is installed: in the repository, or from a wheel."""

MODULES = (
    "reticent", "reticent.plan", "reticent.device", "reticent.reports", "reticent.counts", "reticent.estimates",
    "reticent.mechanisms", "reticent.privacy", "reticent.stores", "reticent.columns", "reticent.results",
    "reticent.frames",
    "reticent.lab.fleet", "reticent.lab.fleet_counts", "reticent.lab.simulate", "reticent.lab.design",
    "reticent.lab.audit", "reticent.lab.baselines", "reticent.lab.central", "reticent.testing",
    "reticent.otel", "reticent.errors",
)  # fmt: skip

HEAD = """\
# Python

Every public name. What is not listed here may change without notice. The site (`make docs`) shows the docstrings.
"""

PAGE = """\
# {module}

On the site, `make docs`, this page shows the docstrings of [{source}](../../../{source}).

```{{eval-rst}}
.. automodule:: {module}{more}
```
"""


def public_names(module: ModuleType) -> list[str]:
    """`__all__`, or the public classes and functions that a module without it defines."""
    defined = [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    ]
    return list(getattr(module, "__all__", defined))


def homes() -> dict[str, str]:
    """Where the names of the package itself are described: in the module that has them."""
    return {name: module for module in MODULES[1:] for name in public_names(importlib.import_module(module))}


def assigned(module: ModuleType, name: str) -> tuple[str, str]:
    """What is assigned to a name in its package, and the string below, which Python does not keep."""
    file = Path(str(module.__file__))
    for line, below in statements(file.parent if file.name == "__init__.py" else file):
        value = _assignments(line).get(name)
        if value is not None:
            return ast.unparse(value), _string(below)
    raise LookupError(f"{module.__name__}.{name} is assigned nowhere in its package")


@cache
def statements(package: Path) -> list[tuple[ast.stmt, ast.stmt | None]]:
    """What the modules of a package are made of, each statement with the one below it."""
    sources = [package] if package.is_file() else sorted(package.rglob("*.py"))
    modules = [ast.parse(source.read_text()).body for source in sources]
    return [pair for body in modules for pair in zip_longest(body, body[1:])]


def _assignments(line: ast.stmt) -> dict[str, ast.expr | None]:
    match line:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return {name: value}
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            return {
                name.id: value
                for name, value in zip(names, values, strict=True)
                if isinstance(name, ast.Name)
            }
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            return {name: value}
    return {}


def _string(line: ast.stmt | None) -> str:
    match line:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
    return ""


def index() -> str:
    """The page of all names."""
    described = homes()
    parts = [HEAD]
    for title in MODULES:
        module = importlib.import_module(title)
        about = sentence_of_module(module)
        homes_of = {
            name: described.get(name, title) if title == "reticent" else title
            for name in public_names(module)
        }
        names = [f"[`{name}`](python/{home}.md#{home}.{name})" for name, home in homes_of.items()]
        parts.append(f"\n## [{title}](python/{title}.md)\n\n{about}\n\n{' · '.join(names)}\n")
    pages = "\n".join(f"python/{title}" for title in MODULES)
    return "".join([*parts, f"\n<!-- contents\n{pages}\n-->\n"])


def sentence_of_module(module: ModuleType) -> str:
    """What a module is for."""
    return (inspect.getdoc(module) or "").split("\n\n")[0]


def more(title: str) -> str:
    """What autodoc is told: leave out what is described elsewhere, and what a constant is."""
    if title == "reticent":
        return "\n   :no-members:"
    module = importlib.import_module(title)
    imported = "\n   :imported-members:" if hasattr(module, "__all__") else ""
    things = {name: getattr(module, name) for name in public_names(module)}
    values = [
        name for name, thing in things.items() if not inspect.isclass(thing) and not inspect.isroutine(thing)
    ]
    return (
        imported
        + "".join(
            f"\n\n.. autodata:: {name}\n   :no-value:\n" + _below(assigned(module, name)[1])
            for name in values
        ).rstrip()
    )


def _below(text: str) -> str:
    """What is said of a constant, as autodoc's markup."""
    return indent("\n" + text.replace("`", "``"), "   ") if text else ""


def pages() -> dict[Path, str]:
    """Every page and its text."""
    folder = ROOT / "docs" / "reference"
    written = {folder / "python.md": index()}
    for title in MODULES:
        inside = Path(str(importlib.import_module(title).__file__)).relative_to(PACKAGE).as_posix()
        source = f"src/reticent/{inside}"
        text = PAGE.format(module=title, source=source, more=more(title))
        written[folder / "python" / f"{title}.md"] = text
    return written


if __name__ == "__main__":
    main(pages)
