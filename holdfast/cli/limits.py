"""The flags of a server's limits."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from holdfast.errors import Invalid

if TYPE_CHECKING:
    from holdfast.model.limits.server_limits import ServerLimits

# Of these 0 stands for no limit.
OF_OWNERS = ("live_tasks_max", "stored_bytes_max")


@Parameter(name="*", group=Group("Limits", help="Who reaches one is told so, and by which flag."))
@dataclass(frozen=True, kw_only=True)
class LimitFlags:
    """How much a server takes on; defaults are those of `ServerLimits`."""

    connections_max: Annotated[
        int | None,
        Parameter(
            env_var="HOLDFAST_CONNECTIONS_MAX", help="How many connections may be open: 10,000."
        ),
    ] = None
    header_seconds_max: Annotated[
        float | None,
        Parameter(
            env_var="HOLDFAST_HEADER_SECONDS_MAX", help="The time for a request's headers: 30."
        ),
    ] = None
    header_bytes_max: Annotated[
        int | None,
        Parameter(env_var="HOLDFAST_HEADER_BYTES_MAX", help="The size of these headers: 65,536."),
    ] = None
    body_seconds_max: Annotated[
        float | None,
        Parameter(
            env_var="HOLDFAST_BODY_SECONDS_MAX",
            help="The time for a request's body: 60, and a second more for each KiB.",
        ),
    ] = None
    streams_max: Annotated[
        int | None,
        Parameter(env_var="HOLDFAST_STREAMS_MAX", help="Open streams of one caller: 256."),
    ] = None
    live_tasks_max: Annotated[
        int | None,
        Parameter(
            env_var="HOLDFAST_LIVE_TASKS_MAX",
            help="Tasks of one owner that have not ended: 50,000,000; 0 for no limit.",
        ),
    ] = None
    stored_bytes_max: Annotated[
        int | None,
        Parameter(
            env_var="HOLDFAST_STORED_BYTES_MAX",
            help="Bytes that are kept for one owner: 0, for no limit.",
        ),
    ] = None

    def limits(self) -> "ServerLimits":
        """Make the limits of a server; refuses those that nobody could keep to."""
        from holdfast.model.limits.server_limits import ServerLimits

        given = {name: value for name, value in asdict(self).items() if value is not None}
        for name, value in given.items():
            if value < 0 or (not value and name not in OF_OWNERS):
                raise Invalid(name, f"is {value:g}; use more than 0")
        return ServerLimits(**given)


DEFAULT_LIMITS = LimitFlags()
