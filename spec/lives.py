"""The lives that the rules are tried on. Times are rounds of six hours from round 80,000 on, unless they say so."""

from __future__ import annotations

from itertools import product
from typing import Any

HERE = 80_000
LENGTH = 21_600
DAY = 86_400
CONSENTS = ("unset", "granted", "denied", "local")

Event = dict[str, Any]
Life = tuple[str, str, list[Event]]


def plan(metrics: str, *, version: int = 1, head: str = 'round = "6h"\ngrace = "12h"', more: str = "") -> str:
    """A plan; metrics such as "saves 1.0 0.2" have a name, an epsilon and a flip."""
    text = f'[plan]\nname = "lives"\nversion = {version}\n{head}\n'
    for line in metrics.split(", "):
        name, epsilon, *flip = line.split()
        text += f'\n[metrics.{name}]\nkind = "mean"\nmax_value = 10\nepsilon = {epsilon}\n'
        text += "".join(f"flip = {one}\n" for one in flip)
    return text + more


def sampled(
    metrics: str, *, version: int = 1, window: str = "7d", head: str = 'round = "6h"\ngrace = "12h"'
) -> str:
    """A plan whose answers are sampled, one metric in each window."""
    answers = f'\n[answers]\nkind = "sampled"\nwindow = "{window}"\nmetrics = 1\n'
    return plan(metrics, version=version, head=head, more=answers)


def divided(metrics: str, *, asked: int = 1, version: int = 1) -> str:
    """A plan whose answers are remembered, about some of the metrics."""
    return plan(metrics, version=version, more=f"\n[answers]\nmetrics = {asked}\n")


BASE = "saves 1.0 0.2"
DAILY, HOURLY, WEEKLY = 'round = "1d"', 'round = "1h"', 'round = "7d"'
PLANS = {
    "base": plan(BASE),
    "base-changed": plan("saves 1.5 0.2"),
    "base-2": plan(BASE, version=2),
    "base-3": plan(BASE, version=3),
    "more-2": plan(BASE + ", opens 1.0 0.2", version=2),
    "fewer-2": plan("opens 1.0 0.2", version=2),
    "two": plan(BASE + ", opens 1.0 0.2"),
    "one-of-two-2": plan(BASE, version=2),
    "costlier-2": plan("saves 1.5 0.2", version=2),
    "less-flip-2": plan("saves 1.0 0.1", version=2),
    "more-flip-2": plan("saves 1.0 0.3", version=2),
    "patient": plan(BASE, head='round = "6h"\ngrace = "5d"'),
    "very-patient": plan(BASE, head='round = "6h"\ngrace = "20d"'),
    "expires": plan(BASE, head='round = "6h"\ngrace = "12h"\nexpires = 2024-10-05'),
    "expired": plan(BASE, head='round = "6h"\ngrace = "12h"\nexpires = 2024-01-01'),
    "expires-later-2": plan(BASE, version=2, head='round = "6h"\ngrace = "12h"\nexpires = 2027-01-01'),
    "daily": plan(BASE, head=DAILY),
    "hourly": plan(BASE, head=HOURLY),
    "weekly": plan(BASE, head=WEEKLY),
    "weekly-more-2": plan(BASE + ", opens 1.0 0.2", version=2, head=WEEKLY),
    "six": plan(", ".join(f"m{number} 1.0 0.2" for number in range(6))),
    "seven": plan(", ".join(f"m{number} 1.0 0.2" for number in range(7))),
    "large-epsilon": plan("saves 2.5 0.2"),
    "small-flip": plan("saves 1.0 0.05"),
    "no-flip": plan("saves 1.0"),
    "large-round": plan("saves 2.0 0.1, opens 2.0 0.1, closes 2.0 0.1, prints 2.0 0.1"),
    "short-round": plan(BASE, head='round = "30m"\ngrace = "12h"'),
    "half-2": plan("saves 0.5 0.2", version=2),
    "constructor": plan("constructor 1.0 0.2"),
    "divided": divided("closes 1.0 0.2, opens 1.0 0.2"),
    "divided-2": divided("opens 1.0 0.2, closes 1.0 0.2, pastes 1.0 0.2", version=2),
    "divided-displaced-2": divided("closes 1.0 0.2, opens 1.0 0.2, prints 1.0 0.2", version=2),
    "divided-fewer-2": plan("opens 1.0 0.2", version=2),
    "divided-both-2": divided("closes 1.0 0.2, opens 1.0 0.2", asked=2, version=2),
    "both": plan("closes 1.0 0.2, opens 1.0 0.2"),
    "divided-1-of-both-2": divided("closes 1.0 0.2, opens 1.0 0.2", version=2),
    "divided-seven": divided(", ".join(f"m{number} 1.0 0.2" for number in range(7)), asked=5),
    "divided-uneven": divided("saves 0.5 0.2, opens 2.0 0.2"),
    "sampled": sampled("saves 1.0, opens 1.0"),
    "sampled-2": sampled("saves 1.0, opens 1.0", version=2),
    "sampled-both-2": sampled("saves 1.0, opens 1.0", version=2).replace("metrics = 1", "metrics = 2"),
    "sampled-costlier-2": sampled("saves 2.0, opens 2.0", version=2),
    "sampled-14d-2": sampled("saves 1.0, opens 1.0", version=2, window="14d"),
    "sampled-10d-2": sampled("saves 1.0, opens 1.0", version=2, window="10d"),
    "sampled-14d": sampled("saves 1.0, opens 1.0", window="14d"),
    "sampled-7d-2": sampled("saves 1.0, opens 1.0", version=2),
    "sampled-large-epsilon": sampled("saves 2.5, opens 2.5", window="28d"),
    "sampled-costly": sampled("saves 1.5, opens 1.5"),
    "sampled-28d-costly": sampled("saves 2.0, opens 2.0", window="28d"),
    "sampled-28d-costlier-2": sampled("saves 2.0, opens 2.0", window="28d", version=2),
    "sampled-short-window": sampled("saves 1.0, opens 1.0", window="1d"),
    "sampled-patient": sampled("saves 1.0, opens 1.0", head='round = "6h"'),
    "sampled-daily": sampled("saves 1.0, opens 1.0", head=DAILY),
    "sampled-week": sampled("saves 1.0, opens 1.0", head='round = "6h"\ngrace = "7d"'),
    "sampled-week-2": sampled("saves 1.0, opens 1.0", version=2, head='round = "6h"\ngrace = "7d"'),
    "sampled-4-weeks": sampled("saves 2.0, opens 2.0", window="28d", head='round = "6h"\ngrace = "7d"'),
    "sampled-month": sampled("saves 1.0, opens 1.0", head='round = "6h"\ngrace = "28d"'),
    "sampled-month-28d-2": sampled(
        "saves 1.0, opens 1.0", version=2, window="28d", head='round = "6h"\ngrace = "28d"'
    ),
    "sampled-weekly": sampled("saves 1.0, opens 1.0", window="28d", head=WEEKLY),
    "sampled-daily-week": sampled("saves 1.0, opens 1.0", head='round = "1d"\ngrace = "7d"'),
    "remembered-2": plan("saves 1.0 0.2, opens 1.0 0.2", version=2),
    "sampled-instead-2": sampled("saves 1.0", version=2),
}


