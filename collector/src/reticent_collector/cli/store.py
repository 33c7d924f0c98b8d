"""`reticent store` checks, copies, repairs and prunes a store; `reticent keys` says who may use it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reticent.errors import ReticentError, StoreError
from reticent_collector.cli.options import check_name, opened_store, plan_option, store_option
from reticent_collector.cli.output import (
    VerbGroup,
    as_json,
    counted,
    date_and_time,
    found_problems,
    progress,
    quiet,
    show,
    table,
)

if TYPE_CHECKING:
    from reticent_collector.stores import RoundInfo, Store


def _days(text: str) -> int:
    """
    A number of days.

    >>> _days("400d"), _days("7")
    (400, 7)
    """
    number = text.removesuffix("d")
    if not number.isdecimal() or not 1 <= len(number) <= 5:
        raise click.BadParameter(f"expected a number of days such as 400d; got {text}.")
    return int(number)


@click.group(cls=VerbGroup, short_help="Check, back up, copy, repair or prune a store.")
def store() -> None:
    """Check, back up, copy, repair or prune a store, or write its table of results."""


def _note(opened: Store, action: str, about: str) -> None:
    """Enter what this command does in the log of administrators."""
    from reticent_collector.stores import AdminAction

    opened.note(AdminAction(int(time.time()), _user(), action, about))


def _user() -> str:
    """Who runs this command."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):  # not on Windows, and not every user of a container has a name
        return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "")


@store.command(short_help="Show notes of releases and other events, or add some.")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@store_option
@click.option("--add", "text", metavar="TEXT", help="Add a note of this.")
@click.option(
    "--at", metavar="TIME", help="When it happened: 2026-11-01, or 2026-11-01T06:00Z; now when left out."
)
@click.option("--plan", metavar="NAME", help="The plan it is about; all when left out.")
@as_json
def notes(
    file: Path | None, store: str, text: str | None, at: str | None, plan: str | None, as_json: bool
) -> None:
    """
    Show notes of releases and other events, which pages show as flags; or add those of a FILE, a list in JSON.

    A note that is there already is not added again, so a file can be given after each release.

    \b
    Example:
      reticent store notes --store sqlite:///reticent.db --add "2.3 released" --at 2026-11-01 --plan app-usage
    """
    from reticent_collector.columns import time_text
    from reticent_collector.http import note_row, read_notes, write_notes
    from reticent_collector.stores import open_store

    if file is not None and text is not None:
        raise click.UsageError("give a FILE or --add, not both.")
    if text is None and (at or plan):
        raise click.UsageError("--at and --plan go with --add.")
    with closing(open_store(store)) if file or text else opened_store(store) as opened:
        if file is not None or text is not None:
            entry = {name: value for name, value in (("text", text), ("at", at), ("plan", plan)) if value}
            document = json.dumps(entry).encode() if file is None else file.read_bytes()
            write_notes(opened, read_notes(document, {one.name for one in opened.plans()}), _user())
        known = opened.notes()
    rows = [(time_text(note.at), note.plan or "all", note.text) for note in known]
    listed = table("when", "plan", "what", rows=rows) if rows else "No notes yet: --add makes one."
    show(as_json, {"notes": [note_row(note) for note in known]}, listed)


@store.command(short_help="Show what administrators did to a store.")
@store_option
@as_json
def log(store: str, as_json: bool) -> None:
    """
    Show what administrators did with commands: keys created and revoked, rounds copied, repaired and pruned.

    An entry has the time, the user of the operating system, and what was done; it is written before the change.

    \b
    Example:
      reticent store log --store sqlite:///reticent.db
    """
    with opened_store(store) as opened:
        entries = opened.noted()
    listed = table(
        "when",
        "user",
        "action",
        "about",
        rows=[(date_and_time(entry.at), *entry[1:]) for entry in entries],
        words=(1, 2, 3),
    )
    show(
        as_json, {"actions": [entry._asdict() for entry in entries]}, listed if entries else "No entries yet."
    )


@store.command(short_help="Check a store for damage and contradictions.")
@store_option
@as_json
def check(store: str, as_json: bool) -> None:
    """
    Check a store for damage and contradictions, including the table of results.

    \b
    Example:
      reticent store check --store sqlite:///reticent.db

    Exit code 3 when problems were found.
    """
    from reticent_collector.results import problems as problems_of_results

    with opened_store(store) as opened:
        problems, url = opened.verify(), opened.url
        if not problems:  # else the table of results cannot be made of the counts either
            problems = list(problems_of_results(opened))
    verdict = f"{url}: {counted(len(problems), 'problem') if problems else 'all is well'}."
    show(as_json, {"store": url, "problems": problems}, *problems, verdict)
    if problems:
        found_problems()


