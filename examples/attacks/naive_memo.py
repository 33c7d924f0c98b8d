"""The naive memo: a collector that learns one day's bucket knows which answer to look for on all others."""

import numpy as np
from drawing import curves, publish, ticks
from gallery import options, table
from naive_memo_devices import memos, schemes
from numpy.typing import NDArray

from reticent_collector.plots import COLOURS, panels
from reticent_lab.fleet import population
from reticent_paper.baselines import NaiveMemo

EPSILONS = (0.5, 1, 2, 5, 10)


def returns(memo: NDArray[np.int64], visited: NDArray[np.int64]) -> float:
    """How often the first day's bucket is back when its answer is, over devices not in bucket 0 then."""
    answers = np.take_along_axis(memo, visited.T, axis=1).T
    same = (answers[1:] == answers[0]) & (visited[0] > 0)
    return float((visited[1:] == visited[0])[same].mean())


def asked(memo: NDArray[np.int64], likeliest: NDArray[np.int64]) -> tuple[float, float]:
    """The same for buckets that a bit is about, all equally likely; who shares their likeliest answer."""
    about = likeliest > 0
    same = (memo[:, :, None] == memo[:, None, :]).sum(axis=2)
    typical = ((likeliest[:, :, None] == memo[:, None, :]) & ~about[:, None, :]).sum(axis=2)
    return float(about.sum() / same[about].sum()), float(typical[about].mean())


def main(arguments: list[str] | None = None) -> None:
    """Run the attack, print its figures and draw them."""
    given = options(__doc__, arguments, devices=1000)
    days = population("editor", 1440).values(given.devices, 31, np.random.default_rng(given.seed))
    visited = np.minimum(days // 45, 31)
    figures: dict[float, dict[str, tuple[float, ...]]] = {epsilon: {} for epsilon in EPSILONS}
    for epsilon in EPSILONS:
        for name, scheme in schemes(epsilon).items():
            memo, likeliest = memos(scheme, given.devices, given.seed)
            figures[epsilon][name] = returns(memo, visited), *asked(memo, likeliest)
    blind = float((visited[1:] == visited[0])[:, visited[0] > 0].mean())
    print(f"without looking {blind:.3f}; naive memo, exactly {NaiveMemo(1, 32).probability_of_betrayal:.8f}")
    columns = {"app usage, ε = 1": (1, 0), "asked, ε = 1": (1, 1), "asked, ε = 10": (10, 1)}
    columns |= {"sharers, ε = 1": (1, 2), "sharers, ε = 10": (10, 2)}
    rows = {head: [each[place] for each in figures[at].values()] for head, (at, place) in columns.items()}
    table({"scheme": figures[1], **rows})
    figure, (left, right) = panels(2, width=4.6)
    left.barh(list(figures[1]), rows["app usage, ε = 1"], color=COLOURS[: len(figures[1])])
    left.axvline(blind, color="k", linestyle=":")
    left.invert_yaxis()
    left.set(xlabel="precision (dotted: without looking)", title="App usage, ε = 1")
    lines = {name: [figures[epsilon][name][1] for epsilon in EPSILONS] for name in figures[1]}
    curves(right, EPSILONS, lines, title="Buckets that a bit is about, all equally likely")
    ticks(right, EPSILONS, xscale="log", xlabel="ε", ylabel="precision")
    publish(figure, given.out, "naive_memo", together=6)


if __name__ == "__main__":
    main()
