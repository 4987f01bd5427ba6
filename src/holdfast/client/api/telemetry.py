"""Spans for OpenTelemetry: `holdfast.connect(url, hooks=[OpenTelemetryHooks()])`.

Needs the extra `holdfast[opentelemetry]`. Nothing else imports this file.
"""

from typing import Any

from opentelemetry import trace

from holdfast.client.transport.hooks import ConnectionEvent, Hooks, RequestFinish, RequestStart


class OpenTelemetryHooks(Hooks):
    """A span per request, named after its command, and an event for every change of state.

    Arguments are left out, because they may be private data.
    """

    def __init__(self, tracer: trace.Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("holdfast")
        self._spans: dict[int, trace.Span] = {}

    def request_start(self, event: RequestStart) -> None:
        name = _name(event.commands[0][0]) if len(event.commands) == 1 else event.kind
        attributes: dict[str, Any] = {
            "db.system.name": "redis",
            "db.operation.name": name,
            "holdfast.request.bytes": event.bytes,
        }
        if len(event.commands) > 1:
            attributes["db.operation.batch.size"] = len(event.commands)
        span = self._tracer.start_span(name, kind=trace.SpanKind.CLIENT, attributes=attributes)
        self._spans[event.id] = span

    def request_finish(self, event: RequestFinish) -> None:
        span = self._spans.pop(event.start.id, None)
        if span is None:
            return
        if event.first_error is not None:
            span.set_attribute("error.type", type(event.first_error).__name__)
            span.set_attribute("holdfast.request.errors", event.errors)
            span.set_status(trace.Status(trace.StatusCode.ERROR, str(event.first_error)))
        span.end()

    def connection(self, event: ConnectionEvent) -> None:
        trace.get_current_span().add_event(
            f"holdfast.{event.stage}",
            {"generation": event.generation, "reconnect_attempts": event.reconnect_attempts},
        )


def _name(command: Any) -> str:
    return command.decode("latin-1") if isinstance(command, bytes) else str(command)