@store.command()
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@store_option
@as_json
def backup(path: Path, store: str, as_json: bool) -> None:
    """
    Copy a SQLite store into a new FILE while it is in use.

    \b
    Example:
      reticent store backup reticent-backup.db --store sqlite:///reticent.db
    """
    from reticent_collector.stores import SqliteBackend

    with opened_store(store) as opened:
        if not isinstance(opened.backend, SqliteBackend):
            raise StoreError(
                f"{opened.url}: expected a SQLite store.\n"
                "  Hint: pg_dump backs up PostgreSQL; the files of a lake can be copied"
            )
        opened.backend.backup(path)
    show(as_json, {"file": str(path)}, f"Copied to {path}.")


@store.command(short_help="Copy the history of a store into another one.")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--open", "unsealed", is_flag=True,
              help="Reports of open rounds too, while no collector uses either store.")  # fmt: skip
@quiet
@as_json
def copy(source: str, target: str, unsealed: bool, quiet: bool, as_json: bool) -> None:
    """
    Copy the plans, keys, sealed rounds and results of the store FROM into the store TO, which is made if there is none.

    FROM is not changed. Every round is compared in both stores. A copy that was interrupted goes on when it is
    started again. Sealed rounds can be copied while collectors run. To move a collector: copy, stop it, copy again
    with --open, and start it with the new store.

    \b
    Example:
      reticent store copy sqlite:///reticent.db lake:///telemetry

    Exit code 3 when something could not be copied.
    """
    from dataclasses import asdict

    from reticent_collector.stores import copy_store, open_store

    with closing(open_store(source, readonly=True)) as here, closing(open_store(target)) as there:
        if here.url == there.url:
            raise click.UsageError("FROM and TO are one store.")
        _note(there, "copied", f"from {here.url}")
        with progress("Copying rounds", quiet) as tell:
            copied = copy_store(here, there, unsealed=unsealed, progress=tell)
        answer = {"from": here.url, "to": there.url, **asdict(copied)}
    lines = [
        f"{counted(copied.plans, 'plan')}, {counted(copied.keys, 'key')}, {counted(copied.rounds, 'round')} and"
        f" {counted(copied.periods, 'period')} of results copied.",
        f"{counted(copied.rounds + copied.same, 'round')} with {counted(copied.reports, 'report')} compared.",
    ]
    if copied.open_rounds:
        lines.append(f"Reports of {counted(copied.open_rounds, 'open round')} copied.")
    if copied.not_sealed:
        lines.append(f"Not copied, because not sealed: {counted(copied.not_sealed, 'round')}.")
    show(as_json, answer, *copied.problems, *lines)
    if copied.problems:
        found_problems()


confirmed_option = click.option("--yes", is_flag=True, help="Do it; without, it is only shown.")


@store.command()
@store_option
@plan_option
@confirmed_option
@as_json
def repair(store: str, plan: str | None, yes: bool, as_json: bool) -> None:
    """
    Show what can be saved of damaged rounds; with --yes, save it.

    A damaged round has no figures and is not sealed. A repair keeps every report that can be read, and a copy of
    what it replaces. A running collector notices it.

    \b
    Example:
      reticent store repair --store sqlite:///reticent.db --yes

    Exit code 3 when something is left that cannot be repaired, or was only shown.
    """
    with opened_store(store) as opened:
        if yes:
            _note(opened, "repaired", plan or "all plans")
        rows = [
            {**info.key._asdict(), **repair._asdict(), "repaired": yes and bool(repair.action)}
            for info in opened.rounds(plan)
            if (repair := opened.repair(info.key, dry=not yes)) is not None
        ]
        url = opened.url
    lines = []
    for row in rows:
        action = row["action"] or "nothing; only a backup of the store has it"
        lines += [
            f"round {row['round']} of {row['plan']} version {row['version']}: {row['damage']}",
            f"  {row['readable']:,} reports can be read. {'Done' if row['repaired'] else 'To do'}: {action}",
        ]
    if not rows:
        lines.append(f"{url}: no round is damaged.")
    elif not yes:
        lines.append("Nothing was changed: --yes repairs the store.")
    show(as_json, {"store": url, "rounds": rows}, *lines)
    if not all(row["repaired"] for row in rows):
        found_problems()


