"""A page in a real Chromium: beside a Node program and a Python device, closed in the middle, in two tabs."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.javascript.test_processes import run
from tests.javascript.test_units import HEAD, METRIC
from tests.shared.browsers import needs_chromium
from tests.shared.collectors import in_thread, make_keys
from tests.shared.plans import COMMAND, CRASHED

from reticent.device import Device, Policy
from reticent.plan import Plan
from reticent.reports import from_json, to_json
from reticent_collector.http import Collector
from reticent_collector.plans import export_plan
from reticent_collector.stores import RoundKey, open_store

pytestmark = needs_chromium

ROOT = Path(__file__).parents[2]
HOUR = 3600
TEXT = (
    HEAD.format(name="usage", version=1)
    + METRIC.format(name="minutes", top=360)
    + CRASHED
    + COMMAND
    + '[segments]\nplatform = ["browser", "node", "python"]\n'
)
PLAN = Plan.from_toml(TEXT)
EXPORT: Any = export_plan(PLAN)
FIRST = 500_000


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *given: object) -> None:
        pass


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """The repository as a web site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(ROOT)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def tab(browser: Any, origin: str) -> Iterator[Callable[..., Any]]:
    """Open tabs of one person, with a device each on one state, at a time."""
    context = browser.new_context()

    def open_tab(now: float, **settings: Any) -> Any:
        page = context.new_page()
        page.goto(f"{origin}/tests/javascript/page.html")
        page.wait_for_function("window.ready")
        page.evaluate("now => { window.clock = now }", now)
        page.evaluate("settings => openDevice(settings)", {"plan": EXPORT, **settings})
        return page

    yield open_tab
    context.close()


def at(page: Any, now: float) -> None:
    page.evaluate("now => { window.clock = now }", now)


def test_a_page_a_node_program_and_a_python_device_are_counted_together(
    node: str, tab: Callable[..., Any], origin: str, tmp_path: Path
) -> None:
    """Four reports of a round from three languages, one collector behind a key, and counts that are exact."""
    now = time.time()
    current = PLAN.round_at(now)
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    [key] = make_keys(store.url, "ingest").values()
    moments = [now - 2 * HOUR, now - HOUR, now]
    seen: list[dict[str, Any]] = []
    with in_thread(Collector([PLAN], store, allowed_origins=[origin], seal_every=3600)) as service:
        endpoint = f"http://127.0.0.1:{service.port}"
        page = tab(moments[0], endpoint=endpoint, key=key, segment={"platform": "browser"})
        at(page, moments[1])
        page.evaluate(
            "device.add('minutes', 90), device.set('crashed', true), device.choose('command', 'test')"
        )
        page.evaluate("statusOf(device)")
        at(page, now)
        assert page.evaluate("device.flush()") == 1
        seen.append(json.loads(page.evaluate(f"device.report({current - 1})")))

        (tmp_path / "plan.json").write_text(json.dumps(EXPORT))
        for number in range(2):
            program = {"plan": str(tmp_path / "plan.json"), "folder": str(tmp_path / f"state-{number}")}
            program |= {"endpoint": endpoint, "key": key, "segment": {"platform": "node"}, "now": moments}
            answer = run(node, program | {"values": {"minutes": 200}, "round": current - 1})
            assert (answer["accepted"], answer["status"]["lastAttempt"]["outcome"]) == (1, "accepted")
            seen.append(json.loads(answer["body"]))

        clock = [moments[0]]
        device = Device(
            PLAN, tmp_path / "python.db", consent="granted", endpoint=endpoint, key=key,
            segment={"platform": "python"}, policy=Policy(), clock=lambda: clock[0],
        )  # fmt: skip
        clock[0] = moments[1]
        device.add("minutes", 5)
        clock[0] = now
        assert device.flush() == 1
        report = device.report(current - 1)
        assert report is not None
        device.close()

        # A wrong key is a retry, and the page says so.
        stranger = tab(moments[0], endpoint=endpoint, key="wrong", database="other")
        at(stranger, now)
        assert stranger.evaluate("device.flush()") == 0
        assert stranger.evaluate("statusOf(device)")["lastAttempt"]["outcome"] == "wrong-key"

        counts = store.counts(RoundKey(PLAN.name, PLAN.version, current - 1))
        ones: dict[tuple[str, ...], int] = Counter()
        for sent in [*seen, json.loads(to_json(report))]:
            ones[(sent["segment"]["platform"],)] += from_json(json.dumps(sent).encode()).bit(0)
        assert {tags: (each["minutes"].reports, each["minutes"].ones) for tags, each in counts.items()} == {
            ("browser",): (1, ones[("browser",)]),
            ("node",): (2, ones[("node",)]),
            ("python",): (1, ones[("python",)]),
        }


