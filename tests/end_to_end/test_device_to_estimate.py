"""Real devices, a real network, a real collector: what comes out is what the devices said."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from reticent import Device
from reticent.device import Policy
from reticent_collector.counts import count_reports
from reticent_collector.estimates import estimate

DEVICES = 8


def test_devices_report_by_themselves_and_are_estimated(tools: Any, tmp_path: Path) -> None:
    """Rounds of a second; each device answers every round it was there for, and counts once in it."""
    service = tools.Service(tmp_path, tools.usage(round_length="1s", grace="2s"))
    keys = tools.make_keys(service.store, "ingest", "reader")
    service.start()
    plan = service.plans[0]
    try:
        with ExitStack() as stack:
            devices = [
                stack.enter_context(
                    Device(
                        plan, tmp_path / f"device-{number}", consent="granted", key=keys["ingest"],
                        endpoint=f"http://127.0.0.1:{service.port}",
                        segment={"os": ["linux", "macos"][number % 2]}, policy=Policy.unlimited()
                    )
                )
                for number in range(DEVICES)
            ]  # fmt: skip
            begin = plan.round_at(time.time()) + 1
            end = time.monotonic() + 30
            final: list[Any] = []
            while len(final) < 2 and time.monotonic() < end:
                for number, device in enumerate(devices):
                    device.set("minutes", 40 * number)
                    device.set("spread", 40 * number)
                time.sleep(0.1)
                found = service.get("/v1/estimates?plan=app-usage&by=os", keys["reader"]).json["estimates"]
                final = [each for each in found if each["state"] == "sealed" and each["round"] >= begin]
                final = [
                    each for each in final if each["metric"] == "minutes" and each["segment"]["os"] == "macos"
                ]
            assert len(final) >= 2
            for each in final:
                reports = [device.report(each["round"]) for device in devices[1::2]]
                (counts,) = count_reports([report for report in reports if report], plan).values()
                expected = estimate(plan.by_name["minutes"], counts["minutes"])
                assert (each["reports"], each["value"]) == (DEVICES // 2, expected.value)
                assert (each["lower"], each["upper"]) == (expected.lower, expected.upper)
            assert all(not device.status().notes for device in devices)
    finally:
        assert service.stop() == 0
    for text in (keys["ingest"], "device-"):
        assert text not in service.log


def test_a_device_keeps_its_report_until_the_collector_is_back(tools: Any, tmp_path: Path) -> None:
    service = tools.Service(tmp_path, tools.usage(round_length="1s", grace="1h")).start()
    plan, port = service.plans[0], service.port
    assert service.stop() == 0
    with Device(
        plan,
        tmp_path / "device",
        consent="granted",
        endpoint=f"http://127.0.0.1:{port}",
        policy=Policy.unlimited(),
    ) as device:
        device.add("minutes", 5)
        number = device.current_round
        end = time.monotonic() + 20
        while not device.status().attempts and time.monotonic() < end:  # until it answers, and finds nobody
            time.sleep(0.05)
        assert device.status().attempts.keys() == {"refused"}
        assert device.report(number + 1) is not None
        service.start(port=port)
        try:
            seen: set[int] = set()
            while number + 1 not in seen and time.monotonic() < end:
                device.flush()
                seen = {each["round"] for each in service.get("/v1/rounds").json["rounds"]}
                time.sleep(0.1)
            assert number + 1 in seen
        finally:
            assert service.stop() == 0
