"""The chart: rendered by Helm, checked by schemas, its commands read by the program itself."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.commands.processes.server import NO_OBJECTS
from tests.deploy.commands import DEPLOY, known_variables, read_command, variables_in
from tests.deploy.kube import CHART, find_problems, helm, render

LEAST: dict[str, Any] = {
    "database": {"existingSecret": "holdfast-database"},
    "tls": {"secretName": "holdfast-tls"},
}
MAIL = {
    "name": "mail",
    "queues": ["mail", "re.ports"],
    "imports": ["shop.tasks"],
    "concurrency": 20,
    "drainSeconds": 120,
    "autoscaling": {"enabled": True, "maxReplicas": 20},
}
COMMANDS = {"name": "commands", "queues": ["commands"], "allowCommands": True, "replicas": 0}
EVERYTHING: dict[str, Any] = {
    "database": {"url": "postgresql://holdfast@db.example/holdfast", "caConfigMap": "db-ca"},
    "tls": {"secretName": "holdfast-tls"},
    "imagePullSecrets": [{"name": "registry"}],
    "server": {
        "objectStore": "s3://bundles/holdfast",
        "allowedHosts": ["jobs.example"],
        "env": {"HOLDFAST_HEARTBEAT_SECONDS": 2},
        "envFrom": [{"secretRef": {"name": "s3"}}],
        "serviceAccountName": "holdfast",
        "podAnnotations": {"a": "b"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "jobs", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
    },
    "workers": [MAIL, COMMANDS],
    "keda": {"prometheusAddress": "http://prometheus:9090", "matchers": 'namespace="jobs"'},
    "networkPolicy": {"serverFrom": [{"namespaceSelector": {}}]},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "grafanaDashboard": {"enabled": True},
}


def named(documents: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """Find one document."""
    [found] = [d for d in documents if (d["kind"], d["metadata"]["name"]) == (kind, name)]
    return found


def container_of(workload: dict[str, Any]) -> dict[str, Any]:
    """Give the only container of a workload."""
    [container] = workload["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def values_of(container: dict[str, Any]) -> dict[str, str]:
    """List the variables of a container that the chart gives a value."""
    told = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    return {name: text.replace("$(POD_IP)", "10.0.0.7") for name, text in told.items()}


@pytest.mark.parametrize("values", [LEAST, EVERYTHING], ids=["least", "everything"])
def test_the_chart_renders_to_what_kubernetes_accepts(
    values: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(values))
    linted = helm("lint", ".", "--strict", "--values", str(tmp_path / "own.yaml"))
    assert linted.returncode == 0, linted.stdout
    assert find_problems(render(values, tmp_path)) == []


def test_the_values_of_the_page_are_the_charts(tmp_path: Path) -> None:
    page = (DEPLOY.parent / "docs" / "deploy.md").read_text(encoding="utf-8")
    [values] = re.findall(r"^```yaml\n# values.yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    documents = render(yaml.safe_load(values), tmp_path)
    assert find_problems(documents) == []
    kinds = {document["kind"] for document in documents}
    assert {"ScaledObject", "ServiceMonitor", "PrometheusRule", "PodDisruptionBudget"} <= kinds


def test_a_misspelt_field_does_not_pass_the_schemas(tmp_path: Path) -> None:
    documents = render(EVERYTHING, tmp_path)
    assert find_problems(documents) == []
    named(documents, "Deployment", "holdfast-server")["spec"]["replica"] = 2
    del named(documents, "ScaledObject", "holdfast-worker-mail")["spec"]["triggers"]
    named(documents, "ServiceMonitor", "holdfast")["spec"]["endpoints"] = "api"
    problems = find_problems(documents)
    assert len(problems) >= 3
    assert "replica" in problems[0]


def test_servers_and_workers_are_started_as_the_program_reads_it(tmp_path: Path) -> None:
    documents = render(EVERYTHING, tmp_path)
    server = container_of(named(documents, "Deployment", "holdfast-server"))
    told = read_command(server["args"], values_of(server)).arguments
    assert (told["host"], told["port"], told["require_tokens"]) == ("0.0.0.0", 7878, True)
    assert str(told["tls"].tls_cert) == "/etc/holdfast/tls/tls.crt"
    assert {"10.0.0.7", "holdfast.jobs.svc", "jobs.example"} <= set(told["allowed_host"])
    assert (told["object_store"], told["heartbeat_seconds"]) == ("s3://bundles/holdfast", 2.0)
    worker = container_of(named(documents, "Deployment", "holdfast-worker-mail"))
    told = read_command(worker["args"], values_of(worker)).arguments
    assert told["server"] == "https://holdfast.jobs.svc:7878"
    assert (told["queue"], told["import_"]) == (("mail", "re.ports"), ("shop.tasks",))
    assert (told["concurrency"], told["drain_seconds"]) == (20, 120.0)
    worker = container_of(named(documents, "Deployment", "holdfast-worker-commands"))
    assert read_command(worker["args"], values_of(worker)).arguments["allow"].allow_commands
    migration = container_of(named(documents, "Job", "holdfast-migrate"))
    read_command(migration["args"], {})


def test_without_an_object_store_no_bundle_is_taken_into_a_pod_that_may_go(tmp_path: Path) -> None:
    server = container_of(named(render(LEAST, tmp_path), "Deployment", "holdfast-server"))
    told = read_command(server["args"], values_of(server)).arguments
    assert told["object_store"] == NO_OBJECTS


def test_behind_a_proxy_no_certificate_is_asked_for(tmp_path: Path) -> None:
    documents = render({**LEAST, "tls": {"behindProxy": True}, "workers": [COMMANDS]}, tmp_path)
    assert find_problems(documents) == []
    server = container_of(named(documents, "Deployment", "holdfast-server"))
    told = read_command(server["args"], values_of(server)).arguments
    assert (told["behind_proxy"], "tls" in told) == (True, False)
    assert server["readinessProbe"]["httpGet"]["scheme"] == "HTTP"
    worker = container_of(named(documents, "Deployment", "holdfast-worker-commands"))
    assert values_of(worker)["HOLDFAST_SERVER"].startswith("http://")


def test_every_variable_in_the_chart_is_the_programs() -> None:
    text = "".join(path.read_text() for path in CHART.rglob("*") if path.is_file())
    assert variables_in(text)
    assert variables_in(text) <= known_variables()


def test_kubernetes_waits_longer_than_a_worker_drains(tmp_path: Path) -> None:
    documents = render({**EVERYTHING, "workers": [MAIL, COMMANDS | {"drainSeconds": 0}]}, tmp_path)
    mail = named(documents, "Deployment", "holdfast-worker-mail")["spec"]
    assert mail["template"]["spec"]["terminationGracePeriodSeconds"] == 150
    assert "replicas" not in mail, "the autoscaler decides"
    hasty = named(documents, "Deployment", "holdfast-worker-commands")["spec"]
    assert hasty["template"]["spec"]["terminationGracePeriodSeconds"] == 30
    assert values_of(container_of({"spec": hasty}))["HOLDFAST_DRAIN_SECONDS"] == "0"
    assert hasty["replicas"] == 0


def test_what_selects_pods_selects_those_of_the_chart(tmp_path: Path) -> None:
    documents = render(EVERYTHING, tmp_path)
    pods = {
        d["metadata"]["name"]: d["spec"]["template"]["metadata"]["labels"]
        for d in documents
        if d["kind"] in ("Deployment", "Job")
    }
    servers = {"holdfast-server"}
    workers = {"holdfast-worker-mail", "holdfast-worker-commands"}

    def chosen(labels: dict[str, str]) -> set[str]:
        return {name for name, own in pods.items() if labels.items() <= own.items()}

    assert chosen(named(documents, "Service", "holdfast")["spec"]["selector"]) == servers
    budget = named(documents, "PodDisruptionBudget", "holdfast-server")["spec"]
    assert chosen(budget["selector"]["matchLabels"]) == servers
    policy = named(documents, "NetworkPolicy", "holdfast-server")["spec"]
    assert chosen(policy["podSelector"]["matchLabels"]) == servers
    assert chosen(policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"]) == workers
    monitor = named(documents, "ServiceMonitor", "holdfast")["spec"]["selector"]["matchLabels"]
    service = named(documents, "Service", "holdfast")["metadata"]["labels"]
    assert monitor.items() <= service.items()
    for name in servers | workers:
        selector = named(documents, "Deployment", name)["spec"]["selector"]["matchLabels"]
        assert chosen(selector) == {name}


def test_the_migration_and_its_secret_come_before_everything_else(tmp_path: Path) -> None:
    documents = render(EVERYTHING, tmp_path)
    hooked = {
        d["kind"]: int(d["metadata"]["annotations"]["helm.sh/hook-weight"])
        for d in documents
        if d["metadata"].get("annotations", {}).get("helm.sh/hook") == "pre-install,pre-upgrade"
    }
    assert set(hooked) == {"Secret", "Job"}
    assert hooked["Secret"] < hooked["Job"]


def test_the_owner_migrates_and_both_go_to_postgres_as_the_values_say(tmp_path: Path) -> None:
    values = {**LEAST, "migrations": {"existingSecret": "holdfast-owner"}}
    values["database"] = {"existingSecret": "holdfast-database", "trustNetwork": True}
    documents = render(values, tmp_path)
    assert find_problems(documents) == []
    for kind, name, secret in (
        ("Job", "holdfast-migrate", "holdfast-owner"),
        ("Deployment", "holdfast-server", "holdfast-database"),
    ):
        container = container_of(named(documents, kind, name))
        [url] = [each for each in container["env"] if each["name"] == "HOLDFAST_DATABASE_URL"]
        assert url["valueFrom"]["secretKeyRef"] == {"name": secret, "key": "url"}
        assert values_of(container)["HOLDFAST_TRUST_DATABASE_NETWORK"] == "true"


def test_no_pod_runs_as_root_or_may_write_to_its_image(tmp_path: Path) -> None:
    for document in render(EVERYTHING, tmp_path):
        if document["kind"] not in ("Deployment", "Job"):
            continue
        assert document["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"]
        security = container_of(document)["securityContext"]
        assert security["readOnlyRootFilesystem"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert not security["allowPrivilegeEscalation"]


BAD: list[tuple[str, dict[str, Any]]] = [
    ("database.existingSecret", {"database": {}}),
    ("tls.secretName", {"tls": {}}),
    ("server.replicas", {"server": {"replicas": 0}}),
    ("replica is not allowed", {"server": {"replica": 2}}),
    ("imports is required", {"workers": [{"name": "a", "queues": ["q"]}]}),
    ("workers.0.queues", {"workers": [{"name": "a", "queues": [], "imports": ["m"]}]}),
    ("workers.0.queues.0", {"workers": [{"name": "a", "queues": ["a b"], "imports": ["m"]}]}),
    ("workers.0.name", {"workers": [{"name": "A b", "queues": ["q"], "imports": ["m"]}]}),
    ("keda.prometheusAddress", {"workers": [MAIL]}),
    ("database.url", {"database": {"url": "mysql://x"}}),
]


@pytest.mark.parametrize(("field", "change"), BAD, ids=[field for field, _ in BAD])
def test_bad_values_are_refused_by_name(field: str, change: dict[str, Any], tmp_path: Path) -> None:
    values = copy.deepcopy(LEAST) | change
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    answer = helm("template", "x", ".", "--values", str(tmp_path / "values.yaml"))
    assert answer.returncode != 0
    assert field in answer.stderr
