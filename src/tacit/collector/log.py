"""Structured logs: one JSON object a line on standard error; never an address, a body, a key or an id."""

from __future__ import annotations

import json
import sys
import time

quiet = False
"""Set where a program has its own way of telling."""


def log(event: str, **fields: str | int | float) -> None:
    """Write an event."""
    if not quiet:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        sys.stderr.write(json.dumps({"time": stamp, "event": event, **fields}) + "\n")
        sys.stderr.flush()
