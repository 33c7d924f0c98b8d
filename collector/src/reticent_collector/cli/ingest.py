"""`reticent ingest`: reports from a file or a pipe, into a store or a running collector."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import click

from reticent.plan import Plan
from reticent.reports import MAGIC, MAX_JSON, Verdict, packed_header
from reticent_collector.cli import options
from reticent_collector.cli.output import VerbCommand, as_json, found_problems, now_and_then, quiet, show

BLOCK_BYTES = 1 << 20
"""Read at once: few commits for a long file, and little memory for an endless pipe."""
BLOCK_SECONDS = 0.5
"""How long data that was read waits for more."""
SHOWN = 10
"""How many of the refused reports are named."""
NDJSON, PACKED = "application/x-ndjson", "application/vnd.reticent.packed"


@dataclass(slots=True)
class Block:
    """Reports that are committed together, as whole lines or a packed batch; `first` numbers the first, from 1."""

    body: bytes
    kind: str
    first: int

    @property
    def numbers(self) -> list[int]:
        """The number of each report in it; empty lines are skipped."""
        if self.kind == PACKED:
            return list(range(self.first, self.first + packed_header(self.body).reports))
        lines = self.body.removesuffix(b"\n").split(b"\n")
        return [number for number, line in enumerate(lines, self.first) if line.strip()]

    def halves(self) -> tuple[Block, Block]:
        """Two blocks that hold the same reports."""
        if self.kind == PACKED:
            header = packed_header(self.body)
            head, records = self.body[: header.start], self.body[header.start :]
            middle = header.reports // 2
            parts = head + records[: middle * header.width], head + records[middle * header.width :]
        else:
            lines = self.body.split(b"\n")
            middle = len(lines) // 2
            parts = b"\n".join(lines[:middle]) + b"\n", b"\n".join(lines[middle:])
        return Block(parts[0], self.kind, self.first), Block(parts[1], self.kind, self.first + middle)


@dataclass(slots=True)
class Summary:
    """The verdicts so far, all durable; a repeated report is among the accepted, and counts once."""

    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    first: list[dict[str, str]] = field(default_factory=list)
    """The first of the refused: where, and why."""

    def refuse(self, block: Block, rejected: list[tuple[int, Verdict]]) -> None:
        """Note reports that do not count, by their place in a block."""
        from reticent_collector.http import DETAILS

        self.refused.update(verdict.value for _, verdict in rejected)
        missing = rejected[: SHOWN - len(self.first)]
        numbers = block.numbers if missing else []
        word = "report" if block.kind == PACKED else "line"
        for place, verdict in missing:
            where = f"{word} {numbers[place]}"
            self.first.append({"where": where, "code": verdict.value, "reason": DETAILS[verdict.value]})

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        others = {code: count for code, count in self.refused.items() if code != Verdict.LATE}
        return {
            "accepted": self.accepted,
            "late": self.refused[Verdict.LATE],
            "refused": others,
            "first": self.first,
        }

    def __str__(self) -> str:
        figures = self.to_dict()
        refused = {"late": figures["late"], "refused": sum(figures["refused"].values())}
        verdicts = {"accepted": self.accepted, **refused}
        return ", ".join(f"{count:,} {word}" for word, count in verdicts.items())


Take: TypeAlias = Callable[[Block, Summary], None]


@click.command(cls=VerbCommand, short_help="Take reports from a file or a pipe.")
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@options.source_options
@click.option("--register", "plans", multiple=True, type=options.input_file, metavar="PLAN",
              help="Register this plan in the store first; a store that does not exist is created.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Stop soon after the first report that does not count.")
@click.option("--retry-for", type=click.FloatRange(0.1), default=60.0, show_default=True, metavar="SECONDS",
              help="How long to retry a collector that does not answer.")  # fmt: skip
@quiet
@as_json
def ingest(
    path: str,
    store: str | None,
    url: str | None,
    key: str | None,
    plans: tuple[Path, ...],
    strict: bool,
    retry_for: float,
    quiet: bool,
    as_json: bool,
) -> None:
    """
    Take the reports in FILE, lines of JSON or a packed batch; - is standard input.

    They are checked like reports from devices. Accepted reports are durable, and each counts once, however often it
    is sent: an interrupted run can be repeated, and so can one with reports that are early. Reports from a slow pipe
    are committed within a second.

    \b
    Example:
      reticent ingest reports.ndjson --store sqlite:///reticent.db

    Exit code 3 when some reports did not count.
    """
    options.one_source(store, url)
    if url is not None and plans:
        raise click.UsageError("--register goes with --store.")
    if path == "-":
        options.take_standard_input()
    summary, tell = Summary(), now_and_then(quiet)
    into = _into_collector(url, key, retry_for) if url is not None else _into_store(str(store), plans)
    waits_for_commits = url is None
    with into as take, click.open_file(path, "rb") as file, interruption(waits_for_commits) as stop:
        try:
            for block in blocks(pieces(file.fileno(), stop)):
                take(block, summary)
                if strict and summary.refused.keys() - {Verdict.EARLY}:
                    break
                tell(lambda: f"{summary}; continuing.")
        finally:  # also when the rest cannot be taken, or Ctrl-C ends it
            if not as_json:
                _tell_of_refused(summary)
            show(as_json, summary.to_dict(), f"{summary}.")
    if summary.refused:
        found_problems()


def _tell_of_refused(summary: Summary) -> None:
    """The first reports that do not count, and what can be done about them."""
    for row in summary.first:
        click.echo(f"{row['where']}: {row['code']}: {row['reason']}", err=True)
    for verdict, hint in HINTS.items():
        if verdict in summary.refused:
            click.echo(f"  Hint: {hint}", err=True)


HINTS = {
    Verdict.MALFORMED: "a line is a report in JSON, as reticent device preview shows it",
    Verdict.EARLY: "run it again when the rounds of early reports have begun; those counted now count once",
}


@contextmanager
def _into_store(url: str, plans: tuple[Path, ...]) -> Iterator[Take]:
    """Takes blocks into a store, one commit each."""
    from reticent_collector.http import SteadyClock, Wire
    from reticent_collector.stores import open_store
    from reticent_collector.stores.backend import damaged

    if plans:
        with closing(open_store(url)) as made:
            for plan in plans:
                made.register(Plan.load(plan))
    with options.opened_store(url) as store:
        wire, clock = Wire(store.plans()), SteadyClock()

        def take(block: Block, summary: Summary) -> None:
            read = wire.packed if block.kind == PACKED else wire.lines
            batch = read(block.body, clock(), sys.maxsize)
            if isinstance(batch, Verdict) or batch is None:  # of a packed batch as a whole
                verdict = batch or Verdict.MALFORMED
                summary.refuse(block, [(place, verdict) for place in range(len(block.numbers))])
                return
            appended = store.append({key: b"".join(parts) for key, parts in batch.records.items()})
            for of_round in appended.values():
                summary.accepted += of_round.accepted
                if of_round.late:  # sealed since the batch was read
                    summary.refused[Verdict.LATE] += of_round.late
            summary.refuse(block, batch.rejected)
            for key, of_round in appended.items():
                if of_round.refused:  # nothing of this round is stored: the run has to be repeated
                    raise damaged(store.url, key, store.damaged[key])

        yield take


@contextmanager
def _into_collector(url: str, key: str | None, patience: float) -> Iterator[Take]:
    """Sends blocks to a running collector, one request each."""
    from reticent_collector.http import BatchTooLargeError

    with options.opened_client(url, key) as (client, runner):

        def take(block: Block, summary: Summary) -> None:
            reports = len(block.numbers)
            if not reports:
                return
            try:
                rejected = runner.run(client.deliver(block.body, block.kind, reports, patience))
            except BatchTooLargeError:
                if reports == 1:
                    summary.refuse(block, [(0, Verdict.MALFORMED)])
                    return
                for half in block.halves():
                    take(half, summary)
            else:
                summary.accepted += reports - len(rejected)
                summary.refuse(block, rejected)

        yield take


@contextmanager
def interruption(is_wanted: bool) -> Iterator[int | None]:
    """
    A descriptor that can be read once Ctrl-C was pressed; None where Ctrl-C ends the work at once.

    So Ctrl-C takes effect between two commits. Python would raise it anywhere: in the middle of a commit, whose reports
    would be missing in the summary, or where an exception is dropped.
    """
    if not is_wanted or threading.current_thread() is not threading.main_thread():
        yield None
        return
    near, far = socket.socketpair()
    far.setblocking(False)
    handler = signal.signal(signal.SIGINT, lambda number, frame: None)
    wakes = signal.set_wakeup_fd(far.fileno())
    try:
        yield near.fileno()
    finally:
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGINT, handler)
        near.close()
        far.close()


def pieces(descriptor: int, stop: int | None = None) -> Iterator[bytes]:
    """
    What can be read, in pieces of about `BLOCK_BYTES`, or of what came in `BLOCK_SECONDS`.

    Raises `KeyboardInterrupt` once `stop` can be read.
    """
    watched = [descriptor] if stop is None else [descriptor, stop]
    parts: list[bytes] = []
    size, deadline = 0, 0.0
    while True:
        wait = max(0.0, deadline - time.monotonic()) if parts else None
        ready = size < BLOCK_BYTES and select.select(watched, [], [], wait)[0]
        if ready and stop in ready:
            raise KeyboardInterrupt
        data = os.read(descriptor, BLOCK_BYTES) if ready else b""
        if data:
            deadline = deadline if parts else time.monotonic() + BLOCK_SECONDS
            parts.append(data)
            size += len(data)
            continue
        if parts:
            yield b"".join(parts)
            parts, size = [], 0
        if ready:  # and nothing to read: the end
            return


def blocks(parts: Iterable[bytes]) -> Iterator[Block]:
    """
    Whole lines, or whole records behind the header of their packed batch, from pieces of any size.

    Raises `ReportError` for a packed batch that is cut off, after all that is whole.

    >>> [(block.body, block.first) for block in blocks([b"{}\\n{", b"}\\n", b"{"])]
    [(b'{}\\n', 1), (b'{}\\n', 2), (b'{', 3)]
    """
    parts, head = iter(parts), b""
    for part in parts:
        head += part
        name = head[len(MAGIC)] if len(head) > len(MAGIC) else 255
        start = len(MAGIC) + 1 + name + 6
        if not MAGIC.startswith(head[: len(MAGIC)]) or len(head) >= start:
            break
    parts = chain([head], parts)
    if not head.startswith(MAGIC):
        yield from _lines(parts)
        return
    width, rest, number = packed_header(head[:start]).width, b"", 1
    for part in parts:
        rest += part
        records, over = divmod(len(rest) - start, width)
        if records:
            yield Block(rest[: len(rest) - over], PACKED, number)
            rest, number = head[:start] + rest[len(rest) - over :], number + records
    packed_header(rest)


def _lines(parts: Iterable[bytes]) -> Iterator[Block]:
    rest, number = b"", 1
    for part in parts:
        lines, newline, rest = (rest + part).rpartition(b"\n")
        rest = rest[: MAX_JSON + 1]  # of a line without end no more is needed to refuse it
        if newline:
            yield Block(lines + newline, NDJSON, number)
            number += lines.count(b"\n") + 1
    if rest:
        yield Block(rest, NDJSON, number)
