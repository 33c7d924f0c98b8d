"""
A device in plain loops, written from the documentation; it shares no code with reticent.

Run it to write answers.json anew.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
import tomllib
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

WHOLE = 2**64
FILE = Path(__file__).with_name("answers.json")

PLAN = """
[plan]
name = "vectors"
version = 3
round = "6h"

[metrics.one_step]
kind = "mean"
max_value = 21600
epsilon = 1.0
flip = 0.2

[metrics.twenty_steps]
kind = "mean"
max_value = 100
step = 5
epsilon = 0.5

[metrics.uneven]
kind = "mean"
grid = [0, 1, 7.5, 60]
epsilon = 2.25
flip = "1/3"

[metrics.hadamard]
kind = "histogram"
max_value = 24
buckets = 12
mechanism = "hadamard-bit"
epsilon = 1.0
flip = 0.1

[metrics.one_bit]
kind = "histogram"
edges = [0, 1, 10, 100, 1000]
mechanism = "d-bit-flip"
bits = 1
epsilon = 1.0

[metrics.many_bits]
kind = "histogram"
max_value = 24
buckets = 20
mechanism = "d-bit-flip"
bits = 11
epsilon = 1.5
flip = 0.05

[metrics.as_printed]
kind = "histogram"
max_value = 24
buckets = 20
mechanism = "d-bit-flip"
variant = "paper"
bits = 3
epsilon = 1.5

[metrics.every_bucket]
kind = "histogram"
max_value = 3
buckets = 3
mechanism = "d-bit-flip"
bits = 3
epsilon = 1

[groups.both]
metrics = ["one_step", "twenty_steps"]
max_total = 100

[segments]
os = ["linux", "macos"]
channel = ["beta"]
"""

SAMPLED = PLAN.replace('name = "vectors"', 'name = "sampled"')
for line in ("flip = 0.2\n", 'flip = "1/3"\n', "flip = 0.1\n", "flip = 0.05\n"):
    SAMPLED = SAMPLED.replace(line, "")
SHORT = """
[plan]
name = "sampled"
version = 1
round = "10m"

[metrics.first]
kind = "mean"
max_value = 10
epsilon = 1.0

[metrics.second]
kind = "mean"
max_value = 10
epsilon = 1.0
"""
SAMPLED_PLANS = [
    (SAMPLED + '[answers]\nkind = "sampled"\nwindow = "7d"\nmetrics = 1\n', [2910, 2911, 2912]),
    (SAMPLED + '[answers]\nkind = "sampled"\nwindow = "7d"\nmetrics = 5\n', [2910, 2911]),
    (SAMPLED + '[answers]\nkind = "sampled"\nwindow = "6h"\n', [81652, 81653]),
    (SHORT + '[answers]\nkind = "sampled"\nwindow = "10000m"\n', [0, 81, 82]),
    (SHORT + '[answers]\nkind = "sampled"\nwindow = "10130m"\nmetrics = 1\n', [81, 82]),
    (SHORT.replace('"10m"', '"7d"') + '[answers]\nkind = "sampled"\nwindow = "28d"\n', [0, 714]),
    (SHORT.replace('"10m"', '"28d"') + '[answers]\nkind = "sampled"\nwindow = "84d"\n', [238]),
]
"""Plans, and the windows (counted from the first) that they are answered in."""

DIVIDED = PLAN.replace('name = "vectors"', 'name = "divided"')
_HEAD, *_METRICS = DIVIDED.split("[groups")[0].split("[metrics")
_REST = "[groups" + DIVIDED.split("[groups")[1]
DIVIDED_PLANS = [
    DIVIDED + "[answers]\nmetrics = 1\n",
    DIVIDED + '[answers]\nkind = "remembered"\nmetrics = 5\n',
    DIVIDED + "[answers]\nmetrics = 8\n",
    _HEAD.replace("version = 3", "version = 4")
    + "".join("[metrics" + metric for metric in reversed(_METRICS))
    + _REST
    + "[answers]\nmetrics = 5\n",
    DIVIDED.replace("version = 3", "version = 5").replace("epsilon = 1.5", "epsilon = 1.25")
    + "[answers]\nmetrics = 5\n",
]
"""One plan in several versions: other numbers of metrics, another order, other parameters."""

SUBSETS = """
[plan]
name = "subsets"
version = 1
round = "6h"

[answers]
kind = "sampled"
window = "7d"

[metrics.command]
kind = "choice"
labels = ["build", "test", "run", "format", "a b"]
epsilon = 1.0

[metrics.hours]
kind = "histogram"
max_value = 24
buckets = 10
mechanism = "subset"
epsilon = 1

[metrics.wide]
kind = "histogram"
max_value = 40
buckets = 20
absent = true
mechanism = "subset"
size = 7
epsilon = 0.5

[metrics.side]
kind = "histogram"
edges = [0, 1, 10]
mechanism = "subset"
epsilon = "1/3"

[metrics.seconds]
kind = "mean"
max_value = 21600
epsilon = 1.0
"""
"""Subset selection, named or not, with sizes given or not, and a mean in the same report."""

SPLITS = """
[plan]
name = "splits"
version = 1
round = "6h"

