"""
The shape of the code in numbers, read from the source: how many ideas, and whether a name has one meaning.

    python3 tools/street.py                  # this tree
    python3 tools/street.py --ref 33b1a23    # beside an older one, such as the last with one package
    python3 tools/street.py --json
    python3 tools/street.py --shape */src .venv/lib/python3*/site-packages/starlette   # beside other packages

Counted is what lies under the `src` folders: of a tree with one package, that package without the reproduction of the
paper, which is a house now. The numbers are signs, not aims.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
TANGLED = 15
BRANCHES = (
    ast.If,
    ast.For,
    ast.While,
    ast.IfExp,
    ast.ExceptHandler,
    ast.comprehension,
    ast.BoolOp,
)
STATE_FILE = {"statefile", "schema"}
"""The modules of `reticent.device` in which SQL about the device's tables is at home."""

NOT_OF_A_DEVICE = {
    "reticent_collector", "reticent_lake",
    "collector", "lake", "stores", "results", "dashboard", "frames", "estimates", "docs",
}  # fmt: skip
"""Packages and folders of tests whose tables are a store's; some have the names of a device's."""


@dataclass(frozen=True)
class Module:
    """A file of a house, read."""

    house: str
    name: str
    """As it is imported."""

    path: str
    """From the root."""

    tree: ast.Module

    @cached_property
    def exported(self) -> list[str]:
        """The names in `__all__`."""
        return [
            str(element.value)
            for node in self.tree.body
            if isinstance(node, ast.Assign) and any(_name(target) == "__all__" for target in node.targets)
            for element in getattr(node.value, "elts", [])
        ]

    @cached_property
    def classes(self) -> list[str]:
        """The classes of the module itself, not those inside others or inside functions."""
        return [node.name for node in self.tree.body if isinstance(node, ast.ClassDef)]

    @cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """For each name that comes from another module: that module, and its name there."""
        return {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }


@dataclass(frozen=True)
class Function:
    """A function with many branches."""

    branches: int
    where: str


@dataclass(frozen=True)
class Street:
    """The numbers of a tree."""

    files: int
    bytes: int
    zipped: int
    modules: int
    classes: int
    exported: int
    two_meanings_in_a_house: dict[str, list[str]]
    two_meanings: dict[str, list[str]]
    tangled: list[Function]
    tuple_assignments: int
    sql_modules: list[str]
    sql_in_tests: int


def _name(node: ast.AST) -> str:
    return getattr(node, "id", "")


def houses(root: Path) -> dict[str, Path]:
    """The package of each house by the house's folder; a tree with one package has one house, named like it."""
    found = sorted([*root.glob("src/*/__init__.py"), *root.glob("*/src/*/__init__.py")])
    packages = [path.parent for path in found]
    return {
        package.name if package.parents[1] == root else package.parents[1].name: package
        for package in packages
    }


def modules(root: Path) -> list[Module]:
    """Every module of every house."""
    read = []
    for house, package in houses(root).items():
        for path in sorted(package.rglob("*.py")):
            if path.is_symlink():  # of spec/, which shares no name with the houses on purpose
                continue
            parts = path.relative_to(package.parent).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            read.append(Module(house, name, str(path.relative_to(root)), ast.parse(path.read_text())))
    return read


def home(name: str, module: str, known: dict[str, Module]) -> str:
    """
    The module that defines what `module` calls `name`, with its name there: imports are followed.

    >>> a = Module("h", "h.a", "h/a.py", ast.parse("from h.b import Row as Line"))
    >>> b = Module("h", "h.b", "h/b.py", ast.parse("class Row: pass"))
    >>> home("Line", "h.a", {"h.a": a, "h.b": b})
    'h.b.Row'
    """
    seen = set()
    while module in known and module not in seen and name in known[module].imported:
        seen.add(module)
        module, name = known[module].imported[name]
    return f"{module}.{name}"


def meanings(read: Iterable[Module], *, exported: bool = True) -> dict[str, list[str]]:
    """For each name of a class, and each exported name: what it means, as the places that define it."""
    read = list(read)
    known = {module.name: module for module in read}
    found: dict[str, set[str]] = {}
    for module in read:
        for name in [*module.classes, *(module.exported if exported else ())]:
            found.setdefault(name, set()).add(home(name, module.name, known))
    return {name: sorted(places) for name, places in sorted(found.items())}