@store.command(short_help="Show which sealed results are old, or remove them.")
@store_option
@plan_option
@click.option(
    "--before", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Rounds that ended before this date."
)
@click.option("--older-than", metavar="DAYS", type=_days, help="Rounds that ended longer ago, as 400d.")
@confirmed_option
@as_json
def prune(
    store: str, plan: str | None, before: datetime | None, older_than: int | None, yes: bool, as_json: bool
) -> None:
    """
    Show which sealed results are old; with --yes, remove them permanently.

    A round that is not sealed stays. A removed round never opens again: a report for it is late. The space goes back
    to the disk, which takes as much free space as what is left, and until it is done collectors of a SQLite store wait,
    and seals of a PostgreSQL store.

    \b
    Example:
      reticent store prune --store sqlite:///reticent.db --older-than 400d --yes
    """
    if (before is None) == (older_than is None):
        raise click.UsageError("Give --before DATE or --older-than DAYS.")
    end = time.time() - (older_than or 0) * 86_400
    if before is not None:
        end = before.replace(tzinfo=UTC).timestamp()
    with opened_store(store) as opened:
        old = _ended_by(opened, end, plan)
        sealed = {info: ended for info, ended in old.items() if info.state == "sealed"}
        about = f"{counted(len(sealed), 'round')} that ended by {date_and_time(int(end))} of {plan or 'all plans'}"
        pruned = _prune(opened, sealed, about) if yes and sealed else 0
        url = opened.url
    rows = [{**info.key._asdict(), "reports": info.reports} for info in sealed]
    answer = {"store": url, "rounds": rows, "pruned": pruned, "not_sealed": len(old) - len(sealed)}
    listed = table(
        "plan",
        "version",
        "round",
        "ended",
        "reports",
        rows=[(*info.key, date_and_time(ended), f"{info.reports:,}") for info, ended in sealed.items()],
    )
    show(as_json, answer, *([listed] if rows else []), *_about_pruning(answer, yes))


def _ended_by(opened: Store, end: float, plan: str | None) -> dict[RoundInfo, int]:
    """The rounds that ended by then, of one plan or of all, with their ends."""
    plans = {(version.name, version.version): version for version in opened.plans()}
    if plan is not None:
        check_name("plan", plan, sorted({name for name, _ in plans}))
    infos = [info for info in opened.rounds(plan) if info.key[:2] in plans]
    ends = {info: plans[info.key[:2]].round(info.key.round).end for info in infos}
    return {info: ended for info, ended in ends.items() if ended <= end}


def _prune(opened: Store, sealed: Collection[RoundInfo], about: str) -> int:
    """Remove rounds, and give their space back; how many were removed here."""
    _note(opened, "pruned", about)
    pruned = sum(opened.prune(info.key) for info in sealed)
    if pruned:
        _give_back_space(opened)
    return pruned


def _give_back_space(opened: Store) -> None:
    from reticent_collector.stores.sql import SqlBackend

    if isinstance(opened.backend, SqlBackend):
        opened.backend.give_back_space()


@store.command(short_help="Show what is kept of one metric, or delete it.")
@store_option
@click.option("--plan", metavar="NAME", required=True, help="The plan that asked the metric.")
@click.option("--metric", metavar="NAME", required=True, help="The metric to delete.")
@confirmed_option
@as_json
def delete(store: str, plan: str, metric: str, yes: bool, as_json: bool) -> None:
    """
    Show how many sealed rounds have counts of a metric; with --yes, delete it from the history permanently.

    Its counts and results are removed, in every version of the plan, and readers no longer see that it was asked. The
    other metrics keep theirs. It is refused while the newest version of the plan asks the metric. Reports of open
    rounds hold their answers until they are sealed, without counting this metric. SQLite and PostgreSQL only.

    \b
    Example:
      reticent store delete --store sqlite:///reticent.db --plan app-usage --metric editor_hours --yes
    """
    with opened_store(store) as opened:
        check_name("plan", plan, sorted({version.name for version in opened.plans()}))
        metrics = opened.deletable(plan, metric)
        versions = [deleted.version for deleted in metrics]
        sealed = [info.key for info in opened.rounds(plan) if info.state == "sealed"]
        rounds = opened.metric_counts([key for key in sealed if key.version in versions], metric)
        if yes:
            _note(opened, "metric deleted", f"{metric} of {plan}")
            opened.delete_metric(plan, metric)
            _give_back_space(opened)
        url = opened.url
    answer = {"store": url, "plan": plan, "metric": metric, "versions": versions}
    about = f"{metric} in {counted(len(rounds), 'sealed round')} of {plan}"
    verdict = f"Deleted {about}." if yes else f"{about} to delete: --yes deletes it."
    show(as_json, {**answer, "rounds": [key._asdict() for key in sorted(rounds)], "deleted": yes}, verdict)


