"""The outermost layer: checks the Host header and the size of the request, and adds headers that
limit what a browser may do with a page.
"""

from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.web.settings import Settings

# No inline script and no inline style, so that text of a key which becomes markup by a mistake has
# no effect. Nothing is loaded from other sites.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    # Not no-referrer, because with that browsers send "Origin: null" with our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class HeaderGuard:
    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = settings.allowed_hosts
        self._is_https = settings.is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
                if self._is_https:
                    headers["strict-transport-security"] = "max-age=31536000"
            await send(message)

        refusal = self._refusal(Headers(scope=scope))
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        else:
            await refusal(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers) -> PlainTextResponse | None:
        if len(headers.getlist("host")) != 1 or host_of(headers["host"]) not in self._hosts:
            text = "This dashboard is not known by that name; start it with --host NAME.\n"
            return PlainTextResponse(text, 421)
        return None


def host_of(header: str) -> str:
    """The name in a Host header, without the port, in lower case."""
    name, colon, port = header.rpartition(":")
    is_port = colon and port.isdigit()
    return (name if is_port else header).lower().removesuffix(".")


def is_own_origin(headers: Headers, scheme: str) -> bool:
    """Whether a request that changes data comes from one of our pages, if the browser tells it.
    Programs other than browsers do not tell it. In all cases the token of the form decides."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return False
    if origin is None:
        return True
    return origin.lower() in {f"{s}://{headers.get('host', '').lower()}" for s in {scheme, "https"}}
