"""Spans by OpenTelemetry."""

import asyncio

import pytest

import holdfast
from holdfast.client.errors import ServerError
from holdfast.client.protocol.request import Request

sdk = pytest.importorskip("opentelemetry.sdk.trace")


def test_a_span_per_request_without_arguments() -> None:
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from holdfast.client.api.telemetry import OpenTelemetryHooks

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def scenario() -> None:
        hooks = [OpenTelemetryHooks(provider.get_tracer("test"))]
        async with holdfast.connect("memory://", hooks=hooks) as client:
            await client.set("secret-key", "secret-value")
            await client.exec(Request().add("GET", "a").add("GET", "b"), into=(None, None))
            with pytest.raises(ServerError):
                await client.incr("secret-key")

    asyncio.run(scenario())
    one, many, failed = exporter.get_finished_spans()
    assert (one.name, many.name, failed.name) == ("SET", "fixed", "INCR")
    assert many.attributes is not None
    assert many.attributes["db.operation.batch.size"] == 2
    assert one.status.is_ok
    assert not failed.status.is_ok
    assert "secret" not in str([dict(span.attributes or {}) for span in (one, many, failed)])
