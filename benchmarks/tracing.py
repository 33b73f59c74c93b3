"""Drain no-op tasks with tracing off and on, in interleaved rounds, and compare what each costs.

Server and worker trace every task, to a sink in a process of its own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.peers.rounds import Drained
from benchmarks.queue import Contender
from holdfast.embedded import EmbeddedPostgres

SINK = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def sink() -> Iterator[str]:
    """Take spans and forget them, for the time of a block."""
    process = subprocess.Popen([sys.executable, "-c", SINK], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def variables(**changed: str) -> Iterator[None]:
    """Have other variables for the processes that are started within a block."""
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Measure each way in turn, round by round."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = EmbeddedPostgres(folder / "postgres")
        stack.callback(postgres.stop)
        postgres.start()
        ways = {"off": {}, "on": {"OTEL_EXPORTER_OTLP_ENDPOINT": stack.enter_context(sink())}}
        contenders: dict[str, Contender] = {}
        for name, changed in ways.items():
            postgres.create_database(name)
            with variables(**changed):
                url = postgres.url(name)
                contender = Contender(postgres.pid, url, options.concurrency, folder / name)
            stack.callback(contender.stop)
            contenders[name] = contender
            contender.drain(options.tasks // 4)
        drained: dict[str, list[Drained]] = {name: [] for name in contenders}
        for _ in range(options.rounds):
            for name, contender in contenders.items():
                drained[name].append(contender.drain(options.tasks))
    found: dict[str, float] = {}
    for name, rounds in drained.items():
        found[f"{name}_per_s"] = statistics.median(d.per_s for d in rounds)
        found[f"{name}_cpu_us_per_task"] = statistics.median(d.cpu_us_per_task for d in rounds)
    for name in drained.keys() - {"off"}:
        for what in ("per_s", "cpu_us_per_task"):
            found[f"{name}_to_off_{what}"] = found[f"{name}_{what}"] / found[f"off_{what}"]
    return found


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=500)
    options = parser.parse_args()
    found = {name: round(value, 3) for name, value in measure(options).items()}
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:26} {value:12,.2f}")


if __name__ == "__main__":
    main()
