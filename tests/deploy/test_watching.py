"""Alerts and dashboard on a real Prometheus that scrapes a real server; alerts on made series."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from cyclopts import MissingArgumentError

from tests.deploy.commands import read_command
from tests.deploy.kube import CHART, render
from tests.deploy.live import ROOT, LiveServer
from tests.deploy.prometheus import ALERTS, promtool, watching
from tests.waiting import eventually

RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text())
CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).with_name("alert_cases.yaml")).read_text()
)


def queries_of_the_dashboard() -> list[str]:
    """List what its panels ask for, with its variables filled in as Grafana does."""
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [q.replace("$queue", ".*").replace("$__rate_interval", "1m") for q in asked]


def scaler_queries(folder: Path) -> list[str]:
    """List what the autoscaler of a pool asks for."""
    pool = {"name": "live", "queues": ["live"], "allowCommands": True}
    documents = render(
        {
            "database": {"existingSecret": "a"},
            "tls": {"secretName": "a"},
            "keda": {"prometheusAddress": "http://127.0.0.1"},
            "workers": [{**pool, "autoscaling": {"enabled": True}}],
        },
        folder,
    )
    [scaled] = [each for each in documents if each["kind"] == "ScaledObject"]
    return [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]


async def test_prometheus_reads_our_server_and_evaluates_every_rule(
    live: LiveServer, tmp_path: Path
) -> None:
    with watching(live, tmp_path) as prometheus:

        def is_scraped() -> bool:
            found = prometheus.ask("query", query="holdfast_queue_depth")
            return bool(found and found["result"])

        await eventually(is_scraped)

        def evaluated() -> list[dict[str, Any]]:
            groups = (prometheus.ask("rules") or {"groups": []})["groups"]
            rules: list[dict[str, Any]] = groups[0]["rules"] if groups else []
            return rules if all(rule["health"] != "unknown" for rule in rules) else []

        rules = await eventually(evaluated)
        assert {rule["name"]: rule["health"] for rule in rules} == {
            rule["alert"]: "ok" for rule in RULES
        }
        for query in [*queries_of_the_dashboard(), *scaler_queries(tmp_path)]:
            assert prometheus.ask("query", query=query) is not None, query
        [wanted] = prometheus.ask("query", query=scaler_queries(tmp_path)[0])["result"]
        assert wanted["value"][1] == "0", "nothing waits or runs in the queue of the worker"
        [waiting] = prometheus.ask("query", query='holdfast_queue_demand{queue="closed"}')["result"]
        assert waiting["value"][1] == "1"


def test_promtool_finds_nothing_wrong_with_rules_and_metrics(live: LiveServer) -> None:
    checked = promtool("check", "rules", str(ALERTS))
    assert checked.returncode == 0, checked.stderr
    assert f"{len(RULES)} rules found" in checked.stdout
    linted = promtool("check", "metrics", text=live.scrape())
    assert linted.returncode == 0, linted.stderr + linted.stdout


def test_every_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    assert sorted(case["alert"] for case in CASES) == sorted(rule["alert"] for rule in RULES)
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(make_cases()))
    tested = promtool("test", "rules", str(tmp_path / "cases.yaml"))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def make_cases() -> dict[str, Any]:
    """Write the cases in the form of promtool; what an alert says is looked at elsewhere."""
    texts = {rule["alert"]: rule["annotations"] for rule in RULES}
    labels = {rule["alert"]: rule["labels"] for rule in RULES}
    tests = []
    for case in CASES:
        name = case["alert"]
        told = {**texts[name], "summary": case["summary"]}
        fires = {"exp_labels": {**labels[name], **case.get("labels", {})}, "exp_annotations": told}
        tests.append(
            {
                "interval": "1m",
                "input_series": [
                    {"series": series, "values": values}
                    for series, values in case["series"].items()
                ],
                "alert_rule_test": [
                    {"alertname": name, "eval_time": case["quiet"], "exp_alerts": []},
                    {"alertname": name, "eval_time": case["fires"], "exp_alerts": [fires]},
                ],
            }
        )
    return {"rule_files": [str(ALERTS)], "tests": tests}


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_leads_to_its_symptom(rule: dict[str, Any]) -> None:
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    text = (ROOT / page).read_text(encoding="utf-8")
    assert anchor in map(slug, re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    section = text.split("\n## By symptom\n")[1].split("\n## ")[0]
    told = next(part for part in section.split("\n### ") if slug(part.splitlines()[0]) == anchor)
    assert f"`{rule['alert']}`" in told


def test_the_commands_of_the_symptoms_are_the_programs() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    section = page.split("\n## By symptom\n")[1].split("\n## ")[0]
    told = [" ".join(each.split()) for each in re.findall(r"`holdfast ([^`]+)`", section)]
    assert len(told) > 15
    for command in told:
        filled = re.sub(r"\b(TASK|ID)\b", "1.0", command).replace("NAME", "mail")
        with suppress(MissingArgumentError):  # named in short, without all it wants
            read_command(filled.split(), {})


def slug(heading: str) -> str:
    """Make the anchor of a heading, as GitHub does."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_the_chart_brings_the_rules_and_the_dashboard_along(tmp_path: Path) -> None:
    documents = render(
        {
            "database": {"existingSecret": "a"},
            "tls": {"secretName": "a"},
            "prometheusRule": {"enabled": True},
            "grafanaDashboard": {"enabled": True},
        },
        tmp_path,
    )
    by_kind = {each["kind"]: each for each in documents}
    assert by_kind["PrometheusRule"]["spec"]["groups"][0]["rules"] == RULES
    assert json.loads(by_kind["ConfigMap"]["data"]["holdfast.json"]) == DASHBOARD


def test_panels_have_numbers_and_places_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    assert all(panel["targets"] and panel["title"] for panel in panels)
