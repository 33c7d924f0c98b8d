"""What a host program lets a plan ask, and where a device stays silent; enforced on the device."""

from __future__ import annotations

import os
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING

from reticent.errors import ParameterError
from reticent.frozen import frozen

if TYPE_CHECKING:
    from reticent.plan import Plan


DAY = 86_400
YEAR = 365 * DAY

RULES = {"do_not_track": "DO_NOT_TRACK", "silent_in_ci": "CI", "silent_in_containers": "container"}
"""The rules of a policy about the environment, each with the name of what silences the device."""

CI_VARIABLES = (
    "CI", "CONTINUOUS_INTEGRATION", "GITHUB_ACTIONS", "GITLAB_CI", "BUILD_NUMBER", "BUILD_ID", "TF_BUILD",
    "TEAMCITY_VERSION", "JENKINS_URL", "TRAVIS", "CIRCLECI", "APPVEYOR", "BUILDKITE", "DRONE",
    "CODEBUILD_BUILD_ID", "BITBUCKET_BUILD_NUMBER",
)  # fmt: skip
CONTAINER_VARIABLES = ("container", "KUBERNETES_SERVICE_HOST")
APPLICATION_SANDBOXES = ("flatpak",)  # values of `container` on a person's own desktop
CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")


def environment() -> tuple[str, ...]:
    """
    Which of "DO_NOT_TRACK", "CI" and "container" this process runs under.

    A variable that is empty, "0" or "false" is not set. CI and containers are looked for once per process;
    DO_NOT_TRACK may be set while it runs.
    """
    asked = ("DO_NOT_TRACK",) if _is_set("DO_NOT_TRACK") else ()
    return asked + _surroundings()


@cache
def _surroundings() -> tuple[str, ...]:
    signs = [name for name in CONTAINER_VARIABLES if os.environ.get(name) not in APPLICATION_SANDBOXES]
    in_container = any(map(_is_set, signs)) or any(map(os.path.exists, CONTAINER_FILES))
    return (("CI",) if any(map(_is_set, CI_VARIABLES)) else ()) + (("container",) if in_container else ())


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() not in ("", "0", "false")


