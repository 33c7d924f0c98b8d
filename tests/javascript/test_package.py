"""The npm package: its entries, their types, what a page loads of it, and that it needs nothing else."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.javascript.conftest import PACKAGE

from reticent.plan import Plan
from reticent_collector.plans import export_plan

SOURCE = PACKAGE / "src"
PAGE = 12_000
"""Most bytes that a page loads before its person has agreed: bundled, minified and compressed with gzip."""
ALL = 19_000
"""Most bytes of a device in one piece, as a service worker loads it."""
STATIC = re.compile(r'^(?:import|export) (?:[^;]*? from )?"(\./[^"]+)";', re.MULTILINE)
CONSUMER = """
import { Device, Fraction, indexedDbState, type Consent, type PolicySettings } from "reticent";
import { previewOf, receiptOf, statusOf } from "reticent/look";
import { folderState } from "reticent/node";
import { Device as Whole } from "reticent/worker";

const policy: PolicySettings = { maxLifetime: 20, silentInCi: false };
const device = await Device.open({ plan: {}, state: indexedDbState("t"), endpoint: "https://e.example", policy });
device.add("minutes", new Fraction(1n, 3n));
const consent: Consent = device.consent;
const preview: string | undefined = (await previewOf(device))?.body;
const loss: number = (await receiptOf(device)).totalLoss;
const reasons: string[] = (await statusOf(device)).reasons;
const whole: Device = await Whole.open({ plan: "{}", state: folderState("state") });
// @ts-expect-error: a report takes a number
await whole.report("7");
// @ts-expect-error: there is no such limit
const wrong: PolicySettings = { maxEpsilonn: 1 };
export { consent, loss, preview, reasons, wrong };
"""


def loaded_with(entry: str) -> set[str]:
    """The modules that come with one, without those that are loaded later."""
    found: set[str] = set()
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [path.removeprefix("./") for path in STATIC.findall((SOURCE / name).read_text())]
    return found


def without_comments(name: str) -> str:
    text = re.sub(r"/\*\*.*?\*/", "", (SOURCE / name).read_text(), flags=re.DOTALL)
    return re.sub(r"^\s+|\s*//(?!.*[\"'`]).*$", "", text, flags=re.MULTILINE)


def test_a_page_loads_neither_answers_nor_words_until_they_are_needed() -> None:
    """Sizes of a bundle without a bundler: names are longer, so the limit is a little higher."""
    with_page = loaded_with("index.js")
    assert {"device.js", "plan.js", "states.js", "transport.js"} <= with_page
    assert not {"engine.js", "look.js", "losses.js", "blake2b.js", "node.js"} & with_page
    assert "engine.js" in loaded_with("worker.js")
    text = "".join(without_comments(name) for name in sorted(with_page))
    assert len(gzip.compress(text.encode(), 9)) < PAGE + 2_500


def test_a_page_loads_at_most_12_kb(tmp_path: Path) -> None:
    esbuild = shutil.which("esbuild")
    if esbuild is None:
        pytest.skip("esbuild is not on the PATH (npm install -g esbuild)")

    def bundle(entry: str, *options: str) -> bytes:
        command: list[str | Path] = [
            esbuild,
            SOURCE / entry,
            "--bundle",
            "--minify",
            "--format=esm",
            "--log-level=warning",
            *options,
        ]
        return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout

    bundle("index.js", "--splitting", f"--outdir={tmp_path}")
    page: set[Path] = set()
    waiting = [tmp_path / "index.js"]
    while waiting:
        page.add(waiting[-1])
        text = waiting.pop().read_text()
        waiting += {tmp_path / name for name in re.findall(r'(?:from|import)"\./([^"]+)"', text)} - page
    assert {file.name for file in tmp_path.iterdir()} - {file.name for file in page}  # what comes later
    assert sum(len(gzip.compress(file.read_bytes(), 9)) for file in page) <= PAGE
    assert PAGE < len(gzip.compress(bundle("worker.js"), 9)) <= ALL


def declared(entry: str) -> set[str]:
    """The values that the types of an entry declare, its own and those it passes on."""
    text = (PACKAGE / f"{entry}.d.ts").read_text()
    names = set(re.findall(r"^export (?:class|function) (\w+)", text, re.MULTILINE))
    return names.union(
        *(declared(other) for other in re.findall(r'^export \* from "\./(\w+)\.js"', text, re.MULTILINE))
    )


@pytest.mark.parametrize("entry", ["index", "look", "node", "worker"])
def test_an_entry_has_the_names_that_its_types_declare(node: str, entry: str) -> None:
    script = f"console.log(JSON.stringify(Object.keys(await import({str(SOURCE / f'{entry}.js')!r}))))"
    done = subprocess.run(
        [node, "--input-type=module", "--eval", script],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert set(json.loads(done.stdout)) == declared(entry)


def test_programs_find_the_entries_by_their_names(node: str, tmp_path: Path) -> None:
    """In Node the device of Node, which knows of the environment of its process; in a page the page's."""
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "reticent").symlink_to(PACKAGE)
    (tmp_path / "one.mjs").write_text(
        'import { Device } from "reticent"; import * as node from "reticent/node"; import "reticent/look";'
        'import * as worker from "reticent/worker";'
        "console.log(Device === node.Device, Device === worker.Device)"
    )
    answers = [
        subprocess.run(
            [node, *conditions, tmp_path / "one.mjs"], capture_output=True, text=True, check=True, timeout=60
        ).stdout.split()
        for conditions in ([], ["--conditions=browser"])
    ]
    assert answers == [["true", "false"]] * 2


