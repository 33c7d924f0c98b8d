"""Who else on the machine may reach a file."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def open_to_others(path: Path, rights: int = 0o077) -> str:
    """
    Who besides the owner has any of these rights: "", "its group", "everybody"; "" also where modes say
    nothing.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     path = Path(file.name)
    ...     path.chmod(0o600)
    ...     found = [open_to_others(path)]
    ...     path.chmod(0o644)
    ...     found.append(open_to_others(path))
    >>> found
    ['', 'everybody']
    """
    if os.name != "posix":
        return ""
    found = stat.S_IMODE(path.stat().st_mode) & rights
    if found & 0o007:
        return "everybody"
    return "its group" if found & 0o070 else ""
