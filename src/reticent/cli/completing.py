"""What a shell may offer for a parameter: plans, stores, and the names in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from reticent.plan import Plan


class PlanFile(click.Path):
    """A plan file: those that end in .toml are offered, if nothing else could be meant."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The plans of the folder that is being typed, or whatever the shell finds."""
        folder, _, start = incomplete.rpartition("/")
        found = list(Path(f"{folder}/" if folder or incomplete.startswith("/") else ".").glob(f"{start}*"))
        plans = sorted(path.name for path in found if path.suffix == ".toml" and path.is_file())
        if not plans or any(path.is_dir() and start for path in found):
            return super().shell_complete(ctx, param, incomplete)
        return [CompletionItem(f"{folder}/{name}" if "/" in incomplete else name) for name in plans]


class StoreUrl(click.types.StringParamType):
    """The address of a store: kinds of addresses, and the stores in the folder that is being typed."""

    name = "URL"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Addresses that begin like this."""
        kinds = ["sqlite:///", "postgresql://", "lake:///", "lake+s3://"]
        found = [*_stores("sqlite:///", incomplete), *_stores("lake:///", incomplete)]
        return [CompletionItem(each) for each in [*found, *kinds] if each.startswith(incomplete)]


def _stores(kind: str, incomplete: str) -> list[str]:
    """The stores of a kind in a folder: SQLite files that are reticent's, or folders that are a lake."""
    typed = incomplete.removeprefix(kind) if incomplete.startswith(kind) else ""
    folder, slash, _ = typed.rpartition("/")
    try:
        inside = sorted(Path(folder or slash or ".").iterdir())
    except OSError:
        return []
    suits = _is_sqlite_store if kind == "sqlite:///" else _is_lake
    return [f"{kind}{folder}{slash}{path.name}" for path in inside if suits(path)]


def _is_sqlite_store(path: Path) -> bool:
    """A file with reticent's mark in its header."""
    try:
        with path.open("rb") as file:
            header = file.read(72)
    except OSError:
        return False
    return header.startswith(b"SQLite format 3\x00") and header[68:] == (0x2E71CE01).to_bytes(4, "big")


def _is_lake(path: Path) -> bool:
    return (path / "lake.json").is_file()


def complete_metric(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The metrics of the plans in the store or the file of counts that was named before."""
    names = {metric.name for plan in _plans(ctx.params) for metric in plan.metrics}
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def complete_plan(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of those plans."""
    names = {plan.name for plan in _plans(ctx.params)}
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def complete_segment(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The segments of those plans, with their tags for --segment and without for --by."""
    segments = [segment for plan in _plans(ctx.params) for segment in plan.segments]
    if param.name == "by":
        names = {segment.name for segment in segments}
    else:
        names = {f"{segment.name}:{tag}" for segment in segments for tag in segment.tags}
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _plans(given: dict[str, Any]) -> list[Plan]:
    """The plans behind --counts or --store; none when they cannot be had. Nothing is made or changed."""
    from reticent.errors import ReticentError

    try:
        if given.get("counts"):
            from reticent.frames import read_counts

            return list(read_counts(given["counts"]).plans)
        from reticent.cli.readonly import read_only

        with read_only(given["store"]) as store:
            return store.plans()
    except (ReticentError, OSError, KeyError, ImportError, AttributeError):
        return []
