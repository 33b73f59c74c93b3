"""`holdfast top`: servers, queues, workers and running jobs, live in the terminal."""

import logging
import os
import re
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from holdfast.cli.connect import knock, open_client
from holdfast.cli.output.text import span
from holdfast.cli.output.top_look import SORTS, Look, list_sections, summarise, take_look
from holdfast.cli.output.write import (
    is_terminal,
    open_console,
    write_json,
    write_line,
    write_table,
    write_title,
)
from holdfast.cli.settings import Json, Server
from holdfast.errors import HoldfastError, Invalid, Unavailable
from holdfast.model.addresses import without_login

if TYPE_CHECKING:
    from holdfast.client.client import Client

INTERVAL_SECONDS = 2.0
INTERVAL_SECONDS_MIN, INTERVAL_SECONDS_MAX = 0.5, 3600.0
# How long a look insists on a server that is away, before the screen says so.
PATIENCE_SECONDS = 1.0
KEY_SECONDS = 0.25
LEAVE_SECONDS_MAX = 2.0
ESCAPE, BACKSPACES, ENDS_OF_LINE = "\x1b", ("\x7f", "\x08"), ("\r", "\n")
FILTER_LENGTH_MAX = 60
# What a terminal sends for keys that have no character.
ARROWS = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]")


def show_top(
    *,
    interval: Annotated[float, Parameter(help="Seconds between looks.")] = INTERVAL_SECONDS,
    once: Annotated[bool, Parameter(negative="", help="One look, and no screen.")] = False,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Show servers, queues, workers and running jobs as they change; q ends it.

    Where nobody can see a screen it writes one look; with --json a look a line, until it is ended.
    """
    from holdfast.client.transport import find_server

    if not INTERVAL_SECONDS_MIN <= interval <= INTERVAL_SECONDS_MAX:
        allowed = f"{INTERVAL_SECONDS_MIN:g} to {INTERVAL_SECONDS_MAX:g}"
        raise Invalid("interval", f"is {interval:g}; use {allowed}")
    # The screen itself says that a server is away.
    logging.getLogger("holdfast.client").setLevel(logging.ERROR)
    url = find_server(server)
    if as_json and not once:
        return _write_lines(url, interval)
    if once or not is_terminal():
        with open_client(url) as client:
            look = take_look(client, without_login(url))
        if as_json:
            write_json(look)
        else:
            _write_once(look)
        return 0
    knock(url)
    _show_screen(Watch(url, interval))
    return 0


def _write_once(look: Look) -> None:
    for line in summarise(look):
        write_line(line)
    for section in list_sections(look):
        write_line("")
        write_title(f"{section.title} ({len(section.rows)})")
        write_table(section.columns, section.rows)


def _write_lines(url: str, interval: float) -> int:
    """Write a look a line; while the server is away a line with the reason."""
    with open_client(url, patience=PATIENCE_SECONDS) as client:
        while True:
            try:
                write_json(take_look(client, without_login(url)), indented=False)
            except Unavailable as error:
                write_json({"at_ms": round(time.time() * 1000), "away": str(error)}, indented=False)
            time.sleep(interval)


@dataclass
class Watch:
    """Looks again and again in a thread of its own, so that keys are heard meanwhile."""

    url: str
    interval: float
    look: Look | None = None
    away_since: float | None = None
    reason: str = ""
    refused: HoldfastError | None = None
    is_over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Look until it is over, also when the server goes away and comes back."""
        from holdfast.client.client import Client

        try:
            with Client(self.url, patience=PATIENCE_SECONDS, codec=None) as client:
                while not self.is_over.is_set():
                    self._look(client)
                    self.is_over.wait(self.interval)
        except HoldfastError as error:  # asking again would not help
            self.refused = error
            self.is_over.set()

    def _look(self, client: "Client") -> None:
        try:
            self.look = take_look(client, without_login(self.url))
            self.away_since = None
        except Unavailable as error:
            self.away_since = self.away_since or time.monotonic()
            self.reason = str(error)

    def away(self) -> str | None:
        """Say for how long the server has been away, if it is."""
        if self.away_since is None:
            return None
        return f"away for {span(time.monotonic() - self.away_since)}: {self.reason}"


@dataclass
class View:
    """What the keys have chosen."""

    sort: str = SORTS[0]
    only: str = ""
    is_typing: bool = False

    def press(self, key: str) -> bool:
        """Take a key; returns whether to go on."""
        if self.is_typing:
            self._type(key)
        elif key == "q":
            return False
        elif key == "s":
            self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        elif key == "/":
            self.is_typing = True
        elif key == ESCAPE:
            self.only = ""
        return True

    def _type(self, key: str) -> None:
        if key in ENDS_OF_LINE:
            self.is_typing = False
        elif key == ESCAPE:
            self.is_typing, self.only = False, ""
        elif key in BACKSPACES:
            self.only = self.only[:-1]
        elif key.isprintable():
            self.only = (self.only + key)[:FILTER_LENGTH_MAX]


def _show_screen(watch: Watch) -> None:
    from rich.live import Live

    from holdfast.cli.output.top_screen import draw

    console, view = open_console(), View()
    watching = threading.Thread(target=watch.run, name="look", daemon=True)
    watching.start()
    try:
        with _keys() as read_keys, Live(console=console, screen=True, auto_refresh=False) as live:
            while not watch.is_over.is_set():
                screen = draw(
                    watch.look,
                    size=(console.width, console.height),
                    sort=view.sort,
                    only=view.only,
                    is_typing=view.is_typing,
                    away=watch.away(),
                )
                live.update(screen, refresh=True)
                if not all(view.press(key) for key in read_keys()):
                    break
    finally:
        watch.is_over.set()
        watching.join(LEAVE_SECONDS_MAX)
    if watch.refused is not None:
        raise watch.refused


@contextmanager
def _keys() -> "Iterator[KeyReader]":
    """Hear keys one by one for the time of a block; without a keyboard nothing is heard."""
    if not sys.stdin.isatty():
        yield KeyReader(None)
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)
        yield KeyReader(number)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


class KeyReader:
    """Reads the keys that were pressed, and waits a little for one."""

    def __init__(self, number: int | None) -> None:
        self._number = number

    def __call__(self) -> str:
        """Give what was pressed; of arrows and the like, nothing."""
        if self._number is None:
            time.sleep(KEY_SECONDS)
            return ""
        ready, _, _ = select.select([self._number], [], [], KEY_SECONDS)
        if not ready:
            return ""
        content = os.read(self._number, 256)
        if not content:  # the terminal has gone
            raise KeyboardInterrupt
        return ARROWS.sub("", content.decode(errors="ignore"))
