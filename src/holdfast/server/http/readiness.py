"""Whether clients should be sent to this server: what `/ready` and a metric say."""

from holdfast.server.core.engine import Engine


def why_not_ready(engine: Engine) -> str | None:
    """The reason in one sentence; None if the server is ready. (The server does not answer while it
    recovers its file, nor while a command or script keeps the event loop.)"""
    condition = engine.condition
    if engine.is_stopping:
        return "the server shuts down"
    if condition.failure is not None:
        return f"the disk fails: {engine.last_storage_error}"
    if condition.read_only is not None:
        return condition.read_only.message.decode("utf-8", "replace").partition(" ")[2]
    return None