def at(number: float, do: str, **more: Any) -> Event:
    """An event, one minute into a round."""
    return {"at": int((HERE + number) * LENGTH) + 60, "do": do, **more}


def on_day(day: float, do: str, **more: Any) -> Event:
    """An event, so many days after round 80,000 and a minute."""
    return {"at": HERE * LENGTH + int(day * DAY) + 60, "do": do, **more}


def add(number: float, amount: int, metric: str = "saves") -> Event:
    """A value is recorded."""
    return at(number, "add", metric=metric, amount=amount)


def start(number: float = 0, plan: str = "base", consent: str = "granted", **more: Any) -> Event:
    """A program starts."""
    return at(number, "open", plan=plan, consent=consent, **more)


FREE: dict[str, Any] = {"policy": "unlimited"}
LIVES: list[Life] = []


def life(name: str, about: str, *events: Event) -> None:
    """Enter a life."""
    if any(known == name for known, _, _ in LIVES):
        raise ValueError(name)
    LIVES.append((name, about, list(events)))


# Consent: every choice after every other

for before, after in product(CONSENTS, CONSENTS):
    life(
        f"consent-{before}-{after}",
        f"The person chooses {before}, and in the fourth round {after}.",
        start(consent="unset"),
        at(0.2, "consent", choice=before),
        at(1, "flush"), add(1, 10), at(2, "flush"), at(3, "flush"), add(3, 0),
        at(3.3, "consent", choice=after),
        add(3.4, 10), at(4, "flush"), add(4, 10), at(5, "flush"),
        at(5.5, "close"),
        start(6, consent="unset"),
        at(6.1, "flush"), at(7, "flush"),
    )  # fmt: skip
for default, choice in product(CONSENTS, CONSENTS):
    life(
        f"default-{default}-{choice}",
        f"The program's default is {default}; the person chooses {choice}, which wins in every later start.",
        start(consent=default), add(0, 3), at(1, "flush"), at(2, "flush"),
        at(2.5, "consent", choice=choice), at(2.6, "close"),
        start(3, consent=default), at(4, "flush"), at(5, "report"),
    )  # fmt: skip
life(
    "unsent-is-wiped",
    "Nothing was sent when the person says no, so nothing is kept: a later yes begins anew.",
    start(), at(1, "flush"), add(1, 10), at(2, "flush", answers=[{"drop": True}]),
    at(2.3, "consent", choice="denied"), at(3, "consent", choice="granted"), at(4, "flush"), at(5, "flush"),
)  # fmt: skip
life(
    "untried-is-wiped",
    "A report that was never tried leaves no trace after a no; the next secret and the first epoch follow.",
    start(), at(1, "flush"), add(1, 10), at(2, "pause"), at(2.2, "consent", choice="denied"),
    at(2.4, "resume"), at(3, "consent", choice="granted"), at(4, "flush"), at(5, "flush"),
)  # fmt: skip
life(
    "told-by-hand",
    "The host takes the bytes of a report itself: they count as sent, also after a no.",
    start(), at(1, "flush"), add(1, 10), at(2, "report"), at(2.1, "report"), at(2.2, "report", current=True),
    at(2.5, "consent", choice="denied"), at(3, "report"), at(4, "consent", choice="granted"), at(6, "report"),
)  # fmt: skip
life(
    "denied-then-local",
    "Rounds between a no and a later choice are never answered, under local neither.",
    start(plan="patient"), at(1, "flush"), at(2, "flush"), at(2.5, "consent", choice="denied"),
    at(5.5, "consent", choice="local"), at(7, "flush"), at(8, "flush"),
)  # fmt: skip
life(
    "local-then-granted",
    "Rounds that ended under local before a yes, and were not answered yet, are not answered any more.",
    start(plan="patient", consent="local"), at(1, "flush"), add(1, 10), add(2, 10),
    at(3.5, "consent", choice="granted"), at(4, "flush"), at(5, "flush"),
)  # fmt: skip
life(
    "long-local",
    "Granted, then local for 620 rounds, then denied: what was sent first stays counted.",
    start(plan="very-patient"), at(1, "flush"), add(1, 10), at(2, "flush"), at(2.2, "consent", choice="local"),
    *[at(number, "flush") for number in range(60, 660, 60)],
    at(630, "consent", choice="denied"), at(631, "consent", choice="granted"), at(633, "flush"),
)  # fmt: skip

# A choice waits for a report on its way

SILENCING: list[tuple[str, Event]] = [
    ("unset", {"do": "consent", "choice": "unset"}),
    ("local", {"do": "consent", "choice": "local"}),
    ("denied", {"do": "consent", "choice": "denied"}),
    ("pause", {"do": "pause"}),
    ("forget", {"do": "forget"}),
]
for (name, call), (result, answered) in product(
    SILENCING,
    [
        ("accepted", {"status": 202}),
        ("failed", {"status": 503}),
        ("rejected", {"status": 410, "code": "late"}),
    ],
):
    life(
        f"on-its-way-{name}-{result}",
        f"{name} while a report is on its way: the call returns once the answer is there.",
        start(), at(1, "flush"), add(1, 10),
        {"at": at(2, "")["at"], **call, "while_sending": answered},
        at(2.5, "flush"), at(3, "flush"), at(4, "flush"),
    )  # fmt: skip

# Rules about the environment

for rule in ("DO_NOT_TRACK", "CI", "container"):
    life(
        f"rule-{rule}-first",
        "The first start is silenced: nothing is kept until the rule is gone.",
        start(environment=[rule]), add(0, 3), at(1, "flush"), at(1.5, "close"),
        start(2), at(3, "flush"), add(3, 10), at(4, "flush"),
    )  # fmt: skip
    life(
        f"rule-{rule}-later",
        "A device that reports is silenced for some rounds: rounds that the rule overlaps are never answered.",
        start(), at(1, "flush"), at(2, "flush"), at(2.5, "close"),
        start(3, environment=[rule]), add(3, 10), at(4, "flush"), at(4.5, "close"),
        start(5), at(6, "flush"), at(7, "flush"),
    )  # fmt: skip
    for choice in ("denied", "granted", "local"):
        life(
            f"rule-{rule}-{choice}",
            "A choice is kept under every rule, so that the person is not asked at every start.",
            start(consent="unset", environment=[rule]), at(0.2, "consent", choice=choice), at(1, "flush"),
            at(1.1, "close"), start(1.5, consent="unset", environment=[rule]), at(1.7, "close"),
            start(2, consent="unset"), at(3, "flush"), at(4, "flush"),
        )  # fmt: skip
    life(
        f"rule-{rule}-withdrawn",
        "A yes is taken back under a rule.",
        start(consent="unset"), at(0.1, "consent", choice="granted"), at(1, "flush"), at(2, "flush"), at(2.2, "close"),
        start(3, consent="unset", environment=[rule]), at(3.2, "consent", choice="denied"), at(3.3, "close"),
        start(4, consent="unset"), at(5, "flush"),
    )  # fmt: skip
