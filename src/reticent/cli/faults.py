"""Failures of a verb as a line or two."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import click

from reticent.errors import MissingExtraError, ReticentError


@contextmanager
def plain_faults() -> Iterator[None]:
    """Errors of reticent and of the system, missing packages and Ctrl-C, in plain words."""
    try:
        yield
    except ReticentError as error:
        text, cause = str(error), str(error.__cause__ or "")
        package = re.search(
            r"\binstall (\S+)", cause, re.IGNORECASE
        )  # of fsspec: "Install s3fs to access S3"
        if package and isinstance(error.__cause__, ImportError) and cause in text:
            text = text.replace(cause, f"{package[1]} is not installed.\n  Hint: pip install {package[1]}")
        raise click.ClickException(text) from error
    except ModuleNotFoundError as error:
        from reticent.cli.doctor.machine import extra_of

        extra = extra_of(error.name or "")
        if extra is None:
            raise
        raise click.ClickException(str(MissingExtraError(extra, str(error.name)))) from error
    except BrokenPipeError:
        raise  # the reader closed the pipe; click ends quietly
    except OSError as error:
        if error.strerror is None:
            raise
        place = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{place}{error.strerror}.") from error
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
        raise SystemExit(130) from None  # 128 and the number of the signal, as shells count