[metrics.apps]
kind = "split"
unit = "second"
max_value = 21600
labels = ["editor", "browser", "a b", "games"]
epsilon = 1.0

[metrics.parts]
kind = "split"
max_value = "15/2"
labels = ["one", "two"]
mechanism = "d-bit-flip"
bits = 3
epsilon = 1.5

[metrics.seconds]
kind = "mean"
max_value = 21600
epsilon = 1.0
"""
SPLIT_PLANS = [
    SPLITS,
    SPLITS.replace("bits = 3\nepsilon = 1.5", "bits = 2\nepsilon = 1.5\nflip = 0.2"),
    SPLITS + '[answers]\nkind = "sampled"\nwindow = "7d"\n',
    SPLITS + '[answers]\nkind = "sampled"\nwindow = "7d"\nmetrics = 2\n',
]
"""Amounts with a joint limit, whose answers are remembered or sampled."""

KINDS = """
[plan]
name = "kinds"
version = 1
round = "6h"

[metrics.last_command]
kind = "choice"
labels = ["build", "test", "run", "format", "a b"]
mechanism = "hadamard-bit"
epsilon = 1.0
flip = 0.2

[metrics.first_command]
kind = "choice"
labels = ["build", "test", "run"]
pick = "first"
mechanism = "d-bit-flip"
bits = 2
epsilon = 1.0

[metrics.crashed]
kind = "flag"
epsilon = 1.0
flip = 0.2

[metrics.start_ms]
kind = "histogram"
edges = [0, 100, 1000]
absent = true
mechanism = "d-bit-flip"
epsilon = 0.5
flip = 0.1

[metrics.size_mb]
kind = "histogram"
max_value = 12
buckets = 6
absent = true
mechanism = "hadamard-bit"
epsilon = 2

[metrics.memory_mb]
kind = "histogram"
max_value = 12
buckets = 6
mechanism = "hadamard-bit"
epsilon = 2
"""
"""Choices, a flag, and histograms with and without a bucket for no value."""


@cache
def threshold(epsilon: Fraction) -> int:
    digits = Context(prec=90)
    odds = digits.exp(digits.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    return ceiling(Fraction(digits.divide(Decimal(WHOLE), digits.add(odds, Decimal(1)))))


@cache
def parsed(text: str) -> dict[str, Any]:
    """A plan file as tables; nothing changes them."""
    return tomllib.loads(text, parse_float=Decimal)


def ceiling(number: Fraction) -> int:
    return -(-number.numerator // number.denominator)


def number(value: Any) -> Fraction:
    return Fraction(value) if isinstance(value, str) else Fraction(Decimal(str(value)))


def cell(grid: list[Fraction], value: Fraction, alpha: int) -> int:
    for below in range(len(grid) - 1):
        left, right = grid[below], grid[below + 1]
        if left <= value < right:
            return below + 1 if alpha * (right - left) >= (right - value) * WHOLE else below
    return len(grid) - 1


def bucket(edges: list[Fraction], value: Fraction) -> int:
    for index in range(len(edges) - 2):
        if value < edges[index + 1]:
            return index
    return len(edges) - 2


def order(label: str, buckets: int) -> list[int]:
    return sorted(range(buckets), key=lambda bucket: hashlib.sha256(f"{label}/{bucket}".encode()).hexdigest())


def window(label: str, buckets: int, width: int, cohort: int) -> list[int]:
    start = cohort * buckets // 256
    shuffled = order(label, buckets)
    return [shuffled[(start + step) % buckets] for step in range(width)]


def hash_input(
    plan: str, metric: str, digest: bytes, epoch: int, purpose: str, index: int, block: int
) -> bytes:
    fields = [
        b"reticent-1",
        plan.encode(),
        metric.encode(),
        digest,
        epoch.to_bytes(8, "big"),
        purpose.encode(),
    ]
    fields += [index.to_bytes(8, "big"), block.to_bytes(8, "big")]
    return b"".join(struct.pack(">I", len(field)) + field for field in fields)


def hash_output(secret: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, key=secret, digest_size=64).digest()


def sampled_input(
    plan: str, start: int, metric: str, digest: bytes, epoch: int, purpose: str, index: int, block: int
) -> bytes:
    """The input of a draw for sampled answers; `start` is that of the window, in unix seconds."""
    fields = [b"reticent-1/sampled", plan.encode(), struct.pack(">Q", start), metric.encode(), digest]
    fields += [struct.pack(">Q", epoch), purpose.encode(), struct.pack(">Q", index), struct.pack(">Q", block)]
    message = b""
    for field in fields:
        message += struct.pack(">I", len(field)) + field
    return message


def sampled_draws(secret: bytes, fields: tuple[Any, ...], count: int) -> list[int]:
    words: list[int] = []
    for block in range((count + 7) // 8):
        words += struct.unpack(">8Q", hash_output(secret, sampled_input(*(*fields, block))))
    return words[:count]


def draws(secret: bytes, fields: tuple[Any, ...], count: int) -> list[int]:
    words: list[int] = []
    while len(words) < count:
        output = hash_output(secret, hash_input(*(*fields, len(words) // 8)))
        words += [int.from_bytes(output[place : place + 8], "big") for place in range(0, 64, 8)]
    return words[:count]


@cache
def weights(epsilon: Fraction, count: int, size: int) -> tuple[int, int]:
    """Of subset selection: the largest a, and the least b, that differ by a factor of e^epsilon at most."""
    digits = Context(prec=90)
    odds = Fraction(digits.exp(digits.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))))
    outside = ceiling(WHOLE / (size * odds + (count - size)))
    inside = 0
    for place in reversed(range(64)):
        if (inside + 2**place) * size + outside * (count - size) <= WHOLE:
            inside += 2**place
    return inside, outside


@cache
def best_size(epsilon: Fraction, count: int) -> int:
    """The size with the least variance of an empty bucket's share; the smaller of two."""
    best, least = 0, Fraction(0)
    for size in range(1, count):
        inside, outside = weights(epsilon, count, size)
        rest = WHOLE - size * inside - (count - size) * outside
        # Every set has `size` members, so those beside the own one are shared by the other buckets.
        own = size * inside + Fraction(rest * size, count)
        other = (size * WHOLE - own) / (count - 1)
        variance = other * (WHOLE - other) / (own - other) ** 2
        if not best or variance < least:
            best, least = size, variance
    return best


