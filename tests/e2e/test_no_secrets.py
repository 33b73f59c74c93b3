"""Secrets are planted, work ends in every way, and they are looked for wherever people can read."""

import json
import os
import re
import resource
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import psutil
import psycopg
import pytest

from holdfast.api.app import ROUTES
from tests.certificates import TestAuthority
from tests.e2e.cluster import end_all
from tests.e2e.system import ROOT, eventually
from tests.test_guides import free_port

PASSWORD = f"planted-{uuid4().hex}"
QUEUE = "leaky"
LEASE = 30.0
SECONDS_MAX = 1.0  # for what is streamed without an end
NO_CORE_FILES = "Max core file size        1 "
HOLDS = "until [ -e FOLDER/finish ]; do sleep 0.1; done"
# Where a lease token is at home: columns of the ledger that no answer and no event is made of.
AT_HOME = {"leases": "lease_token", "attempts": "lease_token"}


class Site:
    """A server with tokens and TLS, a worker of both kinds, and everything that they write."""

    def __init__(self, folder: Path, database_url: str, stack: ExitStack) -> None:
        self.folder = folder
        self.url = f"https://127.0.0.1:{(port := free_port())}"
        self.processes: list[psutil.Process] = []
        self._stack = stack
        authority = TestAuthority(folder / "ca")
        self._server = authority.issue("server", role="server")
        self._worker = authority.issue("worker", role="worker")
        self._context = ssl.create_default_context(cafile=str(authority.ca_file))
        own = {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}
        self._variables = {
            **own,
            "PYTHONPATH": str(ROOT),
            "HOLDFAST_CA_FILE": str(authority.ca_file),
            "HOLDFAST_SERVER": self.url,
            "HOLDFAST_WORKER_DIR": str(folder / "workers"),
            "HOLDFAST_HEARTBEAT_SECONDS": "0.5",
        }
        self._database = {
            "HOLDFAST_DATABASE_URL": database_url.replace("postgres@", f"postgres:{PASSWORD}@"),
        }
        assert PASSWORD in self._database["HOLDFAST_DATABASE_URL"]
        self.ledger = stack.enter_context(psycopg.connect(database_url, autocommit=True))
        self.admin = self._create_token("root", "admin")
        self.user = self._create_token("ada", "submit")
        self.hosts = self._create_token("hosts", "worker")
        flags = ("--tls-cert", str(self._server.cert), "--tls-key", str(self._server.key))
        objects = ("--object-store", str(folder / "objects"))
        serve = ("server", "--port", str(port), "--require-tokens", "--lease-min", "1", *objects)
        self.start("server", *serve, *flags, **self._database)
        eventually(lambda: self.ask("GET", "/readyz")[0] == 200)
        flags = ("--tls-cert", str(self._worker.cert), "--tls-key", str(self._worker.key))
        does = ("--allow-commands", "--import", "tests.e2e.leaky_tasks", "--drain-seconds", "0")
        work = ("worker", "--placed", "--queue", QUEUE, "--name", "leaky", "--cpu", "8", *does)
        self.start("worker", *work, *flags, HOLDFAST_TOKEN=self.hosts)

    def start(self, name: str, *arguments: str, **variables: str) -> None:
        """Start a process that logs to a file all that it can."""
        log = self._stack.enter_context((self.folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.verbose", *arguments],
            cwd=ROOT,
            env=self._variables | variables,
            stdout=log,
            stderr=log,
        )
        self._stack.callback(end_all, [process])
        self.processes.append(psutil.Process(process.pid))

    def submit(self, entrypoint: dict[str, Any], **spec: Any) -> int:
        """Submit a job of queue work, unless it says otherwise; returns its id."""
        job = {"entrypoint": entrypoint, "queue": QUEUE, "lease": LEASE, "owner": "ada", **spec}
        status, body = self.ask("POST", "/api/jobs", job, token=self.user)
        assert status == 201, body
        return int(json.loads(body)["job_id"])

    def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = None
    ) -> tuple[int, str]:
        """Call the server; returns the status and the body, as far as it comes within moments."""
        headers = {"Content-Type": "application/json"}
        headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
        content = None if body is None else json.dumps(body).encode()
        asked = Request(self.url + path, method=method, data=content, headers=headers)
        text = b""
        try:
            with urlopen(asked, timeout=SECONDS_MAX, context=self._context) as answer:
                ends_at = time.monotonic() + SECONDS_MAX
                while (piece := answer.read1()) and time.monotonic() < ends_at:
                    text += piece
                return answer.status, text.decode()
        except HTTPError as error:
            return error.code, error.read().decode()
        except OSError:  # a stream that has said what it had to
            return 0, text.decode()

    def fetch(self, query: str, *values: Any) -> list[Any]:
        """Read the tables as they are."""
        return self.ledger.execute(query, values).fetchall()

    def await_end(self, *job_ids: int) -> None:
        """Wait until jobs have ended."""
        query = "select 1 from holdfast.jobs where job_id = any(%s) and finished_at is null"
        eventually(lambda: not self.fetch(query, list(job_ids)))

    def secrets(self) -> dict[str, str]:
        """List what was planted, by name; of tokens, the part that is secret."""
        keys = [each.key.read_text().splitlines()[1] for each in (self._server, self._worker)]
        named = {"admin": self.admin, "user": self.user, "worker": self.hosts}
        return {
            **{f"token of {name}": token.rpartition("_")[2] for name, token in named.items()},
            "password": PASSWORD,
            "key of the server": keys[0],
            "key of the worker": keys[1],
        }

    def list_leases(self) -> dict[str, str]:
        """List the lease tokens of all attempts so far, in both forms that a uuid has."""
        leases, attempts = (f"select lease_token from holdfast.{table}" for table in AT_HOME)
        rows = self.fetch(f"{leases} union {attempts}")
        tokens = [token for (token,) in rows]
        return {f"lease {t}": str(t) for t in tokens} | {f"lease {t} in hex": t.hex for t in tokens}

    def read_tables(self) -> dict[str, str]:
        """Read every row of every table, but for the columns where lease tokens are at home."""
        listed = """
            select relname from pg_class
             where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'p')
               and not relispartition
        """
        texts = {}
        for (table,) in self.fetch(listed):
            column = AT_HOME.get(table, "")
            query = f"select to_jsonb(t) - '{column}' from holdfast.{table} t"
            texts[f"table {table}"] = "\n".join(str(row) for row in self.fetch(query))
        return texts

    def read_logs(self) -> dict[str, str]:
        """Read what the processes have logged."""
        return {path.name: path.read_text(errors="replace") for path in self.folder.glob("*.log")}

    def _create_token(self, name: str, role: str) -> str:
        """Make a token, as the first ones are made: on the database."""
        words = ["tokens", "create", "--name", name, "--role", role]
        made = subprocess.run(
            [sys.executable, "-m", "holdfast.cli.app", *words],
            env=self._variables | self._database,
            capture_output=True,
            text=True,
            check=True,
        )
        token = made.stdout.strip()
        assert token.startswith("hf_"), made
        assert PASSWORD not in made.stderr
        return token


