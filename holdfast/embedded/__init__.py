"""Postgres on one machine, without an installation: started, shared and stopped by its users.

Everything stands in one folder. The kernel's file locks say who does what; no pid is ever guessed.

    transition.lock   exclusive   whoever is starting or stopping the server, while doing so
    users.lock        shared      every user of the server, as long as it uses it
    server.lock       exclusive   the server and all its children, until the last has died
    postmaster.lock   exclusive   the postmaster alone: a POSIX lock, whose pid the kernel tells
    up.lock           exclusive   `holdfast up`, which is one per folder: a POSIX lock as well

    start:  transition { join users; server.lock free? launch : wait until ready }
    stop:   transition { leave users; users.lock free? shut the server down }

A dead process holds no lock. So a killed user counts as gone, its server is joined by the next
user, and a killed server is seen as dead whatever its stale files say. More of the why stands in
docs/decisions/0004-embedded-postgres.md.
"""

from holdfast.embedded.errors import PostgresUnavailable
from holdfast.embedded.folder import default_folder
from holdfast.embedded.occupancy import Occupied, occupy
from holdfast.embedded.supervisor import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "Occupied", "PostgresUnavailable", "default_folder", "occupy"]