def best_mechanism(count: int, sampled: bool) -> str:
    """What answers where a plan does not say."""
    if sampled:
        return "subset"
    return "hadamard-bit" if count < 256 else "d-bit-flip"


def shape(plan: str, name: str, table: dict[str, Any], sampled: bool = False) -> dict[str, Any]:
    """The integers and rationals behind one metric table."""
    epsilon = number(table["epsilon"])
    flip = ceiling(number(table.get("flip", 0)) * WHOLE)
    if table["kind"] in ("mean", "flag"):
        if table["kind"] == "flag":
            points = [Fraction(0), Fraction(1)]
        elif "grid" in table:
            points = [number(point) for point in table["grid"]]
        else:
            top = number(table["max_value"])
            step = number(table.get("step", table["max_value"]))
            points = [step * place for place in range(int(top / step) + 1)]
        low = threshold(epsilon)
        parameters: list[Any] = ["one-bit-mean", str(low), [str(point) for point in points]]
        return {"bits": 1, "low": low, "flip": flip, "points": points, "parameters": parameters}
    if table["kind"] in ("choice", "split"):
        edges = [Fraction(place) for place in range(len(table["labels"]) + 1)]
    elif "edges" in table:
        edges = [number(edge) for edge in table["edges"]]
    else:
        edges = [
            number(table["max_value"]) * place / table["buckets"] for place in range(table["buckets"] + 1)
        ]
    texts = [str(edge) for edge in edges]
    count = len(edges) - 1 + has_absent(table)
    mechanism = table.get("mechanism") or best_mechanism(count, sampled)
    if mechanism == "subset":
        size = table.get("size") or best_size(epsilon, count)
        inside, outside = weights(epsilon, count, size)
        return {
            "bits": count, "flip": 0, "edges": edges, "size": size, "inside": inside, "outside": outside,
            "parameters": ["subset", str(inside), str(outside), texts, size],
        }  # fmt: skip
    if mechanism == "hadamard-bit":
        low = threshold(epsilon)
        return {
            "bits": 1,
            "low": low,
            "flip": flip,
            "edges": edges,
            "parameters": ["hadamard-bit", str(low), texts],
        }
    if mechanism != "d-bit-flip":
        raise ValueError(mechanism)
    width, variant = table.get("bits", 1), table.get("variant", "tight")
    low = threshold(epsilon if variant == "tight" and width == 1 else epsilon / 2)
    parameters = ["d-bit-flip", variant, str(low), texts, width, f"{plan}/{name}"]
    return {
        "bits": width, "low": low, "flip": flip, "edges": edges, "variant": variant, "parameters": parameters,
        "label": f"{plan}/{name}",
    }  # fmt: skip


def digest_input(plan: str, name: str, toml: dict[str, Any]) -> list[Any]:
    """The parameters of a metric; with those of its group, where it has one."""
    table = toml["metrics"][name]
    parameters: list[Any] = shape(plan, name, table, is_sampled(toml))["parameters"]
    if table["kind"] == "choice":
        return [parameters, "choice", table["labels"], table.get("pick", "last")]
    if table["kind"] == "split":
        return [parameters, "split", table["labels"], str(number(table["max_value"]))]
    if table.get("absent", False):
        return [parameters, "absent"]
    for group in toml.get("groups", {}).values():
        if name in group["metrics"]:
            tops = [
                [member, str(shape(plan, member, toml["metrics"][member])["points"][-1])]
                for member in sorted(group["metrics"])
            ]
            return [parameters, str(number(group["max_total"])), tops]
    return parameters


def digest_of(parameters: list[Any]) -> bytes:
    return hashlib.sha256(json.dumps(parameters, separators=(",", ":")).encode()).digest()


def has_absent(table: dict[str, Any]) -> bool:
    return table["kind"] in ("choice", "split") or bool(table.get("absent", False))


def is_sampled(toml: dict[str, Any]) -> bool:
    return bool(toml.get("answers", {}).get("kind") == "sampled")


