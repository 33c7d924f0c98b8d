"""
BLAKE2b and SHA-256 of the interpreter itself: `hashlib` loads OpenSSL, which takes as long as SQLite.

They are the same functions by other names. Where an interpreter does not have them, `hashlib` does.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b as blake2b  # noqa: PLC0414
    from hashlib import sha256 as sha256  # noqa: PLC0414
else:
    try:
        from _blake2 import blake2b

        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:
        from hashlib import blake2b, sha256  # noqa: F401
