"""The laws that reticent relies on in a store, to check a store of your own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial

from reticent.reports import Report
from reticent_collector.columns import FIGURE, NUMBER
from reticent_collector.stores import (
    Appended,
    Backend,
    CountsByTags,
    Key,
    KeyTable,
    PeriodKey,
    RoundKey,
    SealedRounds,
    Shortcuts,
    Store,
    add_counts,
    create_key,
    reports_of,
)
from reticent_collector.testing.store_bench import PERIODS, Bench, all_at_once, law, refused, same


def check_store(
    open: Callable[[], Store],  # noqa: A002
    *,
    durable: bool = True,
    readonly: Callable[[], Store] | None = None,
) -> None:
    """
    Assert all that reticent relies on; raises `BrokenLawError` for the first law that is broken.

    `open` opens the same store each time it is called, like `lambda: open_store("sqlite:///test.db")`, to see
    what is durable and to act as two collectors. A store that lives in one object alone is checked with
    `durable=False`; `open` is then called once per law. `readonly` opens the store to be read only. What is
    written stays in the store: use a scratch store.

    >>> from reticent_collector.stores import open_store
    >>> check_store(lambda: open_store("memory:"), durable=False)
    """
    laws = list(LAWS + (LAWS_OF_DURABLE_STORES if durable else ()))
    if readonly is not None:
        laws.append(partial(readers_change_nothing, readonly=readonly))
    for asserted in laws:
        with ExitStack() as stack:

            def opened(stack: ExitStack = stack) -> Store:
                store = open()
                stack.callback(store.close)
                return store

            asserted(Bench(opened))


def plans_never_change(bench: Bench) -> None:
    """A plan never changes under its name and version."""
    other = bench.version(1, top=70)
    bench.store.register(bench.plan)
    refused(lambda: bench.store.register(other), "register: a plan cannot change under its version")
    bench.store.register(bench.version(2, top=70))
    known = [plan for plan in bench.store.plans() if plan.name == bench.name]
    same(known, [bench.plan, bench.version(2, top=70)], "plans() has each version once, as registered")
    law(all(plan.text for plan in known), "plans() keeps the text of plan.toml, which devices download")


def reports_count_once(bench: Bench) -> None:
    """A report counts once, however often it is stored; of two with one id the smallest."""
    key, reports = bench.key(7), bench.reports(500)
    first, second = reports[:300], reports[200:]
    twice = bench.append([*first, *first[:40]])
    same(twice, {key: Appended(accepted=340)}, "a repeated report is accepted")
    again = bench.append(second)
    same(again, {key: Appended(accepted=300)}, "a report of an earlier group is accepted")
    same(bench.states(), {key: ("open", 640)}, "rounds() has the stored reports of an open round")
    expected = bench.expected(reports)
    same(bench.store.counts(key), expected, "counts() equals count_reports on the same reports")
    forged = [replace(report, bits=bytes(len(report.bits)), cohort=0) for report in reports[:50]]
    bench.append(forged)
    smallest = [min(pair, key=bench.layout.pack) for pair in zip(reports, forged, strict=False)]
    expected = bench.expected([*smallest, *reports[50:]])
    same(bench.store.counts(key), expected, "of two reports with one id, the smallest counts")
    bench.store.seal(key)
    same(bench.store.counts(key), expected, "counts are the same after sealing as before")


def readers_see_no_single_report(bench: Bench) -> None:
    """What is shown of an open round grows by many different reports at once, and lacks as many until the seal."""
    key, least = bench.key(7), bench.plan.min_reports
    seen: CountsByTags = {}
    counts: CountsByTags = {}
    sent: list[Report] = []
    for turn in range(1, 13):
        # In every third turn only repeated reports come, which are as many and show nothing new.
        if turn % 3:
            sent = bench.reports(700)
            counts = add_counts(counts, bench.expected(sent))
        bench.append(sent)
        bench.store.take_step(key)
        shown = bench.store.shown(key)
        for tags, cell in shown.items():
            size, before = (reports_of(bench.plan, {tags: part}) for part in (cell, seen.get(tags, {})))
            law(size == before or size - before >= least, "a step shows min_reports more, or nothing", size)
            lacking = reports_of(bench.plan, {tags: counts[tags]}) - size
            law(lacking >= least, "what is shown lacks min_reports of what came", lacking)
        law(shown.keys() >= seen.keys(), "what was shown stays shown", sorted(shown))
        seen = shown
    bench.store.seal(key)
    same(bench.store.shown(key), {}, "a sealed round has no steps")


def rounds_are_separate(bench: Bench) -> None:
    """Rounds and versions are appended together, counted separately and listed in order."""
    plans = {1: bench.plan, 2: bench.version(2)}
    bench.store.register(plans[2])
    sent = {(v, number): bench.reports(30, number, plan) for v, plan in plans.items() for number in (8, 6, 7)}
    mixed = [report for reports in sent.values() for report in reports]
    bench.draws.shuffle(mixed)
    each = {bench.key(number, version): Appended(accepted=30) for version, number in sent}
    same(bench.append(mixed), each, "one append may hold several rounds and versions, and answers for each")
    for (version, number), reports in sent.items():
        expected = bench.expected(reports, number, plans[version])
        counts = bench.store.counts(bench.key(number, version))
        same(counts, expected, "rounds and versions are counted separately")
    reused = bench.append(replace(report, round=9) for report in sent[1, 8])
    same(reused, {bench.key(9): Appended(accepted=30)}, "an id counts once in its own round only")
    known = [(info.key.round, info.key.version) for info in bench.store.rounds(bench.name)]
    expected_order = [(9, 1), (8, 2), (8, 1), (7, 2), (7, 1), (6, 2), (6, 1)]
    same(known, expected_order, "rounds() is sorted, latest round and version first")
    latest = [(info.key.round, info.key.version) for info in bench.store.rounds(bench.name, last=3)]
    same(latest, known[:3], "rounds(last=n) has the n latest")
    keys = {bench.key(*listed) for listed in known}
    law({info.key for info in bench.store.rounds()} >= keys, "rounds() without a plan has those of all plans")
    unsealed = {key for key in bench.store.unsealed() if key.plan == bench.name}
    same(unsealed, keys, "unsealed() has the rounds that are not sealed")


def sealing_is_final(bench: Bench) -> None:
    """A sealed round takes nothing more and never changes."""
    key, reports = bench.key(7), bench.reports(200)
    law(not bench.store.seal(key), "seal says False for a round that never was")
    same(bench.states(), {}, "sealing a round that never was makes none")
    bench.append(reports)
    law(bench.store.seal(key), "seal says True when it seals")
    final = bench.store.counts(key)
    same(final, bench.expected(reports), "the counts of a sealed round are those of its reports")
    same(bench.states(), {key: ("sealed", 200)}, "rounds() has a sealed round and its reports")
    law(not bench.store.seal(key), "seal says False for a round that is sealed")
    late = [*bench.reports(20), *reports[:5]]
    same(bench.append(late), {key: Appended(late=25)}, "reports on a sealed round are late")
    same(bench.store.counts(key), final, "late reports change no counts")
    same(bench.states(), {key: ("sealed", 200)}, "late reports change no round")
    mixed = bench.append([*bench.reports(3), *bench.reports(4, 8)])
    expected = {key: Appended(late=3), bench.key(8): Appended(accepted=4)}
    same(mixed, expected, "a late round does not stop the others of its append")
    law(key not in bench.store.unsealed(), "unsealed() leaves out sealed rounds")


def metrics_are_read_alone(bench: Bench) -> None:
    """The counts of one metric are those of the whole round, for sealed rounds."""
    sent = {number: bench.reports(120, number) for number in (6, 7, 8)}
    for reports in sent.values():
        bench.append(reports)
    for number in (6, 8):
        bench.store.seal(bench.key(number))
    whole = {bench.key(number): bench.expected(sent[number], number) for number in (8, 6)}
    asked = [bench.key(number) for number in (8, 7, 6, 5)]
    for name in ("minutes", "words"):
        expected = {
            key: {tags: {name: counts[name]} for tags, counts in by_tags.items()}
            for key, by_tags in whole.items()
        }
        counts = bench.store.metric_counts(asked, name)
        same(counts, expected, "metric_counts() has one metric of the rounds that are sealed, and no others")
    same(bench.store.metric_counts([], "minutes"), {}, "metric_counts() of no rounds is empty")


def results_are_kept(bench: Bench) -> None:
    """In a table of results, rows stay as they were first put, until they or their round are removed."""
    table, key = bench.store.table, bench.key(7)
    if table is None:
        return
    bench.append(bench.reports(200))
    bench.store.seal(key)
    hour, day = (PeriodKey(bench.name, 1, every, start, end) for every, start, end in PERIODS)
    rows = {period: [bench.row(period, place, place / 7) for place in range(5)] for period in (hour, day)}
    rows[day].append(bench.row(day, None, 0.5))
    compared = [bench.comparison(day, *one) for one in ((0, 0.1), (1, 0.2), (None, 0.3))]

    def interrupted() -> Iterator[Mapping[str, object]]:
        yield from rows[hour][:2]
        raise InterruptedError

    same(table.written(bench.name), set(), "written() has no period before it was put")
    with suppress(InterruptedError):
        table.put_results(hour, interrupted())
    same(table.written(bench.name), set(), "written() has no period of which some rows were not put")
    for period in (hour, day, hour):
        table.put_results(period, rows[period], compared if period == day else [])
    table.put_results(day, [{**row, "value": 99.0} for row in rows[day]])
    same(table.written(bench.name), {hour, day}, "written() has the periods that were put")
    for period in (hour, day):
        kept = sorted(table.results(period), key=lambda row: str(row["bucket"]))
        same(kept, rows[period], "results() has each row once, as it was first put")
    kept = sorted(table.comparisons(day), key=lambda row: str(row["bucket"]))
    same(kept, compared, "comparisons() has each row once, as it was put")
    same(table.comparisons(hour), [], "comparisons() has those of one period")
    figures = ("metric", "segment", *FIGURE, *NUMBER)
    expected = {
        period: [{name: row[name] for name in figures} for row in rows[period] if row["metric"] == "files"]
        for period in (hour, day)
    }
    never = hour._replace(start=hour.start - 3600, end=hour.start)
    asked = ([hour, day, never], ["files"], ['{"os":"linux"}', "{}"])
    same(table.written_rows(*asked), expected, "written_rows() has the buckets of written periods, in order")
    same(table.written_rows([day], ["files"], ["{}"]), {day: []}, "a written period may have no such rows")
    table.drop_results(hour)
    del expected[hour]
    same(table.written_rows(*asked), expected, "written_rows() has no period that is no longer written")
    same(table.results(hour), [], "drop_results() removes the rows of a period")
    same(table.written(bench.name), {day}, "drop_results() removes one period")
    if not isinstance(bench.store.backend, SealedRounds):
        return
    bench.store.prune(key)
    same(table.results(day), [], "prune() removes the rows of every period that the round is in")
    same(table.comparisons(day), [], "prune() removes the comparisons of every period that the round is in")
    same(table.written(bench.name), set(), "prune() removes every period that the round is in")


def nothing_makes_no_round(bench: Bench) -> None:
    """An append of nothing, or of what is refused, leaves nothing behind."""
    key, width = bench.key(7), bench.layout.width
    same(bench.store.append({}), {}, "an empty append does nothing")
    same(bench.store.append({key: b""}), {key: Appended()}, "an append without records accepts none")
    same(bench.states(), {}, "an append without records makes no round")
    same(bench.store.counts(key), {}, "a round that never was has no counts")
    unknown = {RoundKey(bench.name, 99, 7): bytes(width)}
    refused(lambda: bench.store.append(unknown), "append on a plan that is not registered")
    with suppress(Exception):
        bench.store.append({key: bytes(width + 1)})
    same(bench.states(), {}, "a record that is cut off is refused and makes no round")


def shortcuts_lead_to_the_same(bench: Bench) -> None:
    """What a backend answers in a quicker way is what a store works out from its eight calls."""
    backend = bench.store.backend
    if not isinstance(backend, Shortcuts):
        return
    plain = Store(_WithoutShortcuts(backend))
    for number in (6, 7, 8):
        bench.append(bench.reports(60, number))
    bench.store.seal(bench.key(6))
    backend.close_round(bench.key(7))
    keys = [bench.key(number) for number in (6, 7, 8, 9)]
    unsealed = [{key for key in store.unsealed() if key.plan == bench.name} for store in (plain, bench.store)]
    same(unsealed[1], unsealed[0], "unsealed() has the rounds that rounds() says are not sealed")
    for key in keys:
        same(bench.store.counts(key), plain.counts(key), "count() counts the groups of records()")
        same(bench.store.layout(key).plan, plain.layout(key).plan, "layout() is that of the plan in plans()")
    counts = (store.metric_counts(keys, "words") for store in (bench.store, plain))
    same(next(counts), next(counts), "metric_counts() has what final() has of the metric")
    with bench.store.claim(bench.key(7)) as is_mine:
        law(is_mine, "claim() is True where no other collector seals the round")
    law(plain.seal(bench.key(7)), "counts of records() can be published")
    whole = bench.store.counts(bench.key(7))
    same(whole, plain.counts(bench.key(7)), "final() has the counts that were published")


class _WithoutShortcuts:
    """A backend by its eight calls alone."""

    def __init__(self, backend: Backend) -> None:
        self.url = backend.url
        self.put_plan, self.plans = backend.put_plan, backend.plans
        self.put, self.records, self.rounds = backend.put, backend.records, backend.rounds
        self.close_round, self.publish, self.final = backend.close_round, backend.publish, backend.final


def keys_are_kept(bench: Bench) -> None:
    """Keys are stored as they were added, and revoked once."""
    if not isinstance(bench.store.backend, KeyTable):
        same(bench.store.keys(), [], "a store that keeps no keys has none")
        return
    made = [create_key(role, f"for {role}", 100 + place)[1] for place, role in enumerate(("ingest", "admin"))]
    for key in made:
        bench.store.add_key(key)

    def kept() -> list[Key]:
        return [key for key in list(bench.store.keys()) if key.id in {key.id for key in made}]

    same(kept(), made, "keys() has each key as it was added")
    law(bench.store.revoke_key(made[0].id, at=500), "revoke_key says True for an existing key")
    bench.store.revoke_key(made[0].id, at=900)
    revoked = {key.id: key.revoked_at for key in kept()}
    same(revoked, {made[0].id: 500, made[1].id: None}, "a key is revoked once, and alone")
    law(not bench.store.revoke_key("no such key", at=1), "revoke_key says False for a key that never was")
    refused(lambda: bench.store.add_key(made[1]), "add_key over another key with its id")


def a_store_is_well(bench: Bench) -> None:
    """A store without problems reports none."""
    bench.append(bench.reports(10))
    bench.append(bench.reports(10, 8))
    bench.store.seal(bench.key(8))
    bench.store.ping()
    same(bench.store.verify(), [], "verify() finds no problem in a store that has none")
    law(bench.store.stored_reports() >= 10, "stored_reports() returns how many reports open rounds hold")


def append_beside_seal(bench: Bench) -> None:
    """One thread appends, one seals, some read: what was accepted is counted, and the rest was late."""
    key, groups = bench.key(7), [bench.reports(20) for _ in range(60)]
    accepted: list[Report] = []
    answers: list[Appended] = []
    started = threading.Event()

    def append() -> None:
        for place, group in enumerate(groups):
            answer = bench.append(group)[key]
            answers.append(answer)
            if answer.accepted:
                accepted.extend(group)
            if place == 20:
                started.set()

    def seal() -> None:
        started.wait(60)
        bench.store.seal(key)

    def read() -> None:
        seen: list[str] = []
        while seen != ["sealed"]:
            time.sleep(0.001)
            seen = [state for state, _ in bench.states().values()]
            sum(counts["minutes"].devices for counts in bench.store.counts(key).values())

    all_at_once(append, seal, seal, read)
    whole = all(answer in (Appended(accepted=20), Appended(late=20)) for answer in answers)
    law(whole, "a group is accepted or late as a whole, while its round is sealed", answers)
    expected = bench.expected(accepted)
    same(bench.store.counts(key), expected, "what was accepted during seal() is counted, no more")
    sealed = {key: ("sealed", len(accepted))}
    same(bench.states(), sealed, "a round sealed during append() has what it accepted")


def accepted_is_durable(bench: Bench) -> None:
    """What was accepted is there when the store is opened again."""
    key, sealed, reports, old = bench.key(7), bench.key(6), bench.reports(100), bench.reports(50, 6)
    bench.append(reports)
    bench.append(old)
    bench.store.seal(sealed)
    again = bench.open()
    law(bench.plan in again.plans(), "plans are there when the store is opened again")
    same(again.counts(key), bench.expected(reports), "reports are there when the store is opened again")
    final = bench.expected(old, 6)
    same(again.counts(sealed), final, "sealed counts are the same when the store is opened again")
    new = bench.reports(1)
    answer = bench.append(reports[:60] + new, again)[key]
    same(answer, Appended(accepted=61), "repeated reports are accepted when the store is opened again")
    third = bench.open()
    both = bench.expected(reports + new)
    same(third.counts(key), both, "repeated reports count once when the store is opened again")
    same(bench.append(bench.reports(2, 6), third)[sealed], Appended(late=2), "sealed is sealed for everyone")


def collectors_share_a_store(bench: Bench) -> None:
    """The same and different reports through two openings: each counts once when the round is sealed."""
    key, other = bench.key(7), bench.open()
    both, mine, theirs = bench.reports(100), bench.reports(50), bench.reports(50)
    bench.append([*mine, *both[:50]])
    bench.append([*theirs, *both], other)
    bench.append(both[50:])
    everything = bench.expected([*both, *mine, *theirs])
    for store in (bench.store, other):
        same(store.counts(key), everything, "counts() of an open round has what other collectors accepted")
    law(other.seal(key), "any collector may seal")
    same(bench.append(bench.reports(5))[key], Appended(late=5), "what another collector sealed is late")
    for store in (bench.store, other):
        same(store.counts(key), everything, "a report that two collectors took counts once")
        same(bench.states(store), {key: ("sealed", 200)}, "a report that two collectors took is one report")
    law(not bench.store.seal(key), "seal says False for a round that another collector sealed")


def collectors_beside_seal(bench: Bench) -> None:
    """Two collectors append the same and different reports while a third seals."""
    key, shared = bench.key(7), [bench.reports(20) for _ in range(30)]
    stores = [bench.store, bench.open(), bench.open()]
    own = [[bench.reports(20) for _ in range(30)] for _ in range(2)]
    accepted: dict[bytes, Report] = {}
    started = threading.Event()

    def append(place: int) -> None:
        for turn, (shared_group, alone) in enumerate(zip(shared, own[place], strict=True)):
            answer = bench.append([*shared_group, *alone], stores[place])[key]
            if not answer.late:
                accepted.update({report.id: report for report in [*shared_group, *alone]})
            if turn == 10:
                started.set()

    def seal() -> None:
        started.wait(60)
        stores[2].seal(key)

    all_at_once(lambda: append(0), lambda: append(1), seal, seal)
    expected = bench.expected(accepted.values())
    for store in stores:
        same(
            store.counts(key),
            expected,
            "what any collector accepted before the seal is counted once, no more",
        )


def readers_change_nothing(bench: Bench, readonly: Callable[[], Store]) -> None:
    """A store that is read only shows the same, and changes nothing."""
    reports, sealed = bench.reports(40), bench.reports(30, 6)
    bench.append(reports)
    bench.append(sealed)
    bench.store.seal(bench.key(6))
    key, other = (create_key("reader", "", now=100)[1] for _ in range(2))
    bench.store.add_key(key)
    states = {bench.key(7): ("open", 40), bench.key(6): ("sealed", 30)}
    with closing(readonly()) as reader:
        law(bench.plan in reader.plans(), "plans() of a store that is read only has every plan")
        same(bench.states(reader), states, "rounds() of a store that is read only are those of the store")
        open_counts, final = bench.expected(reports), bench.expected(sealed, 6)
        same(reader.counts(bench.key(7)), open_counts, "a store that is read only has provisional counts")
        same(reader.counts(bench.key(6)), final, "a store that is read only has final counts")
        law(key in list(reader.keys()), "keys() of a store that is read only has every key")
        same(reader.verify(), [], "verify() of a store that is read only finds no problem")
        group = {bench.key(7): b"".join(map(bench.layout.pack, bench.reports(1)))}
        changes: dict[str, Callable[[], object]] = {
            "register": lambda: reader.register(bench.version(2)),
            "append": lambda: reader.append(group),
            "seal": lambda: reader.seal(bench.key(7)),
            "add_key": lambda: reader.add_key(other),
            "revoke_key": lambda: reader.revoke_key(key.id, at=200),
            "ping": reader.ping,
        }
        if (table := reader.table) is not None:
            changes["put_results"] = lambda: table.put_results(PeriodKey(bench.name, 1, *PERIODS[0]), [])
        for name, change in changes.items():
            refused(change, f"{name} of a store that is read only")
    same(bench.states(), states, "a store that is read only changes no round")
    law(key in list(bench.store.keys()), "a store that is read only changes no key")


StoreLaw = Callable[[Bench], None]
LAWS: tuple[StoreLaw, ...] = (
    plans_never_change,
    reports_count_once,
    readers_see_no_single_report,
    rounds_are_separate,
    sealing_is_final,
    metrics_are_read_alone,
    shortcuts_lead_to_the_same,
    results_are_kept,
    nothing_makes_no_round,
    keys_are_kept,
    a_store_is_well,
    append_beside_seal,
)
LAWS_OF_DURABLE_STORES: tuple[StoreLaw, ...] = (
    accepted_is_durable,
    collectors_share_a_store,
    collectors_beside_seal,
)
