"""A server as the docs deploy it, with TLS and tokens, and what Prometheus would read from it."""

import os
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import holdfast as hf
from tests.certificates import TestAuthority
from tests.cli.program import PROGRAM
from tests.deploy.live_tasks import ask

ROOT = Path(__file__).resolve().parents[2]
SERVING = "holdfast: serving at "
QUEUE, CLOSED_QUEUE = "live", "closed"
STOP_SECONDS_MAX = 60


@dataclass(frozen=True)
class LiveServer:
    """Where it serves, the CA that its certificate is of, and a file with a token of an admin."""

    url: str
    ca_file: Path
    token_file: Path

    def scrape(self) -> str:
        """Read its metrics."""
        token = self.token_file.read_text().strip()
        request = Request(f"{self.url}/metrics", headers={"Authorization": f"Bearer {token}"})
        context = ssl.create_default_context(cafile=str(self.ca_file))
        with urlopen(request, context=context, timeout=30) as answer:
            text: str = answer.read().decode()
        return text


@contextmanager
def live_server(database_url: str, folder: Path) -> Iterator[LiveServer]:
    """Run a server and a worker on a migrated database, and let a task succeed and one fail."""
    authority = TestAuthority(folder / "ca")
    identity = authority.issue("server")
    token_file = folder / "token"
    token_file.write_text(_make_token(database_url))
    own = {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}
    variables = own | {
        "HOLDFAST_DATABASE_URL": database_url,
        "HOLDFAST_READ_DATABASE_URL": database_url,
        "HOLDFAST_REQUIRE_TOKENS": "true",
        "HOLDFAST_TLS_CERT": str(identity.cert),
        "HOLDFAST_TLS_KEY": str(identity.key),
        "HOLDFAST_OBJECT_STORE": str(folder / "objects"),
    }
    with ExitStack() as stack:
        server = _start(stack, variables, "server", "--port", "0")
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith(SERVING), line
        found = LiveServer(line.removeprefix(SERVING).strip(), authority.ca_file, token_file)
        theirs = own | {
            "HOLDFAST_CA_FILE": str(found.ca_file),
            "HOLDFAST_TOKEN_FILE": str(token_file),
            "HOLDFAST_WORKER_DIR": str(folder / "workers"),
        }
        asked = ("--server", found.url, "--queue", QUEUE, "--import", "tests.deploy.live_tasks")
        _start(stack, theirs, "worker", *asked, "--allow-commands")
        _let_work_happen(found)
        yield found


def _let_work_happen(server: LiveServer) -> None:
    """Leave something of everything that has labels: moves, times by type, queues, limits."""
    with hf.Client(
        server.url, token=server.token_file.read_text(), ca_file=str(server.ca_file)
    ) as client:
        for code in (0, 1):
            client.run_command(["sh", "-c", f"exit {code}"], queue=QUEUE).wait(60)
        client.run_command(["true"], queue=CLOSED_QUEUE)
        client.jobs.list()
        client.limits.put("calls", "name", rate="100/s")
        client.limits.put("few", "queue", slots=10)
        client.submit(ask).result(timeout=60)


def _make_token(database_url: str) -> str:
    create = ("tokens", "create", "--name", "live", "--role", "admin")
    return subprocess.run(
        [PROGRAM, *create, "--database-url", database_url],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def _start(stack: ExitStack, variables: dict[str, str], *command: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [PROGRAM, *command], env=variables, cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    stack.callback(_stop, process)
    return process


def _stop(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=STOP_SECONDS_MAX)
