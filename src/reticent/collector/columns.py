"""Many lines of JSON at once: those that are written the one way a device writes them."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reticent.mechanisms import COHORTS
from reticent.plan import OTHER, Plan
from reticent.reports.codec import ID_BYTES, MAX_JSON, MAX_ROUND

ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

_STANDARD = bytes.maketrans(b"-_", b"+/")
_NUMBER = rb"(0|[1-9][0-9]{0,%d})"
_COHORTS = {b"%d" % cohort: cohort for cohort in range(COHORTS)}
_LONGEST_TAG = 64


class Lines:
    """
    Reads lines of reports on one version of a plan, exactly as `reticent.reports.to_json` writes them.

    One expression matches a line from end to end, so what it matches is a report and nothing else: each key
    once and in its place, no spaces, no escapes, only the base64url text that stands for some bytes. Whoever
    writes JSON in another way is read line by line, with the same result.
    """

    def __init__(self, plan: Plan) -> None:
        self._bits_size = plan.report_bytes
        self._padding = (1 << (plan.report_bytes * 8 - plan.bits)) - 1
        self._uses_cohort = plan.uses_cohort
        self._codes = [
            {tag.encode(): code for code, tag in enumerate(segment.tags)} for segment in plan.segments
        ]
        self._others = [segment.tags.index(OTHER) for segment in plan.segments]
        parts = [
            rb'\{"plan":"%s","version":%d,' % (re.escape(plan.name.encode()), plan.version),
            rb'"round":' + _NUMBER % 15,
            rb',"id":"%s",' % _text_of(ID_BYTES),
            rb'"cohort":' + _NUMBER % 2 + rb"," if plan.uses_cohort else b"",
            rb'"bits":"%s"' % _text_of(plan.report_bytes),
        ]
        if plan.segments:
            tags = [
                rb'"%s":"([ !#-\[\]-~]{0,%d})"' % (re.escape(segment.name.encode()), _LONGEST_TAG)
                for segment in plan.segments
            ]
            parts.append(rb',"segment":\{%s\}' % b",".join(tags))
        self._pattern = re.compile(rb"^" + b"".join(parts) + rb"\}\n", re.MULTILINE)
        names = sum(len(segment.name) + _LONGEST_TAG + 6 for segment in plan.segments)
        self._fit = 200 + len(plan.name) + plan.report_bytes * 4 // 3 + names <= MAX_JSON

    def records(self, body: bytes, length: int, number: int) -> NDArray[np.uint8] | None:
        """The records of so many lines that all answer round `number`, [n, width]; None when one does not."""
        found = self._pattern.findall(body) if self._fit and number < MAX_ROUND else []
        if not found or len(found) != length:
            return None
        rounds, ids, *rest = zip(*found, strict=True)
        if set(rounds) != {b"%d" % number}:
            return None
        columns = [_decoded(ids, ID_BYTES)]
        if self._uses_cohort:
            cohorts = [_COHORTS.get(cohort) for cohort in rest.pop(0)]
            if None in cohorts:
                return None
            columns.append(_column(cohorts))
        bits = _decoded(rest.pop(0), self._bits_size)
        if (bits[:, -1] & self._padding).any():
            return None
        for codes, other, tags in zip(self._codes, self._others, rest, strict=True):
            columns.append(_column([codes.get(tag, other) for tag in tags]))
        return np.concatenate([*columns, bits], axis=1)


def text_length(size: int) -> int:
    """Characters of the unpadded base64url text of `size` bytes."""
    return -(-size * 4 // 3)


def last_characters(size: int) -> bytes:
    """
    The characters that such a text may end with: those whose spare bits are 0.

    >>> last_characters(16)
    b'AQgw'
    """
    spare = text_length(size) * 6 - size * 8
    return bytes(ALPHABET[sextet] for sextet in range(0, 64, 1 << spare))


def _text_of(size: int) -> bytes:
    """An expression for such a text."""
    return rb"([\w-]{%d}[%s])" % (text_length(size) - 1, re.escape(last_characters(size)))


def _decoded(texts: Sequence[bytes], size: int) -> NDArray[np.uint8]:
    """
    The bytes that texts of one length stand for, as uint8[n, size].

    >>> _decoded([b"AAE", b"_w8"], size=2).tolist()
    [[0, 1], [255, 15]]
    """
    fill = b"A" * (-len(texts[0]) % 4)
    data = a2b_base64((fill.join(texts) + fill).translate(_STANDARD))
    return np.frombuffer(data, dtype=np.uint8).reshape(len(texts), -1)[:, :size]


def _column(numbers: Sequence[int | None]) -> NDArray[np.uint8]:
    return np.array(numbers, dtype=np.uint8).reshape(-1, 1)
