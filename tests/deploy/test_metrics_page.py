"""The page of all metrics says what a server answers; alerts and dashboard use nothing else."""

import json
import re

import yaml

from tests.deploy.kube import CHART
from tests.deploy.live import ROOT, LiveServer
from tests.deploy.metrics_page import PAGE, read_families, write_page

# What Prometheus makes of a metric, beside the metric itself.
_PARTS = re.compile(r"_(?:bucket|count|sum)$")
_METRIC = re.compile(r"\bholdfast_[a-z_]+\b")


def metrics_in(text: str) -> set[str]:
    """List the metrics that a query names."""
    return {_PARTS.sub("", name) for name in _METRIC.findall(text)}


def listed() -> set[str]:
    """List the metrics of the page."""
    return set(re.findall(r"^\| `(\w+)`", PAGE.read_text(), re.MULTILINE))


def test_the_page_is_that_of_a_server(live: LiveServer) -> None:
    families = read_families(live.scrape())
    unlabelled = [each.name for each in families if not each.samples]
    assert unlabelled == [], "the labels of a metric are told by its samples alone"
    told = write_page(families)
    assert PAGE.read_text(encoding="utf-8") == told, "write it anew: ./run metrics"


def test_alerts_and_dashboard_name_metrics_that_there_are() -> None:
    rules = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"][0]["rules"]
    panels = json.loads((CHART / "files" / "dashboard.json").read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    for query in [rule["expr"] for rule in rules] + shown:
        assert metrics_in(query), query
        assert metrics_in(query) <= listed(), query


def test_the_autoscaler_asks_for_a_metric_that_there_is() -> None:
    text = (CHART / "templates" / "workers.yaml").read_text()
    assert "holdfast_queue_demand" in text
    assert metrics_in("sum(holdfast_queue_demand)") <= listed()


def test_pages_name_metrics_that_there_are() -> None:
    for name in ("operating", "deploy", "backup"):
        text = (ROOT / "docs" / f"{name}.md").read_text()
        told = {_PARTS.sub("", span) for span in re.findall(r"`(holdfast_[a-z_]+)[`{]", text)}
        assert told <= listed(), name


def test_every_metric_has_words() -> None:
    for line in PAGE.read_text().splitlines():
        if line.startswith("| `"):
            assert len(line.split("|")[4].split()) >= 2, line
