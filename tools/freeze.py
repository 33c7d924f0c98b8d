"""
Freeze what this version answers, and compare it with what another one answers to the same.

    .venv/bin/python tools/freeze.py answers OLD.json --reports REPORTS    # in the old version; writes REPORTS, too
    .venv/bin/python tools/freeze.py answers NEW.json --reports REPORTS    # in the new one, from the same reports
    .venv/bin/python tools/freeze.py compare OLD.json NEW.json             # every difference, by section

For a change of shape that should change no behaviour. Frozen are the bytes of reports by secret, plan, round and
values, in each encoding; what is said to malformed reports; counts and estimates; what a device sends in 16 rounds;
what a collector answers to GET and POST; and the commands. Import names are those of this version, or of the one
package before the houses (33b1a23): then copy this file into its tree.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[1]
COLLECTOR = "reticent_collector" if find_spec("reticent_collector") else "reticent"
HTTP = f"{COLLECTOR}.{'http' if COLLECTOR == 'reticent_collector' else 'collector'}"
FIRST = 81_648  # a round of six hours
HEAD = '[plan]\nname = "{}"\nversion = 3\nround = "{}"\ngrace = "{}"\n'
MEANS = """
[metrics.a]
kind = "mean"
max_value = 24
epsilon = 0.5
[metrics.b]
kind = "mean"
max_value = 1000
step = 100
epsilon = 2
flip = 0.2
[segments]
os = ["windows", "macos", "linux"]
"""
KINDS = """
[metrics.h]
kind = "histogram"
edges = [0, 5, 10, 50, 100]
mechanism = "hadamard-bit"
epsilon = 1
flip = 0.2
[metrics.d]
kind = "histogram"
edges = [0, 1, 10]
absent = true
mechanism = "d-bit-flip"
epsilon = 0.7
[metrics.c]
kind = "choice"
labels = ["x", "y", "z"]
mechanism = "d-bit-flip"
epsilon = 1
flip = 0.05
[metrics.f]
kind = "flag"
epsilon = 1.5
"""
SAMPLED = MEANS.replace("flip = 0.2\n", "") + '[answers]\nkind = "sampled"\nwindow = "{}"\n'
PLANS = {
    "means": HEAD.format("means", "6h", "6h") + MEANS,
    "kinds": HEAD.format("kinds", "1d", "1d") + KINDS,
    "sampled": HEAD.format("sampled", "6h", "6h") + SAMPLED.format("7d"),
    "asked": HEAD.format("asked", "1d", "1d") + SAMPLED.format("7d") + "metrics = 1\n",
    "weeks": HEAD.format("weeks", "7d", "7d") + MEANS,
    "wrong": HEAD.format("Wrong Name", "7 fortnights", "-1d")
    + MEANS.replace("0.5", "nan")
    + KINDS.replace("5, 10", "9, 7"),
    "not-toml": "not toml [",
}
VALUES: list[object] = [
    None,
    0,
    1,
    7,
    24,
    25,
    59.5,
    1e3,
    1e9,
    -3,
    float("nan"),
    float("inf"),
    True,
    "x",
    "zz",
    "y",
    [],
    1e308,
]
WRONG: dict[str, object] = {
    "none": None,
    "below": -1,
    "text": "x",
    "part": 1.5,
    "large": 2**70,
    "true": True,
    "object": {},
    "list": [],
}
GETS = [
    "/v1/plans", "/v1/plans/app-usage", "/v1/plans/nobody", "/v1/rounds", "/v1/rounds?last=3", "/v1/changes",
    *(f"/v1/estimates?plan=app-usage{query}" for query in (
        "&every=round&last=2", f"&round={FIRST}", f"&round={FIRST}&by=os", f"&round={FIRST}&segment=os:linux",
        f"&round={FIRST}&confidence=0.5", f"&round={FIRST}&format=csv", "&every=day", "&every=week", "&every=year",
        "&metric=zz", "&confidence=2", "&last=0", "&zz=1", "&segment=os", "&by=zz", "&since=yesterday",
    )),
    "/v1/changes?plan=app-usage&every=day", "/v1/estimates", "/v1/estimates?plan=nobody",
    "/healthz", "/readyz", "/openapi.json", "/nothing", "/v1/reports", "/static/none", "//",
]  # fmt: skip
COMMANDS = {
    "plan diff": ["plan", "diff", "{plan}", "{other}"],
    "estimate": ["estimate", "--store", "{store}", "--every", "round", "--last", "2"],
    "estimate, JSON": ["estimate", "--store", "{store}", "--every", "round", "--json"],
    "rounds": ["rounds", "--store", "{store}"],
    "store check": ["store", "check", "--store", "{store}"],
    "store prune": ["store", "prune", "--store", "{store}", "--older-than", "1d"],
    "keys list": ["keys", "list", "--store", "{store}"],
    "sql": ["sql", "{plan}"],
    "no store": ["estimate"],
    "no such store": ["estimate", "--store", "sqlite:///none/none.db"],
    "no such verb": ["zz"],
    "version": ["--version"],
}

Frozen = dict[str, dict[str, Any]]


def attempt(act: Callable[[], Any]) -> Any:
    """What comes out of it, or the error in words."""
    try:
        return act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def freeze_reports(frozen: Frozen, plans: dict[str, Any]) -> None:
    """Reports by the pure law, in each encoding, and what they add up to."""
    from reticent.device.answers import answer
    from reticent.device.prf import SecretDraws
    from reticent.reports import from_packed, to_json, to_ndjson, to_packed

    counts_of = import_module(f"{COLLECTOR}.counts").count_reports
    estimate = import_module(f"{COLLECTOR}.estimates").estimate
    for name, plan in plans.items():
        chance = random.Random(name)  # noqa: S311
        reports: list[Any] = []
        told: list[str] = []
        for number in range(3_000, 3_300):
            window = plan.window_of(number)
            secret = hashlib.sha256(str(number % 12).encode()).digest()
            draws = SecretDraws(secret, plan.name, number % 2, window.start if window else None)
            at = draws.picked_round(window) if window else number
            values = {metric.name: chance.choice(VALUES) for metric in plan.metrics}
            tags = {segment.name: chance.choice([*segment.values, "none", 3]) for segment in plan.segments}
            one = attempt(lambda: answer(draws, plan, at, values, tags))  # noqa: B023
            if not isinstance(one, str):
                reports.append(one.report)
            told.append(one if isinstance(one, str) else to_json(one.report).decode() + str(one.visited))
        frozen["reports"][name] = told
        frozen["encodings"][name] = [to_packed(reports, plan).hex(), to_ndjson(reports).decode()]
        frozen["encodings"][f"{name}, read"] = from_packed(to_packed(reports, plan), plan) == reports
        totals: dict[str, Any] = {}
        for group in counts_of(reports, plan).values():
            for metric, counts in group.items():
                totals[metric] = totals[metric] + counts if metric in totals else counts
        for metric, counts in totals.items():
            for confidence in (0.5, 0.95, 0.999):
                figure = estimate(plan.by_name[metric], counts, confidence)
                frozen["estimates"][f"{name}.{metric} {confidence}"] = [
                    repr(counts),
                    str(figure),
                    figure.to_dict(),
                ]


def freeze_devices(frozen: Frozen, plans: dict[str, Any]) -> None:
    """What a device sends in 16 rounds, with a known secret."""
    from reticent import Device, Policy
    from reticent.testing import ManualClock, RecordingTransport

    aloud = Policy(do_not_track=False, silent_in_ci=False, silent_in_containers=False)
    plain = os.urandom
    os.urandom = lambda size: bytes(range(size))
    try:
        for name, plan in plans.items():
            transport = RecordingTransport()
            clock = ManualClock(float(plan.round(plan.round_at(1_700_000_000)).start) + 5)
            with (
                TemporaryDirectory() as folder,
                Device(
                    plan,
                    Path(folder) / "state",
                    consent="granted",
                    clock=clock,
                    transport=transport,
                    policy=aloud,
                ) as device,
            ):
                for number in range(16):
                    for metric in plan.metrics:
                        value = (
                            metric.labels[number % len(metric.labels)]
                            if metric.labels and not metric.is_flag
                            else number
                        )
                        (device.set if metric.labels else device.add)(metric.name, value)
                    clock.advance(plan.round_seconds)
                    device.flush()
                frozen["devices"][name] = [
                    [body.decode() for body in transport.bodies],
                    str(device.receipt()),
                ]
    finally:
        os.urandom = plain


@contextmanager
def served(plan: Any, store: str, now: float) -> Iterator[Callable[..., list[Any]]]:
    """A collector on a store, and how to ask it."""
    from reticent.testing import ManualClock

    http = import_module(HTTP)
    opened = import_module(f"{COLLECTOR}.stores").open_store(store)
    pages = import_module(f"{COLLECTOR}.dashboard")
    app = http.Collector([plan], opened, clock=ManualClock(now), seal_every=None, pages=pages)
    ports: Queue[int] = Queue()
    server = http.make_server(
        app, "127.0.0.1", 0, http.Limits(), None, started=lambda _, port: ports.put(port)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    address = f"http://127.0.0.1:{ports.get(timeout=20)}"

    def ask(
        path: str, body: bytes | None = None, kind: str = "application/json", method: str | None = None
    ) -> list[Any]:
        headers = {} if body is None else {"content-type": kind}
        request = Request(address + path, body, headers, method=method)  # noqa: S310
        try:
            response = urlopen(request)  # noqa: S310
        except HTTPError as error:
            response = error
        with response:
            names = {name.lower() for name in response.headers} - {"date", "content-length"}
            shown = {name: ", ".join(response.headers.get_all(name, [])) for name in sorted(names)}
            return [response.status, shown, response.read().decode("utf-8", "replace")]

    try:
        yield ask
    finally:
        server.stop()
        thread.join()


def freeze_collector(frozen: Frozen, kept: Path) -> None:
    """Answers of a collector and of commands about sealed rounds of 3,000 simulated devices."""
    import numpy as np

    from reticent import Plan
    from reticent.device.answers import answer
    from reticent.device.prf import SecretDraws
    from reticent.reports import packed_header, to_json, to_ndjson, to_packed

    stores = import_module(f"{COLLECTOR}.stores")
    path = ROOT / "examples" / "plan.toml"
    plan = Plan.load(path)
    kept.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        address = f"sqlite:///{folder}/store.db"
        store = stores.open_store(address)
        store.register(plan)
        for number in range(FIRST, FIRST + 8):
            file = kept / f"{number}.bin"
            if not file.exists():
                lab = "reticent_lab" if COLLECTOR == "reticent_collector" else "reticent.lab"
                fleet = import_module(f"{lab}.fleet").VectorisedFleet(plan, 3_000, seed=1)
                usage = (np.random.default_rng(number).exponential(2_000, 3_000)).astype(int)
                tags = np.resize(np.array([0, 1, 2], "uint8"), (3_000, 1))
                batch = fleet.packed(number, {metric.name: usage for metric in plan.metrics}, tags)
                head = packed_header(batch)
                file.write_bytes(
                    np.frombuffer(batch, "uint8", offset=head.start).reshape(-1, head.width)[:, 8:].tobytes()
                )
            key = stores.RoundKey(plan.name, plan.version, number)
            store.append({key: file.read_bytes()})
            if number < FIRST + 7:
                store.seal(key)
        import_module(f"{COLLECTOR}.results").write_results(store)
        store.close()

        def report(secret: int, number: int) -> Any:
            draws = SecretDraws(hashlib.sha256(str(secret).encode()).digest(), plan.name, 0, None)
            return answer(draws, plan, number, {"editor_seconds": secret}, {"os": "linux"}).report

        good = json.loads(to_json(report(0, FIRST + 7)))
        bodies = {
            "good": good,
            "spaces": good,
            "more": {**good, "z": 1},
            "another plan": {**good, "plan": "nobody"},
        }
        bodies |= {f"round {far:+}": {**good, "round": FIRST + 7 + far} for far in (-8, -2, -1, 1, 2)}
        bodies |= {f"{key} {name}": {**good, key: value} for key in good for name, value in WRONG.items()}
        bodies |= {f"no {key}": {name: value for name, value in good.items() if name != key} for key in good}
        reports = [report(secret, FIRST + 7) for secret in range(20)]
        with served(plan, address, float(plan.round(FIRST + 8).start) + 60) as ask:
            frozen["GET"].update({path: ask(path) for path in GETS})
            for name, body in bodies.items():
                text = json.dumps(body, indent=2 if name == "spaces" else None, separators=(",", ":"))
                frozen["POST"][name] = ask("/v1/reports", text.encode())
            for kind in ("application/x-ndjson", "application/vnd.reticent.packed", "text/plain"):
                frozen["POST"][f"lines as {kind}"] = ask("/v1/reports", to_ndjson(reports), kind)
                frozen["POST"][f"packed as {kind}"] = ask("/v1/reports", to_packed(reports, plan), kind)
            for method in ("GET", "PUT", "DELETE"):
                frozen["POST"][method] = ask("/v1/reports", method=method)
            frozen["GET"]["rounds, afterwards"] = ask("/v1/rounds?plan=app-usage&last=1")
        named = {"plan": path, "other": path.with_name("saves.toml"), "store": address}
        for name, words in COMMANDS.items():
            frozen["commands"][name] = run([word.format(**named) for word in words], folder)


def run(words: list[str], folder: str) -> list[Any]:
    """A command's exit code, output and errors, without what is of this machine."""
    environment = {**os.environ, "COLUMNS": "150", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "reticent", *words],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    clean = (text.replace(folder, "FOLDER").replace(str(ROOT), "ROOT") for text in (done.stdout, done.stderr))
    return [done.returncode, *(text.replace("python -m reticent", "reticent") for text in clean)]


