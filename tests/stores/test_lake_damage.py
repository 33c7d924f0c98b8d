"""Files of a lake that are damaged, misplaced or lost: each is named, and never half counted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.shared.lakes import Memory, new_lake
from tests.shared.writers import KEY, group

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.stores import Appended, LakeBackend, RoundKey, RoundStore, create_key, open_store
from reticent.stores.lake import Part, folder_of, read_lake


@pytest.fixture
def store(tmp_path: Path, plan: Plan) -> RoundStore:
    return new_lake(tmp_path / "lake", plan)


def the_part(store: RoundStore, folder: Path, key: RoundKey = KEY) -> Path:
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
def test_a_damaged_part_is_named_and_never_half_counted(
    store: RoundStore, tmp_path: Path, damage: str
) -> None:
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


def test_a_damaged_part_does_not_stop_devices(store: RoundStore, tmp_path: Path) -> None:
    store.append({KEY: group(0, 100)})
    damaged(the_part(store, tmp_path), "cut off")
    fresh = open_store(store.url)
    assert fresh.load_open_rounds() == 0
    assert fresh.append({KEY: group(90, 20)}) == {KEY: Appended(accepted=20)}


def test_a_part_of_another_round_or_plan_is_refused(store: RoundStore, tmp_path: Path, plan: Plan) -> None:
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
    with pytest.raises(StoreError, match="rows: expected 4 as the name says, got 3"):
        store.backend.count(KEY)


def test_files_that_are_no_parts_are_refused_by_name(store: RoundStore, tmp_path: Path) -> None:
    store.append({KEY: group(0, 3)})
    folder = the_part(store, tmp_path).parent
    (folder / "_SUCCESS").touch()
    (folder / ".part.crc").touch()
    assert store.backend.count(KEY).reports == 3
    (folder / "part-0001.parquet").touch()
    for work in (store.counts, store.backend.count, store.seal):
        with pytest.raises(StoreError, match=r"part-0001\.parquet: is not the name of a part"):
            work(KEY)
    assert store.verify() == [f"{folder_of(KEY)}/part-0001.parquet: is not the name of a part"]
    assert store.backend.count(KEY, skip_bad=True).left_out == {
        "part-0001.parquet": "is not the name of a part"
    }


def test_a_lost_part_of_a_closing_round_is_missed(store: RoundStore, tmp_path: Path) -> None:
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


def test_a_part_that_is_out_of_reach_is_not_left_out(plan: Plan) -> None:
    """A fault of the place is no fault of a file: sealed without its reports, the round would lose them."""

    class Unplugged(Memory):
        def read(self, path: str) -> bytes | None:
            if path.endswith(".parquet") and plugged == [False]:
                raise StoreError("memory: the cable is out")
            return super().read(path)

    plugged = [True]
    store = RoundStore(LakeBackend(Unplugged()))
    store.register(plan)
    store.append({KEY: group(0, 3)})
    plugged[0] = False
    for work in (store.backend.count, store.seal):
        with pytest.raises(StoreError, match="the cable is out"):
            work(KEY, skip_bad=True)
    plugged[0] = True
    assert store.seal(KEY, skip_bad=True)
    assert store.backend.count(KEY).reports == 3


def test_what_else_is_damaged_is_said(store: RoundStore, tmp_path: Path, plan: Plan) -> None:
    top = tmp_path / "lake"
    sealed = top / f"{folder_of(KEY, 'counts')}.json"
    frozen = top / folder_of(KEY._replace(round=8), "seals") / "parts.json"
    store.append({KEY: group(0, 3), KEY._replace(round=8): group(0, 3)})
    store.seal(KEY)
    store.backend.seals.close(KEY._replace(round=8))
    store.backend.seals.frozen(KEY._replace(round=8))
    store.add_key(create_key("admin", "", 1)[1])
    assert store.verify() == []
    reader = read_lake(store.url)
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
