"""The files of deploy/: whatever of them can be run or checked here is, and what they name is there."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.shared.collectors import Service, bearer, make_keys
from tests.shared.proxies import installed

from reticent_collector.cli.serve import serve
from reticent_collector.stores import open_store

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
RETICENT = str(Path(sys.executable).with_name("reticent"))


def needs(name: str) -> None:
    if installed(name) is None:
        pytest.skip(f"{name} is not installed")


def output(*command: object, **options: Any) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, timeout=120, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# systemd


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units, with the program where it is here."""
    for unit in UNITS:
        text = unit.read_text().replace("/opt/reticent/bin/reticent", RETICENT)
        (tmp_path / unit.name).write_text(text)
    return tmp_path


def setting(unit: str, name: str) -> str:
    """The last value of a setting."""
    return re.findall(rf"^{name}=(.*)$", (DEPLOY / "systemd" / unit).read_text(), re.MULTILINE)[-1]


@pytest.mark.parametrize("unit", [unit.name for unit in UNITS])
def test_systemd_understands_the_units(units: Path, unit: str) -> None:
    needs("systemd-analyze")
    complaints = output("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", units / unit)
    assert unit not in complaints, complaints


@pytest.mark.parametrize("unit", [unit.name for unit in UNITS if unit.suffix == ".service"])
def test_systemd_finds_little_that_the_services_could_do_beyond_their_work(units: Path, unit: str) -> None:
    """At most 1.0 of 10 (`--threshold` counts in tenths)."""
    needs("systemd-analyze")
    output("systemd-analyze", "security", "--offline=true", "--threshold=10", "--no-pager", units / unit)


def test_the_backup_of_the_day_is_a_whole_store(units: Path, tmp_path: Path) -> None:
    """The command of the unit, run twice on a day; a copy that was cut off before does not stop it."""
    store = open_store(f"sqlite:///{tmp_path / 'reticent.db'}")
    store.close()
    make_keys(store.url, "reader")
    (tmp_path / "new.db").write_bytes(b"cut off")
    old = tmp_path / "backup-2020-01-01.db"
    for _ in range(2):
        old.write_bytes(b"old")
        os.utime(old, (0, 0))
        command = setting("reticent-backup.service", "ExecStart").replace("%%", "%")
        command = command.replace("/opt/reticent/bin/reticent", RETICENT)
        output(*shlex.split(command), env={**os.environ, "STATE_DIRECTORY": str(tmp_path)})
    backups = list(tmp_path.glob("backup-*.db"))
    assert len(backups) == 1
    copy = open_store(f"sqlite:///{backups[0]}")
    assert [key.role for key in copy.keys()] == ["reader"]  # noqa: SIM118
    copy.close()