def answers(kept: Path) -> Frozen:
    """All that is frozen."""
    from reticent import Plan

    sections = ("plans", "reports", "encodings", "estimates", "devices", "GET", "POST", "checks", "commands")
    frozen: Frozen = {section: {} for section in sections}
    texts = PLANS | {path.stem: path.read_text() for path in sorted((ROOT / "examples").glob("*.toml"))}
    plans = {}
    with TemporaryDirectory() as folder:
        for name, text in texts.items():
            file = Path(folder) / f"{name}.toml"
            file.write_text(text)
            plan = attempt(lambda: Plan.load(file))  # noqa: B023
            frozen["plans"][name] = plan.replace(folder, "FOLDER") if isinstance(plan, str) else "read"
            if not isinstance(plan, str):
                plans[name] = plan
            frozen["checks"][name] = run(
                ["plan", "check", str(file), "--devices", "1000000", "--json"], folder
            )
    freeze_reports(frozen, plans)
    freeze_devices(frozen, plans)
    freeze_collector(frozen, kept)
    return frozen


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a document with their paths; a text that is JSON is opened."""
    if isinstance(value, str) and value[:1] in "{[":
        opened = attempt(lambda: json.loads(value))
        value = value if isinstance(opened, str) else opened
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, f"{path}.{key}")
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from leaves(part, f"{path}[{place}]")
    else:
        yield path, value


def compare(old: Frozen, new: Frozen, most: int) -> Iterator[str]:
    """By section how many answers are the same, or have more and nothing else; of the others the first differences."""
    for section in old:
        same = 0
        more: list[str] = []
        others: list[str] = []
        names = [name for name in old[section] if name in new[section]]
        for name in names:
            before, after = dict(leaves(old[section][name])), dict(leaves(new[section][name]))
            paths = [path for path, value in before.items() if after.get(path, ...) != value]
            if before == after:
                same += 1
            elif not paths:
                more.append(name)
            else:
                gone = sum(path not in after for path in paths)
                others.append(f"  {name}: {len(paths) - gone} changed, {gone} gone, of {len(before)}")
                others += [
                    f"    {path}: {before[path]!r:.70} -> {after.get(path)!r:.70}" for path in paths[:most]
                ]
        yield f"{section}: {same} of {len(names)} are the same, {len(more)} have more"
        yield from others


def main() -> None:
    """Freeze, or compare what was frozen."""
    parser = argparse.ArgumentParser(description="Freeze what this version answers, or compare two versions.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    freezing = verbs.add_parser("answers")
    freezing.add_argument("file", type=Path)
    freezing.add_argument("--reports", type=Path, required=True, help="folder of the reports that both count")
    comparing = verbs.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--most", type=int, default=3, help="differences shown of one answer")
    options = parser.parse_args()
    if options.verb == "answers":
        options.file.write_text(json.dumps(answers(options.reports), indent=1, default=str) + "\n")
    else:
        old, new = (json.loads(path.read_text()) for path in (options.old, options.new))
        print(*compare(old, new, options.most), sep="\n")


if __name__ == "__main__":
    main()