def test_a_page_that_is_closed_and_opened_again_goes_on_with_the_same_answers(
    tab: Callable[..., Any],
) -> None:
    """Closed without a word in the middle of a round, and after the answer but before it was sent."""
    page = tab(FIRST * HOUR)
    at(page, (FIRST + 1) * HOUR)
    page.evaluate("device.add('minutes', 100)")
    page.evaluate("statusOf(device)")
    preview = page.evaluate("previewOf(device).then(({ body }) => body)")
    page.close()
    page = tab((FIRST + 1) * HOUR + 60)
    assert page.evaluate("previewOf(device).then(({ body }) => body)") == preview
    page.evaluate("device.add('minutes', 100)")
    page.evaluate("statusOf(device)")
    at(page, (FIRST + 2) * HOUR)
    body = page.evaluate("device.report()")
    page.close()
    page = tab((FIRST + 2) * HOUR + 1)
    page.evaluate("device.set('minutes', 0)")
    assert page.evaluate(f"device.report({FIRST + 1})") == body
    assert page.evaluate("device.flush()") == 1
    assert page.evaluate("sent") == [body]


def test_values_reach_the_state_when_a_page_is_hidden(tab: Callable[..., Any]) -> None:
    page = tab(FIRST * HOUR)
    at(page, (FIRST + 1) * HOUR)
    page.evaluate(
        """() => {
            device.add('minutes', 30);
            Object.defineProperty(document, 'visibilityState', { value: 'hidden' });
            document.dispatchEvent(new Event('visibilitychange'));
        }"""
    )
    assert page.evaluate("totals()") == {str(FIRST + 1): {"minutes": "30"}}  # after the change under way


def test_two_tabs_share_their_values_answer_once_and_send_once(tab: Callable[..., Any]) -> None:
    tabs = [tab(FIRST * HOUR) for _ in range(2)]
    for page in tabs:
        at(page, (FIRST + 1) * HOUR)
        page.evaluate("() => { for (let time = 0; time < 50; time++) device.add('minutes', 1) }")
        page.evaluate("statusOf(device)")
    assert tabs[0].evaluate("totals()") == {str(FIRST + 1): {"minutes": "100"}}
    for page in tabs:
        at(page, (FIRST + 2) * HOUR)
        page.evaluate("() => { window.flushed = Promise.all([device.flush(), device.report()]) }")
    results = [page.evaluate("flushed") for page in tabs]
    assert len({body for _, body in results}) == 1
    assert sum(accepted for accepted, _ in results) == 1
    assert [body for page in tabs for body in page.evaluate("sent")] == [results[0][1]]


def test_a_choice_in_one_tab_holds_in_the_other(tab: Callable[..., Any]) -> None:
    first, second = tab(FIRST * HOUR), tab(FIRST * HOUR)
    for page in (first, second):
        at(page, (FIRST + 1) * HOUR)
        page.evaluate("device.add('minutes', 5)")
    assert first.evaluate("device.setConsent('denied')")
    at(second, (FIRST + 2) * HOUR)
    assert second.evaluate("device.flush()") == 0
    assert second.evaluate("device.consent") == "denied"
    assert second.evaluate("sent") == []


@pytest.mark.parametrize("choice", ["denied", "local"])
def test_a_second_tab_knows_of_a_choice_within_a_second(tab: Callable[..., Any], choice: str) -> None:
    """Without any call in the second tab; values that it is given from then on are not recorded."""
    first, second = tab(FIRST * HOUR), tab(FIRST * HOUR)
    assert first.evaluate("choice => device.setConsent(choice)", choice)
    second.wait_for_function("choice => device.consent === choice", arg=choice, timeout=1000)
    assert first.evaluate("device.pause()")
    second.evaluate("new Promise(resolve => setTimeout(resolve, 300))")
    second.evaluate("device.add('minutes', 5)")
    assert "paused" in second.evaluate("statusOf(device)")["reasons"]
    assert second.evaluate("totals()") == {}


BLOCKED = {
    "IndexedDB": """Object.defineProperty(window, 'indexedDB', {
        get() { throw new DOMException('blocked', 'SecurityError') },
    })""",
    "WebCrypto": "Object.defineProperty(crypto, 'subtle', { value: undefined })",
}