life(
    "rule-lifted",
    "A policy without limits lifts the rules about build machines and containers.",
    start(environment=["CI", "container"], **FREE), at(1, "flush"), at(2, "flush"),
)  # fmt: skip

# Pauses

life(
    "pause",
    "A pause of some rounds: none that it overlaps is answered; what waits is sent afterwards if it is still taken.",
    start(), at(1, "flush"), add(1, 10), at(1.5, "pause"), add(1.6, 10), at(2, "flush"), at(3, "flush"),
    at(3.5, "resume"), add(3.6, 10), at(4, "flush"), add(4, 10), at(5, "flush"),
)  # fmt: skip
life(
    "pause-waiting",
    "A report that waits during a pause is sent after it.",
    start(plan="patient"), at(1, "flush"), at(2, "flush", answers=[{"status": 503}]), at(2.3, "pause"),
    at(3, "flush"), at(4, "flush"), at(4.2, "resume"), at(5, "flush"), at(6, "flush"),
)  # fmt: skip
life(
    "pause-expires",
    "A report that waits during a long pause is given up.",
    start(), at(1, "flush"), at(2, "flush", answers=[{"status": 503}]), at(2.3, "pause"), at(6, "flush"),
    at(6.2, "resume"), at(7, "flush"), at(8, "flush"),
)  # fmt: skip
life(
    "pause-restart",
    "A pause lasts over a restart, and is not ended by one.",
    start(), at(1, "flush"), at(1.5, "pause"), at(1.6, "close"), start(3), at(4, "flush"), at(4.5, "resume"),
    at(5, "flush"), at(6, "flush"),
)  # fmt: skip
life(
    "pause-twice",
    "A second pause changes nothing, one resume ends both; a pause within one round costs that round.",
    start(), at(1, "flush"), at(1.2, "pause"), at(1.3, "pause"), at(1.5, "resume"), at(1.6, "resume"), at(2, "flush"),
    at(3, "flush"), at(3.1, "pause"), at(3.2, "resume"), at(4, "flush"), at(5, "flush"),
)  # fmt: skip
life(
    "pause-denied",
    "A pause outlives a no and a later yes.",
    start(consent="unset"), at(0.1, "consent", choice="granted"), at(1, "flush"), at(2, "flush"), at(2.2, "pause"),
    at(2.4, "consent", choice="denied"), at(3, "consent", choice="granted"), at(4, "flush"), at(4.5, "resume"),
    at(5, "flush"), at(6, "flush"),
)  # fmt: skip

# Spells

for gap in range(5):
    life(
        f"spell-gap-{gap}",
        f"The program is off for {gap} rounds, with a grace of two: a spell is answered whole or not at all.",
        start(), at(1, "flush"), add(1, 10), at(1.5, "close"), start(2 + gap), at(2.1 + gap, "flush"),
        at(3 + gap, "flush"),
    )  # fmt: skip
for gap in (1, 2, 5, 6, 8):
    life(
        f"spell-days-{gap}",
        f"Rounds of a day and the default grace of seven days; the program runs every {gap} days.",
        on_day(0, "open", plan="daily", consent="granted"), on_day(1, "flush"),
        on_day(1, "add", metric="saves", amount=10), on_day(1.2, "close"),
        on_day(1 + gap, "open", plan="daily", consent="granted"), on_day(1 + gap, "flush"),
        on_day(1 + gap, "add", metric="saves", amount=10), on_day(1.2 + gap, "close"),
        on_day(1 + 2 * gap, "open", plan="daily", consent="granted"), on_day(1 + 2 * gap, "flush"),
    )  # fmt: skip
life(
    "spell-late-flush",
    "The spell could be answered at the start, but is flushed when its first round is closed: none of it is answered.",
    start(), at(1, "flush"), add(1, 10), at(1.5, "close"), start(3), at(4.5, "flush"), at(5, "flush"),
)  # fmt: skip
life(
    "spell-enrolled",
    "The round of enrolment is not answered, so neither is the gap after it.",
    start(plan="patient"), at(0.5, "close"), start(4, plan="patient"), at(4.1, "flush"), at(5, "flush"), at(6, "flush"),
)  # fmt: skip
life(
    "spell-running",
    "A program that runs without a flush was on all the time: each round is a spell of its own.",
    start(), at(1, "flush"), add(2, 10), at(6, "flush"), at(7, "flush"),
)  # fmt: skip
life(
    "spell-hourly",
    "Rounds of an hour and a gap of 70 of them within the default grace: all are answered.",
    on_day(0, "open", plan="hourly", consent="granted"), on_day(1 / 24, "flush"),
    on_day(1 / 24, "add", metric="saves", amount=10), on_day(1.5 / 24, "close"),
    on_day(71.5 / 24, "open", plan="hourly", consent="granted"), on_day(71.6 / 24, "flush"),
)  # fmt: skip
life(
    "spell-weekly",
    "Rounds of a week have a default grace of three.",
    on_day(0, "open", plan="weekly", consent="granted"), on_day(7, "flush"), on_day(8, "close"),
    on_day(27, "open", plan="weekly", consent="granted"), on_day(27.5, "flush"), on_day(34, "close"),
    on_day(65, "open", plan="weekly", consent="granted"), on_day(65.5, "flush"), on_day(70, "flush"),
)  # fmt: skip
life(
    "monday",
    "Rounds of a week begin on Monday, 00:00 UTC: what is recorded a little before is in another round than after.",
    on_day(0, "open", plan="weekly", consent="granted"), on_day(2.99, "flush"), on_day(3, "flush"),
    on_day(9.99, "add", metric="saves", amount=10), on_day(10, "add", metric="saves", amount=0), on_day(10, "flush"),
    on_day(16.99, "flush"), on_day(17, "flush"),
)  # fmt: skip
life(
    "monday-sampled",
    "Windows of rounds of a week follow one another from the first Monday of 1970 on.",
    on_day(0, "open", plan="sampled-weekly", consent="granted", **FREE),
    *[on_day(day, "flush") for week in range(10) for day in (7 * week + 2.99, 7 * week + 3)],
)  # fmt: skip
life(
    "monday-1970",
    "A clock that starts in 1970, before the first Monday, and is set right later.",
    {"at": 60, "do": "open", "plan": "weekly", "consent": "granted"},
    {"at": 3 * DAY, "do": "add", "metric": "saves", "amount": 10},
    {"at": 5 * DAY, "do": "flush"}, on_day(0, "flush"), on_day(4, "flush"), on_day(11, "flush"), on_day(18, "flush"),
)  # fmt: skip

# Windows of sampled answers

