"""All addresses of the dashboard, in one table: the handler, the commands that the user needs, and
whether a login is needed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response

from holdfast.web.pages import (
    builds,
    console,
    hot_keys,
    keys,
    operating,
    overview,
    queues,
    replication,
    semaphores,
    signing,
)
from holdfast.web.visit import Visit

Handler = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    path: str
    handler: Handler
    needs: tuple[str, ...] = ()  # the address is refused without these commands
    is_action: bool = False  # POST, with the token of a form
    is_open: bool = False  # also without a login
    title: str = ""  # in the navigation, if the page is there
    group: str = ""

    @property
    def section(self) -> str:
        """The first part of the path, which is the path of a page in the navigation."""
        return "/" + self.path.split("/")[1]


def page(
    path: str,
    handler: Handler,
    *needs: str,
    title: str = "",
    group: str = "",
    is_open: bool = False,
) -> Route:
    return Route(path, handler, needs, title=title, group=group, is_open=is_open)


def action(path: str, handler: Handler, *needs: str, is_open: bool = False) -> Route:
    return Route(path, handler, needs, is_action=True, is_open=is_open)


ROUTES: tuple[Route, ...] = (
    page("/", overview.overview, "INFO", title="Overview", group="Server"),
    page("/queues", queues.board, "SCAN", title="Queues", group="Work"),
    page("/queues/show", queues.show, "SCAN"),
    page("/builds", builds.board, "SCAN", "EVALSHA", title="Builds", group="Work"),
    page("/builds/show", builds.show, "EVALSHA"),
    page("/builds/graph", builds.graph, "EVALSHA"),
    page("/builds/replay", builds.replay, "EVALSHA", "XRANGE"),
    page("/builds/search", builds.search, "EVALSHA", "ZRANGE"),
    action("/builds/abort", builds.abort, *builds.CHANGES),
    action("/builds/retry", builds.retry, *builds.CHANGES),
    action("/builds/start", builds.start, *builds.CHANGES),
    action("/builds/freeze", builds.freeze, *builds.CHANGES),
    action("/builds/thaw", builds.thaw, *builds.CHANGES),
    page("/semaphores", semaphores.board, "SCAN", title="Semaphores", group="Work"),
    page("/semaphores/show", semaphores.show, "ZRANGE"),
    action("/semaphores/release", semaphores.release, "EVALSHA", "ZREM"),
    page("/keys", keys.browse, "SCAN", "TYPE", title="Keys", group="Data"),
    page("/keys/big", keys.big, "SCAN", "TYPE"),
    page("/keys/hot", hot_keys.show),
    action("/keys/hot", hot_keys.count, "HOTKEYS START"),
    page("/keys/show", keys.show, "TYPE"),
    action("/keys/create", keys.create),
    action("/keys/edit", keys.edit),
    action("/keys/add", keys.add),
    action("/keys/remove", keys.remove),
    action("/keys/delete", keys.delete, "DEL"),
    action("/keys/rename", keys.rename, "RENAMENX"),
    action("/keys/expire", keys.expire, "EXPIRE"),
    page("/console", console.show, title="Console", group="Data"),
    action("/console", console.run),
    page("/console/commands", console.commands),
    page("/replication", replication.show, "INFO", title="Replication", group="Operation"),
    action("/replication/digests", replication.compare, "ACTIVE DIGEST"),
    action("/replication/pause", replication.pause_link, "ACTIVE PAUSE"),
    action("/replication/resume", replication.resume_link, "ACTIVE RESUME"),
    action("/replication/forget", replication.forget_node, "ACTIVE FORGET"),
    page("/slow-log", operating.slow_log, "SLOWLOG GET", title="Slow log", group="Operation"),
    action("/slow-log/reset", operating.reset_slow_log, "SLOWLOG RESET"),
    page("/clients", operating.clients, "CLIENT LIST", title="Clients", group="Operation"),
    action("/clients/kill", operating.kill_client, "CLIENT KILL"),
    page("/users", operating.users, "ACL LIST", "ACL GETUSER", title="Users", group="Operation"),
    page(
        "/configuration",
        operating.configuration,
        "CONFIG GET",
        title="Configuration",
        group="Operation",
    ),
    action("/configuration/set", operating.set_parameter, "CONFIG SET"),
    action("/configuration/rewrite", operating.rewrite, "CONFIG REWRITE"),
    page("/audit", operating.audit, "ACL LIST", title="Audit trail", group="Operation"),
    page("/events", overview.events),
    page("/sign-in", signing.form, is_open=True),
    action("/sign-in", signing.sign_in, is_open=True),
    action("/sign-out", signing.sign_out, is_open=True),
)


def navigation() -> dict[str, list[Route]]:
    """The pages that have a title, by group, in the order of the table."""
    found: dict[str, list[Route]] = {}
    for route in ROUTES:
        if route.title:
            found.setdefault(route.group, []).append(route)
    return found
