"""The web application: from a request to the handler of its route, and from errors to a page."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route as WebRoute
from starlette.types import ASGIApp

from holdfast.builds import BadBuildError
from holdfast.client import ReplyTooLargeError, ServerError
from holdfast.errors import HoldfastError, StorageError
from holdfast.web.dashboard import Dashboard
from holdfast.web.rendering import static_files
from holdfast.web.routes import ROUTES, Route, navigation, page
from holdfast.web.security.headers import HeaderGuard, is_own_origin
from holdfast.web.security.login import is_refused
from holdfast.web.security.sessions import Session
from holdfast.web.visit import BadRequestError, Visit

log = logging.getLogger(__name__)

MOST_BODY_BYTES = 16 << 20
FORM = "application/x-www-form-urlencoded"
TOKEN = "token"


def application(dashboard: Dashboard) -> ASGIApp:
    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        await dashboard.start()
        try:
            yield
        finally:
            await dashboard.stop()

    dashboard.templates.globals["navigation"] = navigation()
    dashboard.templates.tests["allowed_for"] = lambda needs, visit: visit.may(*needs)
    by_path: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})["POST" if route.is_action else "GET"] = route
    routes = [
        WebRoute(path, Endpoint(dashboard, handlers).answer, methods=[*handlers])
        for path, handlers in by_path.items()
    ]
    routes.append(WebRoute("/static/{name}", static))
    routes.append(WebRoute("/alive", alive))
    elsewhere = page("/{path:path}", nowhere, is_open=True)
    routes.append(WebRoute(elsewhere.path, Endpoint(dashboard, {"GET": elsewhere}).answer))
    app = Starlette(routes=routes, lifespan=life, exception_handlers={HTTPException: plainly})
    return HeaderGuard(app, dashboard.settings)


async def plainly(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentence = {405: "This page does not take requests of this kind."}
    return PlainTextResponse(f"{sentence.get(status, 'This did not work.')}\n", status)


async def static(request: Request) -> Response:
    found = static_files().get(request.path_params["name"])
    if found is None:
        return PlainTextResponse("There is no such file.\n", 404)
    headers = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(found[0], media_type=found[1], headers=headers)


async def nowhere(visit: Visit) -> Response:
    sentence = "There is no page at this address. The link may be an old one."
    return visit.render("problem.html", 404, title="Not found", sentence=sentence)


async def alive(request: Request) -> Response:
    """Tells an open page that has lost its stream whether the dashboard is back."""
    return Response(status_code=204)


class Endpoint:
    """The handlers of one path, by method."""

    def __init__(self, dashboard: Dashboard, handlers: dict[str, Route]) -> None:
        self._dashboard = dashboard
        self._handlers = handlers
        port = dashboard.settings.port
        prefix = "__Host-" if dashboard.settings.is_https else ""
        # Browsers do not tell cookies by port: two dashboards on one machine need two names.
        self._cookie_name = f"{prefix}holdfast_{port}"

    async def answer(self, request: Request) -> Response:
        dashboard = self._dashboard
        await dashboard.close_dropped()
        route = self._handlers["POST" if request.method == "POST" else "GET"]
        cookie = request.cookies.get(self._cookie_name, "")
        session = dashboard.sessions.find(cookie) if cookie else None
        try:
            if session is None:
                session = await dashboard.visitor()
                cookie = dashboard.sessions.add(session)
            elif session.login is None:
                session.login = (await dashboard.visitor()).login
            if session.login is not None:
                await dashboard.refresh(session.login)
        except HoldfastError as error:
            return away(dashboard, request, error)
        try:
            visit = Visit(dashboard, request, session)
            visit.cookie = cookie
            visit.section = route.section
            response = await self._answer(route, visit)
        except (BadRequestError, ValueError) as error:
            return PlainTextResponse(f"{error}\n", 400)
        if visit.cookie != request.cookies.get(self._cookie_name, ""):
            self._set_cookie(response, visit.cookie)
        return response

    def _set_cookie(self, response: Response, cookie: str) -> None:
        if not cookie:
            response.delete_cookie(self._cookie_name, path="/")
            return
        response.set_cookie(
            self._cookie_name,
            cookie,
            path="/",
            httponly=True,
            samesite="strict",
            secure=self._dashboard.settings.is_https,
        )

    async def _answer(self, route: Route, visit: Visit) -> Response:
        if route.is_action:
            refusal = await self._refuse_action(visit)
            if refusal is not None:
                return refusal
        if visit.session.login is None and not route.is_open:
            return to_sign_in(visit)
        if not route.is_open and not visit.may(*route.needs):
            text = f"The user {visit.username} may not run {' or '.join(route.needs)}."
            return visit.render("problem.html", 403, title="Not permitted", sentence=text)
        try:
            return await route.handler(visit)
        except BadRequestError as error:
            return visit.render("problem.html", 422, title="This did not work", sentence=str(error))
        except HoldfastError as error:
            return await self._explain(visit, error)

    async def _refuse_action(self, visit: Visit) -> Response | None:
        request = visit.request
        if not is_own_origin(request.headers, request.url.scheme):
            return PlainTextResponse("The request comes from another site.\n", 403)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
            return PlainTextResponse("The request is not a form.\n", 415)
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_BODY_BYTES:
                return PlainTextResponse("The form is too large.\n", 413)
        visit.read_form(bytes(body))
        token = visit.form.pop(TOKEN, "")
        problem = visit.session.tokens.spend(token, visit.path, visit.dashboard.now_s())
        if problem is None:
            return None
        text = f"Nothing was changed: {problem}. Go back, load the page again and repeat it."
        return visit.render("problem.html", 403, title="Not accepted", sentence=text)

    async def _explain(self, visit: Visit, error: HoldfastError) -> Response:
        """An error as a page."""
        login = visit.session.login
        if is_refused(error) and login is not None:
            await visit.dashboard.forget_login(login)
            visit.replace_session(None)
            return to_sign_in(visit)
        if isinstance(error.__cause__, ServerError):  # of the first commands on a connection
            error = error.__cause__
        if isinstance(error, ServerError):
            status = 403 if error.code == b"NOPERM" else 422
            title = "Not permitted" if status == 403 else "The server refused"
            return visit.render("problem.html", status, title=title, sentence=str(error))
        if isinstance(error, ReplyTooLargeError):
            text = f"It is too large for a page: {error}."
            return visit.render("problem.html", 422, title="This did not work", sentence=text)
        if isinstance(error, BadBuildError):
            return visit.render("problem.html", 422, title="This did not work", sentence=str(error))
        if isinstance(error, StorageError):
            return visit.render("problem.html", 500, title="This did not work", sentence=str(error))
        return away(visit.dashboard, visit.request, error, visit)


def to_sign_in(visit: Visit) -> Response:
    if visit.request.method == "GET" and visit.path != "/events":
        query = visit.request.url.query
        path = f"{visit.path}?{query}" if query else visit.path
        return RedirectResponse(f"/sign-in?{urlencode({'next': path})}", 303)
    return PlainTextResponse("Sign in first.\n", 401)


def away(
    dashboard: Dashboard, request: Request, error: HoldfastError, visit: Visit | None = None
) -> Response:
    """The page that tells that the server does not answer."""
    visit = visit or Visit(dashboard, request, Session())
    return visit.render("away.html", 503, sentence=str(error))