def test_the_program_of_the_guide_runs(node: str, tmp_path: Path) -> None:
    """Where nobody can be asked it says so, sends nothing and ends."""
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "reticent").symlink_to(PACKAGE)
    guide = (PACKAGE.parent / "docs" / "how-to" / "javascript.md").read_text()
    [program] = re.findall(r"```js\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "program.mjs").write_text(program.replace("…", "k"))
    plan = Plan.load(PACKAGE.parent / "examples" / "plan.toml")
    (tmp_path / "plan.json").write_text(json.dumps(export_plan(plan)))

    def run(**environment: str) -> str:
        done = subprocess.run(
            [node, "program.mjs"], env={"PATH": os.environ["PATH"]} | environment,
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = run()
    assert "consent is unset" in said
    assert "All answers so far are at most e^0.0 times as likely" in said
    assert "DO_NOT_TRACK" not in said
    assert "CI is set" in run(CI="1")
    assert "DO_NOT_TRACK is set" in run(DO_NOT_TRACK="1")
    assert not (tmp_path / "telemetry-state").exists()


def test_types_hold(tmp_path: Path) -> None:
    tsc = shutil.which("tsc")
    if tsc is None:
        pytest.skip("tsc is not on the PATH (npm install -g typescript)")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "reticent").symlink_to(PACKAGE)
    (tmp_path / "consumer.mts").write_text(CONSUMER)
    options = ["--noEmit", "--strict", "--target", "esnext", "--lib", "esnext,dom", "--module", "nodenext"]
    done = subprocess.run(
        [tsc, *options, "--types", "", "consumer.mts"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_package_has_no_dependencies_and_the_version_of_the_release() -> None:
    package = json.loads((PACKAGE / "package.json").read_text())
    assert package["version"] == version("reticent")
    assert not {"dependencies", "devDependencies", "scripts"} & package.keys()
    files = re.findall(r'"\./([^"]+\.(?:js|ts))"', (PACKAGE / "package.json").read_text())
    assert len(files) > 8
    assert all((PACKAGE / path).is_file() for path in files)
    assert {path for path in files if "/" not in path} <= set(package["files"])
    assert {path.name for path in PACKAGE.glob("*.d.ts")} <= set(package["files"])
    imported = {
        name
        for file in SOURCE.glob("*.js")
        for name in re.findall(r'^import .* from "([^".][^"]*)"', file.read_text(), re.MULTILINE)
    }
    assert imported == {"node:crypto", "node:fs", "node:fs/promises", "node:path"}
    assert [file.name for file in SOURCE.glob("*.js") if "node:" in file.read_text()] == ["node.js"]
