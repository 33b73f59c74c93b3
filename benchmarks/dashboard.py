"""The dashboard on a large ledger: what its queries take, and how soon a person sees data.

A million jobs and one of 100,000 tasks, on an embedded Postgres with fsync on; the server is a
process of its own, the browser a real Chromium with nothing in its cache. docs/benchmarks.md says
what is counted.
"""

import argparse
import asyncio
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.dashboard_fill import fill, work_off
from benchmarks.peers.environment import ROOT
from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Database
from holdfast.store.migrate import migrate

PROGRAM = Path(sys.executable).with_name("holdfast")
BUILT = ROOT / "holdfast" / "dashboard"
FIRST_ROW_MS_MUST, QUERY_MS_MUST, BUNDLE_KB_MUST = 1000.0, 50.0, 250.0
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
JUMPS = 15
JUMP = "(box, share) => { box.scrollTop = box.scrollHeight * share }"
ROWS_ARE_READ = """
(box) => {
  const { top, bottom } = box.getBoundingClientRect();
  const rows = [...box.querySelectorAll("tbody[data-index]")].filter((row) => {
    const place = row.getBoundingClientRect();
    return place.bottom > top + 50 && place.top < bottom;
  });
  return rows.length > 3 && rows.every((row) => row.querySelector("a") !== null);
}
"""
FRAMES = """
(box) => new Promise((done) => {
  const frames = []; let last = performance.now(); const began = last;
  const step = (now) => {
    frames.push(now - last); last = now; box.scrollTop += 120;
    if (now - began < 3000) requestAnimationFrame(step); else done(frames.slice(1));
  };
  requestAnimationFrame(step);
})
"""


async def prepare(url: str, jobs: int, tasks: int) -> int:
    """Fill the ledger; returns the id of the job with many tasks."""
    await migrate(url)
    async with Database(url) as database:
        ledger = Ledger(database)
        await fill(ledger, url, jobs)
        return await work_off(ledger, tasks, share=0.6)


