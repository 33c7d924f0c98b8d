"""Any plan there is, as text that Python, JavaScript (by its export) and the vectors' writer read."""

from __future__ import annotations

import json
from fractions import Fraction
from random import Random

Table = dict[str, object]


def random_plan(random: Random) -> str:
    sampled, pick = random.random() < 0.4, random.choice
    length, unit = pick([(1, "m"), (7, "m"), (1, "h"), (5, "h"), (6, "h"), (1, "d"), (7, "d")])
    head = {
        "name": f"p{random.randrange(100)}",
        "version": random.randrange(1, 2**31),
        "round": f"{length}{unit}",
    }
    tables: dict[str, Table] = {"plan": head}
    count = random.randrange(1, 6)
    for place in range(count):
        flip: Table = {} if sampled else {"flip": pick([0, 0.2, 0.1, "1/3", 0.499])}
        tables[f"metrics.m{place}"] = random_metric(random, sampled) | flip
    means = [name[8:] for name, table in tables.items() if table.get("kind") == "mean"]
    if means and random.random() < 0.5:
        members = random.sample(means, random.randrange(1, len(means) + 1))
        tables["groups.g"] = {"metrics": members, "max_total": f"{random.randrange(1, 3000)}/{pick([1, 3])}"}
    if random.random() < 0.5:
        tables["segments"] = {"os": ["linux", "macos", "a b"], "channel": ["beta"]}
    if sampled:
        tables["answers"] = {"kind": "sampled", "window": f"{length * random.randrange(1, 40)}{unit}"}
    if random.random() < (0.6 if sampled else 0.4):
        tables.setdefault("answers", {})["metrics"] = random.randrange(1, count + 1)
    return "".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for name, table in tables.items()
    )


def random_metric(random: Random, sampled: bool) -> Table:
    pick = random.choice
    kind = pick(["step", "grid", "buckets", "edges", "choice", "flag", "split"])
    table: Table = {"epsilon": pick([0.001, 0.5, 1, 1.25, "1/3", 7])}
    if kind == "flag":
        return table | {"kind": "flag"}
    if kind == "step":
        steps, size = random.randrange(1, 30), Fraction(random.randrange(1, 500), pick([1, 1, 2, 7]))
        return table | {"kind": "mean", "max_value": str(steps * size), "step": str(size)}
    if kind == "grid":
        points = sorted(random.sample(range(1, 2000), random.randrange(1, 12)))
        return table | {"kind": "mean", "grid": ["0", *(f"{point}/4" for point in points)]}
    buckets = pick([2, 3, 7, 8, 31, 32, 100, 254])
    if kind == "split":
        labels = [f"label {number}" for number in range(min(buckets, 8))]
        top = f"{random.randrange(1, 3000)}/{pick([1, 3])}"
        table |= {"kind": "split", "labels": labels, "max_value": top}
        buckets = len(labels)
    elif kind == "choice":
        labels = [f"label {number}" for number in range(buckets)]
        table |= {"kind": "choice", "labels": labels, "pick": pick(["first", "last"])}
    elif kind == "buckets":
        table |= {
            "kind": "histogram",
            "max_value": f"{random.randrange(1, 1000)}/{pick([1, 3])}",
            "buckets": buckets,
        }
    else:
        table |= {"kind": "histogram", "edges": [0, *sorted(random.sample(range(1, 3000), buckets))]}
    if table["kind"] == "histogram" and random.random() < 0.3:
        table["absent"] = True
    return table | random_mechanism(random, sampled, buckets)


def random_mechanism(random: Random, sampled: bool, buckets: int) -> Table:
    pick = random.choice
    if random.random() < 0.3:
        return {}
    if sampled and buckets < 40 and random.random() < 0.5:
        return {"mechanism": "subset", "size": random.randrange(1, buckets)}
    if random.random() < 0.5:
        return {"mechanism": "hadamard-bit"}
    bits = pick([1, 1, 2, min(9, buckets), buckets if buckets < 40 else 3])
    return {"mechanism": "d-bit-flip", "bits": bits, "variant": pick(["tight", "paper"])}
