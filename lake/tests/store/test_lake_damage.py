"""Files of a lake that are damaged, misplaced or lost: each is named, and never half counted."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.shared.lakes import Bay, Memory, die_at, every_step
from tests.shared.writers import KEY, group

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.stores import (
    Appended,
    DamagedError,
    RoundInfo,
    RoundKey,
    Store,
    create_key,
    open_store,
)
from reticent_lake.store import LakeBackend, Part, folder_of, open_lake


def the_part(store: Store, folder: Path, key: RoundKey = KEY) -> Path:
    (path,) = store.backend.parts(key)
    return folder / "lake" / path


def damaged(path: Path, damage: str) -> None:
    data = path.read_bytes()
    if damage == "cut off":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "a byte was changed":
        place = data.index((5).to_bytes(8, "little"))  # the id of a report
        path.write_bytes(data[:place] + b"\xff" + data[place + 1 :])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "not Parquet":
        path.write_bytes(b"PAR1 but nothing else PAR1")


@pytest.mark.parametrize("damage", ["cut off", "a byte was changed", "empty", "not Parquet"])
def test_a_damaged_part_is_named_and_never_half_counted(store: Store, tmp_path: Path, damage: str) -> None:
    store.append({KEY: group(0, 100)})
    path = the_part(store, tmp_path)
    open_store(store.url).append({KEY: group(100, 50)})
    damaged(path, damage)
    fresh = open_store(store.url)
    for work in (fresh.counts, fresh.backend.count, fresh.seal, fresh.seal):
        with pytest.raises(StoreError, match=f"{path.name}: cannot be read as Parquet: "):
            work(KEY)
    (problem,) = fresh.verify()
    assert problem.startswith(f"{path.relative_to(tmp_path / 'lake')}: cannot be read as Parquet: ")
    other = KEY._replace(round=8)
    assert fresh.append({other: group(0, 5)}) == {other: Appended(accepted=5)}
    found = fresh.backend.count(KEY, skip_bad=True)
    assert (found.reports, list(found.left_out)) == (50, [path.name])
    assert fresh.seal(KEY, skip_bad=True)
    assert fresh.rounds()[-1].reports == 50
    sealed = open_store(store.url).backend.final(KEY)
    assert sealed is not None
    assert sealed.left_out == found.left_out
    assert fresh.verify() == []


def test_a_damaged_part_does_not_stop_devices(store: Store, tmp_path: Path) -> None:
    store.append({KEY: group(0, 100)})
    damaged(the_part(store, tmp_path), "cut off")
    fresh = open_store(store.url)
    assert fresh.stored_reports() == 100  # by the name of the part
    assert fresh.append({KEY: group(90, 20)}) == {KEY: Appended(accepted=20)}


def test_a_part_of_another_round_or_plan_is_refused(store: Store, tmp_path: Path, plan: Plan) -> None:
    other = Plan.from_toml(plan.text.replace("60", "90").replace("version = 1", "version = 2"))
    store.register(other)
    keys = KEY, KEY._replace(round=8), RoundKey("small", 2, 7)
    for key in keys:
        store.append({key: group(0, 3)})
    source = the_part(store, tmp_path, keys[0])
    for key, reason in zip(
        keys[1:], ("reticent.round: expected 8, got 7", "reticent.version: expected 2, got 1"), strict=True
    ):
        target = the_part(store, tmp_path, key)
        shutil.copy(source, target)
        with pytest.raises(StoreError, match=reason):
            store.backend.count(key)
        target.unlink()
    shutil.copy(source, source.with_name(Part("0" * 32, 1, 1, 4).name))
    with pytest.raises(StoreError, match="rows: expected 4 as in the name, got 3"):
        store.backend.count(KEY)


@pytest.mark.parametrize(
    "path",
    [
        f"{folder_of(KEY)}/part-0001.parquet",
        f"{folder_of(KEY)}/notes.txt",
        f"{folder_of(KEY)}/sub/{Part('0' * 32, 1, 1, 4).name}",
        f"{folder_of(KEY)}/{Part('0' * 32, 1, 1, 4).name}.bak",
    ],
)
def test_what_is_not_named_as_a_part_is_not_counted_and_is_named(
    store: Store, tmp_path: Path, path: str
) -> None:
    store.append({KEY: group(0, 3)})
    stray = tmp_path / "lake" / path
    stray.parent.mkdir(exist_ok=True)
    stray.write_text("dear diary")
    fresh = open_store(store.url)
    for stored, opened in ((6, store), (9, fresh)):
        assert opened.append({KEY: group(0, 3)}) == {KEY: Appended(accepted=3)}
        assert opened.counts(KEY)[()]["minutes"].devices == 3
        assert opened.rounds() == [RoundInfo(KEY, "open", stored)]
    name = path.removeprefix(f"{folder_of(KEY)}/").split("/")[0]
    said = f"{folder_of(KEY)}/{name}: is not a file of this lake: it is not counted, and was not changed"
    assert fresh.verify() == [said]
    assert fresh.repair(KEY) is None
    assert fresh.seal(KEY)
    assert fresh.rounds() == [RoundInfo(KEY, "sealed", 3)]
    assert stray.read_text() == "dear diary"
    assert open_store(store.url).verify() == [said]


@pytest.mark.parametrize(
    "path",
    [
        f"{folder_of(KEY)}/_SUCCESS",
        f"{folder_of(KEY)}/.part.crc",
        "notes.txt",
        "reports/notes.txt",
        "reports/plan=small",
        "reports/plan=small/version=1/round=x/part.parquet",
        "reports/plan=other",
        "plans/notes.txt",
        "plans/small/v1 copy.toml",
        "keys/notes.txt",
        "counts/plan=small/version=1/notes.txt",
        f"{folder_of(RoundKey('other', 1, 7))}/{Part('0' * 32, 1, 1, 4).name}",
        f"{folder_of(KEY._replace(version=2))}/{Part('0' * 32, 1, 1, 4).name}",
    ],
)
def test_strays_elsewhere_disturb_nothing(store: Store, tmp_path: Path, path: str) -> None:
    stray = tmp_path / "lake" / path
    if path == "reports/plan=small":
        stray = stray / "notes.txt"
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_text("dear diary")
    store.append({KEY: group(0, 3)})
    fresh = open_store(store.url)
    assert [plan.version for plan in fresh.plans()] == [1]
    assert fresh.keys() == []
    assert fresh.rounds() == [RoundInfo(KEY, "open", 3)]
    assert fresh.unsealed() == [KEY]
    assert fresh.seal(KEY)
    assert stray.read_text() == "dear diary"


# RoundParts that are ours and cannot be read: the round is set aside


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def of_other_columns(path: Path) -> None:
    pq.write_table(pa.table({"id_high": [1, 2]}), path)


def locked(path: Path) -> None:
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root may read everything")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut off": lambda path: damaged(path, "cut off"),
    "a byte was changed": lambda path: damaged(path, "a byte was changed"),
    "empty": lambda path: damaged(path, "empty"),
    "other columns": of_other_columns,
    "a folder": as_folder,
    "locked": locked,
}


@pytest.mark.parametrize("state", ["open", "closing"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_round_is_set_aside_until_it_is_repaired(
    store: Store, tmp_path: Path, damage: str, state: str
) -> None:
    other = KEY._replace(round=8)
    store.append({KEY: group(0, 100), other: group(0, 5)})
    path = the_part(store, tmp_path)
    writer = open_store(store.url)
    assert writer.append({KEY: group(90, 60)}) == {KEY: Appended(accepted=60)}
    if state == "closing":
        writer.backend.close_round(KEY)
    DAMAGES[damage](path)
    collector = open_store(store.url)
    for opened in (open_store(store.url), collector):
        for work in (opened.seal, opened.counts) if state == "closing" else (opened.counts,):
            with pytest.raises(DamagedError, match=path.name):
                work(KEY)
        eight, seven = opened.rounds()
        assert (eight, seven.key) == (RoundInfo(other, "open", 5), KEY)
        assert path.name in seven.damage
        assert opened.counts(other)[()]["minutes"].devices == 5
        assert [problem.partition(":")[0] for problem in opened.verify()] == [f"{folder_of(KEY)}/{path.name}"]
    planned = collector.repair(KEY)
    assert planned is not None
    assert (path.name in planned.damage, planned.readable) == (True, 60)
    assert planned.action.startswith(f"move {path.name} to {folder_of(KEY, 'damaged')}")
    assert path.exists()
    assert open_store(store.url).repair(KEY, dry=False) == planned
    assert [kept.name[9:] for kept in (tmp_path / "lake" / folder_of(KEY, "damaged")).iterdir()] == [
        path.name
    ]
    assert collector.repair(KEY) is None
    assert collector.verify() == []
    assert [info.damage for info in collector.rounds()] == ["", ""]
    assert collector.counts(KEY)[()]["minutes"].devices == 60
    late = state == "closing"
    again = {KEY: Appended(late=100)} if late else {KEY: Appended(accepted=100)}
    assert open_store(store.url).append({KEY: group(0, 100)}) == again  # devices that try again are taken
    assert collector.seal(KEY)
    final = open_store(store.url).backend.final(KEY)
    assert final is not None
    assert (final.reports, list(final.left_out)) == (60 if late else 150, [path.name])
    assert open_store(store.url).verify() == []
    assert collector.prune(KEY)
    assert not list((tmp_path / "lake").glob("damaged/**/*.parquet")) or damage == "a folder"


def test_a_part_that_is_lost_or_a_list_that_is_damaged_is_repaired(store: Store, tmp_path: Path) -> None:
    store.append({KEY: group(0, 3)})
    open_store(store.url).append({KEY: group(3, 4)})
    store.backend.close_round(KEY)
    first, second = store.backend.parts(KEY)
    (tmp_path / "lake" / first).unlink()
    rows = int(second.rpartition("-")[2].removesuffix(".parquet"))
    repair = store.repair(KEY, dry=False)
    assert repair == (
        f"{first}: is gone, and its reports with it",
        rows,
        "seal the round without 1 of its files",
    )
    listed = tmp_path / "lake" / folder_of(KEY, "seals") / "parts.json"
    listed.write_text("[]")
    with pytest.raises(DamagedError, match=r"parts\.json: is damaged"):
        store.seal(KEY)
    repair = store.repair(KEY, dry=False)
    assert repair is not None
    assert "parts.json: is damaged" in repair.damage
    assert store.seal(KEY)
    assert store.rounds() == [RoundInfo(KEY, "sealed", rows)]


def test_damaged_counts_are_said_and_nothing_else_is_disturbed(store: Store, tmp_path: Path) -> None:
    other = KEY._replace(round=8)
    store.append({KEY: group(0, 3), other: group(0, 5)})
    assert store.seal(KEY)
    counts = tmp_path / "lake" / f"{folder_of(KEY, 'counts')}.json"
    for text in ("", "[]", "{}", '{"reports": 3, "left_out": {}, "counts": [{"tags": ["x"]}]}'):
        counts.write_text(text)
        fresh = open_store(store.url)
        eight, seven = fresh.rounds()
        assert (eight.damage, seven.state) == ("", "sealed")
        assert "is damaged" in seven.damage
        repair = fresh.repair(KEY)
        assert repair is not None
        assert (repair.readable, repair.action) == (0, "")
        with pytest.raises(DamagedError, match="is damaged"):
            fresh.counts(KEY)
        assert fresh.append({other: group(0, 6)})[other].accepted == 6
        assert fresh.unsealed() == [other]
    assert fresh.prune(KEY), "old results can be removed whatever is in them"
    assert [info.key for info in open_store(store.url).rounds()] == [other]


def test_a_file_where_the_folder_of_a_round_should_be(store: Store, tmp_path: Path) -> None:
    other, place = KEY._replace(round=8), tmp_path / "lake" / folder_of(KEY)
    store.append({other: group(0, 5)})
    place.write_text("dear diary")
    assert store.append({KEY: group(0, 3), other: group(0, 6)}) == {
        KEY: Appended(refused=3),
        other: Appended(accepted=6),
    }
    assert [bool(info.damage) for info in store.rounds()] == [False, True]
    assert store.repair(KEY, dry=False) is not None
    assert store.append({KEY: group(0, 3)}) == {KEY: Appended(accepted=3)}
    assert (store.seal(KEY), store.rounds()[-1]) == (True, RoundInfo(KEY, "sealed", 3))


def test_dying_anywhere_in_a_repair(plan: Plan) -> None:
    """The damaged part is kept, and the rest counts."""

    def repairing(bay: Bay) -> None:
        (part, _) = bay.files.names(folder_of(KEY))
        bay.files.files[f"{folder_of(KEY)}/{part}"] = b"dear diary"
        bay.sent = set(range(10, 20))
        bay.store.repair(KEY, dry=False)

    for place in range(1, every_step(plan, repairing) + 1):
        bay = Bay(plan)
        die_at(bay, place, repairing)
        if not any(path.endswith(".left-out.json") for path in bay.files.files):
            bay.other().repair(KEY, dry=False)
        bay.check()
        final = bay.other().backend.final(KEY)
        assert final is not None
        assert len(final.left_out) == 1  # nothing is left out in silence
        assert b"dear diary" in bay.files.files.values()


def test_pruned_counts_are_gone_and_the_round_stays_closed(plan: Plan) -> None:
    def pruning(bay: Bay) -> None:
        bay.store.seal(KEY)
        assert bay.store.prune(KEY)

    for place in range(1, every_step(plan, pruning) + 1):
        bay = Bay(plan)
        die_at(bay, place, pruning)
        bay.other().seal(KEY)
        if bay.other().rounds():
            bay.check()
            assert bay.other().prune(KEY)
        for store in (bay.store, bay.other()):
            bay.watched.step = lambda number: None
            assert store.rounds() == store.unsealed() == []
            assert not store.prune(KEY)
            assert not store.seal(KEY)
            assert store.append({KEY: group(0, 3)}) == {KEY: Appended(late=3)}
            assert store.verify() == []


def test_a_lost_part_of_a_closing_round_is_missed(store: Store, tmp_path: Path) -> None:
    store.append({KEY: group(0, 3)})
    other = open_store(store.url)
    other.append({KEY: group(3, 4)})
    store.backend.seals.close(KEY)
    names = store.backend.seals.frozen(KEY)
    (tmp_path / "lake" / folder_of(KEY) / names[0]).unlink()
    with pytest.raises(StoreError, match=f"{names[0]}: is gone, and its reports with it"):
        store.seal(KEY)
    assert store.verify() == [f"{folder_of(KEY)}/{names[0]}: is gone, and its reports with it"]
    assert store.seal(KEY, skip_bad=True)


def test_a_closing_round_that_lost_all_its_parts_is_missed(store: Store, tmp_path: Path) -> None:
    store.append({KEY: group(0, 3)})
    store.backend.close_round(KEY)
    path = the_part(store, tmp_path)
    gone = f"{folder_of(KEY)}/{path.name}: is gone, and its reports with it"
    path.unlink()
    other = open_store(store.url)
    assert other.unsealed() == [KEY], "a collector tries to seal it, and logs why it cannot"
    assert [(info.state, info.damage) for info in other.rounds()] == [("closing", gone)]
    path.parent.rmdir()
    assert other.verify() == [gone]
    path.parent.mkdir()
    assert other.repair(KEY, dry=False) is not None
    assert (other.seal(KEY), other.rounds()) == (True, [RoundInfo(KEY, "sealed", 0)])
    assert other.verify() == []


def test_a_part_that_is_out_of_reach_is_not_left_out(plan: Plan) -> None:
    """A fault of the place is no fault of a file: sealed without its reports, the round would lose them."""

    class Unplugged(Memory):
        def read(self, path: str) -> bytes | None:
            if path.endswith(".parquet") and plugged == [False]:
                raise StoreError("memory: the cable is out")
            return super().read(path)

    plugged = [True]
    store = Store(LakeBackend(Unplugged()))
    store.register(plan)
    store.append({KEY: group(0, 3)})
    plugged[0] = False
    for work in (store.backend.count, store.seal):
        with pytest.raises(StoreError, match="the cable is out"):
            work(KEY, skip_bad=True)
    plugged[0] = True
    assert store.seal(KEY, skip_bad=True)
    assert store.backend.count(KEY).reports == 3


def test_what_else_is_damaged_is_said(store: Store, tmp_path: Path, plan: Plan) -> None:
    top = tmp_path / "lake"
    sealed = top / f"{folder_of(KEY, 'counts')}.json"
    frozen = top / folder_of(KEY._replace(round=8), "seals") / "parts.json"
    store.append({KEY: group(0, 3), KEY._replace(round=8): group(0, 3)})
    store.seal(KEY)
    store.backend.seals.close(KEY._replace(round=8))
    store.backend.seals.frozen(KEY._replace(round=8))
    store.add_key(create_key("admin", "", 1)[1])
    assert store.verify() == []
    reader = open_lake(store.url, readonly=True)
    document = json.loads(sealed.read_text())
    document["reports"] = 4
    sealed.write_text(json.dumps(document))
    frozen.write_text("[]")
    (top / "plans" / "small" / "v2.toml").write_text(plan.text)
    (top / "plans" / "small" / "v3.toml").write_text("[plan]")
    next((top / "keys").iterdir()).write_text("{}")
    (top / "lake.json").unlink()
    (top / folder_of(RoundKey("unknown", 1, 1))).mkdir(parents=True)
    with pytest.raises(StoreError, match="is damaged"):
        store.backend.count(KEY._replace(round=8))
    frozen.unlink()
    told = "\n".join(reader.verify())
    for problem in (
        "lake.json is gone",
        "plans/small/v2.toml: holds the text of small version 1",
        "plans/small/v3.toml: holds a plan that cannot be read",
        "is damaged: KeyError",
        "round 7 of small version 1: minutes: expected the counts of 4 reports, got those of 3",
        "plan unknown version 1 is not registered",
    ):
        assert problem in told
