"""A server that asks for tokens, and callers that show some."""

from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.api.route import Route
from holdfast.operations.tokens import WantedToken, create_token
from holdfast.store.database import Database
from tests.api.asgi import call
from tests.api.face import Face, Said
from tests.stand_in import secret_of

NOWHERE = {"job_id": "1", "given": "1", "task_id": "1.0", "bundle": "0" * 64}


@dataclass
class Guarded:
    """A server that asks for tokens, and some of them."""

    face: Face
    database: Database
    tokens: dict[str, str]

    async def make(self, name: str, *roles: str, **scope: Any) -> str:
        """Make a token, and keep it under its name."""
        made = await create_token(self.database, WantedToken(name, roles, **scope), actor="root")
        self.tokens[name] = made.text
        return made.text

    async def ask(self, route: Route, text: str | None) -> tuple[int, Any, dict[str, str]]:
        """Call a route with a token and a body that nobody has to look at."""
        path = route.path.replace(":path}", "}").format_map(Default(NOWHERE))
        headers = {} if text is None else bearer(text)
        body = None if route.body is None else b"not JSON"
        answer = await call(self.face.app, route.method, path, body=body, headers=headers)
        error = msgspec.json.decode(answer[2]).get("error") if answer[0] >= 400 else None
        return answer[0], error, answer[1]

    async def say(
        self, token: str, method: str, target: str, body: Any = None, *, worker: str = ""
    ) -> Said:
        """Call something as the holder of a token, and as a worker, by its id and secret."""
        headers = bearer(self.tokens[token]) | ({"holdfast-worker": worker} if worker else {})
        return await self.face.change(method, target, body, **headers)

    async def join(self, token: str, worker_id: str, **fields: Any) -> str:
        """Register a worker on the host `h`; returns what it shows from then on."""
        secret = secret_of(worker_id)
        body = {"worker_id": worker_id, "name": worker_id, "host": "h", "secret": secret} | fields
        said = await self.say(token, "POST", "/internal/worker-register", body)
        assert said.status == 200, said
        return f"{worker_id} {secret}"


class Default(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "x"


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}
