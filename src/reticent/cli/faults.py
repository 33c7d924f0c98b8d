"""What may go wrong in a verb, in a line or two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from reticent.cli.doctor import extra_of
from reticent.errors import MissingExtraError, ReticentError


@contextmanager
def plain_faults() -> Iterator[None]:
    """What reticent raises on purpose, what the system refuses, what is not installed, and Ctrl-C."""
    try:
        yield
    except ReticentError as error:
        raise click.ClickException(str(error)) from error
    except ModuleNotFoundError as error:
        extra = extra_of(error.name or "")
        if extra is None:
            raise
        raise click.ClickException(str(MissingExtraError(extra, str(error.name)))) from error
    except BrokenPipeError:
        raise  # the reader has seen enough; click ends quietly
    except OSError as error:
        if error.strerror is None:
            raise
        place = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{place}{error.strerror}.") from error
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
        raise SystemExit(130) from None  # 128 and the number of the signal, as shells count
