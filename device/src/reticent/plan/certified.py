"""
The plans whose certificates Coq has checked, by the digest of the certificate.

Written by `make proofs`, which checks every certificate first; never by hand.
"""

CERTIFIED: dict[str, str] = {}