@pytest.fixture
def site(tmp_path: Path, database_url: str) -> Iterator[Site]:
    """The whole system; core files are allowed to whoever does not forbid them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        with ExitStack() as stack:
            yield Site(tmp_path, database_url, stack)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def end_in_every_way(site: Site) -> list[int]:
    """Run work that succeeds, fails, crashes, is refused, cannot start, takes too long."""
    placed: dict[str, Any] = {"queue": None}
    once = {"max_retries_failure": 0, "max_retries_preemption": 1}
    tasks = "tests.e2e.leaky_tasks"
    jobs = [
        site.submit({"function": f"{tasks}:{name}"}, **each, **once)
        for name in ("succeed", "fail")
        for each in ({}, placed)
    ]
    jobs += [
        site.submit(entrypoint, **each, **once)
        for each in ({}, placed)
        for entrypoint in (
            {"shell": "exit 3"},
            {"shell": "kill -SEGV $$"},
            {"command": ["/no/such/program"]},
            {"function": "os:getcwd"},
        )
    ]
    jobs.append(site.submit({"shell": "sleep 600"}, timeout=0.5, **once))
    jobs.append(site.submit({"shell": "true"}, bundle="0" * 64, **placed, **once))
    site.await_end(*jobs)
    for name in ("kill", "segv"):
        marker = str(site.folder / name)
        jobs.append(
            site.submit({"function": f"{tasks}:crash", "args": [marker]}, max_retries_preemption=5)
        )
        site.await_end(jobs[-1])
    return jobs


def break_invariants(site: Site) -> None:
    """Have statements refused that write leases: Postgres shows the whole row in its error."""
    name = "nothing_is_a_lease"
    refuse = f"alter table holdfast.leases add constraint {name} check (false) not valid"
    site.ledger.execute(refuse)
    eventually(lambda: name in site.read_logs()["server.log"])
    site.ledger.execute(f"alter table holdfast.leases drop constraint {name}")


def read_answers(site: Site, job_id: int) -> dict[str, str]:
    """Call every GET route as admin, and every route without a token, wrongly and emptily."""
    task_id = f"{job_id}.0"
    [worker_id] = site.fetch("select worker_id from holdfast.workers limit 1")[0]
    known = {"job_id": str(job_id), "task_id": task_id, "worker_id": worker_id, "queue": QUEUE}
    answers = {}
    for route in ROUTES:
        path = re.sub(
            r"\{(\w+)(?::\w+)?\}", lambda found: known.get(found[1], "nothing"), route.path
        )
        name = f"{route.method} {route.path}"
        if route.method == "GET":
            answers[f"{name} as admin"] = site.ask("GET", path, token=site.admin)[1]
            continue
        answers[f"{name} by nobody"] = site.ask(route.method, path, {})[1]
        wrong = f"{site.hosts[:-1]}0"
        answers[f"{name} by a stranger"] = site.ask(route.method, path, {}, token=wrong)[1]
        unfit = {"unfit": True}
        answers[f"{name} unfit"] = site.ask(route.method, path, unfit, token=site.user)[1]
    return answers


def read_command_lines() -> dict[str, str]:
    """Read the command line of every process of this machine."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            found[f"command line of {process.pid}"] = " ".join(process.cmdline())
    return found