def twice(meant: dict[str, list[str]]) -> dict[str, list[str]]:
    """
    The names with more than one meaning.

    >>> twice({"Row": ["h.a.Row", "h.b.Row"], "Table": ["h.a.Table"]})
    {'Row': ['h.a.Row', 'h.b.Row']}
    """
    return {name: places for name, places in meant.items() if len(places) > 1}


def branches(function: ast.AST) -> int:
    """
    How many ways lead through a function.

    >>> branches(ast.parse("def f(a):\\n    if a and a > 1:\\n        return [b for b in a]"))
    4
    """
    return 1 + sum(isinstance(node, BRANCHES) for node in ast.walk(function))


def tangled(read: Iterable[Module]) -> list[Function]:
    """The functions with `TANGLED` branches or more, the most first."""
    found = [
        Function(count, f"{module.path}:{node.lineno} {node.name}")
        for module in read
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (count := branches(node)) >= TANGLED
    ]
    return sorted(found, key=lambda each: (-each.branches, each.where))


def tuple_assignments(tree: ast.AST) -> int:
    """
    How many assignments have the form `a, b = x, y`.

    >>> tuple_assignments(ast.parse("a, b = 1, 2; a, b = f(); a = 1, 2"))
    1
    """
    return sum(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and any(isinstance(target, ast.Tuple) for target in node.targets)
        for node in ast.walk(tree)
    )


def texts(tree: ast.AST) -> Iterator[str]:
    """The strings of a file, with {} for what is filled in, but for its docstrings."""
    kept_out = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            kept_out.update(id(part) for part in node.values)
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in kept_out:
            yield node.value


def statements(tree: ast.AST, tables: Iterable[str]) -> int:
    """
    How many strings are SQL about one of the tables.

    >>> statements(ast.parse("run('SELECT * FROM totals'); run('DELETE FROM other')"), ["totals"])
    1
    """
    about = re.compile(rf"\b(?:FROM|INTO|UPDATE|TABLE|JOIN) +(?:{'|'.join(sorted(tables))})\b")
    return sum(bool(about.search(text)) for text in texts(tree))


def device_tables(read: Iterable[Module]) -> set[str]:
    """The tables of the device's state file, as its schema makes them."""
    return {
        table
        for module in read
        if module.name == "reticent.device.schema"
        for text in texts(module.tree)
        for table in re.findall(r"CREATE TABLE (\w+)", text)
    }


def sql_modules(read: Iterable[Module], tables: set[str]) -> list[str]:
    """The modules with SQL about the device's tables, beside those of the state file."""
    at_home = {f"reticent.device.{name}" for name in STATE_FILE}
    return [
        module.path
        for module in read
        if module.name not in at_home
        and not NOT_OF_A_DEVICE.intersection(module.name.split("."))
        and statements(module.tree, tables)
    ]


def sql_in_tests(root: Path, tables: set[str]) -> int:
    """How many statements about the device's tables the tests have."""
    files = [*root.glob("tests/**/*.py"), *root.glob("*/tests/**/*.py")]
    return sum(
        statements(ast.parse(path.read_text()), tables)
        for path in files
        if not NOT_OF_A_DEVICE.intersection(path.relative_to(root).parts)
    )


def zipped(files: Iterable[Path], folder: Path) -> int:
    """The size of the files in a zip, as a wheel is one, with their names from `folder`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.relative_to(folder))
    return len(buffer.getvalue())


def measure(root: Path) -> Street:
    """All numbers of the tree at `root`."""
    read = modules(root)
    street = houses(root)
    device = street.get("device") or street["reticent"]
    brought = [path for path in device.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    by_house: dict[str, list[Module]] = {}
    for module in read:
        by_house.setdefault(module.house, []).append(module)
    tables = device_tables(read)
    return Street(
        files=len(brought),
        bytes=sum(path.stat().st_size for path in brought),
        zipped=zipped(brought, device.parent),
        modules=len(read),
        classes=sum(len(module.classes) for module in read),
        exported=sum(len(module.exported) for module in read),
        two_meanings_in_a_house={
            f"{house}: {name}": places
            for house, own in by_house.items()
            for name, places in twice(meanings(own)).items()
        },
        two_meanings=twice(meanings(read)),
        tangled=tangled(read),
        tuple_assignments=sum(tuple_assignments(module.tree) for module in read),
        sql_modules=sql_modules(read, tables),
        sql_in_tests=sql_in_tests(root, tables),
    )


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """
    The lines of a function without its head and docstring.

    >>> body_lines(ast.parse("def f():\\n    'What.'\\n    a = 1\\n    return a").body[0])
    2
    """
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def public(nodes: Iterable[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """The public functions and classes of a module, and the public methods of these classes."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


