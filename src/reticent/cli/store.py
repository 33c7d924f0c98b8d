"""`reticent store check|backup` and `reticent keys create|list|revoke`: looking after a store, and who may use it."""

from __future__ import annotations

import time
from pathlib import Path

import click

from reticent.cli.options import opened_store, store_option
from reticent.cli.output import as_json, console, counted, date_and_time, found_problems, print_json, table
from reticent.errors import ReticentError, StoreError


@click.group()
def store() -> None:
    """Check or back up a store."""


@store.command()
@store_option
@as_json
def check(store: str, as_json: bool) -> None:
    """
    Look through a store for anything that is not as it should be.

    \b
    Example:
      reticent store check --store sqlite:///reticent.db

    Exit code 3 when problems were found.
    """
    with opened_store(store) as opened:
        problems, url = opened.verify(), opened.url
    if as_json:
        print_json({"store": url, "problems": problems})
    else:
        for problem in problems:
            click.echo(problem)
        click.echo(f"{url}: {counted(len(problems), 'problem') if problems else 'all is well'}.")
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
    from reticent.stores import SqliteBackend

    with opened_store(store) as opened:
        if not isinstance(opened.backend, SqliteBackend):
            raise StoreError(
                f"{opened.url}: expected a SQLite store.\n"
                "  Hint: pg_dump backs up PostgreSQL; the files of a lake can be copied"
            )
        opened.backend.backup(path)
    if as_json:
        print_json({"file": str(path)})
    else:
        click.echo(f"Copied to {path}.")


@click.group()
def keys() -> None:
    """Make, list and revoke the keys of a store."""


@keys.command()
@store_option
@click.option("--role", type=click.Choice(["ingest", "reader", "admin"]), required=True,
              help="ingest only writes, reader only reads, admin does both.")  # fmt: skip
@click.option("--label", default="", metavar="TEXT", help="What or whom it is for.")
@as_json
def create(store: str, role: str, label: str, as_json: bool) -> None:
    """
    Make a key. It is shown once and kept only as a hash.

    \b
    Example:
      reticent keys create --store sqlite:///reticent.db --role ingest
    """
    from reticent.stores import create_key, open_store

    opened = open_store(store)
    text, key = create_key(role, label, int(time.time()))
    opened.add_key(key)
    opened.close()
    if as_json:
        print_json({"key": text, "id": key.id, "role": key.role})
    else:
        click.echo(text)
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
    if as_json:
        shown = ("id", "role", "label", "created_at", "revoked_at")
        print_json({"keys": [{name: getattr(key, name) for name in shown} for key in rows]})
        return
    if not rows:
        click.echo("No keys yet: reticent keys create makes one.")
        return
    lines = table("id", "role", "label", "made", "revoked")
    for key in rows:
        lines.add_row(
            key.id, key.role, key.label, date_and_time(key.created_at), date_and_time(key.revoked_at)
        )
    console().print(lines)


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
        done = opened.revoke_key(key_id, int(time.time()))
    if not done:
        raise ReticentError(f"no key has the id {key_id}.\n  Hint: reticent keys list shows them")
    if as_json:
        print_json({"id": key_id, "revoked": True})
    else:
        click.echo(f"Key {key_id} is revoked.")