for name, values in (("unused", False), ("used", True)):
    life(
        f"twin-{name}",
        "No start, and a flush after a month: the same rounds whatever is recorded. A value holds no window.",
        on_day(0, "open", plan="sampled-daily-week", consent="granted", policy={"max_lifetime": 2}),
        *([on_day(5, "add", metric="saves", amount=7), on_day(5, "write"),
           on_day(12, "add", metric="opens", amount=7), on_day(12, "write")] if values else []),
        on_day(30, "flush"),
    )  # fmt: skip
    life(
        f"twin-killed-{name}",
        "The program is killed: until when it ran is known from its calls, not from its values.",
        start(), at(1, "flush"), *([add(3, 10), at(3, "write")] if values else []), at(3.5, "kill"),
        start(4), at(4.1, "flush"), at(5, "flush"),
    )  # fmt: skip
    life(
        f"twin-daily-{name}",
        "Rounds of a day and a program that runs now and then: the same rounds whatever is recorded.",
        on_day(0, "open", plan="sampled-daily", consent="granted", **FREE), on_day(0.1, "close"),
        *[
            event
            for day in (3, 8, 12, 20, 24, 33)
            for event in [
                on_day(day, "open", plan="sampled-daily", consent="granted", **FREE),
                *([on_day(day, "add", metric="saves", amount=9)] if values else []),
                on_day(day + 0.1, "flush"), on_day(day + 0.2, "close"),
            ]
        ],
    )  # fmt: skip
life(
    "windows-year",
    "A weekly plan answers every week for more than a year under the default policy.",
    on_day(0, "open", plan="sampled-week", consent="granted"),
    *[on_day(7 * week + 3, "flush") for week in range(1, 62)],
)  # fmt: skip
life(
    "windows-every-round",
    "One round of each window is answered, the one that the secret picks, whatever is recorded.",
    start(plan="sampled", **FREE),
    *[
        event
        for number in range(2, 72, 2)
        for event in (add(number - 1, 5), add(number - 1, 2, "opens"), at(number, "flush"))
    ],
)  # fmt: skip
life(
    "windows-costlier-version",
    "A window held under version 1 and answered under a costlier version 2 counts at the cost of what was answered.",
    start(plan="sampled", **FREE), at(12, "flush"), at(12.5, "close"), start(13, plan="sampled-costlier-2", **FREE),
    *[at(number, "flush") for number in range(15, 45, 2)],
)  # fmt: skip
life(
    "windows-same-version-again",
    "A new version without other questions is answered from the next round on, in the same windows.",
    start(plan="sampled", **FREE), *[at(number, "flush") for number in range(13, 30, 4)], at(30.5, "close"),
    start(31, plan="sampled-2", **FREE), *[at(number, "flush") for number in range(33, 70, 2)],
)  # fmt: skip
life(
    "windows-longer",
    "Longer windows begin when the last short one is over.",
    start(plan="sampled", **FREE), at(12, "flush"), at(14, "close"), start(15, plan="sampled-14d-2", **FREE),
    *[at(number, "flush") for number in range(17, 130, 2)],
)  # fmt: skip
life(
    "windows-shorter-asks-again",
    "Shorter windows cost more in a year: a yes to longer ones does not cover them.",
    start(plan="sampled-14d", consent="unset", **FREE), at(0.1, "consent", choice="granted"), at(1, "flush"),
    at(1.5, "close"), start(2, plan="sampled-7d-2", consent="unset", **FREE), at(3, "flush"),
)  # fmt: skip
life(
    "windows-longer-covered",
    "Longer windows cost less: a yes to shorter ones covers them.",
    start(plan="sampled", consent="unset", **FREE), at(0.1, "consent", choice="granted"), at(1, "flush"),
    at(1.5, "close"), start(2, plan="sampled-14d-2", consent="unset", **FREE), at(3, "flush"),
)  # fmt: skip
life(
    "windows-more-metrics-asks-again",
    "Both metrics in each window instead of one lose more: a yes to one does not cover that.",
    start(plan="sampled", consent="unset", **FREE), at(0.1, "consent", choice="granted"), at(1, "flush"),
    at(1.5, "close"), start(2, plan="sampled-both-2", consent="unset", **FREE), at(3, "flush"),
)  # fmt: skip
life(
    "windows-local",
    "A window under local is answered here and loses nothing; it is not answered again after a yes.",
    start(plan="sampled", consent="local", **FREE), *[at(number, "flush") for number in range(12, 40, 4)],
    at(41, "consent", choice="granted"), *[at(number, "flush") for number in range(42, 72, 3)],
)  # fmt: skip
life(
    "windows-denied",
    "A no in the middle of a window ends it; a yes in the same window waits for the next.",
    start(plan="sampled", **FREE), *[at(number, "flush") for number in range(12, 44, 4)],
    at(44, "consent", choice="denied"), at(45, "consent", choice="granted"),
    *[at(number, "flush") for number in range(46, 98, 3)],
)  # fmt: skip
life(
    "windows-pause",
    "A pause in a window costs its answer only if it overlaps the round that is picked.",
    start(plan="sampled", **FREE), at(12, "flush"), at(13, "pause"), at(14, "resume"),
    *[at(number, "flush") for number in range(15, 72, 3)],
)  # fmt: skip
life(
    "windows-rule",
    "A rule that overlaps a window before its answer costs the window.",
    start(plan="sampled"), at(12, "flush"), at(12.3, "close"), start(13, plan="sampled", environment=["DO_NOT_TRACK"]),
    at(13.5, "close"), start(14, plan="sampled"), *[at(number, "flush") for number in range(15, 72, 3)],
)  # fmt: skip
life(
    "windows-forget",
    "No window that had begun before is answered after forget; the next one is, with another secret.",
    start(plan="sampled", **FREE), *[at(number, "flush") for number in range(12, 44, 4)], at(44, "forget"),
    *[at(number, "flush") for number in range(45, 100, 3)],
)  # fmt: skip
life(
    "windows-to-remembered",
    "Remembered answers instead of sampled ones begin when the last window is over.",
    start(plan="sampled", **FREE), at(12, "flush"), at(13, "close"), start(13.2, plan="remembered-2", **FREE),
    *[at(number, "flush") for number in range(14, 46, 2)],
)  # fmt: skip
life(
    "windows-from-remembered",
    "Sampled answers instead of remembered ones: the first whole window is answered.",
    start(**FREE), at(1, "flush"), at(2, "flush"), at(2.5, "close"), start(3, plan="sampled-instead-2", **FREE),
    at(4, "flush"), at(5, "flush"), *[at(number, "flush") for number in range(12, 72, 2)],
)  # fmt: skip
life(
    "windows-renew",
    "The year's limit holds where plans change: one window of 28 days is left out, then it goes on.",
    on_day(0, "open", plan="sampled-month", consent="granted"),
    *[on_day(7 * number + 3, "flush") for number in range(1, 21)],
    on_day(143.5, "close"),
    on_day(144, "open", plan="sampled-month-28d-2", consent="granted", policy={"max_year": 27}),
    *[on_day(144 + 28 * number, "flush") for number in range(1, 12)],
)  # fmt: skip
life(
    "windows-of-a-year-by-their-end",
    "A window of 28 days counts until 365 days after its end: then one week is left out.",
    on_day(0, "open", plan="sampled-4-weeks", consent="granted"),
    *[on_day(number, "flush") for number in range(3, 31, 6)], on_day(31, "close"),
    on_day(32, "open", plan="sampled-week-2", consent="granted"),
    *[on_day(32 + 7 * week, "flush") for week in range(1, 62)],
)  # fmt: skip

