"""
`make proofs`: the theorems, what they rest on, and the certificates of the example plans.

Compiles `proofs/`, refuses any axiom but the four of Coq's real numbers, checks the certificate of every plan in
`examples/` and `proofs/plans/`, has `coqchk` check the compiled theorems again, and writes the digests of the checked
certificates to `collector/src/reticent_collector/plans/certified.py`. With --verify that file must not change.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

from reticent.plan import Plan
from reticent_collector.plans.certificate import Certificate, certify, check

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "proofs"
CERTIFIED = ROOT / "collector/src/reticent_collector/plans/certified.py"
AXIOMS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
"""Those of the standard library's real numbers; a proof that rests on another is refused."""


def main() -> None:
    """Everything, or an exit with what is wrong."""
    started = monotonic()
    if shutil.which("coqc") is None:
        sys.exit("make proofs: no coqc here. On Debian: apt-get install --no-install-recommends coq")
    for source in sources():
        if re.search(r"\b(admit|Admitted|Axiom|Parameter|Conjecture)\b", source.read_text()):
            sys.exit(f"make proofs: {source.name}: something is assumed.")
    subprocess.run(["make", "-s", f"-j{os.cpu_count()}", "-C", str(PROOFS)], check=True)
    print(f"{len(theorems())} theorems in {count_lines():,} lines compile ({monotonic() - started:.0f} s).")
    print_assumptions()
    plans = sorted([*(ROOT / "examples").rglob("*.toml"), *(PROOFS / "plans").glob("*.toml")])
    checker = subprocess.Popen(
        [
            "coqchk",
            "-silent",
            "-Q",
            str(PROOFS),
            "Reticent",
            *(part for source in sources() for part in ("-norec", f"Reticent.{source.stem}")),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        certificates = dict(zip(plans, pool.map(checked, plans), strict=True))
    said, _ = checker.communicate()
    if checker.returncode:
        sys.exit(f"make proofs: coqchk refuses the theorems.\n{said}")
    print("coqchk accepts the compiled theorems.")
    write_digests(certificates)
    print(f"Proofs hold ({monotonic() - started:.0f} s).")


def sources() -> list[Path]:
    """The theorems' files."""
    return sorted(PROOFS.glob("*.v"))


def theorems() -> set[str]:
    """The names of all theorems."""
    return {
        name
        for source in sources()
        for name in re.findall(r"^ *Theorem (\w+)", source.read_text(), re.MULTILINE)
    }


def count_lines() -> int:
    """Lines of Coq."""
    return sum(len(source.read_text().splitlines()) for source in sources())


def print_assumptions() -> None:
    """All theorems together, asked for their axioms."""
    modules = " ".join(source.stem for source in sources())
    question = f"From Reticent Require Import {modules}.\n"
    question += f"Definition everything := ({', '.join(f'@{name}' for name in sorted(theorems()))}).\n"
    question += "Print Assumptions everything.\n"
    command = ["coqtop", "-q", "-quiet", "-Q", str(PROOFS), "Reticent"]
    said = subprocess.run(command, input=question, capture_output=True, text=True, check=True)
    if "Error" in said.stdout + said.stderr:
        sys.exit(f"make proofs: the assumptions cannot be printed.\n{said.stdout}{said.stderr}")
    axioms = set(re.findall(r"^([A-Z][\w.]*\.\w+)(?: :|$)", said.stdout, re.MULTILINE))
    print("Assumptions, all of the standard library's real numbers:", *sorted(axioms), sep="\n  ")
    if axioms - AXIOMS:
        sys.exit(f"make proofs: other axioms: {', '.join(sorted(axioms - AXIOMS))}")


def checked(path: Path) -> Certificate:
    """The certificate of a plan, accepted by Coq."""
    certificate = certify(Plan.load(path))
    name = path.relative_to(ROOT)
    if certificate.left_out:
        sys.exit(f"make proofs: {name}: {'; '.join(certificate.left_out)}")
    refused = check(certificate, PROOFS)
    if refused is not None:
        sys.exit(f"make proofs: {name}: Coq refuses the certificate.\n{refused}")
    print(f"{name}: certified")
    return certificate


def write_digests(certificates: dict[Path, Certificate]) -> None:
    """The list that `reticent plan check` asks."""
    head = CERTIFIED.read_text().split("CERTIFIED")[0]
    rows = []
    for path, certificate in certificates.items():
        plan = Plan.load(path)
        rows.append(f'    "{certificate.digest}": "{plan.name} {plan.version}",\n')
    text = head + "CERTIFIED: dict[str, str] = {\n" + "".join(rows) + "}\n"
    if "--verify" in sys.argv and text != CERTIFIED.read_text():
        sys.exit(f"make proofs: {CERTIFIED.relative_to(ROOT)} is out of date; run make proofs and commit it.")
    CERTIFIED.write_text(text)


if __name__ == "__main__":
    main()