def _about_pruning(answer: Mapping[str, Any], done: bool) -> Iterator[str]:
    rounds = len(answer["rounds"])
    if done:
        yield f"{counted(answer['pruned'], 'round')} removed."
    else:
        yield f"{counted(rounds, 'round')} to remove{': --yes removes them' if rounds else ''}."
    if answer["not_sealed"]:
        yield f"Not removed, because not sealed: {counted(answer['not_sealed'], 'round')}."


@store.command(short_help="Write final figures into the table of results.")
@store_option
@click.option("--rebuild", is_flag=True, help="First empty the table, a period at a time.")
@quiet
@as_json
def results(store: str, rebuild: bool, quiet: bool, as_json: bool) -> None:
    """
    Write final figures into the table of results, as a running collector does by itself.

    The table is computed from the sealed counts; --rebuild computes all of it again.

    \b
    Example:
      reticent store results --store sqlite:///reticent.db --rebuild
    """
    from reticent_collector.results import write_results

    with opened_store(store) as opened:
        if opened.table is None:
            raise StoreError(f"{opened.url}: keeps no table of results.\n  Hint: reticent export writes one")
        if rebuild:
            _note(opened, "results rebuilt", "all plans")
        with progress("Writing periods", quiet) as tell:
            written = write_results(opened, rebuild=rebuild, progress=tell)
        url = opened.url
    show(as_json, {"store": url, "periods": written}, f"{counted(written, 'period')} written.")


@click.group(cls=VerbGroup, short_help="Create, list or revoke the keys of a collector.")
def keys() -> None:
    """Create, list and revoke the keys of a store."""


@keys.command()
@store_option
@click.option("--role", type=click.Choice(["ingest", "reader", "admin"]), required=True,
              help="ingest only writes, reader only reads, admin does both.")  # fmt: skip
@click.option("--label", default="", metavar="TEXT", help="What the key is for.")
@click.option("--plan", "plans", multiple=True, metavar="NAME",
              help="A reader sees this plan only; may be repeated.")  # fmt: skip
@as_json
def create(store: str, role: str, label: str, plans: tuple[str, ...], as_json: bool) -> None:
    """
    Create a key. It is shown once; the store keeps only a hash.

    \b
    Example:
      reticent keys create --store sqlite:///reticent.db --role ingest
      reticent keys create --store sqlite:///reticent.db --role reader --plan app-usage
    """
    from reticent_collector.stores import create_key, open_store

    if plans and role != "reader":
        raise click.UsageError("--plan goes with --role reader: other keys are for all plans.")
    text, key = create_key(role, label, int(time.time()), plans)
    with closing(open_store(store)) as opened:
        about = (role, f"plans {', '.join(key.plans)}" if plans else "", label)
        _note(opened, "key created", ", ".join(filter(None, (key.id, *about))))
        opened.add_key(key)
        for name in sorted(set(plans) - {plan.name for plan in opened.plans()}):
            click.echo(f"Warning: the store has no plan {name} yet.", err=True)
    show(as_json, {"key": text, "id": key.id, "role": key.role, "plans": list(key.plans)}, text)
    if not as_json:
        click.echo(f"This {role} key is shown only now. Its id is {key.id}.", err=True)


@keys.command("list")
@store_option
@as_json
def list_(store: str, as_json: bool) -> None:
    """
    List the keys of a store: ids, roles and dates, never the keys.

    \b
    Example:
      reticent keys list --store sqlite:///reticent.db
    """
    with opened_store(store) as opened:
        rows = opened.keys()
    names = ("id", "role", "plans", "label", "created_at", "revoked_at")
    answer = [{name: getattr(key, name) for name in names} for key in rows]
    listed = table(
        "id",
        "role",
        "plans",
        "label",
        "made",
        "revoked",
        rows=[
            (
                key.id,
                key.role,
                ", ".join(key.plans),
                key.label,
                date_and_time(key.created_at),
                date_and_time(key.revoked_at),
            )
            for key in rows
        ],
    )
    show(as_json, {"keys": answer}, listed if rows else "No keys yet: reticent keys create makes one.")


@keys.command()
@click.argument("key_id", metavar="ID")
@store_option
@as_json
def revoke(key_id: str, store: str, as_json: bool) -> None:
    """
    Revoke the key with this ID; collectors notice within seconds.

    \b
    Example:
      reticent keys revoke 1f2e3d4c --store sqlite:///reticent.db
    """
    with opened_store(store) as opened:
        if key_id in [key.id for key in list(opened.keys())]:
            _note(opened, "key revoked", key_id)
        done = opened.revoke_key(key_id, int(time.time()))
    if not done:
        raise ReticentError(f"no key has the id {key_id}.\n  Hint: reticent keys list shows them")
    show(as_json, {"id": key_id, "revoked": True}, f"Key {key_id} is revoked.")