life(
    "windows-forecast",
    "After a pause in the middle of a window, and before a version that ends windows early, the next answer is told.",
    start(plan="sampled", **FREE), at(10, "pause"), at(26, "resume"),
    *[at(number, "flush") for number in range(27, 45, 3)], at(45.5, "close"),
    start(46, plan="sampled-14d-2", **FREE), *[at(number, "flush") for number in range(47, 140, 3)],
)  # fmt: skip
life(
    "windows-version-in-first-window",
    "The window of enrolment is not answered; shorter windows of the next version begin in the middle of it.",
    start(plan="sampled-14d", **FREE), at(1, "flush"), at(1.5, "close"), start(2, plan="sampled-2", **FREE),
    *[at(number, "flush") for number in range(4, 60, 2)],
)  # fmt: skip
life(
    "windows-of-ten-days",
    "A window of ten days that begins within one of a week is not held: windows never overlap.",
    start(plan="sampled", **FREE), at(2, "flush"), at(14, "flush"), at(14.5, "close"),
    start(41, plan="sampled-10d-2", **FREE), *[at(number, "flush") for number in range(42, 150, 4)],
)  # fmt: skip
life(
    "windows-then-remembered",
    "Remembered answers begin at once where no window was held: its round is not waited for.",
    start(plan="sampled", **FREE), at(2, "flush"), at(14, "flush"), at(14.5, "close"),
    start(41, plan="remembered-2", **FREE), *[at(number, "flush") for number in range(42, 72, 3)],
)  # fmt: skip

# Versions of a plan

UNTIL_40 = (at(39.5, "flush"), at(39.9, "close"))  # it runs until then, so that there is no gap

for name, about in (
    ("base-2", "the same questions"),
    ("more-2", "one question more"),
    ("costlier-2", "a higher epsilon, so new remembered answers"),
    ("less-flip-2", "a smaller flip, so a higher loss of each round"),
    ("more-flip-2", "a larger flip"),
    ("half-2", "a smaller epsilon, so new remembered answers"),
    ("base-changed", "other questions under the same version"),
):
    life(
        f"version-{name}-chosen",
        f"After a yes the program comes with {about}, 40 rounds later.",
        start(consent="unset"), at(0.1, "consent", choice="granted"), at(1, "flush"), at(2, "flush"),
        *UNTIL_40, start(40, plan=name, consent="unset"), at(41, "flush"), at(42, "flush"),
        at(42.5, "consent", choice="granted"), at(44, "flush"), at(45, "flush"),
    )  # fmt: skip
    life(
        f"version-{name}-default",
        f"Under a default of granted the program comes with {about}, at once.",
        start(), at(1, "flush"), at(2, "flush"), at(2.5, "close"), start(3, plan=name), at(4, "flush"), at(5, "flush"),
    )  # fmt: skip
life(
    "version-keeps-asking-off",
    "With ask_again off a choice holds for every plan of the program.",
    start(consent="unset", ask_again=False), at(0.1, "consent", choice="granted"), at(1, "flush"), at(2, "flush"),
    *UNTIL_40, start(40, plan="more-2", consent="unset", ask_again=False), at(41, "flush"), at(42, "flush"),
)  # fmt: skip
life(
    "version-older",
    "A lower version than the one held is refused; the one held goes on.",
    start(plan="base-2"), at(1, "flush"), at(2, "flush"), at(2.5, "close"), start(3, plan="base"), at(4, "flush"),
    at(4.5, "close"), start(5, plan="base-3"), at(6, "flush"), at(7, "flush"),
)  # fmt: skip
life(
    "version-fewer",
    "A question less needs no new yes.",
    start(plan="two", consent="unset"), at(0.1, "consent", choice="granted"), at(1, "flush"), at(2, "flush"),
    at(2.2, "close"), start(3, plan="one-of-two-2", consent="unset"), at(4, "flush"), at(5, "flush"),
)  # fmt: skip
life(
    "version-too-soon",
    "New questions are taken up 28 rounds after the last ones, not earlier.",
    start(), at(1, "flush"), at(26.5, "flush"), at(26.9, "close"), start(27, plan="more-2"),
    at(28, "flush"), at(28.1, "close"),
    start(28.5, plan="more-2"), at(29, "flush"), at(30, "flush"), at(31, "flush"),
)  # fmt: skip
life(
    "version-weekly-rounds",
    "With rounds of a week new questions are taken up within a month.",
    on_day(0, "open", plan="weekly", consent="granted"), on_day(7, "flush"), on_day(14, "flush"), on_day(15, "close"),
    on_day(16, "open", plan="weekly-more-2", consent="granted"), on_day(17, "close"),
    on_day(36, "open", plan="weekly-more-2", consent="granted"), on_day(42, "flush"), on_day(49, "flush"),
)  # fmt: skip
life(
    "version-in-round",
    "A round is answered under the version held when it began, values too.",
    start(plan="two", **FREE), at(1, "flush"), add(1, 10), add(1, 10, "opens"), at(1.5, "close"),
    start(1.6, plan="fewer-2", **FREE), add(1.7, 10), add(1.7, 10, "opens"), at(2, "flush"), add(2, 10, "opens"),
    at(3, "flush"),
)  # fmt: skip

life(
    "version-held-outlives-the-program",
    "The program's own plan has expired, and the newer version held has not: nothing more is answered.",
    start(plan="half-2"), at(1, "flush"), add(1, 10), at(1.9, "close"), start(2.1, plan="expired"), at(2.2, "flush"),
    at(2.3, "report"), at(3, "flush"),
)  # fmt: skip

# Policy

for name, about in (
    ("six", "Six questions use the lifetime limit of 12 exactly."),
    ("seven", "Seven questions are more than the lifetime limit."),
    ("large-epsilon", "An epsilon above the limit."),
    ("small-flip", "A flip below the limit."),
    ("no-flip", "No flip."),
    ("large-round", "One round loses more than the limit."),
    ("sampled-large-epsilon", "An epsilon above the limit holds for sampled answers too."),
    ("sampled-costly", "Weekly windows that lose more than the year's limit."),
    ("sampled-28d-costly", "Windows of 28 days may lose more each."),
    ("sampled-short-window", "Windows shorter than the limit."),
    ("sampled", "A plan that the default policy takes."),
):
    life(f"policy-{name}", about, start(plan=name), at(1, "flush"), at(2, "flush"))
    life(f"policy-{name}-lifted", f"{about} Without limits it is answered.", start(plan=name, **FREE), at(1, "flush"),
         at(2, "flush"))  # fmt: skip
