"""Run a page of the docs as its reader would: files, commands and snippets, top to bottom.

A python block that begins with `# name.py` is that file; any other continues one Python session. In
a console block every line after `$` is run by a shell: one that ends in `&` goes on beside, until
the page ends. A text block is what the commands right before it print.
"""

import json
import os
import re
import shlex
import signal
import string
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PORT = "7878"
COMMAND_SECONDS_MAX = 120
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")
_SESSION = """
import json, sys, traceback
space = {"__name__": "page"}
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "page", "exec"), space)
        answer = None
    except BaseException:
        answer = traceback.format_exc()
    sys.stdout.write("\\n" + json.dumps({"error": answer}) + "\\n")
    sys.stdout.flush()
"""


class Reader:
    """One who follows a page in a folder of their own."""

    def __init__(self, folder: Path, port: int, variables: dict[str, str]) -> None:
        self._folder = folder
        self._port = str(port)
        self._variables = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOLDFAST_SERVER": f"http://127.0.0.1:{port}",
            "HOLDFAST_PORT": self._port,
            "HOLDFAST_DATA_DIR": str(folder / "own"),
            "HOLDFAST_WORKER_DIR": str(folder / "workers"),
            "PYTHONPATH": str(folder),
            **variables,
        }
        self._stack = ExitStack()
        self._session: subprocess.Popen[str] | None = None
        self._printed = ""

    def follow(self, page: str) -> None:
        """Do what the page shows, and see what it says one sees."""
        for language, text in _BLOCK.findall(page.replace(PORT, self._port)):
            match language:
                case "python" if named := _FILE.match(text):
                    (self._folder / named[1]).write_text(text)
                case "python":
                    self._run_python(text)
                case "console":
                    self._run_commands(text)
                case "text":
                    assert text in self._printed, f"{text!r} is not in {self._printed!r}"
                case _:
                    raise AssertionError(f"nobody runs blocks of {language}")

    def start(self, command: str) -> "subprocess.Popen[str]":
        """Start a command that goes on beside; it is asked to end when the page is left."""
        words = shlex.split(string.Template(command).safe_substitute(self._variables))
        process = subprocess.Popen(words, cwd=self._folder, env=self._variables, text=True)
        self._stack.callback(_end, process)
        return process

    def close(self) -> None:
        """Leave the page: what was started last ends first."""
        self._stack.close()

    def _run_commands(self, text: str) -> None:
        self._printed = ""
        for line in text.splitlines():
            assert line.startswith("$ "), f"{line!r} is no command"
            self._run_command(line.removeprefix("$ "))

    def _run_command(self, command: str) -> None:
        if command.startswith("pip install"):
            extras = re.findall(r"holdfast\[(\w+)\]", command)
            project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
            assert extras, command
            assert set(extras) <= set(project["optional-dependencies"])
        elif command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._variables.setdefault(name, value)
        elif command.endswith("&"):
            self.start(command.removesuffix("&").strip())
        else:
            ended = subprocess.run(
                command,
                shell=True,
                cwd=self._folder,
                env=self._variables,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS_MAX,
                check=False,
            )
            assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
            self._printed += ended.stdout

    def _run_python(self, text: str) -> None:
        if self._session is None:
            self._session = subprocess.Popen(
                [sys.executable, "-u", "-c", _SESSION],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=self._folder,
                env=self._variables,
                text=True,
            )
            self._stack.callback(_hang_up, self._session)
        assert self._session.stdin is not None
        assert self._session.stdout is not None
        self._session.stdin.write(json.dumps(text) + "\n")
        self._session.stdin.flush()
        for line in self._session.stdout:
            if line.startswith('{"error":'):
                assert json.loads(line)["error"] is None, json.loads(line)["error"]
                return
        raise AssertionError("the session ended")


@contextmanager
def reading(folder: Path, port: int, **variables: str) -> Iterator[Reader]:
    """Follow a page in a folder; nothing that it started is left behind."""
    reader = Reader(folder, port, variables)
    try:
        yield reader
    finally:
        reader.close()


def _end(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, f"{process.args!r} ended with {process.returncode}"


def _hang_up(process: "subprocess.Popen[str]") -> None:
    process.communicate(timeout=60)
