"""Pictures of every page, light and dark, from the demo's own data: docs/images/.

Run it with `./run screenshots`, and look at them.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
PROGRAM = Path(sys.executable).with_name("holdfast")
THE_DASHBOARD_IS_AT = "The dashboard is at "
LIFE_SECONDS = 240.0
SETTLE_MS = 1500
# What waits needs attention after a minute.
TROUBLE_SECONDS = 75.0
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}


@contextmanager
def demo() -> Iterator[str]:
    """Run a demo that stays, for the time of a block; yields its address."""
    command = [str(PROGRAM), "demo", "--stay"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith(THE_DASHBOARD_IS_AT))
        yield line.removeprefix(THE_DASHBOARD_IS_AT).partition(";")[0]
    finally:
        process.terminate()
        process.wait(60)


def read(address: str, path: str) -> Any:
    """Read something from the API."""
    with urllib.request.urlopen(address + path, timeout=30) as answer:
        return json.load(answer)


def post(address: str, path: str, body: Any) -> None:
    """Change something over the API."""
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(address + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30):
        pass


def make_trouble(address: str) -> None:
    """Submit what will be waiting for somebody on call."""
    work = {"entrypoint": {"command": ["true"]}}
    post(address, "/api/jobs", {**work, "name": "monthly", "queue": "reports", "replicas": 340})
    post(address, "/api/jobs", {**work, "name": "pretrain", "resources": {"gpu": 64}})
    post(address, "/api/jobs", {**work, "name": "letters", "queue": "mail", "replicas": 55})
    post(address, "/api/queues/mail:pause", {})


def newest(address: str, query: str) -> str:
    """Find the newest job of a kind; returns its id."""
    return str(read(address, f"/api/jobs?page_size=1&{query}")["jobs"][0]["job_id"])


def pages(address: str) -> dict[str, str]:
    """Name the pages, and where there is something to see on each."""
    training = newest(address, "type=train_ranker&state=RUNNING")
    waiting = newest(address, "name=pretrain-encoder")
    flaky = newest(address, "type=flaky_call")
    graph = newest(address, "type=train_ranker")
    return {
        "overview": "/?window=10m",
        "jobs": "/jobs",
        "job": f"/jobs/{newest(address, 'type=train')}",
        "job-pending": f"/jobs/{waiting}",
        "job-timeline": f"/jobs/{newest(address, 'name=gang')}?tab=timeline",
        "job-dependencies": f"/jobs/{graph}?tab=dependencies",
        "task": f"/tasks/{flaky}.0",
        "task-logs": f"/tasks/{training}.0?tab=logs",
        "workers": "/workers",
        "queues": "/queues",
        "dead-letters": "/dead-letters",
        "functions": "/functions",
        "actions": "/actions",
        "datasets": "/datasets",
        "dataset": "/datasets/orders",
    }


def take(browser: Browser, address: str, path: str, target: Path, *, phone: bool = False) -> None:
    """Take a picture of a page, once in each theme."""
    for theme in ("light", "dark"):
        context = browser.new_context(
            viewport=PHONE if phone else WIDE,  # type: ignore[arg-type]
            color_scheme=theme,
            reduced_motion="reduce",
            timezone_id="UTC",
            locale="en-US",
        )
        page = context.new_page()
        page.goto(address + path)
        page.get_by_text("live", exact=True).wait_for()
        page.wait_for_timeout(SETTLE_MS)
        page.screenshot(path=target.with_name(f"{target.name}-{theme}.png"))
        context.close()


def main() -> None:
    """Let the demo live for a while, then take all pictures."""
    seconds = float(os.environ.get("HOLDFAST_SCREENSHOT_SECONDS", LIFE_SECONDS))
    IMAGES.mkdir(exist_ok=True)
    chromium = os.environ.get("HOLDFAST_CHROMIUM") or None
    with demo() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        time.sleep(seconds)
        for name, path in pages(address).items():
            take(browser, address, path, IMAGES / name)
        take(browser, address, "/jobs", IMAGES / "jobs-phone", phone=True)
        make_trouble(address)
        time.sleep(TROUBLE_SECONDS)
        take(browser, address, "/?window=10m", IMAGES / "overview-on-call")
        browser.close()


if __name__ == "__main__":
    main()