@contextmanager
def server(url: str) -> Iterator[str]:
    """Serve for the time of a block; yields the address."""
    command = [str(PROGRAM), "server", "--database-url", url, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield next(
            line.rpartition(" ")[2].strip() for line in process.stdout if "serving at" in line
        )
    finally:
        process.terminate()
        process.wait()


def queries(jobs: int, many: int, tasks: int) -> dict[str, str]:
    """Name every read that a page makes, as it makes it."""
    half = int((time.time() - jobs / 4) * 1000)
    return {
        "overview": "/api/overview",
        "jobs": "/api/jobs",
        "jobs failed": "/api/jobs?state=FAILED",
        "jobs running": "/api/jobs?state=RUNNING",
        "jobs succeeded": "/api/jobs?state=SUCCEEDED",
        "jobs dead-lettered of a type": "/api/jobs?state=DEAD_LETTERED&type=type-2",
        "jobs of a type": "/api/jobs?type=type-7",
        "jobs of an owner": "/api/jobs?owner=team-3",
        "jobs of a queue": "/api/jobs?queue=q7",
        "jobs with a label": "/api/jobs?label=run%3Dr10",
        "jobs by prefix": "/api/jobs?name=job-49",
        "jobs until half way": f"/api/jobs?submitted_until_ms={half}",
        "child jobs": f"/api/jobs?parent={many}",
        "job": f"/api/jobs/{many}",
        "tasks, first page": f"/api/jobs/{many}/tasks?page_size=100",
        "tasks, last page": f"/api/jobs/{many}/tasks?page_size=100&task_from={tasks - 100}",
        "tasks running": f"/api/jobs/{many}/tasks?state=RUNNING",
        "attempts": f"/api/jobs/{many}/attempts?page_size=200",
        "events of a job": f"/api/jobs/{many}/events?page_size=200",
        "logs of a job": f"/api/jobs/{many}/logs",
        "graph": f"/api/jobs/{many}/graph",
        "task": f"/api/tasks/{many}.5",
        "events of a task": f"/api/tasks/{many}.5/events",
        "explain": f"/api/tasks/{many}.{tasks - 1}/explain",
        "workers": "/api/workers",
        "queues": "/api/queues",
        "dead letters": "/api/dead-letters",
        "dead letters in sum": "/api/dead-letters:summary",
        "datasets": "/api/datasets",
    }


def timed(action: Callable[[], object]) -> float:
    """Say how many milliseconds something takes."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def measure_queries(
    address: str, paths: dict[str, str], rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Measure each read through HTTP: the median of some rounds, and the first one of all.

    The server keeps the overview and the sum of dead letters for a moment; the first does not gain.
    """

    def read(path: str) -> None:
        with urllib.request.urlopen(address + path, timeout=60) as answer:
            answer.read()

    found, first = {}, {}
    for name, path in paths.items():
        first[name] = round(timed(partial(read, path)), 1)
        times = [timed(partial(read, path)) for _ in range(rounds)]
        found[name] = round(statistics.median(times), 1)
    return found, first


def first_row(browser: Browser, address: str, path: str, rounds: int) -> float:
    """Measure from the address to the first row, in a browser that knows nothing yet."""
    times = []
    for _ in range(rounds):
        with browser.new_context() as context:
            page = context.new_page()

            def visit(page: Page = page) -> None:
                page.goto(address + path, wait_until="commit")
                page.locator("main [data-first], main table tbody td, main .badge").first.wait_for()

            times.append(timed(visit))
    return round(statistics.median(times))


def measure_scrolling(browser: Browser, address: str, many: int) -> dict[str, float]:
    """Measure jumps within the table of tasks, and the frames while it is scrolled on."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.goto(f"{address}/jobs/{many}")
        box = page.get_by_role("region", name="Tasks")
        box.wait_for()
        rows = page.get_by_role("table", name="Tasks").locator("tbody[data-index] a")
        rows.first.wait_for()
        chance = random.Random(7)
        jumps = []
        region = box.element_handle()
        for _ in range(JUMPS):
            share = chance.random()

            def go(share: float = share) -> None:
                box.evaluate(JUMP, share)
                page.wait_for_function(ROWS_ARE_READ, arg=region)

            jumps.append(timed(go))
        frames = sorted(box.evaluate(FRAMES))
    return {
        "jump_p50_ms": round(statistics.median(jumps)),
        "jump_max_ms": round(max(jumps)),
        "frame_p50_ms": round(statistics.median(frames), 1),
        "frame_p95_ms": round(frames[int(len(frames) * 0.95)], 1),
    }


def bundle_kilobytes() -> float:
    """Say how much a browser loads, compressed."""
    files = [path for path in BUILT.rglob("*") if path.suffix in (".js", ".css")]
    return round(sum(len(gzip.compress(path.read_bytes())) for path in files) / 1000, 1)


def measure(jobs: int, tasks: int, rounds: int) -> dict[str, Any]:
    """Fill a ledger and measure everything on it."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder)) as postgres:
        postgres.create_database("bench")
        url = postgres.url("bench")
        filling = time.perf_counter()
        many = asyncio.run(prepare(url, jobs, tasks))
        figures: dict[str, Any] = {"fill_seconds": round(time.perf_counter() - filling)}
        with server(url) as address, sync_playwright() as playwright:
            paths = queries(jobs, many, tasks)
            figures["query_ms"], figures["query_first_ms"] = measure_queries(address, paths, rounds)
            chromium = os.environ.get("HOLDFAST_CHROMIUM") or None
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            pages = {
                "overview": "/",
                "jobs": "/jobs",
                "jobs failed": "/jobs?state=FAILED",
                "job of many tasks": f"/jobs/{many}",
                "task": f"/tasks/{many}.5",
                "queues": "/queues",
                "dead letters": "/dead-letters",
            }
            figures["first_data_ms"] = {
                name: first_row(browser, address, path, max(rounds // 3, 1))
                for name, path in pages.items()
            }
            figures["scrolling"] = measure_scrolling(browser, address, many)
            browser.close()
    figures["bundle_gzip_kb"] = bundle_kilobytes()
    return {
        "jobs": jobs,
        "tasks": tasks,
        "query_ms_max": max(figures["query_ms"].values()),
        "query_ms_must": QUERY_MS_MUST,
        "query_first_ms_max": max(figures["query_first_ms"].values()),
        "first_data_ms_max": max(figures["first_data_ms"].values()),
        "first_data_ms_must": FIRST_ROW_MS_MUST,
        "bundle_gzip_kb_must": BUNDLE_KB_MUST,
        **figures,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    asked = parser.parse_args()
    figures = measure(asked.jobs, asked.tasks, asked.rounds)
    if asked.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        if isinstance(figure, dict):
            print(f"{name}:")
            for part, value in figure.items():
                print(f"  {part:32} {value:>8}")
        else:
            print(f"{name:34} {figure:>8}")


if __name__ == "__main__":
    main()