life(
    "policy-lowered",
    "A lower limit silences a plan that is held, a higher one brings it back.",
    start(plan="two", policy={"max_lifetime": 4}), at(1, "flush"), at(2, "flush"), at(2.2, "close"),
    start(3, plan="two", policy={"max_lifetime": 3}), add(3, 10), at(4, "flush"), at(4.5, "close"),
    start(5, plan="two", policy={"max_lifetime": 5}), at(6, "flush"), at(7, "flush"),
)  # fmt: skip
life(
    "policy-lowered-patient",
    "Rounds in which the program ran under a refused plan recorded nothing: they are never answered as empty.",
    start(plan="patient", policy={"max_lifetime": 4}), at(1, "flush"), add(2, 10), at(2.2, "close"),
    start(3, plan="patient", policy={"max_lifetime": 1}), add(3, 10), at(3.5, "close"),
    start(5, plan="patient", policy={"max_lifetime": 5}), at(6, "flush"), at(7, "flush"),
)  # fmt: skip
life(
    "policy-versions-add-up",
    "New questions in new versions add up for life; a version beyond the limit is refused and the one held goes on.",
    start(policy={"max_lifetime": 4}), at(1, "flush"), *UNTIL_40,
    start(40, plan="half-2", policy={"max_lifetime": 2.5}), at(41, "flush"), at(41.5, "close"),
    start(42, plan="half-2", policy={"max_lifetime": 3}), at(43, "flush"), at(44, "flush"),
)  # fmt: skip

life(
    "policy-lower-with-a-report-waiting",
    "The limit is lower at the next start: nothing more is answered, and what waits is sent.",
    start(), at(1, "flush"), add(1, 10), at(2, "report"), at(2.2, "close"), start(2.3, policy={"max_lifetime": 1}),
    at(2.5, "flush"), at(3, "flush"), at(4, "flush"),
)  # fmt: skip

life(
    "policy-year-of-windows",
    "However a year begins, 54 windows of a week touch it: a limit for 53 of them is too low.",
    start(plan="sampled", policy={"max_year": 53.5}), at(2, "flush"), at(3, "close"),
    start(4, plan="sampled", policy={"max_year": 54}), at(5, "flush"),
)  # fmt: skip

life(
    "policy-year-by-ends",
    "A week of a year ago that has not ended 365 days before a window takes room beside it, also if it began earlier.",
    on_day(66, "open", plan="sampled", consent="granted"), *[on_day(day, "flush") for day in range(74, 179, 7)],
    on_day(173, "close"), on_day(440, "open", plan="sampled-month-28d-2", consent="granted", policy={"max_year": 15.5}),
    *[on_day(day, "flush") for day in range(444, 510, 6)],
)  # fmt: skip

# Remembered answers about some of the metrics


def add_to_all(number: float, amount: int) -> list[Event]:
    """Values of every metric of "divided" and its versions."""
    return [add(number, amount, metric) for metric in ("closes", "opens", "prints")]


life(
    "divided",
    "The secret picks a metric, the same in every round; after forget a new secret picks again.",
    start(plan="divided"), at(1, "flush"), *add_to_all(1, 10), at(2, "flush"), *add_to_all(2, 0), at(3, "flush"),
    at(4, "flush"), at(4.5, "forget"), *add_to_all(5, 10), at(6, "flush"), at(7, "flush"), at(8, "flush"),
)  # fmt: skip
life(
    "divided-version",
    "Neither a new version nor the order of metrics draws the set again; a new metric that is not picked asks nothing.",
    start(plan="divided"), at(1, "flush"), *add_to_all(1, 10), at(2, "flush"), at(2.5, "close"),
    start(3, plan="divided-2"), at(4, "flush"), *add_to_all(4, 10), at(5, "flush"), at(6, "flush"),
)  # fmt: skip
life(
    "divided-displaced",
    "A new metric takes the place of another, whose answers stay counted.",
    start(plan="divided"), at(1, "flush"), *add_to_all(1, 10), at(2, "flush"), *UNTIL_40,
    start(40, plan="divided-displaced-2"), at(41, "flush"), *add_to_all(41, 10), at(42, "flush"), at(43, "flush"),
)  # fmt: skip
life(
    "divided-displaced-too-soon",
    "A metric that takes the place of another soon after is refused; the version held goes on.",
    start(plan="divided"), at(1, "flush"), *add_to_all(1, 10), at(2, "flush"), at(2.5, "close"),
    start(3, plan="divided-displaced-2"), at(4, "flush"), *add_to_all(4, 10), at(5, "flush"),
)  # fmt: skip
life(
    "divided-displaced-limit",
    "What was asked before and what is asked now add up for life.",
    start(plan="divided", policy={"max_lifetime": 2}), at(1, "flush"), at(2, "flush"), *UNTIL_40,
    start(40, plan="divided-displaced-2", policy={"max_lifetime": 3}), at(41, "flush"), at(41.5, "close"),
    start(42, plan="divided-displaced-2", policy={"max_lifetime": 4}), at(43, "flush"), at(44, "flush"),
)  # fmt: skip
life(
    "divided-limit",
    "A device that was picked for the cheaper metric decides by the dearer one, as every other device.",
    start(plan="divided-uneven", policy={"max_lifetime": 3}), at(1, "flush"), at(1.5, "close"),
    start(2, plan="divided-uneven", policy={"max_lifetime": 4}), at(3, "flush"), at(4, "flush"), at(4.5, "close"),
    start(5, plan="divided-uneven", policy={"max_lifetime": 3}), at(6, "flush"), at(7, "flush"),
)  # fmt: skip
life(
    "divided-seven",
    "Seven metrics of which five are asked cost as much as five.",
    start(plan="divided-seven"), at(1, "flush"), *[add(1, 10, f"m{number}") for number in range(7)], at(2, "flush"),
    at(3, "flush"), at(3.5, "close"), start(4, plan="divided-seven"), at(5, "flush"), at(6, "flush"),
)  # fmt: skip
for name, about in (
    ("divided-fewer-2", "A yes does not hold for a version without the metric that this device was asked."),
    ("divided-both-2", "A yes does not hold for a version that asks for more of the metrics."),
    ("divided-2", "A yes does not hold for a version with a new metric."),
):
    life(
        f"{name}-asks-again",
        about,
        start(plan="divided", consent="unset"), at(0.1, "consent", choice="granted"), at(1, "flush"), at(2, "flush"),
        *UNTIL_40, start(40, plan=name, consent="unset"), at(41, "flush"), at(41.5, "consent", choice="granted"),
        at(42, "flush"), at(43, "flush"), at(44, "flush"),
    )  # fmt: skip
life(
    "divided-from-all-asks-nothing-more",
    "A yes to all metrics holds for a version that asks for some of them.",
    start(plan="both", consent="unset"), at(0.1, "consent", choice="granted"), at(1, "flush"), at(2, "flush"),
    *UNTIL_40, start(40, plan="divided-1-of-both-2", consent="unset"), at(41, "flush"), at(42, "flush"),
    at(43, "flush"),
)  # fmt: skip

# Damage

LIMITS: list[tuple[str, dict[str, Any]]] = [
    ("default", {}),
    ("limit", {"policy": {"max_lifetime": 40}}),
    ("unlimited", FREE),
]
for how, (name, limit) in product(("truncate", "flip", "zeros"), LIMITS):
    life(
        f"damage-{how}-{name}",
        "The file is damaged: the person is asked again, in a new epoch that counts the largest limit.",
        start(**limit), at(1, "flush"), add(1, 10), at(2, "flush"), add(2, 0), at(3, "flush"), at(3.2, "close"),
        at(3.3, "damage", how=how), start(4, **limit), at(4.5, "flush"), at(4.6, "consent", choice="granted"),
        at(5, "flush"), at(6, "flush"), at(7, "flush"),
    )  # fmt: skip