def uses_cohort(toml: dict[str, Any]) -> bool:
    """Whether a metric of a plan asks different devices about different buckets."""
    for name, table in toml["metrics"].items():
        metric = shape(toml["plan"]["name"], name, table, is_sampled(toml))
        if "edges" in metric and metric["bits"] < len(metric["edges"]) - 1 + has_absent(table):
            return True
    return False


def measured(table: dict[str, Any], value: str | None) -> Fraction | None:
    """What a value that was recorded, or None, counts as; None where there is a bucket for no value."""
    if table["kind"] == "split":
        return None
    if table["kind"] == "choice":
        return None if value is None else Fraction(table["labels"].index(value))
    if value is None:
        return None if has_absent(table) else Fraction(0)
    return Fraction(value)


def amounts_of(name: str, table: dict[str, Any], values: dict[str, str]) -> tuple[list[int], int]:
    """The amounts of a split and its limit, as whole numbers of some unit; scaled to the limit if above it."""
    amounts = [Fraction(values.get(f"{name}/{label}", "0")) for label in table["labels"]]
    limit = number(table["max_value"])
    if sum(amounts) > limit:
        amounts = [amount * limit / sum(amounts) for amount in amounts]
    unit = math.lcm(limit.denominator, *(amount.denominator for amount in amounts))
    return [int(amount * unit) for amount in amounts], int(limit * unit)


def part_in_front(amounts: list[int], limit: int, moment: int) -> Fraction | None:
    """Sampled answers: the label at a moment, one amount after the other."""
    left = moment * limit // WHOLE
    for label, amount in enumerate(amounts):
        if left < amount:
            return Fraction(label)
        left -= amount
    return None