@frozen()
class Policy:
    """
    Limits that every plan must keep before a device takes it up, and rules about where it stays silent.

    None lifts a limit, False lifts a rule.

    The defaults suit a plan of a few metrics with ε = 1 and flip = 0.2, with room for one complete set of new
    answers later. Whatever plans come, all remembered answers from one state file together shift the odds between
    two devices with the same rounded pattern by at most e^max_lifetime, the sampled answers of any 365 days those
    between any two histories by at most e^max_year, and one report those between any two values by at most
    e^max_window. A host raises a limit by its name.

    Limits are held against figures of the plans, never against the loss so far: a device that falls
    silent once its values have used up a budget tells by its silence.

    >>> Policy(max_lifetime=40)  # doctest: +ELLIPSIS
    Policy(max_epsilon=2, max_window=3, max_lifetime=40, max_year=54, shortest_round=3600, ...)
    """

    max_epsilon: float | None = 2  #: Largest ε of one metric
    max_window: float | None = 3  #: Largest loss of one report, of the whole plan: of a round, or of a window
    max_lifetime: float | None = 12
    """
    Largest loss of remembered answers for the life of the state file.

    The sum of the losses for life of every metric under every set of privacy parameters, in all versions held
    and in all epochs, lost files included.
    """
    max_year: float | None = 54
    """Largest loss of the windows of sampled answers in any 365 days: 54 weekly windows of ε = 1 touch them."""
    shortest_round: float | None = 3600  #: Shortest round, s: more rounds show changes better
    shortest_window: float | None = 604_800  #: Shortest window, s: each one loses as much as one round
    fewest_rounds: int | None = 28
    """Fewest rounds between plans that ask for new remembered answers, or days where these are shorter."""
    least_flip: float | None = 0.1  #: Smallest flip of a remembered metric: flips hide a change

    do_not_track: bool = True  #: Stay silent where the person has set DO_NOT_TRACK
    silent_in_ci: bool = True  #: Stay silent on build machines: `CI`, `BUILD_NUMBER`, `TF_BUILD` and the like
    silent_in_containers: bool = True  #: Stay silent in containers: Docker, Podman, Kubernetes

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in RULES:
                if not isinstance(value, bool):
                    raise ParameterError(name, "True or False", value)
            elif value is not None and not (isinstance(value, Real) and value >= 0):  # type: ignore[operator]
                raise ParameterError(name, "a number >= 0, or None", value)

    @classmethod
    def unlimited(cls) -> Policy:
        """No limits, so no bound on the loss for life; silent for DO_NOT_TRACK only. For audits and tests."""
        lifted = {name: False if name in RULES else None for name in vars(cls())}
        return cls(**{**lifted, "do_not_track": True})  # type: ignore[arg-type]

    @classmethod
    def from_text(cls, place: str, text: str) -> Policy:
        """
        The default policy but for what a text of the environment or the command line names.

        Raises `ParameterError` at `place`.

        >>> Policy.from_text("policy", "max_lifetime=40, silent_in_ci=false").silent_in_ci
        False
        """
        known = set(vars(cls()))
        settings: dict[str, float | bool | None] = {}
        for item in filter(None, map(str.strip, text.split(","))):
            name, _, value = (part.strip() for part in item.partition("="))
            try:
                words = {"true": True, "false": False} if name in RULES else {"none": None}
                settings[name] = words[value] if value in words or name in RULES else float(value)
            except (ValueError, KeyError):
                known = set()
            if name not in known:
                expected = f"NAME=NUMBER, or true or false for a rule, with {', '.join(vars(cls()))}"
                raise ParameterError(place, expected, item)
        return cls(**settings)  # type: ignore[arg-type]

    def silenced_by(self) -> tuple[str, ...]:
        """Which of "DO_NOT_TRACK", "CI" and "container" silence a device here under these rules."""
        under = environment()
        return tuple(name for rule, name in RULES.items() if name in under and getattr(self, rule))

    def problems(
        self,
        plan: Plan,
        round_loss: float | None = None,
        lifetime: float | None = None,
        rounds_since_change: int | None = None,
    ) -> list[str]:
        """
        What a plan asks beyond these limits.

        `round_loss` is its loss of one round, `lifetime` the loss for life of the state file once it holds the
        plan; left out, they are those of a new device. `rounds_since_change`: where the plan asks for new answers,
        how many rounds after the last change.
        """
        from reticent.losses import compose, lifetime_of, loss_of_answer, loss_of_report, printed
        from reticent.mechanisms import SCALE

        problems: list[str] = []
        round_loss = loss_of_report(plan) if round_loss is None else round_loss
        lifetime = lifetime_of(plan) if lifetime is None else lifetime

        def above(limit: str, figure: float, what: str) -> None:
            most = getattr(self, limit)
            if most is not None and figure > most:
                text = what.format(printed(figure))
                problems.append(f"{text}; the policy allows {most:g} ({limit})")

        def below(limit: str, figure: float, what: str) -> None:
            least = getattr(self, limit)
            if least is not None and figure < least:
                problems.append(f"{what}; the policy wants at least {least:g} ({limit})")

        for metric in plan.metrics:
            flip = metric.flip.threshold / SCALE
            above("max_epsilon", loss_of_answer(metric.mechanism), f"metrics.{metric.name}.epsilon is {{}}")
            if not plan.answers.sampled:
                below("least_flip", flip, f"metrics.{metric.name}.flip is {flip:g}")
        below("shortest_round", plan.round_seconds, f"plan.round is {plan.round_seconds} s")
        if plan.answers.sampled:
            length = plan.answers.window * plan.round_seconds
            below("shortest_window", length, f"answers.window is {length} s")
            if self.max_year is not None:
                touched = -(-(YEAR - 1) // length) + 1  # however a year begins
                year = compose([round_loss] * touched)
                above("max_year", year, f"the {touched} windows in a year lose {{}}")
        else:
            above("max_lifetime", lifetime, "with this plan the state file can lose {} for life")
        above(
            "max_window",
            round_loss,
            f"one {'window' if plan.answers.sampled else 'round'} of the plan loses {{}}",
        )
        if rounds_since_change is not None and self.fewest_rounds is not None:
            fewest = min(self.fewest_rounds, self.fewest_rounds * DAY / plan.round_seconds)
            if rounds_since_change < fewest:
                problems.append(
                    f"asks for new remembered answers {rounds_since_change} rounds after the last change; "
                    f"the policy wants at least {fewest:g} (fewest_rounds)"
                )
        return problems
