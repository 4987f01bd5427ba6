"""Whether clients should be sent to this server, for `/ready` and for a metric."""

from holdfast.server.core.engine import Engine


def why_not_ready(engine: Engine) -> str | None:
    """The reason in one sentence; None if the server is ready. (While the server recovers its file,
    or while a command or script keeps the event loop, it does not answer at all.)"""
    condition = engine.condition
    if engine.is_stopping:
        return "the server shuts down"
    if condition.failure is not None:
        return f"the disk fails: {engine.last_storage_error}"
    if condition.read_only is not None:
        return condition.read_only.message.decode("utf-8", "replace").partition(" ")[2]
    return None
