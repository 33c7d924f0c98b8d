"""
The files of a lake are removed, replaced or damaged under a running collector.

Of what was acknowledged something is gone then, so nothing more is acknowledged. What does not belong to the
lake, or damages one round of it, keeps nothing else from being served.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shared.collectors import Service, in_thread, make_keys, make_reports, usage

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.reports import Report
from reticent_collector.http import Collector
from reticent_collector.stores import DamagedError, RoundKey, open_store

PLAN = Plan.from_toml(usage())


def reports(count: int, seed: object = 0) -> list[Report]:
    return make_reports(PLAN, PLAN.round_at(time.time()), count, seed)


def round_folder(lake: Path) -> Path:
    (folder,) = (lake / "reports" / f"plan={PLAN.name}" / "version=1").iterdir()
    return folder


def move_away(lake: Path) -> None:
    lake.rename(lake.with_name("elsewhere"))


def replace_by_an_empty_folder(lake: Path) -> None:
    shutil.rmtree(lake)
    lake.mkdir()


def replace_by_a_new_lake(lake: Path) -> None:
    shutil.rmtree(lake)
    open_store(f"lake:///{lake}").register(PLAN)


def bring_back_a_backup(lake: Path) -> None:
    shutil.rmtree(lake)
    shutil.copytree(lake.with_name("backup"), lake)


def remove_parts(lake: Path) -> None:
    for part in round_folder(lake).iterdir():
        part.unlink()


HANDS: dict[str, Callable[[Path], object]] = {
    "removed": shutil.rmtree,
    "moved": move_away,
    "an empty folder": replace_by_an_empty_folder,
    "a new lake": replace_by_a_new_lake,
    "a backup": bring_back_a_backup,
    "reports removed": lambda lake: shutil.rmtree(lake / "reports"),
    "round removed": lambda lake: shutil.rmtree(round_folder(lake)),
    "parts removed": remove_parts,
}


@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("hand", HANDS)
def test_nothing_is_acknowledged_once_what_was_acknowledged_is_gone(
    tmp_path: Path,
    hand: str,
    restarted: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("reticent_collector.http.log.quiet", False)
    lake = tmp_path / "lake"
    with in_thread(Collector([PLAN], open_store(f"lake:///{lake}"))) as service:
        shutil.copytree(lake, lake.with_name("backup"))
        assert all(service.send(report).status == 202 for report in reports(5))
        if not restarted:
            HANDS[hand](lake)
            check_gone(service)
    if restarted:
        with in_thread(Collector([PLAN], open_store(f"lake:///{lake}"))) as service:
            HANDS[hand](lake)
            check_gone(service)
    log = capsys.readouterr().err
    assert log.count('"event": "store-gone"') == 1
    assert "no more reports are acknowledged" in log
    assert "Traceback" not in log


def test_the_first_report_of_a_round_goes_to_no_other_lake(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with in_thread(Collector([PLAN], open_store(f"lake:///{lake}"))) as service:
        replace_by_a_new_lake(lake)
        check_gone(service)
    assert not (lake / "reports").exists()


def check_gone(service: Service) -> None:
    """Neither new reports nor those that were acknowledged before."""
    assert [service.send(report).status for report in [*reports(2, "last"), reports(1)[0]]] == [503] * 3
    assert service.get("/readyz").status == 503
    assert service.get("/healthz").status == 200


def test_a_real_collector_stops_acknowledging_until_it_is_started_again(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    service = Service(tmp_path, usage(), store=f"lake:///{lake}").start()
    assert all(service.send(report).status == 202 for report in reports(5))
    move_away(lake)
    assert [service.send(report).status for report in reports(3, "last")] == [503] * 3
    lake.with_name("elsewhere").rename(lake)
    assert service.send(reports(1, "last")[0]).status == 503, "only a start reads what is there"
    assert service.stop() == 0
    assert service.log.count('"event": "store-gone"') == 1
    service.start()
    assert all(service.send(report).status == 202 for report in reports(3, "last"))
    service.stop()
    assert open_store(service.store).stored_reports() == 8


def test_strays_and_a_damaged_round_keep_nothing_else_from_being_served(tmp_path: Path) -> None:
    lake, now = tmp_path / "lake", PLAN.round_at(time.time())
    before = make_reports(PLAN, now - 1, 150, "before")
    with in_thread(Collector([PLAN], open_store(f"lake:///{lake}"))) as service:
        assert all(service.send(report).status == 202 for report in before)
        damaged = lake / "reports" / f"plan={PLAN.name}" / "version=1" / f"round={now}"
    writer = open_store(f"lake:///{lake}")
    writer.register(PLAN)
    key = RoundKey(PLAN.name, 1, now)
    writer.append({key: b"".join(map(writer.layout(key).pack, reports(20)))})
    (damaged / "notes.parquet").write_text("dear diary")
    part = next(path for path in damaged.iterdir() if path.name != "notes.parquet")
    part.write_bytes(part.read_bytes()[:100])
    with in_thread(Collector([PLAN], open_store(f"lake:///{lake}"))) as service:
        assert service.get("/readyz").status == 200
        answer = service.get(f"/v1/estimates?plan={PLAN.name}&metric=minutes&every=round")
        assert answer.status == 200
        assert str(now - 1) in answer.body.decode()
        assert service.get("/v1/rounds").status == 200
        assert "damage" in service.get("/v1/rounds").body.decode()
        assert service.send(reports(1, "more")[0]).status == 202


def leave_notes(lake: Path) -> None:
    (round_folder(lake) / "notes.txt").write_text("dear diary")


def repair(lake: Path) -> None:
    part = next(round_folder(lake).glob("*.parquet"))  # not the notes beside parts that were left out
    part.write_bytes(part.read_bytes()[:100])
    store = open_store(f"lake:///{lake}")
    assert store.repair(store.unsealed()[0], dry=False) is not None


@pytest.mark.parametrize(
    "hand",
    [leave_notes, repair, lambda lake: make_keys(f"lake:///{lake}", "reader")],
    ids=["notes", "repair", "key"],
)
def test_what_an_operator_may_do_does_not_stop_it(tmp_path: Path, hand: Callable[[Path], object]) -> None:
    lake = tmp_path / "lake"
    with in_thread(Collector([PLAN], open_store(f"lake:///{lake}"))) as service:
        for turn in range(3):
            assert all(service.send(report).status == 202 for report in reports(5, turn))
            hand(lake)
            if hand is not repair and turn == 0:
                assert service.send(reports(1, turn)[0]).status == 202


@pytest.mark.parametrize("removed", [[1], [1, 2], [3], [2, 4]], ids=str)
def test_parts_that_were_removed_between_two_starts_are_noticed(tmp_path: Path, removed: list[int]) -> None:
    """The round has no figures and is not sealed until somebody accepts the loss; others are."""
    lake, key = tmp_path / "lake", RoundKey(PLAN.name, 1, 7)
    other = key._replace(round=8)
    store = open_store(f"lake:///{lake}")
    store.register(PLAN)
    for turn in range(5):
        for at in (key, other):
            sent = make_reports(PLAN, at.round, 10, turn)
            store.append({at: b"".join(map(store.layout(at).pack, sent))})
    store.close()
    for part in (lake / "reports" / f"plan={PLAN.name}" / "version=1" / "round=7").iterdir():
        if int(part.name.split("-")[1]) in removed:
            part.unlink()
    store = open_store(f"lake:///{lake}")
    assert all("is gone, and its reports with it" in problem for problem in store.verify())
    assert store.verify() != []
    assert [bool(info.damage) for info in store.rounds()] == [False, True]
    for work in (store.seal, store.counts):
        with pytest.raises(DamagedError, match="is gone, and its reports with it"):
            work(key)
    assert store.seal(other)
    left = make_reports(PLAN, key.round, 3, "new")
    assert store.append({key: b"".join(map(store.layout(key).pack, left))})[key].accepted == 3
    repaired = store.repair(key, dry=False)
    assert repaired is not None
    assert repaired.readable == 53 - 10 * len(removed)
    assert store.verify() == []
    assert store.seal(key)
    assert [info.reports for info in store.rounds()] == [50, 53 - 10 * len(removed)]
    store.close()


def test_an_append_that_failed_leaves_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, key = open_store(f"lake:///{tmp_path / 'lake'}"), RoundKey(PLAN.name, 1, 7)
    store.register(PLAN)
    groups = [b"".join(map(store.layout(key).pack, make_reports(PLAN, 7, 10, turn))) for turn in range(3)]
    store.append({key: groups[0]})

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.link", refuse)
        with pytest.raises(StoreError, match="No space left"):
            store.append({key: groups[1]})
    store.append({key: groups[2]})
    assert store.verify() == []
    assert store.seal(key)
    assert [info.reports for info in store.rounds()] == [20]
    store.close()