for how in ("truncate", "flip", "zeros"):
    life(
        f"damage-{how}-lower-limit",
        "Filled under a limit of 40 and reopened under the default: the receipt prints no less than what is true.",
        start(plan="seven", policy={"max_lifetime": 40, "max_window": 10}), at(1, "flush"),
        *[add(1, 10, f"m{number}") for number in range(7)], at(2, "flush"), at(3, "flush"),
        *[add(3, 10 * (number % 2), f"m{number}") for number in range(7)],
        at(4, "flush"), at(4.2, "close"), at(4.3, "damage", how=how), start(5, plan="seven"),
    )  # fmt: skip
    life(
        f"damage-{how}-denied",
        "The file of a person who said no after sending is damaged: it stays silent.",
        start(consent="unset"), at(0.1, "consent", choice="granted"), at(1, "flush"), at(2, "flush"),
        at(2.5, "consent", choice="denied"), at(2.6, "close"), at(2.7, "damage", how=how),
        start(3, consent="granted"), at(4, "flush"), at(5, "flush"),
    )  # fmt: skip
    life(
        f"damage-{how}-sampled",
        "A damaged file counts as a year's limit of windows: silent for 365 days, then it answers again.",
        start(plan="sampled-week"), *[at(number, "flush") for number in range(12, 72, 10)], at(72, "close"),
        at(72.1, "damage", how=how), start(73, plan="sampled-week"), at(73.1, "consent", choice="granted"),
        at(140, "flush"), at(1500, "flush"), at(1560, "flush"),
    )  # fmt: skip
life(
    "deleted",
    "A deleted file cannot be known of: the device begins anew.",
    start(), at(1, "flush"), at(2, "flush"), at(2.2, "close"), at(2.3, "delete"), start(3),
    at(4, "flush"), at(5, "flush"),
)  # fmt: skip

life(
    "damage-after-a-lower-limit",
    "Filled under a limit of 40, opened under the default and then damaged: the largest limit counts, not the latest.",
    start(plan="seven", policy={"max_lifetime": 40, "max_window": 10}), at(1, "flush"),
    *[add(1, 10, f"m{number}") for number in range(7)], at(2, "flush"), at(3, "flush"),
    *[add(3, 10 * (number % 2), f"m{number}") for number in range(7)], at(4, "flush"), at(4.2, "close"),
    start(4.3, plan="seven"), at(4.4, "close"), at(4.5, "damage", how="flip"), start(5, plan="seven"),
)  # fmt: skip
for how in ("truncate", "flip", "zeros"):
    life(
        f"damage-{how}-after-forget",
        "The epoch of a damaged file is known from the second copy of the limits: none is used twice.",
        start(), at(1, "flush"), at(2, "flush"), at(2.5, "forget"), at(4, "flush"), at(4.2, "forget"), at(6, "flush"),
        at(6.2, "close"), at(6.3, "damage", how=how), start(7, **FREE), at(7.1, "consent", choice="granted"),
        at(8, "flush"), at(9, "flush"), at(10, "flush"),
    )  # fmt: skip
# Forget

life(
    "forget-default",
    "Under a default of granted forget begins a new epoch; what was told stays counted.",
    start(), at(1, "flush"), add(1, 10), at(2, "flush"), add(2, 10), at(2.5, "forget"), add(2.6, 10), at(3, "flush"),
    add(3, 10), at(4, "flush"), at(5, "flush"),
)  # fmt: skip
life(
    "forget-chosen",
    "After forget the person is asked again: the answers are new.",
    start(consent="unset"), at(0.1, "consent", choice="granted"), at(1, "flush"), at(2, "flush"), at(2.5, "forget"),
    at(3, "flush"), at(3.5, "consent", choice="granted"), at(4, "flush"), at(5, "flush"),
)  # fmt: skip
life(
    "forget-often",
    "Each epoch counts for life, until the limit of 12 is used up.",
    start(plan="two"), at(1, "flush"), at(2, "flush"), at(2.5, "forget"), at(3, "flush"), at(4, "flush"),
    at(4.5, "forget"), at(5, "flush"), at(6, "flush"), at(6.5, "forget"), at(7, "flush"), at(8, "flush"),
)  # fmt: skip
life(
    "forget-waiting",
    "Forget gives up what waits; what may have left stays listed.",
    start(plan="patient"), at(1, "flush"), at(2, "flush", answers=[{"status": 500}]), at(3.5, "forget"), at(4, "flush"),
    at(5, "flush"),
)  # fmt: skip
life(
    "forget-paused",
    "Forget during a pause leaves the pause.",
    start(), at(1, "flush"), at(2, "flush"), at(2.2, "pause"), at(2.3, "forget"), at(3, "flush"), at(3.5, "resume"),
    at(4, "flush"), at(5, "flush"),
)  # fmt: skip
life(
    "forget-local",
    "Forget under local.",
    start(consent="local"), at(1, "flush"), at(2, "flush"), at(2.5, "forget"), at(3, "flush"), at(4, "flush"),
)  # fmt: skip
life(
    "constructor",
    "A metric may have any name.",
    start(plan="constructor"), at(1, "flush"), add(1, 10, "constructor"), at(2, "flush"), at(2.5, "forget"),
    at(3, "flush"), at(3.5, "consent", choice="denied"), at(4, "flush"),
)  # fmt: skip

# Sending

ANSWERS: list[tuple[str, Event]] = [
    *[
        (str(status), {"status": status})
        for status in (200, 204, 302, 307, 400, 401, 403, 404, 405, 406, 408)
    ],
    *[
        (str(status), {"status": status})
        for status in (409, 410, 413, 415, 421, 425, 429, 451, 500, 502, 503)
    ],
    ("400-malformed", {"status": 400, "code": "malformed"}),
    ("404-unknown_plan", {"status": 404, "code": "unknown_plan"}),
    ("404-not_found", {"status": 404, "code": "not_found"}),
    ("409-version_mismatch", {"status": 409, "code": "version_mismatch"}),
    ("410-late", {"status": 410, "code": "late"}),
    ("413-too_large", {"status": 413, "code": "too_large"}),
    ("425-early", {"status": 425, "code": "early"}),
    ("401-unauthorized", {"status": 401, "code": "unauthorized"}),
    ("429-rate_limited", {"status": 429, "code": "rate_limited", "retry_after": 10}),
    ("503-busy", {"status": 503, "code": "busy", "retry_after": 600}),
    ("400-blocked", {"status": 400, "code": "blocked"}),
    ("503-late", {"status": 503, "code": "late"}),
    ("dropped", {"drop": True}),
]
for name, given in ANSWERS:
    life(
        f"answer-{name}",
        "One answer to the first report, then the collector takes everything.",
        start(plan="patient"), at(1, "flush"), add(1, 10), at(2, "flush", answers=[given]), at(2.5, "flush"),
        at(3, "flush"),
    )  # fmt: skip
