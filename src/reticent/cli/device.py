"""`reticent device …`: what a device has told, and stopping it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from reticent.cli.output import as_json, print_json
from reticent.device import Device, Receipt, Status
from reticent.errors import StateError

state_file = click.argument(
    "state", metavar="STATE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)


@click.group()
def device() -> None:
    """Show what a device has told, pause it, or make it forget. STATE is its state file."""


@device.command()
@state_file
@as_json
def receipt(state: Path, as_json: bool) -> None:
    """
    Show every report of the device with this STATE file, bit by bit, and what they may tell together.

    \b
    Example:
      reticent device receipt telemetry.db
    """
    with _opened(state) as opened:
        receipt = opened.receipt()
    _show(receipt, as_json)
    if receipt.problem:
        raise SystemExit(1)


@device.command()
@state_file
@as_json
def status(state: Path, as_json: bool) -> None:
    """
    Show whether the device with this STATE file answers, why not, and what waits to be sent.

    \b
    Example:
      reticent device status telemetry.db --json
    """
    with _opened(state) as opened:
        _show(opened.status(), as_json)


@device.command()
@state_file
@as_json
def pause(state: Path, as_json: bool) -> None:
    """
    Let the device with this STATE file record and send nothing from now on; remembered answers stay.

    \b
    Example:
      reticent device pause telemetry.db
    """
    _wish(state, Device.pause, as_json)


@device.command()
@state_file
@as_json
def resume(state: Path, as_json: bool) -> None:
    """
    End the pause of the device with this STATE file; the first round answered is the next one.

    \b
    Example:
      reticent device resume telemetry.db
    """
    _wish(state, Device.resume, as_json)


@device.command()
@state_file
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
def forget(state: Path, yes: bool, as_json: bool) -> None:
    """
    Wipe the remembered answers of the device with this STATE file, and whatever was not sent.

    Answers drawn anew tell more than the old ones repeated: this is for a device that changes hands. What
    was sent stays sent, and stays on the receipt.

    \b
    Example:
      reticent device forget telemetry.db --yes
    """
    if not yes:
        click.confirm(
            "New answers will be drawn, which tells more in the long run. Forget?", abort=True, err=True
        )
    _wish(state, Device.forget, as_json)


@contextmanager
def _opened(state: Path) -> Iterator[Device]:
    opened = Device.open(state)
    try:
        yield opened
    finally:
        opened.close()


def _wish(state: Path, wish: Callable[[Device], bool], as_json: bool) -> None:
    with _opened(state) as opened:
        done = wish(opened)
        _show(opened.status(), as_json)
    if not done:
        raise StateError(f"{state}: could not be changed.\n  Hint: another program may hold it; try again")


def _show(answer: Status | Receipt, as_json: bool) -> None:
    if as_json:
        print_json(answer.to_dict())
    else:
        click.echo(str(answer))
