"""The HTTP service: reports in, estimates out. Names are loaded when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent import imported_when_used

if TYPE_CHECKING:
    from reticent_collector.http.access import COOKIE, SESSION_SECONDS, Access, Pages
    from reticent_collector.http.api import SECURITY_HEADERS
    from reticent_collector.http.app import Collector, SteadyClock
    from reticent_collector.http.client import BatchTooLargeError, Client, Response, UnreachableError
    from reticent_collector.http.exposition import render_metrics
    from reticent_collector.http.health import (
        LATELY_SECONDS,
        Health,
        KeyTraffic,
        Readiness,
        Traffic,
        decoded,
        encoded,
        together,
    )
    from reticent_collector.http.ingest import Ingest
    from reticent_collector.http.limits import Limits
    from reticent_collector.http.listening import bind, inherited, is_local, is_loopback, parse_listen, shown
    from reticent_collector.http.log import log_fault
    from reticent_collector.http.notes import note_row, read_notes, write_notes
    from reticent_collector.http.openapi import openapi_document
    from reticent_collector.http.problems import DETAILS, ProblemError
    from reticent_collector.http.readers import Readers
    from reticent_collector.http.relay import KeyFile, Relay, shuffled
    from reticent_collector.http.server import make_server, tls_context
    from reticent_collector.http.wire import Batch, Wire
    from reticent_collector.http.workers import Supervisor, Worker
    from reticent_collector.http.writing import Committer, QueueFullError, Sealer, seal_due

__all__ = [
    "COOKIE",
    "DETAILS",
    "LATELY_SECONDS",
    "SECURITY_HEADERS",
    "SESSION_SECONDS",
    "Access",
    "Batch",
    "BatchTooLargeError",
    "Client",
    "Collector",
    "Committer",
    "Health",
    "Ingest",
    "KeyFile",
    "KeyTraffic",
    "Limits",
    "Pages",
    "ProblemError",
    "QueueFullError",
    "Readers",
    "Readiness",
    "Relay",
    "Response",
    "Sealer",
    "SteadyClock",
    "Supervisor",
    "Traffic",
    "UnreachableError",
    "Wire",
    "Worker",
    "bind",
    "decoded",
    "encoded",
    "inherited",
    "is_local",
    "is_loopback",
    "log_fault",
    "make_server",
    "note_row",
    "openapi_document",
    "parse_listen",
    "read_notes",
    "render_metrics",
    "seal_due",
    "shown",
    "shuffled",
    "tls_context",
    "together",
    "write_notes",
]

__getattr__ = imported_when_used(
    "reticent_collector.http",
    "problems", "log", "health", "limits", "listening", "client", "access", "readers", "wire", "writing", "ingest",
    "exposition", "openapi", "notes", "api", "workers", "app", "relay", "server",
)  # fmt: skip
