"""
Where a device's randomness comes from: a keyed function of its secret, so that nothing is ever redrawn.

Every draw is a 64-bit word of BLAKE2b, keyed with the device's 32-byte secret, over the fields

    scheme | plan | metric | digest | epoch | purpose | index | block

each preceded by its length in four bytes, which makes the encoding injective: two different lists of fields
never give the same input. A block gives eight words; draw *j* is word j mod 8 of block ⌊j/8⌋.

Why each field is there:

- *metric*: the counters of a group must be drawn independently of each other.
- *digest* of the privacy parameters: the same draw compared with two thresholds (ε = 1/2, then ε = 1) has an
  outcome that is possible for one value and impossible for another, which is an infinite loss.
- *epoch*: after `forget`, nothing before it may be drawn again.
- *purpose* and *index*: one draw per remembered answer. A draw shared by two cells would tell the history
  (0, m) from (m, 0) with certainty.

Sampled answers are drawn again in each window of the plan. Their fields are

    scheme/sampled | plan | start of the window | metric | digest | epoch | purpose | index | block

with the start in unix seconds. A window's number would repeat when a version of the plan changes the length
of windows, and all draws with it; in the field of the epoch, window 5 would meet epoch 5.

What is left out matters as much: with a description, a date or the address of a collector in it, the author of
the plan could ask for fresh answers, and average them.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct, unpack_from
from typing import TYPE_CHECKING, Literal, Protocol

from reticent.hashes import blake2b

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reticent.plan import Metric, Plan, Window

SCHEME = b"reticent-1"
SAMPLED_SCHEME = b"reticent-1/sampled"
SECRET_BYTES = 32
ID_BYTES = 16

_PLACE = Struct(">IQIQ")
_WORDS_PER_BLOCK = 8


FixedPurpose = Literal["base", "moment", "darts"]
"""The base set of subset selection; the moment of a split, and the darts of one whose answers are remembered."""


class Draws(Protocol):
    """A source of draws, each uniform in {0, …, 2⁶⁴ - 1} and fixed for its arguments; a device's is `SecretDraws`."""

    @property
    def window(self) -> int | None:
        """The start of the window that all of it is drawn for; None for remembered answers."""

    def picked_round(self, window: Window) -> int:
        """The round of its window in which a device with sampled answers reports."""

    def asked(self, plan: Plan) -> tuple[bool, ...]:
        """Which metrics a report answers, in plan order."""

    def alpha(self, metric: Metric) -> int:
        """Where this device rounds up instead of down."""

    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        """The draws of the remembered answer of a class, one per answer bit in most mechanisms."""

    def fixed(self, metric: Metric, purpose: FixedPurpose, count: int) -> Sequence[int]:
        """The draws of a metric for a purpose that neither its value nor the class of an answer enters."""

    def flips(self, metric: Metric, round_number: int) -> Sequence[int]:
        """One draw per answer bit, fresh in each round."""

    def cohort(self) -> int:
        """The device's public byte."""

    def report_id(self, version: int, round_number: int) -> bytes:
        """Sixteen bytes that name a report."""


def checksum(secret: bytes, plan: str, round_seconds: int, epoch: int, held: float) -> bytes:
    """Sixteen bytes over what decides every draw and the loss held: a flipped bit would make another device."""
    numbers = (str(round_seconds), str(epoch), float(held).hex())
    content = encode(SCHEME, b"checksum", plan.encode(), *(number.encode() for number in numbers))
    return blake2b(content, key=secret, digest_size=16).digest()


def chosen(draws: Mapping[str, int], count: int) -> tuple[bool, ...]:
    """
    Which metrics have the `count` smallest draws; of two that are equal, the earlier name.

    >>> chosen({"d": 7, "c": 3, "b": 3, "a": 3}, 2)
    (False, False, True, True)
    """
    least = sorted(draws, key=lambda name: (draws[name], name))[:count]
    return tuple(name in least for name in draws)


def encode(*fields: bytes) -> bytes:
    """
    Fields to bytes, each preceded by its length; no two lists of fields share an encoding.

    Theorem `encode_injective` of proofs/, for fields shorter than 2³² bytes.

    >>> encode(b"ab", b"c").hex(), encode(b"a", b"bc").hex()
    ('0000000261620000000163', '0000000161000000026263')
    """
    return b"".join([len(field).to_bytes(4, "big") + field for field in fields])


_ALPHA, _MEMO, _FLIP, _COHORT, _ID, _DELAY, _ROUND, _METRICS = (
    encode(purpose)
    for purpose in (b"alpha", b"memo", b"flip", b"cohort", b"id", b"delay", b"round", b"metrics")
)