def shape(folders: Iterable[Path]) -> str:
    """How long functions and files of some packages are, and how many of them say what they do."""
    files = [path for folder in folders for path in folder.rglob("*.py") if "tests" not in path.parts]
    trees = [ast.parse(path.read_text()) for path in files]
    functions = [
        node
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    bodies = sorted(map(body_lines, functions))
    named = [node for tree in trees for node in public(tree.body)]
    lines = sorted(len(path.read_text().splitlines()) for path in files)
    typed = sum(function.returns is not None for function in functions) / len(functions)
    documented = sum(ast.get_docstring(node) is not None for node in named) / len(named)
    return (
        f"{len(files)} files of {lines[len(lines) // 2]} lines at the median, {lines[-1]} at most; functions of"
        f" {bodies[len(bodies) // 2]} lines at the median, {bodies[len(bodies) * 9 // 10]} at the 90th percentile;"
        f" {typed:.0%} have a return type, {documented:.0%} of public names a docstring"
    )


def measure_ref(ref: str) -> Street:
    """All numbers of an older version, unpacked beside."""
    packed = subprocess.run(["git", "archive", ref], cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
        return measure(Path(folder))


def rows(street: Street) -> dict[str, str]:
    """
    The numbers as they are printed.

    >>> street = Street(2, 1500, 900, 3, 4, 5, {}, {"A": ["b.A", "c.A"]}, [], 6, [], 7)
    >>> rows(street)["names with two meanings, all houses"]
    '1'
    """
    return {
        "`pip install reticent` brings": f"{street.files} files, {street.bytes / 1000:,.0f} kB",
        "zipped": f"{street.zipped / 1000:,.0f} kB",
        "modules": str(street.modules),
        "classes / exported names": f"{street.classes} / {street.exported}",
        "names with two meanings in a house": str(len(street.two_meanings_in_a_house)),
        "names with two meanings, all houses": str(len(street.two_meanings)),
        f"functions with {TANGLED} branches or more": str(len(street.tangled)),
        "assignments `a, b = x, y`": str(street.tuple_assignments),
        "modules with SQL about a device's tables, beside its state file": str(len(street.sql_modules)),
        "such statements in tests": str(street.sql_in_tests),
    }


def table(columns: dict[str, Street]) -> str:
    """The numbers side by side, as a table of Markdown."""
    printed = {title: rows(street) for title, street in columns.items()}
    labels = list(next(iter(printed.values())))
    lines = [f"| | {' | '.join(printed)} |", f"|---|{'---:|' * len(printed)}"]
    lines += [f"| {label} | {' | '.join(column[label] for column in printed.values())} |" for label in labels]
    return "\n".join(lines)


def details(street: Street) -> str:
    """Where to look: each name with two meanings, and each function with many branches."""
    lines = []
    if street.two_meanings:
        lines += ["", "Names with two meanings:"]
        lines += [f"  {name}: {', '.join(places)}" for name, places in street.two_meanings.items()]
    if street.tangled:
        lines += ["", f"Functions with {TANGLED} branches or more:"]
        lines += [f"  {each.branches} {each.where}" for each in street.tangled]
    if street.sql_modules:
        lines += ["", "Modules with SQL about a device's tables, beside its state file:"]
        lines += [f"  {path}" for path in street.sql_modules]
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Print the numbers of this tree, beside those of an older one when it is named."""
    parser = argparse.ArgumentParser(description="The shape of the code in numbers.")
    parser.add_argument(
        "--ref", help="a commit to stand beside, such as 33b1a23: one package, before the houses"
    )
    parser.add_argument("--json", action="store_true", help="all of it, with the places, as JSON")
    parser.add_argument(
        "--shape", nargs="+", type=Path, metavar="FOLDER", help="the shape of these packages instead"
    )
    options = parser.parse_args(arguments)
    if options.shape:
        print(shape(options.shape))
        return
    columns = {"before": measure_ref(options.ref)} if options.ref else {}
    columns["now"] = measure(ROOT)
    if options.json:
        print(json.dumps({title: asdict(street) for title, street in columns.items()}, indent=2))
    else:
        print(table(columns))
        print(details(columns["now"]))


if __name__ == "__main__":
    main(sys.argv[1:])
