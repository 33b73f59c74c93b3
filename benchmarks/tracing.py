"""Drain no-op tasks with tracing off and on, in interleaved rounds, and compare what each costs.

Server and worker trace every task, to a sink in a process of its own.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.ways import report, run_plainly

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


if __name__ == "__main__":
    with sink() as endpoint:
        traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        report({"off": run_plainly, "on": lambda _url, _folder: traced}, __doc__)