life(
    "retry-after",
    "A retry waits as long as the collector asked for; another report does not wait for it.",
    start(plan="patient"), at(1, "flush"), at(2, "flush", answers=[{"status": 503, "retry_after": 30_000}]),
    at(2.5, "flush"), at(3, "flush"), at(3.3, "flush"), at(4, "flush"),
)  # fmt: skip
life(
    "retry-until-closed",
    "A report is retried until its round is closed, then given up; the bytes are the same each time.",
    start(), at(1, "flush"), add(1, 10), at(2, "flush", answers=[{"drop": True}]),
    at(2.5, "flush", answers=[{"status": 502}]), at(3, "flush", answers=[{"status": 404}, {"status": 202}]),
    at(3.9, "flush", answers=[{"status": 200}]), at(4, "flush"), at(5, "flush"),
)  # fmt: skip
life(
    "retry-restart",
    "What waits is sent by the next start.",
    start(plan="patient"), at(1, "flush"), add(1, 10), at(2, "flush", answers=[{"drop": True}]), at(2.1, "close"),
    start(3, plan="patient"), at(3.1, "flush"), at(4, "flush"),
)  # fmt: skip
life(
    "order",
    "Reports are sent in the order of their rounds, each answer belongs to one.",
    start(plan="patient"), at(1, "flush"),
    at(6, "flush", answers=[{"status": 202}, {"status": 503}, {"status": 410, "code": "late"}, {"drop": True}]),
    at(7, "flush"), at(8, "flush"),
)  # fmt: skip

# Clocks and dates

life(
    "clock-back",
    "The clock is set back: nothing is answered twice, and it goes on when the time comes again.",
    start(), at(1, "flush"), at(2, "flush"), at(3, "flush"), at(1.5, "flush"), add(1.6, 10), at(2.2, "flush"),
    at(4, "flush"), at(5, "flush"),
)  # fmt: skip
life(
    "clock-far-back",
    "The clock was years ahead when the device was enrolled: it answers once that time has come.",
    start(5000), at(5001, "flush"), at(5001.5, "close"), start(0), at(1, "flush"), at(2, "flush"),
)  # fmt: skip
life(
    "clock-ahead",
    "The clock jumps ahead by a year while the program is off, and back.",
    start(), at(1, "flush"), at(2, "flush"), at(2.2, "close"), start(1462), at(1462.5, "flush"), at(1462.6, "close"),
    start(3), at(4, "flush"), at(5, "flush"),
)  # fmt: skip
life(
    "clock-back-after-a-rule",
    "A rule held until a clock that was weeks ahead: before the first plan there is no round that it could silence.",
    start(consent="unset", environment=["CI"]), at(0.2, "consent", choice="unset"), at(1, "close"),
    start(202, consent="unset"), at(203, "close"), start(3, consent="unset"), at(3.2, "consent", choice="granted"),
    at(4, "flush"), add(4, 10), at(5, "flush"), at(6, "flush"),
)  # fmt: skip
life(
    "clock-back-after-a-refused-plan",
    "A refused plan was agreed to by a clock that was weeks ahead: no round is lost by that.",
    start(202, plan="seven"), at(202.2, "consent", choice="granted"), at(203, "close"), start(3, ask_again=False),
    at(4, "flush"), add(4, 10), at(5, "flush"), at(6, "flush"),
)  # fmt: skip
life(
    "clock-back-after-damage",
    "Rounds that had begun when the file was found damaged are not answered by the new secret when they come again.",
    start(**FREE), at(1, "flush"), at(2, "flush"), at(3, "flush"), at(3.2, "close"), at(3.3, "damage", how="zeros"),
    start(4, **FREE), at(4.2, "close"), start(1.2, **FREE), at(1.3, "consent", choice="granted"),
    *[at(number, "flush") for number in range(2, 9)],
)  # fmt: skip
life(
    "clock-back-in-a-pause-before-the-first-plan",
    "The person paused by a clock that was ahead, before the first plan: rounds until they resume have no answer.",
    start(20, consent="unset", plan="patient"), at(20.2, "pause"), at(20.4, "close"), start(1, plan="patient"),
    add(1.1, 10), at(2, "flush"), add(2.1, 10), at(3, "flush"), add(3.1, 10), at(3.2, "resume"), at(4, "flush"),
    add(4, 10), at(5, "flush"), at(6, "flush"), at(21, "flush"), at(22, "flush"),
)  # fmt: skip
life(
    "clock-back-when-a-rule-ends",
    "A rule held by a clock that was ahead, and ends as it is set back: the round under way has no answer.",
    start(plan="patient"), at(1, "flush"), at(1.5, "close"), start(20, plan="patient", environment=["CI"]),
    at(20.4, "close"), start(2.1, plan="patient"), add(2.2, 10), at(3, "flush"), add(3.1, 10), at(4, "flush"),
    at(5, "flush"),
)  # fmt: skip
life(
    "clock-back-in-a-pause",
    "The person paused by a clock that was ahead: nothing is recorded or answered of the rounds until they resume.",
    start(plan="patient"), at(1, "flush"), at(1.5, "close"), start(20, plan="patient"), at(20.2, "pause"),
    at(20.4, "close"), start(2.1, plan="patient"), add(2.2, 10), at(3, "flush"), add(3.1, 10), at(4, "flush"),
    add(4.1, 10), at(4.2, "resume"), at(5, "flush"), add(5.1, 10), at(6, "flush"), at(7, "flush"),
    at(21, "flush"), at(22, "flush"),
)  # fmt: skip
EXPIRY = (1_728_086_400 / LENGTH) - HERE  # 2024-10-05, 00:00 UTC
life(
    "expiry",
    "A plan is not answered from 00:00 UTC of its date on; a round that ended before is not either, from then on.",
    start(EXPIRY - 6, plan="expires"), at(EXPIRY - 5, "flush"), add(EXPIRY - 5, 10), at(EXPIRY - 4, "flush"),
    at(EXPIRY - 1, "flush"), at(EXPIRY - 0.005, "flush"), at(EXPIRY, "flush"), add(EXPIRY, 10),
    at(EXPIRY + 1, "flush"), at(EXPIRY + 2, "report"), at(EXPIRY + 2.2, "close"),
    start(EXPIRY + 3, plan="expires-later-2"), at(EXPIRY + 4, "flush"), at(EXPIRY + 5, "flush"),
)  # fmt: skip
life(
    "expired-from-the-start", "A plan that has expired is not answered.",
    start(plan="expired"), add(0, 3), at(1, "flush"), at(2, "flush"),
)  # fmt: skip

# Never in the way

life(
    "unusable-state",
    "Where the state cannot be used the device is silent and says why; the program goes on.",
    start(unusable=True), add(0, 3), at(1, "flush"), at(1.5, "consent", choice="granted"), at(2, "flush"),
)  # fmt: skip

NOT_LISTED = ("long-local", "windows-year", "windows-renew", "windows-of-a-year-by-their-end")
"""Lives with so many reports that a receipt need not list them one by one, or that would fill the file."""
