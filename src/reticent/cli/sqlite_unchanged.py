"""A SQLite file that is looked at and left alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote


def connect_unchanged(path: Path) -> sqlite3.Connection:
    """
    A connection that leaves a SQLite file, and the folder it is in, as they are.

    While another program has the file open its log is beside it, and is read too. Otherwise the file is all
    there is, and SQLite is told so: else it would make an index of a log that does not exist.
    """
    how = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
    return sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, timeout=2.0, isolation_level=None)
