"""A real Prometheus that scrapes a server and knows our alert rules; and promtool beside it."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import yaml

from tests.debian import find_program
from tests.deploy.kube import CHART
from tests.deploy.live import LiveServer

ALERTS = CHART / "files" / "alerts.yaml"
PACKAGES = ("prometheus",)
SECONDS_MAX = 60


def promtool(*arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    """Run promtool."""
    return subprocess.run(
        [str(find_program("promtool", PACKAGES)), *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


class Prometheus:
    """A running one."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, path: str, **parameters: str) -> Any:
        """Call its API; None while it cannot answer."""
        address = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urlencode(parameters)}"
        try:
            with urlopen(address, timeout=SECONDS_MAX) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None


@contextmanager
def watching(server: LiveServer, folder: Path) -> Iterator[Prometheus]:
    """Have a Prometheus scrape a server every second for the time of a block."""
    target = {
        "job_name": "holdfast",
        "scheme": "https",
        "tls_config": {"ca_file": str(server.ca_file)},
        "authorization": {"credentials_file": str(server.token_file)},
        "static_configs": [{"targets": [urlsplit(server.url).netloc]}],
    }
    often = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings = {"global": often, "rule_files": [str(ALERTS)], "scrape_configs": [target]}
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(settings))
    checked = promtool("check", "config", str(file))
    assert checked.returncode == 0, checked.stderr
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    process = subprocess.Popen(
        [
            str(find_program("prometheus", PACKAGES)),
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(SECONDS_MAX)
