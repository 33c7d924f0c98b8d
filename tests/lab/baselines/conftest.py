"""How a sampler is judged: exact binomial tests with a stated false-alarm rate."""

from collections.abc import Callable, Sequence

import pytest
from scipy.stats import binomtest

FALSE_ALARM = 1e-6
"""Chance that `agrees` refuses a right sampler. Seeds are fixed on top: runs never differ."""


@pytest.fixture(scope="session")
def agrees() -> Callable[[Sequence[int], int, Sequence[float]], bool]:
    """Whether counts out of `draws` can come from these probabilities (Bonferroni over the counts)."""

    def judge(counts: Sequence[int], draws: int, probabilities: Sequence[float]) -> bool:
        level = FALSE_ALARM / len(counts)
        return all(
            binomtest(count, draws, probability).pvalue >= level
            for count, probability in zip(counts, probabilities, strict=True)
        )

    return judge
