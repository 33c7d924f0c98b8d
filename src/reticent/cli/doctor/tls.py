"""The certificate and the key that `reticent serve` would use."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

from reticent.cli.doctor.check import Area, Check
from reticent.cli.doctor.permissions import open_to_others

AREA = Area("tls")


def tls(certificate: Path | None, key: Path | None) -> Iterator[Check]:
    """Whether nobody else reads the key, and the two belong together."""
    if key is not None:
        others = open_to_others(key)
        yield (
            AREA.problem("key", f"{others} may reach {key}", f"chmod 600 {key}")
            if others
            else AREA.ok("key", "its owner alone may reach the file")
        )
    if key is None or certificate is None:
        yield AREA.note("certificate", "a certificate and a key go together", "give --tls-cert and --tls-key")
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError):
        yield AREA.problem(
            "certificate",
            "the two files are not a certificate and its key",
            "give PEM files that belong together, the key without a password",
        )
    else:
        yield AREA.ok("certificate", "belongs to the key")
