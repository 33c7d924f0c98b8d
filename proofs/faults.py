"""
Faults that certificates must refuse, each put into a copy of the package: python proofs/faults.py

The first fifteen are those of the study that these proofs began as; the next fifteen were thought of later, before
they were tried; the last seven are about plans that ask some of their metrics, and subset selection. A fault is refused
if the certificate of a small plan cannot be written or Coq does not accept it. By hand, since so many certificates take
some minutes; the exit code is 1 if fewer than 35 are refused.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import reticent
import reticent_collector

PACKAGES = {
    package.__name__: Path(str(package.__file__)).parent for package in (reticent, reticent_collector)
}
PROOFS = Path(__file__).parent
REFUSED_AT_LEAST = 35

HEAD = '[plan]\nname = "fault"\nversion = 1\nround = "1d"\nowner = "a@example.org"\nexpires = 2030-01-01\n'
MEAN = 'kind = "mean"\nmax_value = 21\nepsilon = 1.0\nflip = "1/3"\n'
FINE = 'kind = "mean"\nmax_value = 21\nstep = 7\nepsilon = 1.0\nflip = 0.2\n'
UNEVEN = 'kind = "mean"\ngrid = [0, 1, 5, 20]\nepsilon = 2.0\nflip = 0.05\n'
SIXTEEN = 'kind = "histogram"\nmax_value = 32\nbuckets = 16\n'
BITS = f'{SIXTEEN}mechanism = "d-bit-flip"\nbits = 4\nepsilon = 1.0\nflip = 0.1\n'
FRESH = 'kind = "mean"\nmax_value = 20\nepsilon = 1.0\n'
PLANS = {
    "mean": f"{HEAD}[metrics.a]\n{MEAN}",
    "fine": f"{HEAD}[metrics.a]\n{FINE}",
    "uneven": f"{HEAD}[metrics.a]\n{UNEVEN}",
    "bits": f"{HEAD}[metrics.a]\n{BITS}",
    "two": f"{HEAD}[metrics.a]\n{MEAN}[metrics.b]\n{FINE}",
    "alike": f"{HEAD}[metrics.a]\n{MEAN}[metrics.b]\n{MEAN}[metrics.c]\n{MEAN}"
    '[groups.g]\nmetrics = ["a", "b", "c"]\nmax_total = 21\n',
    "unlike": f'{HEAD}[metrics.a]\n{MEAN}[metrics.b]\n{FINE}[groups.g]\nmetrics = ["a", "b"]\nmax_total = 25\n',
    "divided": f"{HEAD}[answers]\nmetrics = 2\n[metrics.a]\n{MEAN}[metrics.b]\n{FINE}"
    f"[metrics.c]\n{MEAN}[metrics.d]\n{FINE}"
    '[groups.g]\nmetrics = ["a", "b"]\nmax_total = 25\n',
    "window": f'{HEAD}[answers]\nkind = "sampled"\nwindow = "7d"\nmetrics = 2\n'
    f'[metrics.a]\n{FRESH}[metrics.b]\n{FRESH}[metrics.c]\nkind = "mean"\nmax_value = 10\nepsilon = 0.5\n'
    '[groups.g]\nmetrics = ["a", "b", "c"]\nmax_total = 20\n',
    "labels": f'{HEAD}[answers]\nkind = "sampled"\nwindow = "7d"\n[metrics.a]\nkind = "choice"\n'
    'labels = ["x", "y", "z", "u", "v"]\nmechanism = "subset"\nsize = 2\nepsilon = 1.0\n',
    "sampled": f'{HEAD}[answers]\nkind = "sampled"\nwindow = "7d"\nmetrics = 2\n'
    f"[metrics.a]\n{FRESH}[metrics.b]\n{FRESH}[metrics.c]\n{FRESH}",
}


@dataclass(frozen=True)
class Fault:
    """What is changed, and the plan whose certificate must be refused."""

    what: str
    file: str
    old: str
    new: str
    plan: str


RESPONSE, GRIDS, MEANS = (
    "reticent/mechanisms/response.py",
    "reticent/mechanisms/grids.py",
    "reticent/mechanisms/one_bit_mean.py",
)
ANSWERS, D_BIT_FLIP = "reticent/device/answers.py", "reticent/mechanisms/d_bit_flip.py"
LOSS, JOINT = "reticent_collector/privacy/loss.py", "reticent_collector/privacy/joint.py"
PATTERNS, CARD = "reticent_collector/privacy/patterns.py", "reticent_collector/privacy/card.py"
MECHANISM, SUBSET = "reticent/mechanisms/mechanism.py", "reticent/mechanisms/subset_selection.py"

FAULTS = [
    Fault(
        "low rounded down",
        RESPONSE,
        "odds).to_integral_value(rounding=ROUND_CEILING))",
        "odds).to_integral_value(rounding=ROUND_FLOOR))",
        "mean",
    ),
    Fault(
        "inner thresholds one more",
        MEANS,
        "response.low + point * spread // top for",
        "response.low + point * spread // top + (0 < point < top) for",
        "fine",
    ),
    Fault("memo draw <= threshold", MECHANISM, "[draw < limit for", "[draw <= limit for", "mean"),
    Fault("flip draw <= gamma", ANSWERS, "flips[place] < turned", "flips[place] <= turned", "mean"),
    Fault("one flip for all bits", ANSWERS, "flips[place] < turned", "flips[0] < turned", "bits"),
    Fault(
        "one memo for all classes", ANSWERS, "draws.memo(metric, memo_class)", "draws.memo(metric, 0)", "mean"
    ),
    Fault(
        "alpha > boundary",
        GRIDS,
        "return below + (alpha * (right - left) * whole >=",
        "return below + (alpha * (right - left) * whole >",
        "mean",
    ),
    Fault(
        "alpha reversed",
        GRIDS,
        "return below + (alpha * (right - left) >=",
        "return below + ((SCALE - 1 - alpha) * (right - left) >=",
        "mean",
    ),
    Fault(
        "round loss a little less",
        LOSS,
        "upward(bits * bit_loss(epsilon, flip.probability, rounds)))",
        "upward(bits * bit_loss(epsilon, flip.probability, rounds) * (1 - Decimal('1e-14'))))",
        "mean",
    ),
    Fault(
        "the paper's 0.686: valid, not least",
        LOSS,
        "upward(bits * bit_loss(epsilon, flip.probability, rounds)))",
        "upward(bits * bit_loss(epsilon, flip.probability, rounds) * Decimal('1.2')))",
        "mean",
    ),
    Fault(
        "joint limit of one counter less",
        JOINT,
        "loss = _shared(taus[0], len(taus), limit",
        "loss = _shared(taus[0], len(taus) - 1, limit",
        "alike",
    ),
    Fault(
        "a third of the rounds are flips",
        LOSS,
        "memo + rounds // 2 * change",
        "memo + rounds // 3 * change",
        "mean",
    ),
    Fault(
        "same pattern halved",
        PATTERNS,
        "tuple(upward(Fraction(total, _UNIT))",
        "tuple(upward(Fraction(total, 2 * _UNIT))",
        "mean",
    ),
    Fault(
        "change of one bit only",
        LOSS,
        "upward(rounds * mechanism.bits * change",
        "upward(rounds * change",
        "bits",
    ),
    Fault(
        "two bits counted as one",
        D_BIT_FLIP,
        "return 2 * min(width, self.width)",
        "return min(width, self.width)",
        "bits",
    ),
    Fault(
        "gamma rounded down",
        RESPONSE,
        "threshold = -((-gamma.numerator * SCALE) // gamma.denominator)",
        "threshold = gamma.numerator * SCALE // gamma.denominator",
        "mean",
    ),
    Fault(
        "half the flips",
        RESPONSE,
        "threshold = -((-gamma.numerator * SCALE) // gamma.denominator)",
        "threshold = -((-gamma.numerator * SCALE) // gamma.denominator // 2)",
        "mean",
    ),
    Fault(
        "flips only set bits",
        ANSWERS,
        "bits.append(bit ^ (",
        "bits.append(bit | (",
        "mean",
    ),
    Fault("no flips", ANSWERS, "draws.flips(metric, round_number)", "[1 << 63] * metric.bits", "mean"),
    Fault(
        "values always round down",
        GRIDS,
        "return below + (alpha * (right - left) >= (right - value) * SCALE)",
        "return below",
        "mean",
    ),
    Fault(
        "the step is the whole range",
        GRIDS,
        "return below + (alpha * (right - left) >=",
        "return below + (alpha * self.points[-1] >=",
        "fine",
    ),
    Fault(
        "thresholds beyond high",
        MEANS,
        "spread = response.high - response.low",
        "spread = response.high - response.low + 2",
        "mean",
    ),
    Fault(
        "one class for any two histories",
        LOSS,
        "memo = min(mechanism.classes, rounds) *",
        "memo = 1 *",
        "fine",
    ),
    Fault(
        "a pair left out of the matching",
        PATTERNS,
        "totals.append(sum(weights[row][taken] for taken, row in row_of.items()))",
        "totals.append(sum(sorted(weights[row][taken] for taken, row in row_of.items())[1:]))",
        "uneven",
    ),
    Fault(
        "time of a change hidden too well",
        LOSS,
        "decimal((1 - gamma) / gamma).ln()",
        "decimal((1 - gamma) / gamma).ln() * Decimal('0.999999')",
        "mean",
    ),
    Fault(
        "constant device as in one round",
        LOSS,
        "constant=upward(mechanism.changed_bits(1) * mechanism.response.epsilon)",
        "constant=loss_per_round(mechanism, flip)",
        "mean",
    ),
    Fault("joint limit without zeros", JOINT, "return zeros + ones *", "return ones *", "alike"),
    Fault(
        "gains of unlike counters halved",
        JOINT,
        "+ sum(gains, Decimal(0))",
        "+ sum(gains, Decimal(0)) / 2",
        "unlike",
    ),
    Fault(
        "a metric left out of the plan's sum",
        CARD,
        'lifetime=largest("lifetime")',
        "lifetime=compose([loss.lifetime for loss in of_metric.values()][1:])",
        "two",
    ),
    Fault(
        "one metric less asked in a window",
        JOINT,
        "for size, loss in best.items() if size <= asked",
        "for size, loss in best.items() if size < asked",
        "sampled",
    ),
    Fault(
        "a divided plan costs what one metric costs",
        CARD,
        "return compose(ordered[: plan.asked])",
        "return compose(ordered[:1])",
        "divided",
    ),
    Fault(
        "the smallest metrics are asked",
        JOINT,
        "return sorted(losses, reverse=True)",
        "return sorted(losses)",
        "divided",
    ),
    Fault(
        "a group of a divided plan is not asked",
        JOINT,
        "together[size + more] = max(together.get(size + more, 0.0), total)",
        "together[size] = max(together.get(size, 0.0), loss)",
        "divided",
    ),
    Fault(
        "the largest set of unlike counters is the first",
        JOINT,
        "return max(_joint(chosen, limit, rounds) for chosen in combinations(members, size))",
        "return min(_joint(chosen, limit, rounds) for chosen in combinations(members, size))",
        "window",
    ),
    Fault(
        "windows of a year counted from the first",
        CARD,
        "upward(windows * Fraction(loss))",
        "upward((windows - 1) * Fraction(loss))",
        "sampled",
    ),
    Fault(
        "the weight of other labels rounded down",
        SUBSET,
        "outside = -(-SCALE // (size * ratio + count - size))",
        "outside = SCALE // (size * ratio + count - size)",
        "labels",
    ),
    Fault(
        "the base set is not shifted for labels within",
        SUBSET,
        "shift = memo_class - members[draw // self.inside]",
        "shift = memo_class",
        "labels",
    ),
]

CHECK = """
import sys
from pathlib import Path
from reticent_collector.plans.certificate import certify, check
from reticent.plan import Plan
certificate = certify(Plan.from_toml(sys.argv[1]))
refused = "; ".join(certificate.left_out) or check(certificate, Path(sys.argv[2]))
sys.exit(refused)
"""


def refused(plan: str, fault: Fault | None) -> str:
    """Why the certificate of a plan is refused, with a fault in the package; empty if it is accepted."""
    with TemporaryDirectory() as folder:
        if fault is not None:
            package = fault.file.partition("/")[0]
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PACKAGES[package], Path(folder) / package, ignore=ignored)
            path = Path(folder) / fault.file
            source = path.read_text()
            if source.count(fault.old) != 1:
                raise ValueError(f"{fault.what}: {fault.file} has no single {fault.old!r}")
            path.write_text(source.replace(fault.old, fault.new))
        paths = os.pathsep.join(
            [folder, *(str(home.parent) for home in PACKAGES.values()), os.environ.get("PYTHONPATH", "")]
        )
        command = [sys.executable, "-c", CHECK, PLANS[plan], str(PROOFS)]
        environment = {**os.environ, "PYTHONPATH": paths}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        lines = [line for line in run.stderr.splitlines() if line.strip()]
        return lines[0] if run.returncode else ""


def main() -> None:
    """Every plan is certified without a fault, and refused with one."""
    subprocess.run(["make", "-s", "-C", str(PROOFS)], check=True)
    with ThreadPoolExecutor(2) as pool:
        for plan, reason in zip(PLANS, pool.map(lambda plan: refused(plan, None), PLANS), strict=True):
            if reason:
                sys.exit(f"plan {plan} is refused without a fault: {reason}")
        reasons = list(pool.map(lambda fault: refused(fault.plan, fault), FAULTS))
    for fault, reason in zip(FAULTS, reasons, strict=True):
        print(f"{'refused ' if reason else 'ACCEPTED'}  {fault.what}  ({reason[:80]})")
    count = sum(map(bool, reasons))
    print(f"{count} of {len(FAULTS)} faults are refused.")
    sys.exit(count < REFUSED_AT_LEAST)


if __name__ == "__main__":
    main()