@pytest.mark.parametrize("missing", BLOCKED)
def test_a_page_goes_on_where_storage_or_webcrypto_is_missing(
    browser: Any, origin: str, missing: str
) -> None:
    context = browser.new_context()
    context.add_init_script(BLOCKED[missing])
    page = context.new_page()
    page.goto(f"{origin}/tests/javascript/page.html")
    page.wait_for_function("window.ready")
    page.evaluate("settings => openDevice(settings)", {"plan": EXPORT})
    page.evaluate("device.add('minutes', 5), device.start()")
    status = page.evaluate("statusOf(device)")
    assert status["active"] is False
    assert status["reasons"][0].startswith("the state cannot be used: ")
    assert page.evaluate("device.flush()") == 0
    assert page.evaluate("device.setConsent('denied')") is False
    context.close()


def test_a_browser_that_says_do_not_track_is_left_alone(browser: Any, origin: str) -> None:
    context = browser.new_context()
    context.add_init_script("Object.defineProperty(navigator, 'globalPrivacyControl', { value: true })")
    page = context.new_page()
    page.goto(f"{origin}/tests/javascript/page.html")
    page.wait_for_function("window.ready")
    page.evaluate("settings => openDevice(settings)", {"plan": EXPORT})
    page.evaluate("device.add('minutes', 5)")
    status = page.evaluate("statusOf(device)")
    assert status["active"] is False
    assert status["reasons"] == ["Global Privacy Control is set"]
    assert page.evaluate("device.report()") is None
    context.close()


def test_a_service_worker_and_a_page_share_a_device(tab: Callable[..., Any]) -> None:
    """The page records, the worker answers and sends; a no in the page holds in the worker."""
    page = tab(FIRST * HOUR, consent="unset")
    page.evaluate(
        """async () => {
            await navigator.serviceWorker.register('worker.js', { type: 'module' });
            const { active } = await navigator.serviceWorker.ready;
            window.ask = (message) => new Promise((resolve) => {
                const { port1, port2 } = new MessageChannel();
                port1.onmessage = ({ data }) => resolve(data);
                active.postMessage(message, [port2]);
            });
        }"""
    )

    def ask(**message: Any) -> Any:
        return page.evaluate("message => ask(message)", message)

    assert ask(plan=EXPORT, at=FIRST * HOUR)["consent"] == "unset"
    assert page.evaluate("device.setConsent('granted')")
    deadline = time.monotonic() + 10  # another context learns of it by a message, usually at once
    while (seen := ask(at=FIRST * HOUR + 1)["consent"]) != "granted" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert seen == "granted"
    at(page, (FIRST + 1) * HOUR)
    page.evaluate("device.add('minutes', 100)")
    page.evaluate("statusOf(device)")
    done = ask(at=(FIRST + 2) * HOUR, call="flush")
    assert (done["result"], len(done["sent"])) == (1, 1)
    at(page, (FIRST + 2) * HOUR)
    assert page.evaluate(f"device.report({FIRST + 1})") == done["sent"][0]
    assert page.evaluate("device.setConsent('denied')")
    assert ask(at=(FIRST + 3) * HOUR, call="flush")["result"] == 0
    assert ask()["status"]["reasons"] == ["consent is denied"]


def test_a_page_whose_person_has_not_agreed_loads_no_more_than_the_entry(browser: Any, origin: str) -> None:
    """The rest comes with the first choice, and after a yes with each page."""
    context = browser.new_context()
    loaded: list[str] = []
    context.on("request", lambda request: loaded.append(request.url.rpartition("/")[2]))

    def visit() -> Any:
        page = context.new_page()
        page.goto(f"{origin}/tests/javascript/page.html")
        page.wait_for_function("window.ready")
        loaded.clear()
        page.evaluate("settings => openDevice(settings)", {"plan": EXPORT, "consent": "unset"})
        page.evaluate("device.add('minutes', 5), device.start()")
        assert page.evaluate("device.flush()") == 0
        return page

    page = visit()
    assert page.evaluate("device.shouldAsk()")
    assert loaded == []
    assert page.evaluate("device.setConsent('denied')")
    assert "engine.js" in loaded
    page = visit()
    assert (page.evaluate("device.consent"), loaded) == ("denied", [])
    assert not page.evaluate("device.shouldAsk()")
    assert page.evaluate("device.setConsent('granted')")
    visit()
    assert "engine.js" in loaded
    context.close()
