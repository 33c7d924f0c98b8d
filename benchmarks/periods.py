"""
How often the intervals of days and weeks hold the truth, and how often a change that is none is called clear.

    python -m benchmarks periods --repetitions 2000
"""

from __future__ import annotations

from tests.shared.periods import PLANS, TRUTHS, count_misses

from benchmarks.load import arguments


def main() -> None:
    """Print one table."""
    parser = arguments(__doc__)
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--devices", type=int, default=400)
    parser.add_argument("--answers", choices=list(PLANS), help="One way of answering; left out: all.")
    given = parser.parse_args()
    print(f"{given.devices} devices, {given.repetitions} repetitions, 95 % intervals, shares in percent\n")
    print(
        "| answers | period | metric | missed | missed by the root rule | false alarms | by the root rule |"
    )
    print("|---|---|---|---|---|---|---|")
    for answers in [given.answers] if given.answers else PLANS:
        for every, days in (("day", 2), ("week", 14)):
            misses = count_misses(answers, every, given.devices, days, given.repetitions)
            for metric in TRUTHS:
                kinds = ("", " by root", " alarms", " alarms by root")
                cells = [f"{metric}{kind}" for kind in kinds]
                shares = [
                    f"{misses[cell] / given.repetitions:.1%}" if cell in misses else "" for cell in cells
                ]
                print(f"| {answers} | {every} | {metric} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