def part_under_dart(amounts: list[int], limit: int, darts: list[int]) -> Fraction | None:
    """Remembered answers: bars side by side, all in boxes as high as the limit; the first dart that hits a bar."""
    bars = [*amounts, limit - sum(amounts)]
    for dart in darts:
        place = dart * len(bars) * limit // WHOLE
        if place % limit < bars[place // limit]:
            return None if place // limit == len(amounts) else Fraction(place // limit)
    return None


def choose(metric: dict[str, Any], value: Fraction | None, alpha: int, cohort: int, absent: bool) -> Any:
    """The class of a value, and the threshold of each of its bits."""
    low, high = metric["low"], WHOLE - metric["low"]
    if "points" in metric:
        points = metric["points"]
        chosen = cell(points, value or Fraction(0), alpha)
        return chosen, [low + int(points[chosen] * (high - low) // points[-1])]
    edges = metric["edges"]
    place = len(edges) - 1 if value is None else bucket(edges, value)
    count = len(edges) - 1 + absent
    if "label" not in metric:
        size = 1
        while size <= count:
            size *= 2
        odd = bin((cohort % size) & (place + 1)).count("1") % 2
        return odd, [low if odd else high]
    width = metric["bits"]
    asked = list(range(count)) if width == count else window(metric["label"], count, width, cohort)
    limits = [high if about == place else low for about in asked]
    if metric["variant"] == "paper" or width == count:
        return place, limits
    return (asked.index(place) if place in asked else width), limits


def answer(text: str, secret: bytes, epoch: int, round_number: int, values: dict[str, str]) -> dict[str, Any]:
    toml = parsed(text)
    plan, version = toml["plan"]["name"], toml["plan"]["version"]
    exact: Any = {name: measured(table, values.get(name)) for name, table in toml["metrics"].items()}
    for group in toml.get("groups", {}).values():
        total = sum(exact[name] for name in group["metrics"])
        if total > number(group["max_total"]):
            for name in group["metrics"]:
                exact[name] = exact[name] * number(group["max_total"]) / total
    cohort = draws(secret, (plan, "", b"", epoch, "cohort", 0), 1)[0] >> 56
    ranks = [(draws(secret, (plan, name, b"", epoch, "metrics", 0), 1)[0], name) for name in toml["metrics"]]
    count = toml.get("answers", {}).get("metrics", len(ranks))
    asked = {name for _, name in sorted(ranks)[:count]}
    answers, bits = {}, []
    for name, table in toml["metrics"].items():
        metric = shape(plan, name, table)
        if name not in asked:
            bits += [0] * metric["bits"]
            continue
        digest = digest_of(digest_input(plan, name, toml))
        if table["kind"] == "split":
            darts = draws(secret, (plan, name, digest, epoch, "darts", 0), 48 * (len(table["labels"]) + 1))
            exact[name] = part_under_dart(*amounts_of(name, table, values), darts)
        alpha = draws(secret, (plan, name, digest, epoch, "alpha", 0), 1)[0]
        chosen, limits = choose(metric, exact[name], alpha, cohort, has_absent(table))
        memo = draws(secret, (plan, name, digest, epoch, "memo", chosen), metric["bits"])
        flips = draws(secret, (plan, name, digest, epoch, "flip", round_number), metric["bits"])
        remembered = [int(draw < limit) for draw, limit in zip(memo, limits, strict=True)]
        sent = [bit ^ int(draw < metric["flip"]) for bit, draw in zip(remembered, flips, strict=True)]
        bits += sent
        answers[name] = {
            "value": None if exact[name] is None else str(exact[name]),
            "digest": digest.hex(), "alpha": str(alpha), "class": chosen,
            "thresholds": [str(limit) for limit in limits], "remembered": remembered, "sent": sent,
        }  # fmt: skip
    name_of_report = hash_output(
        secret, hash_input(plan, "", version.to_bytes(8, "big"), epoch, "id", round_number, 0)
    )[:16]
    packed = int("".join(map(str, bits)).ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(
        -(-len(bits) // 8), "big"
    )
    bitmap = padded("".join("01"[name in asked] for name in toml["metrics"])).hex()
    return {
        "round": round_number, "values": values, "cohort": cohort, "answers": answers,
        "id": name_of_report.hex(), "bits": packed.hex(),
    } | ({"asked": bitmap} if count < len(ranks) else {})  # fmt: skip


def first_start(length: int) -> int:
    """When round 0 starts: rounds of whole weeks are counted from the first Monday, all others from 1970."""
    return 345600 if length % 604800 == 0 else 0


def start_of(number: int, length: int) -> int:
    return number * length + first_start(length)


def under_way(time: int, length: int) -> int:
    """The last round that starts at a time or before."""
    number = time // length
    while start_of(number, length) > time:
        number -= 1
    return number


def seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[duration[-1]]


def sampled_answer(text: str, secret: bytes, epoch: int, window_number: int, values: dict[str, str]) -> Any:
    """The one report of a device in a window, which is counted from the first one there is."""
    toml = parsed(text)
    plan, version = toml["plan"]["name"], toml["plan"]["version"]
    length = seconds(toml["plan"]["round"])
    rounds = seconds(toml["answers"]["window"]) // length
    first = 0
    while start_of(first, length) < 345600:
        first += 1
    first += window_number * rounds
    start = start_of(first, length)
    names = list(toml["metrics"])
    picked = first + rounds * sampled_draws(secret, (plan, start, "", b"", epoch, "round", 0), 1)[0] // WHOLE
    ranks = [
        (sampled_draws(secret, (plan, start, name, b"", epoch, "metrics", 0), 1)[0], name) for name in names
    ]
    count = toml["answers"].get("metrics", len(names))
    asked = sorted(names.index(name) for _, name in sorted(ranks)[:count])
    exact: Any = {name: measured(table, values.get(name)) for name, table in toml["metrics"].items()}
    for group in toml.get("groups", {}).values():
        total = sum(exact[name] for name in group["metrics"])
        limit = number(group["max_total"])
        if total > limit:
            exact.update({name: exact[name] * limit / total for name in group["metrics"]})
    cohort = sampled_draws(secret, (plan, start, "", b"", epoch, "cohort", 0), 1)[0] >> 56
    classes, bits = {}, ""
    for place, (name, table) in enumerate(toml["metrics"].items()):
        metric = shape(plan, name, table, True)
        if place not in asked:
            bits += "0" * metric["bits"]
            continue
        digest = digest_of(digest_input(plan, name, toml))
        if table["kind"] == "split":
            moment = sampled_draws(secret, (plan, start, name, digest, epoch, "moment", 0), 1)[0]
            exact[name] = part_in_front(*amounts_of(name, table, values), moment)
        if "size" in metric:
            value = exact[name]
            chosen = len(metric["edges"]) - 1 if value is None else bucket(metric["edges"], value)
            base = sampled_draws(secret, (plan, start, name, digest, epoch, "base", 0), metric["bits"])
            draw = sampled_draws(secret, (plan, start, name, digest, epoch, "memo", chosen), 1)[0]
            members = shifted(metric, base, draw, chosen)
            classes[name] = chosen
            bits += "".join("1" if label in members else "0" for label in range(len(base)))
            continue
        alpha = sampled_draws(secret, (plan, start, name, digest, epoch, "alpha", 0), 1)[0]
        classes[name], limits = choose(metric, exact[name], alpha, cohort, has_absent(table))
        memo = sampled_draws(
            secret, (plan, start, name, digest, epoch, "memo", classes[name]), metric["bits"]
        )
        bits += "".join("1" if draw < limit else "0" for draw, limit in zip(memo, limits, strict=True))
    identity = (plan, start, "", struct.pack(">Q", version), epoch, "id", picked, 0)
    delay = sampled_draws(secret, (plan, start, "", b"", epoch, "delay", picked), 1)[0]
    bitmap = "".join("1" if place in asked else "0" for place in range(len(names)))
    return {
        "start": start, "first": first, "rounds": rounds, "round": picked, "values": values, "cohort": cohort,
        "delay": str(delay), "classes": classes, "asked": padded(bitmap).hex() if count < len(names) else "",
        "id": hash_output(secret, sampled_input(*identity))[:16].hex(), "bits": padded(bits).hex(),
    }  # fmt: skip


def shifted(metric: dict[str, Any], base: list[int], draw: int, chosen: int) -> set[int]:
    """The set that subset selection answers: walk through the weights until the draw is used up."""
    count, size = len(base), metric["size"]
    smallest = sorted(zip(base, range(count), strict=True))[:size]
    members = {label for _, label in smallest}
    order = sorted(members) + [label for label in range(count) if label not in members]
    shift = 0
    for label in order:
        weight = metric["inside"] if label in members else metric["outside"]
        if draw < weight:
            shift = chosen - label
            break
        draw -= weight
    return {(label + shift) % count for label in members}


def padded(bits: str) -> bytes:
    while len(bits) % 8:
        bits += "0"
    return bytes(int(bits[place : place + 8], 2) for place in range(0, len(bits), 8))


def sampled_bytes(text: str, report: dict[str, Any], segment: dict[str, str], codes: bytes) -> dict[str, str]:
    """A report of a sampled plan in JSON and as a packed batch of one."""
    toml = parsed(text)
    plan, version = toml["plan"]["name"], toml["plan"]["version"]
    cohorts = uses_cohort(toml)

    def url(data: str) -> str:
        return base64.urlsafe_b64encode(bytes.fromhex(data)).decode().rstrip("=")

    line = f'{{"plan":"{plan}","version":{version},"round":{report["round"]},"id":"{url(report["id"])}"'
    record = struct.pack(">Q", report["round"]) + bytes.fromhex(report["id"])
    if cohorts:
        line += f',"cohort":{report["cohort"]}'
        record += bytes([report["cohort"]])
    if report["asked"]:
        line += f',"asked":"{url(report["asked"])}"'
        record += bytes.fromhex(report["asked"])
    line += f',"bits":"{url(report["bits"])}"'
    if "segments" in toml:
        line += ',"segment":{' + ",".join(f'"{name}":"{tag}"' for name, tag in segment.items()) + "}"
        record += codes
    record += bytes.fromhex(report["bits"])
    head = b"reticent\x01" + bytes([len(plan)]) + plan.encode() + struct.pack(">IH", version, len(record))
    return {"json": line + "}", "packed": (head + record).hex()}


def sampled(secrets: list[bytes], histories: list[dict[str, str]]) -> list[dict[str, Any]]:
    segment = {"os": "macos", "channel": "other"}
    plans: list[dict[str, Any]] = []
    for text, windows in SAMPLED_PLANS:
        names = tomllib.loads(text)["metrics"]
        devices = []
        for secret in secrets:
            for epoch in (0, 1):
                reports = []
                for place, number_of_window in enumerate(windows):
                    values = {name: value for name, value in histories[place].items() if name in names}
                    if "first" in names:
                        values = {"first": "10", "second": str(place)}
                    report = sampled_answer(text, secret, epoch, number_of_window, values)
                    reports.append(report | sampled_bytes(text, report, segment, bytes([1, 1])))
                devices.append({"secret": secret.hex(), "epoch": epoch, "reports": reports})
        plans.append({"plan": text, "segment": segment, "devices": devices})
    return plans


def divided(secrets: list[bytes], histories: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Remembered answers about some of the metrics; a metric keeps its draw in every version."""
    plans: list[dict[str, Any]] = []
    segment = {"os": "macos", "channel": "other"}
    for text in DIVIDED_PLANS:
        names = tomllib.loads(text)["metrics"]
        devices = []
        for secret in secrets:
            for epoch in (0, 1):
                reports = []
                for place, history in enumerate(histories):
                    values = {name: value for name, value in history.items() if name in names}
                    report = answer(text, secret, epoch, 81652 + place, values)
                    report["asked"] = report.get("asked", "")
                    reports.append(report | sampled_bytes(text, report, segment, bytes([1, 1])))
                devices.append({"secret": secret.hex(), "epoch": epoch, "reports": reports})
        plans.append({"plan": text, "segment": segment, "devices": devices})
    return plans


def subsets(secrets: list[bytes]) -> dict[str, Any]:
    """Sampled histograms and choices by subset selection; and its weights, sizes and sets by themselves."""
    histories = [
        {},
        {"command": "build", "hours": "0", "wide": "0", "side": "0"},
        {"command": "a b", "hours": "24", "wide": "40", "side": "10", "seconds": "21600"},
        {"command": "run", "hours": "47/10", "wide": "7", "side": "1", "seconds": "100"},
    ]
    devices = []
    for secret in secrets:
        for epoch in (0, 1):
            reports = []
            for place, values in enumerate(histories):
                report = sampled_answer(SUBSETS, secret, epoch, 2910 + place, values)
                reports.append(report | sampled_bytes(SUBSETS, report, {}, b""))
            devices.append({"secret": secret.hex(), "epoch": epoch, "reports": reports})
    numbers = []
    for epsilon in ("1/1000", "1/3", "1", "2", "5", "20"):
        for count in (2, 4, 10, 21, 32, 256):
            size = best_size(Fraction(epsilon), count)
            inside, outside = weights(Fraction(epsilon), count, size)
            numbers.append({
                "epsilon": epsilon, "buckets": count, "size": size, "inside": str(inside), "outside": str(outside),
            })  # fmt: skip
    sets = []
    for count, size, chosen in ((10, 2, 4), (4, 1, 3), (6, 3, 0), (21, 5, 20)):
        inside, outside = weights(Fraction(1), count, size)
        metric = {"size": size, "inside": inside, "outside": outside}
        base = [label * 5 % count for label in range(count)]
        used = size * inside + (count - size) * outside
        for draw in sorted(
            {0, inside - 1, inside, size * inside - 1, size * inside, 2**63, used - 1, WHOLE - 1}
        ):
            members = sorted(shifted(metric, base, draw, chosen))
            sets.append({
                "epsilon": "1", "size": size, "base": [str(word) for word in base], "class": chosen,
                "draw": str(draw), "members": members,
            })  # fmt: skip
    toml = tomllib.loads(SUBSETS, parse_float=Decimal)
    digests = [
        {"metric": name, "parameters": digest_input("subsets", name, toml),
         "digest": digest_of(digest_input("subsets", name, toml)).hex()}
        for name in toml["metrics"]
    ]  # fmt: skip
    return {"plan": SUBSETS, "digests": digests, "numbers": numbers, "sets": sets, "devices": devices}


def splits(secrets: list[bytes]) -> dict[str, Any]:
    """Splits in both kinds of answers; and which part is picked for amounts, by a moment and by darts."""
    histories = [
        {},
        {"apps/editor": "21600", "parts/two": "15/2"},
        {
            "apps/editor": "7000",
            "apps/browser": "1",
            "apps/games": "600",
            "parts/one": "1/3",
            "parts/two": "2",
        },
        {
            "apps/editor": "20000",
            "apps/browser": "21600",
            "apps/a b": "1/7",
            "parts/one": "15/2",
            "parts/two": "7",
        },
        {"apps/games": "10800", "parts/one": "5", "parts/two": "5/2", "seconds": "7"},
    ]
    plans: list[dict[str, Any]] = []
    for text in SPLIT_PLANS:
        sampled = is_sampled(parsed(text))
        devices = []
        for secret in secrets:
            for epoch in (0, 1):
                reports = []
                for place, values in enumerate(histories):
                    if sampled:
                        report = sampled_answer(text, secret, epoch, 2910 + place, values)
                    else:
                        report = answer(text, secret, epoch, 81652 + place, values)
                        report["asked"] = report.get("asked", "")
                    reports.append(report | sampled_bytes(text, report, {}, b""))
                devices.append({"secret": secret.hex(), "epoch": epoch, "reports": reports})
        digests = [
            {"metric": name, "digest": digest_of(digest_input("splits", name, parsed(text))).hex()}
            for name in parsed(text)["metrics"]
        ]
        plans.append({"plan": text, "digests": digests, "devices": devices})
    picks = []
    words = [int.from_bytes(hashlib.sha256(b"%d" % number).digest()[:8], "big") for number in range(48)]
    for amounts, limit in (([0, 0], 5), ([5, 0], 5), ([2, 1], 5), ([1, 4], 5), ([3, 0, 7, 1], 20)):
        for word in (
            0,
            WHOLE // 5,
            WHOLE // 5 * 2 + 1,
            WHOLE // 2,
            WHOLE // 5 * 3,
            WHOLE // 5 * 3 + 1,
            WHOLE - 1,
        ):
            front, hit = part_in_front(amounts, limit, word), part_under_dart(amounts, limit, [word, *words])
            picks.append({
                "amounts": [str(amount) for amount in amounts], "limit": str(limit), "word": str(word),
                "front": None if front is None else int(front), "hit": None if hit is None else int(hit),
            })  # fmt: skip
    return {"plans": plans, "picks": picks, "darts": [str(word) for word in words]}


def kinds(secrets: list[bytes]) -> dict[str, Any]:
    """Choices, flags and values that may be absent; and what several choices of a round come to."""
    toml = tomllib.loads(KINDS, parse_float=Decimal)
    histories = [
        {},
        {"last_command": "build", "first_command": "run", "crashed": "1", "start_ms": "0", "size_mb": "0"},
        {
            "last_command": "a b",
            "first_command": "build",
            "start_ms": "1000",
            "size_mb": "7",
            "memory_mb": "7",
        },
        {"last_command": "run", "crashed": "0", "start_ms": "199/2", "memory_mb": "0"},
    ]
    reports = [
        {"secret": secret.hex(), "epoch": epoch,
         "reports": [answer(KINDS, secret, epoch, 81652 + place, values) for place, values in enumerate(histories * 2)]}
        for secret in secrets for epoch in (0, 1)
    ]  # fmt: skip
    calls = [
        {"metric": name, "chosen": chosen, "label": label}
        for chosen, last, first in (
            ([], None, None),
            (["test"], "test", "test"),
            (["test", "run", "build"], "build", "test"),
            (["fmt", "run", "Build"], "run", "run"),
            (["fmt", "absent", ""], None, None),
        )
        for name, label in (("last_command", last), ("first_command", first))
    ]
    digests = [
        {"metric": name, "parameters": digest_input("kinds", name, toml),
         "digest": digest_of(digest_input("kinds", name, toml)).hex()}
        for name in toml["metrics"]
    ]  # fmt: skip
    return {"plan": KINDS, "digests": digests, "devices": reports, "calls": calls}


def encode_json(plan: str, version: int, report: dict[str, Any], segment: dict[str, str]) -> str:
    def url(data: str) -> str:
        return base64.urlsafe_b64encode(bytes.fromhex(data)).decode().rstrip("=")

    tags = ",".join(f'"{name}":"{tag}"' for name, tag in segment.items())
    return (
        f'{{"plan":"{plan}","version":{version},"round":{report["round"]},"id":"{url(report["id"])}",'
        f'"cohort":{report["cohort"]},"bits":"{url(report["bits"])}","segment":{{{tags}}}}}'
    )


def encode_packed(plan: str, version: int, reports: list[dict[str, Any]], codes: list[int]) -> str:
    records = [
        struct.pack(">Q", report["round"])
        + bytes.fromhex(report["id"])
        + bytes([report["cohort"], *codes])
        + bytes.fromhex(report["bits"])
        for report in reports
    ]
    head = b"reticent\x01" + bytes([len(plan)]) + plan.encode() + struct.pack(">IH", version, len(records[0]))
    return (head + b"".join(records)).hex()


def write() -> dict[str, Any]:
    epsilons = ["1/1000", "1/10", "1/2", "1", "2", "5", "10", "20"]
    gammas = ["0", "1/10", "1/5", "1/3", "499/1000"]
    grids = [["0", "100"], ["0", "20", "40", "60"], ["0", "1", "15/2", "60"]]
    alphas = [0, 1, 2**62, 2**63, 12912720851596686131, 2**64 - 1]
    rounding = [
        {"grid": grid, "value": value, "alpha": str(alpha),
         "cell": cell([Fraction(point) for point in grid], Fraction(value), alpha)}
        for grid in grids for value in ("0", "1", "29/2", "30", "40", "60") for alpha in alphas
    ]  # fmt: skip
    secrets = [bytes(range(32)), hashlib.sha256(b"vectors").digest()]
    inputs = [
        ("vectors", "one_step", bytes(32), 0, "alpha", 0, 0),
        ("vectors", "one_step", bytes(32), 0, "memo", 1, 0),
        ("vectors", "one_step", bytes(32), 7, "flip", 81652, 0),
        ("vectors", "many_bits", bytes(range(32)), 0, "memo", 3, 1),
        ("vectors", "", b"", 0, "cohort", 0, 0),
        ("vectors", "", (3).to_bytes(8, "big"), 0, "id", 81652, 0),
        ("vectors", "", b"", 0, "delay", 81652, 0),
    ]
    histories = [
        {},
        {"one_step": "50", "twenty_steps": "33", "uneven": "1/2", "hadamard": "7", "one_bit": "99",
         "many_bits": "13", "as_printed": "13", "every_bucket": "2"},
        {"one_step": "21600", "twenty_steps": "100", "uneven": "60", "hadamard": "24", "one_bit": "1000",
         "many_bits": "24", "as_printed": "24", "every_bucket": "3"},
    ]  # fmt: skip
    devices = []
    for secret in secrets:
        for epoch in (0, 1):
            reports = [
                answer(PLAN, secret, epoch, 81652 + place, values)
                for place, values in enumerate(histories * 2)
            ]
            segment = {"os": "macos", "channel": "other"}
            devices.append({
                "secret": secret.hex(), "epoch": epoch, "segment": segment, "reports": reports,
                "json": [encode_json("vectors", 3, report, segment) for report in reports],
                "packed": encode_packed("vectors", 3, reports, [1, 1]),
            })  # fmt: skip
    toml = tomllib.loads(PLAN, parse_float=Decimal)
    return {
        "scheme": "reticent-1",
        "thresholds": [{"epsilon": epsilon, "low": str(threshold(Fraction(epsilon)))} for epsilon in epsilons],
        "flips": [
            {"probability": gamma, "threshold": str(ceiling(Fraction(gamma) * WHOLE))} for gamma in gammas
        ],
        "rounding": rounding,
        "windows": [
            {"label": "vectors/many_bits", "buckets": 20, "width": 11, "cohort": cohort,
             "window": window("vectors/many_bits", 20, 11, cohort)}
            for cohort in (0, 1, 127, 255)
        ],
        "digests": [
            {"metric": name, "parameters": digest_input("vectors", name, toml),
             "digest": digest_of(digest_input("vectors", name, toml)).hex()}
            for name in toml["metrics"]
        ],
        "rounds": [
            {"seconds": length, "at": time, "round": number, "start": start_of(number, length)}
            for length in (600, 86400, 604799, 604800, 777600, 1209600, 2419200)
            for time in (345600, 604799, 604800, 950399, 950400, 1609459199, 1793577599, 1793577600)
            for number in [under_way(time, length)]
        ],
        "hash": [
            {"secret": secret.hex(), "plan": fields[0], "metric": fields[1], "digest": fields[2].hex(),
             "epoch": fields[3], "purpose": fields[4], "index": fields[5], "block": fields[6],
             "input": hash_input(*fields).hex(), "output": hash_output(secret, hash_input(*fields)).hex()}
            for secret in secrets for fields in inputs
        ],
        "plan": PLAN,
        "devices": devices,
        "sampled": sampled(secrets, histories),
        "divided": divided(secrets, histories),
        "subsets": subsets(secrets),
        "splits": splits(secrets),
        "kinds": kinds(secrets),
    }  # fmt: skip


def text() -> str:
    return json.dumps(write(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