HAND_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_the_service_needs_its_socket_and_no_other_network(tmp_path: Path) -> None:
    """As systemd starts it: the socket is the third file, and where it is allowed here, it is alone in a network."""
    alone = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        alone = []
    plan = tmp_path / "plan.toml"
    plan.write_text((ROOT / "examples/saves.toml").read_text())
    store = f"sqlite:///{tmp_path / 'reticent.db'}"
    make_keys(store, "ingest")
    command = shlex.split(setting("reticent.service", "ExecStart"))
    assert command[:3] == ["/opt/reticent/bin/reticent", "serve", "/etc/reticent/plan.toml"]
    with socket.create_server(("127.0.0.1", 0), backlog=8) as listener:
        process = subprocess.Popen(
            [*alone, sys.executable, "-c", HAND_OVER, str(listener.fileno()), RETICENT, "serve", plan, *command[3:]],
            env={**os.environ, "RETICENT_STORE": store}, pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            with closing(HTTPConnection(*listener.getsockname(), timeout=20)) as connection:
                connection.request("GET", "/readyz")
                assert connection.getresponse().status == 200
        finally:
            process.terminate()
            assert process.wait(40) == 0


# Containers

CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
POD = next(each for each in MANIFESTS if each["kind"] == "Deployment")["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]


def instruction(name: str) -> str:
    """The last one of a name."""
    text = CONTAINERFILE.replace("\\\n", "")
    return re.findall(rf"^{name} (.*)$", text, re.MULTILINE)[-1]


def test_the_image_is_made_of_files_that_are_there_and_is_not_root() -> None:
    copied = [
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", CONTAINERFILE, re.MULTILINE)
        for word in line.split()[:-1]
    ]
    assert all((ROOT / name).exists() for name in copied)
    kept = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in kept if line.startswith("!")} == set(copied)
    assert instruction("USER") == "10001:10001"


def test_the_image_has_every_house_that_its_houses_ask_for() -> None:
    """They are pinned to each other and installed from what was copied, so that none comes from an index."""
    (line,) = re.findall(r"pip install (.*)$", CONTAINERFILE, re.MULTILINE)
    asked = [re.fullmatch(r"\./(\w+)(?:\[([\w,]+)\])?", word) for word in shlex.split(line)]
    projects, required = {}, set()
    for each in asked:
        assert each is not None, line
        project = tomllib.loads((ROOT / each[1] / "pyproject.toml").read_text())["project"]
        projects[project["name"]] = each[1]
        extras = project.get("optional-dependencies", {})
        assert set((each[2] or "").split(",")) - {""} <= set(extras)
        required |= {
            word.partition("==")[0] for word in project["dependencies"] if word.startswith("reticent")
        }
    assert set(projects) == {"reticent", "reticent-collector", "reticent-lake"}
    assert required <= set(projects)
    for house in projects.values():
        assert f"COPY {house} {house}\n" in CONTAINERFILE


def test_the_compose_file_holds_together() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        for secret in service.get("secrets", []):
            assert (secret if isinstance(secret, str) else secret["source"]) in COMPOSE["secrets"]
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        assert set(service.get("depends_on", {})) <= set(services)
        assert ("ports" in service) == (name == "proxy")  # the world sees the proxy alone
        assert not any("password" in str(value).lower() and "/run/secrets/" not in str(value)
                       for value in service["environment"].values())  # fmt: skip
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert services["database"]["networks"] == ["inside"]
    assert services["collector"]["read_only"]
    assert services["collector"]["cap_drop"] == ["ALL"]
    assert services["proxy"]["environment"]["RETICENT_COLLECTOR"] == "collector:8000"
    assert "{$RETICENT_COLLECTOR:" in (DEPLOY / "proxy/Caddyfile").read_text()


def test_the_manifests_hold_together() -> None:
    by_kind = {manifest["kind"]: manifest["spec"] for manifest in MANIFESTS}
    labels = by_kind["Deployment"]["template"]["metadata"]["labels"]
    assert by_kind["Deployment"]["selector"]["matchLabels"] == labels
    assert by_kind["Service"]["selector"] == labels
    assert by_kind["PodDisruptionBudget"]["selector"]["matchLabels"] == labels
    assert by_kind["NetworkPolicy"]["podSelector"]["matchLabels"] == labels
    assert by_kind["PodDisruptionBudget"]["minAvailable"] < by_kind["Deployment"]["replicas"]
    assert str(POD["securityContext"]["runAsUser"]) == instruction("USER").partition(":")[0]
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == {
        volume["name"] for volume in POD["volumes"]
    }
    file = CONTAINER["env"][0]["value"]
    assert any(file.startswith(f"{mount['mountPath']}/") for mount in CONTAINER["volumeMounts"])
    assert CONTAINER["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The collector as the image is started, but for its address."""
    words = json.loads(instruction("CMD"))
    assert words == CONTAINER["args"]
    assert "command" not in COMPOSE["services"]["collector"]
    options = words[words.index("--listen") + 2 :]
    plan = (ROOT / "examples/saves.toml").read_text()
    service = Service(tmp_path_factory.mktemp("served"), plan)
    service.keys = make_keys(service.store, "ingest", "reader")  # type: ignore[attr-defined]
    yield service.start(*options)
    assert service.stop() == 0


def test_the_probes_answer(served: Service) -> None:
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert served.get(CONTAINER[name]["httpGet"]["path"]).status == 200
    check = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    here = [word.replace("127.0.0.1:8000", f"127.0.0.1:{served.port}") for word in check[1:]]
    output(sys.executable, *here)
    refused = [word.replace("127.0.0.1:8000", "127.0.0.1:1") for word in check[1:]]
    assert subprocess.run([sys.executable, *refused], capture_output=True, check=False).returncode != 0


def test_every_option_and_variable_is_one_of_the_collector() -> None:
    settings = {option.opts[0]: option.envvar for option in serve.params if isinstance(option, click.Option)}
    texts = "".join(file.read_text() for file in DEPLOY.rglob("*") if file.is_file())
    known = {
        *settings.values(),
        "RETICENT_STORE_FILE",
        "RETICENT_COLLECTOR",
    }  # the last is the Caddyfile's own
    assert set(re.findall(r"RETICENT_[A-Z_]+", texts)) <= known
    commands = [setting("reticent.service", "ExecStart"), *CONTAINER["args"]]
    assert set(re.findall(r"(?<!\S)--[a-z-]+", " ".join(commands))) <= set(settings)


# Alerts

ALERTS = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"][0]["rules"]


def test_the_alerts_fire_when_they_should_and_only_then() -> None:
    """`promtool` runs alerts.test.yml, which has a firing case and a silent one for each."""
    cases = yaml.safe_load((DEPLOY / "prometheus/alerts.test.yml").read_text())["tests"]
    expected = [each for case in cases for each in case["alert_rule_test"]]
    names = {alert["alert"] for alert in ALERTS}
    assert {each["alertname"] for each in expected if each.get("exp_alerts")} == names
    assert {each["alertname"] for each in expected if not each.get("exp_alerts")} == names
    needs("promtool")
    output("promtool", "check", "rules", "alerts.yml", cwd=DEPLOY / "prometheus")
    output("promtool", "test", "rules", "alerts.test.yml", cwd=DEPLOY / "prometheus")


def test_a_running_collector_exports_what_the_alerts_ask_for(served: Service) -> None:
    text = served.call("GET", "/metrics", headers=bearer(served.keys["reader"])).body.decode()  # type: ignore[attr-defined]
    exported = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    asked = set(re.findall(r"reticent_\w+", " ".join(alert["expr"] for alert in ALERTS)))
    assert {name.removesuffix("_bucket") for name in asked} <= exported


GRAFANA = yaml.safe_load((ROOT / "examples/grafana/alerts.yaml").read_text())


def test_the_rules_for_grafana_hold_together(served: Service, tmp_path: Path) -> None:
    """Each asks for what a collector exports, and `promtool` takes its query."""
    text = served.call("GET", "/metrics", headers=bearer(served.keys["reader"])).body.decode()  # type: ignore[attr-defined]
    exported = {*re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)}
    rules = [rule for group in GRAFANA["groups"] for rule in group["rules"]]
    assert len({rule["uid"] for rule in rules}) == len(rules) > 3
    queries = [query for rule in rules for query in rule["data"]]
    assert {query["refId"] for query in queries} == {rule["condition"] for rule in rules}
    expressions = [query["model"]["expr"] for query in queries]
    assert set(re.findall(r"reticent_\w+", " ".join(expressions))) <= exported
    needs("promtool")
    checked = [{"alert": f"Rule{place}", "expr": expr} for place, expr in enumerate(expressions)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "grafana", "rules": checked}]}))
    output("promtool", "check", "rules", "rules.yml", cwd=tmp_path)


# The runbook

RUNBOOK = (ROOT / "docs/how-to/runbook.md").read_text()
HEADINGS = " ".join(re.findall(r"^##+ (.*)$", RUNBOOK, re.MULTILINE))


def test_the_runbook_has_a_section_for_every_alert() -> None:
    assert {alert["alert"] for alert in ALERTS} == set(re.findall(r"Reticent\w+", HEADINGS))


def test_the_runbook_has_a_section_for_every_event_after_which_something_is_to_be_done() -> None:
    """As docs/reference/http.md lists them, which `test_every_event_of_the_log_is_in_the_page_and_no_other` checks."""
    page = (ROOT / "docs/reference/http.md").read_text().partition("## What is logged")[2]
    names = "".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))
    good_news = {
        "started", "listening", "stopped", "sealed", "commits-work", "keys-read", "plans-read",
        "tls-reloaded", "collector-answers",
    }  # fmt: skip
    events = set(re.findall(r"`([a-z-]+)`", names)) - good_news
    assert {"commits-fail", "internal-error"} < events
    assert {event for event in events if f"`{event}`" not in HEADINGS} == set()
