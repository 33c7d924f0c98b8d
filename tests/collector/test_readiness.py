"""Anybody may ask whether the collector is ready; the store is asked once a second at most."""

from __future__ import annotations

import asyncio

from reticent.collector.readiness import Readiness
from reticent.errors import StoreError


class Asked:
    """A store that counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0
        self.failing = False

    def __call__(self) -> None:
        self.times += 1
        if self.failing:
            raise StoreError("gone")


def test_an_answer_stands_for_a_second_be_it_good_or_bad() -> None:
    store, now = Asked(), [100.0]
    ready = Readiness(store, lambda: now[0])

    async def story() -> list[tuple[bool, int]]:
        seen = []
        for seconds, failing in ((0.0, False), (0.9, True), (0.2, True), (0.8, False), (0.3, False)):
            now[0] += seconds
            store.failing = failing
            seen.append((await ready(), store.times))
        return seen

    assert asyncio.run(story()) == [(True, 1), (True, 1), (False, 2), (False, 2), (True, 3)]


def test_those_who_ask_at_once_share_one_question() -> None:
    store = Asked()

    async def many() -> list[bool]:
        ready = Readiness(store)
        return list(await asyncio.gather(*(ready() for _ in range(50))))

    assert asyncio.run(many()) == [True] * 50
    assert store.times == 1
