"""Structured logs: one JSON object per line on standard error; never an address, a body, a key or an id."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from traceback import walk_tb

from reticent.errors import StoreError

quiet = False  # set by programs that print their own messages


def log(event: str, **fields: str | int | float) -> None:
    """Write an event if possible: commits and seals go on without a log, which may be on the disk that is full."""
    if not quiet and sys.stderr is not None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with suppress(OSError, ValueError):  # a full disk, a pipe whose reader has gone, a closed file
            sys.stderr.write(json.dumps({"time": stamp, "event": event, **fields}) + "\n")
            sys.stderr.flush()


def log_fault(event: str, error: BaseException, **fields: str | int | float) -> None:
    """
    Write an error as an event.

    The messages of a store quote nothing of a request; others might. Of those the log has the type, and the last
    line of reticent in the traceback, such as `reticent_collector/http/api.py:120`.
    """
    if isinstance(error, StoreError):
        log(event, reason=str(error), **fields)
    else:
        # Walked without reading any source: a place is worth little when the disk is what failed.
        places = [
            f"{module.replace('.', '/')}.py:{line}"
            for frame, line in walk_tb(error.__traceback__)
            if (module := str(frame.f_globals.get("__name__"))).startswith(("reticent.", "reticent_"))
        ]
        log(event, kind=type(error).__name__, at=places[-1] if places else "elsewhere", **fields)
