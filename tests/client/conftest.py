"""What the tests of secrets look into: everything that is logged, and all spans."""

import io
import logging
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from reconcile.ops.log_setup import configure_logging


@pytest.fixture
def everything_logged() -> Any:
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = list(root.handlers), root.level
    configure_logging(stream, format="json", level="DEBUG")
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("reconcile", "informers", "workqueue", "asyncio", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture
def traced() -> tuple[InMemorySpanExporter, TracerProvider]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, provider
