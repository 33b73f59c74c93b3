"""The page of all metrics, made from the scrape of a real server; run as a module, it writes it."""

import asyncio
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from holdfast.embedded import EmbeddedPostgres
from holdfast.store.migrate import migrate
from tests.deploy.live import ROOT, live_server

PAGE = ROOT / "docs" / "metrics.md"
# Labels that the format itself adds.
BUCKET = "le"
_HEAD = """\
# Metrics

Written by `./run metrics` from what a server answers on `/metrics`; a test compares. A server
counts what it did itself: add the counters and histograms of all servers up. Gauges of queues,
workers, leases and dead letters are read from the database, so all servers show the same: take the
maximum. Reading asks for a token with the role `read`, wherever tokens are asked for. Alerts and a
dashboard on these: [deploy.md](deploy.md#watching-it).

| metric | type | labels | says |
|---|---|---|---|
"""


def read_families(scrape: str) -> list[Metric]:
    """Read the metrics of a scrape, by name."""
    found = list(text_string_to_metric_families(scrape))
    # The library says of each counter when it was created; that is no metric of ours.
    return sorted(
        (each for each in found if not each.name.endswith("_created")), key=lambda each: each.name
    )


def write_page(families: Iterable[Metric]) -> str:
    """Write the whole page."""
    return _HEAD + "".join(map(_line, families))


def name_of(family: Metric) -> str:
    """Name a metric as it is scraped."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def _line(family: Metric) -> str:
    labels = sorted({name for sample in family.samples for name in sample.labels} - {BUCKET})
    listed = ", ".join(f"`{label}`" for label in labels) or "none"
    return (
        f"| `{name_of(family)}` | {family.type} | {listed or 'none'} | {family.documentation} |\n"
    )


def main() -> int:
    """Write the page from a server of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres(Path(folder, "postgres")) as postgres,
    ):
        asyncio.run(migrate(postgres.url("postgres")))
        with live_server(postgres.url("postgres"), Path(folder)) as server:
            page = write_page(read_families(server.scrape()))
    PAGE.write_text(page, encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name}: {page.count(chr(10))} lines\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
