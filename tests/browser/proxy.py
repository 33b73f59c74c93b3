"""A reverse proxy as people have them: it serves a sub-path, and strips it."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

PREFIX = "/ops/holdfast"
PIECE_BYTES = 65_536


@contextmanager
def proxy_to(url: str) -> Iterator[str]:
    """Pass requests below PREFIX on to a server, for the time of a block; yields the address."""
    upstream = urlsplit(url).netloc

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            """Pass one request on."""
            try:
                self._pass_on()
            except (ConnectionError, TimeoutError, http.client.HTTPException):
                self.close_connection = True  # the tab was closed, or the server went away

        do_GET = do_POST = answer

        def _pass_on(self) -> None:
            if not self.path.startswith(PREFIX + "/"):
                self.send_error(404)
                return
            length = int(self.headers.get("content-length") or 0)
            connection = http.client.HTTPConnection(upstream, timeout=60)
            headers = {**self.headers, "Host": upstream, "Connection": "close"}
            path = self.path.removeprefix(PREFIX)
            connection.request(self.command, path, self.rfile.read(length), headers)
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while piece := answer.read1(PIECE_BYTES):
                self.wfile.write(piece)
            connection.close()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{PREFIX}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
