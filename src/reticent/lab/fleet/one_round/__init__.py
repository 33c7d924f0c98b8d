"""
One round of a whole fleet, drawn as counts: the law of device-by-device simulation without the devices.

Given the values, devices answer independently, so devices that hold the same value are exchangeable and what
the collector counts is a sum of a few binomials. How many devices hold which value, a `Tally`, is all that
matters: a round of three million devices takes as long as one of three thousand. No normal law stands in for
the true one.

    values            Tally                                  how many devices hold which value
    means             ones_of_mean, total_of_laplace         the total that reaches the collector
    who is asked      everyone, subsets, windows, rows, accepted -> Asked        independent of any noise
    what they say     ones_of(asked, channel), named         ones per row, or buckets named

Each call draws `repetitions` independent rounds. A round is one in which nobody has answered before: what a
device remembers from earlier rounds is in `reticent.lab.fleet.several_rounds`.
"""

from reticent.lab.fleet.one_round.answers import named, ones_of
from reticent.lab.fleet.one_round.asked import Asked, accepted, everyone, rows, subsets, windows
from reticent.lab.fleet.one_round.bits import SumOfBits
from reticent.lab.fleet.one_round.mean import chances_of_one, ones_of_mean, total_of_laplace
from reticent.lab.fleet.one_round.tally import Tally

__all__ = [
    "Asked",
    "SumOfBits",
    "Tally",
    "accepted",
    "chances_of_one",
    "everyone",
    "named",
    "ones_of",
    "ones_of_mean",
    "rows",
    "subsets",
    "total_of_laplace",
    "windows",
]