def list_leaks(secrets: dict[str, str], texts: dict[str, str]) -> set[tuple[str, str]]:
    """List which secret stands where."""
    return {
        (name, place)
        for place, text in texts.items()
        for name, secret in secrets.items()
        if secret in text
    }


@pytest.mark.nightly
def test_no_secret_is_found_where_people_read(site: Site) -> None:
    ended = end_in_every_way(site)
    script = HOLDS.replace("FOLDER", str(site.folder))
    live = [site.submit({"shell": script}), site.submit({"shell": script}, queue=None)]
    eventually(lambda: len(site.fetch("select 1 from holdfast.leases")) == len(live))
    break_invariants(site)
    secrets = site.secrets() | site.list_leases()
    assert len(secrets) > 2 * len(ended)
    # While they run, and of one that has ended.
    answers = read_answers(site, live[0]) | {
        f"{name}, ended": text for name, text in read_answers(site, ended[1]).items()
    }
    assert len(answers) > 2 * len(ROUTES)
    texts = {**answers, **site.read_tables(), **site.read_logs(), **read_command_lines()}
    assert "on purpose" in texts["worker.log"], "what is searched is there"
    assert '"level": "debug"' in texts["worker.log"], "and all of it is logged"
    assert list_leaks(secrets, texts) == set()
    check_core_files(site)
    (site.folder / "finish").touch()
    site.await_end(*live)


def check_core_files(site: Site) -> None:
    """See that no process of the system would leave its memory behind in a crash."""
    names = ("server", "worker", "shim.py", "watchdog.py")
    seen: set[str] = set()
    for top in site.processes:
        for process in (top, *top.children(recursive=True)):
            with suppress(psutil.NoSuchProcess, FileNotFoundError):
                words = process.cmdline()
                assert NO_CORE_FILES in Path(f"/proc/{process.pid}/limits").read_text(), words
                seen |= {name for name in names if any(word.endswith(name) for word in words)}
    assert seen >= {"server", "worker", "watchdog.py", "shim.py"}