class SecretDraws:
    """
    The draws of one device, plan and epoch; for sampled answers those of one window, named by its start.

    Value-independent parts (hash states, alphas) are kept between reports. Remembered answers are *not* kept in
    memory: a report costs the same number of hashes whatever the values are and whichever classes were visited
    before.

    >>> draws = SecretDraws(bytes(32), plan="app-usage", epoch=0)
    >>> draws.report_id(version=1, round_number=81652) == draws.report_id(version=1, round_number=81652)
    True
    >>> draws
    SecretDraws(plan='app-usage', epoch=0)
    """

    __slots__ = ("_cohort", "_epoch", "_epoch_field", "_metrics", "_plan", "_root", "_window")

    def __init__(self, secret: bytes, plan: str, epoch: int, window: int | None = None) -> None:
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"a secret has {SECRET_BYTES} bytes")
        self._plan = plan
        self._epoch = epoch
        self._window = window
        head = encode(SCHEME, plan.encode())
        if window is not None:
            head = encode(SAMPLED_SCHEME, plan.encode(), window.to_bytes(8, "big"))
        self._root = blake2b(head, key=secret, digest_size=64)
        self._epoch_field = encode(epoch.to_bytes(8, "big"))
        self._cohort: int | None = None
        self._metrics: dict[int, tuple[Metric, blake2b, int]] = {}

    def __repr__(self) -> str:
        window = "" if self._window is None else f", window={self._window}"
        return f"SecretDraws(plan={self._plan!r}, epoch={self._epoch}{window})"

    @property
    def window(self) -> int | None:
        """The start of the window that all of it is drawn for; None for remembered answers."""
        return self._window

    def picked_round(self, window: Window) -> int:
        """Purpose "round", index 0: one draw, scaled to the rounds of the window."""
        return window.first + (_words(self._base(b"", b""), _ROUND, 0, 1)[0] * window.rounds >> 64)

    def asked(self, plan: Plan) -> tuple[bool, ...]:
        """
        Purpose "metrics", index 0: one draw per metric name, of which the smallest are chosen.

        The digest is empty, and neither version nor place is in it: a set that is drawn again with each version of a
        plan would have a device answer all its metrics in time.
        """
        names = [metric.name for metric in plan.metrics]
        draws = {name: _words(self._base(name.encode(), b""), _METRICS, 0, 1)[0] for name in names}
        return chosen(draws, plan.asked)

    def alpha(self, metric: Metric) -> int:
        """Purpose "alpha", index 0: one draw per metric and digest, forever."""
        return self._prepared(metric)[2]

    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        """Purpose "memo", index the class."""
        return _words(self._prepared(metric)[1], _MEMO, memo_class, metric.mechanism.memo_draws)

    def fixed(self, metric: Metric, purpose: FixedPurpose, count: int) -> Sequence[int]:
        """Purpose "base", "moment" or "darts", index 0."""
        return _words(self._prepared(metric)[1], encode(purpose.encode()), 0, count)

    def flips(self, metric: Metric, round_number: int) -> Sequence[int]:
        """Purpose "flip", index the round."""
        return _words(self._prepared(metric)[1], _FLIP, round_number, metric.mechanism.bits)

    def cohort(self) -> int:
        """
        Purpose "cohort", index 0: the top byte of the draw.

        Metric and digest are empty, so that all histograms of the plan share it in every version: what it
        reveals about the device's identity never exceeds eight bits.
        """
        if self._cohort is None:
            self._cohort = _words(self._base(b"", b""), _COHORT, 0, 1)[0] >> 56
        return self._cohort

    def report_id(self, version: int, round_number: int) -> bytes:
        """
        Purpose "id", index the round: the first 16 bytes of the block.

        The metric is empty and the digest's field holds the plan's version in eight bytes; no other draw has
        this input.
        """
        base = self._base(b"", version.to_bytes(8, "big"))
        return _block(base, _ID, round_number, 0)[:ID_BYTES]

    def delay(self, round_number: int) -> int:
        """Purpose "delay", index the round: when the report of a round is sent. Never a matter of values."""
        return _words(self._base(b"", b""), _DELAY, round_number, 1)[0]

    def _prepared(self, metric: Metric) -> tuple[Metric, blake2b, int]:
        known = self._metrics.get(id(metric))
        if known is None or known[0] is not metric:
            base = self._base(metric.name.encode(), metric.digest)
            known = self._metrics[id(metric)] = metric, base, _words(base, _ALPHA, 0, 1)[0]
        return known

    def _base(self, metric: bytes, digest: bytes) -> blake2b:
        """The hash up to and including the epoch."""
        state = self._root.copy()
        state.update(_named(metric, digest) + self._epoch_field)
        return state


@lru_cache(maxsize=4096)
def _named(metric: bytes, digest: bytes) -> bytes:
    return encode(metric, digest)


def _block(base: blake2b, purpose: bytes, index: int, number: int) -> bytes:
    state = base.copy()
    state.update(purpose + _PLACE.pack(8, index, 8, number))
    return state.digest()


def _words(base: blake2b, purpose: bytes, index: int, count: int) -> Sequence[int]:
    """`count` draws at an index; the common case of one bit is `_block` without the call."""
    if count == 1:
        state = base.copy()
        state.update(purpose + _PLACE.pack(8, index, 8, 0))
        return (int.from_bytes(state.digest()[:8], "big"),)
    blocks = [_block(base, purpose, index, number) for number in range(-(-count // _WORDS_PER_BLOCK))]
    return unpack_from(f">{count}Q", b"".join(blocks))
