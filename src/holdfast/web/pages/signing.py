"""Signing in as a user of the server, and signing out."""

from starlette.responses import HTMLResponse, Response

from holdfast.web.security.login import DEFAULT_USER, RefusedError
from holdfast.web.visit import Visit

MOST_CHARACTERS = 10_000


async def form(visit: Visit) -> Response:
    return _form(visit, "")


def _form(visit: Visit, problem: str, status: int = 200) -> HTMLResponse:
    next_path = visit.query.get("next") or visit.form.get("next", "/")
    return visit.render("sign_in.html", status, problem=problem, next_path=next_path)


async def sign_in(visit: Visit) -> Response:
    dashboard = visit.dashboard
    username = visit.form.get("username", "").strip() or DEFAULT_USER
    password = visit.form.get("password", "")
    wait_s = dashboard.attempts.wait_s(visit.address, dashboard.now_s())
    if wait_s:
        problem = f"There were too many attempts. Try again in {wait_s:.0f} seconds."
        return _form(visit, problem, 429)
    if not password or len(username) + len(password) > MOST_CHARACTERS:
        return _form(visit, "A password is missing.", 422)
    # The server had a password when the dashboard started. Without one, it accepts any password.
    if dashboard.settings.is_public and not await dashboard.needs_password():
        problem = "The server has no password, and other machines can reach this dashboard."
        return _form(visit, problem, 403)
    try:
        session = await dashboard.sign_in(username, password)
    except RefusedError:
        dashboard.attempts.failed(visit.address, dashboard.now_s())
        return _form(visit, "The server does not accept this user and password.", 403)
    # A new cookie, so that a cookie that was planted before does not belong to a signed-in user.
    visit.replace_session(session)
    return visit.go(_safe_path(visit.form.get("next", "/")))


async def sign_out(visit: Visit) -> Response:
    visit.replace_session(None)
    return visit.go("/sign-in")


def _safe_path(path: str) -> str:
    """The path, if it is one of this dashboard. `//host` and `/\\host` would lead to another
    site."""
    is_own = path.startswith("/") and path[1:2] not in ("/", "\\") and path.isprintable()
    return path if is_own and path.isascii() else "/"
