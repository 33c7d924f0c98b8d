"""The pages that explain: figures and pictures are the code's."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from math import cosh
from pathlib import Path

from reticent import Metric
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, Mechanism, OneBitMean
from reticent_collector.estimates import expected_variance
from reticent_collector.privacy import losses
from reticent_paper.baselines import Laplace

ROOT = Path(__file__).parents[2]
EXPLANATION = ROOT / "docs" / "explanation"


def noise(mechanism: Mechanism, at: float = 0) -> float:
    """n·Var of the estimate of a value, or of a bucket's share."""
    return 1000 * expected_variance(Metric("x", mechanism), devices=1000, at=at)


def test_the_figures_of_why_one_bit_are_those_of_the_code() -> None:
    text = (EXPLANATION / "how-it-works.md").read_text()
    rows = dict(re.findall(r"^\| ([^|]+?) \| (.+) \|$", text.replace("**", ""), re.MULTILINE))
    epsilons: tuple[float, ...] = (0.5, 1, 2, 3, 5)
    for name, at in (("0, one bit", 0), ("m/2, one bit", 0.5)):
        assert rows[name].split(" | ") == [f"{noise(OneBitMean(epsilon, 1), at):.3f}" for epsilon in epsilons]
    laplace = [f"{round(Laplace(epsilon, 1).variance(), 3):g}" for epsilon in epsilons]
    assert rows["anywhere, Laplace"].split(" | ") == laplace

    bars = Buckets.even(24, 32)
    mechanisms: dict[str, tuple[int, Callable[[float], Mechanism]]] = {
        "dBitFlip, 1 bit, as printed": (1, lambda epsilon: DBitFlip(epsilon, bars, 1, "paper")),
        "dBitFlip, 1 bit, `tight`": (1, lambda epsilon: DBitFlip(epsilon, bars, 1)),
        "dBitFlip, 4 bits": (4, lambda epsilon: DBitFlip(epsilon, bars, 4)),
        "dBitFlip, 16 bits": (16, lambda epsilon: DBitFlip(epsilon, bars, 16)),
        "dBitFlip, 32 bits (a bit per bucket)": (32, lambda epsilon: DBitFlip(epsilon, bars, 32)),
        "Hadamard bit": (1, lambda epsilon: HadamardBit(epsilon, bars)),
    }
    for name, (bits, mechanism) in mechanisms.items():
        *figures, said_bits, loss = rows[name].split(" | ")
        assert figures == [f"{noise(mechanism(epsilon)):.4g}" for epsilon in (0.5, 1, 2, 5)], name
        assert int(said_bits) == bits
        assert int(loss[:-1] or 1) == round(float(losses(mechanism(1), Flip(0)).lifetime), 6)

    heavy = [f"{noise(mechanism, 0.5):.4g}" for mechanism in (DBitFlip(5, bars, 1), HadamardBit(5, bars))]
    assert "it is {} against {}.".format(*heavy) in text.replace("\n ", "")
    few = [int(4 * cosh(epsilon / 2) ** 2) for epsilon in (1, 2)]
    assert "up to {} buckets at ε = 1 and {} at ε = 2".format(*few) in text


def check_architecture(root: Path) -> int:
    script = root / "docs" / "generate" / "architecture.py"
    return subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, check=False
    ).returncode


def test_the_picture_of_the_layers_is_that_of_the_import_test(tmp_path: Path) -> None:
    assert check_architecture(ROOT) == 0
    programs = ["docs/generate/architecture.py", "docs/generate/writing.py"]
    for name in (*programs, "docs/images/architecture.svg", "tests/test_layers.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert check_architecture(tmp_path) == 0
    layers = tmp_path / "tests" / "test_layers.py"
    text = layers.read_text()
    layers.write_text(text.replace('{"plan"},\n        {"losses"}', '{"plan", "losses"}'))
    assert check_architecture(tmp_path) == 3, "a layer was moved and the picture was not"
    layers.write_text(text.replace('("otel", {"reticent"})', '("otel", {"reticent", "reticent_lab"})'))
    assert check_architecture(tmp_path) == 3, "a house may import another one and the picture does not say so"
    layers.write_text(text.replace('{"results"},', '{"results", "archive"},'))
    assert check_architecture(tmp_path) == 1, "a part has no word"
