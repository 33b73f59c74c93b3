"""The routes of a server without chores, for journeys that are told in requests."""

from tests.api.conftest import quiet, quiet_face

__all__ = ["quiet", "quiet_face"]
