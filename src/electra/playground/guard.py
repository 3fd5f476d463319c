"""Answer only the requests of the page itself: not those of other sites, and none that touches files."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Callable[[], Awaitable[Message]], Send], Awaitable[None]]

API = "/gradio_api/"
NEEDED = {"startup-events", "info", "app_id", "heartbeat", "queue", "cancel", "reset", "theme.css"}  # parts of the API
LARGEST = 1 << 22  # bytes of a request, which may hold a few texts
BAD_REQUEST, FORBIDDEN, NOT_FOUND, TOO_LARGE = 400, 403, 404, 413


class Guard:
    """ASGI middleware that refuses other names of this machine, other origins and the rest of gradio's API."""

    def __init__(self, app: App, host: str, port: int) -> None:
        self.app = app
        shown = "" if port == 80 else f":{port}"  # browsers leave out the default port
        self.hosts = {f"{name}{shown}" for name in (host, "localhost")}
        self.origins = {f"http://{name}" for name in self.hosts}

    async def __call__(self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Send) -> None:
        """Pass a request of the page on to gradio; answer any other with an empty error."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if status := self._refusal(scope):
            return await _answer(send, status)
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except Exception:  # a call that gradio cannot read; the server would print a traceback
            await (send({"type": "http.response.body"}) if begun else _answer(send, BAD_REQUEST))

    def _refusal(self, scope: Message) -> int | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get(b"origin")
        if headers.get(b"host") not in self.hosts:  # another site's name that leads to this machine
            return FORBIDDEN
        if origin not in self.origins and (origin or scope["method"] == "POST"):  # browsers name it in every POST
            return FORBIDDEN
        length = headers.get(b"content-length", "")
        if scope.get("method") == "POST" and not (length.isdecimal() and int(length) <= LARGEST):
            return TOO_LARGE
        path: str = scope["path"]
        return NOT_FOUND if path.startswith(API) and path.split("/")[2] not in NEEDED else None


async def _answer(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})
