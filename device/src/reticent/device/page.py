"""A page that a program opens for its user: one file, no script, nothing loaded, light or dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reticent.html import Safe, safe

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5a6675; --line: #d9dee5; --card: #fff; --ground: #f5f6f8;
  --mark: #1f5fbf; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8ebf0; --soft: #a3adba; --line: #333c48; --card: #1b212a; --ground: #12161c; --mark: #8db8ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p { margin: .4rem 0; max-width: 46rem; }
.soft { color: var(--soft); }
.cards { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fit, minmax(min(18rem, 100%), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem; }
.card h3 { font-size: 1rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
.card p { margin: .2rem 0; font-size: .92rem; }
.bits { font: 600 1.05rem ui-monospace, Menlo, Consolas, monospace; color: var(--mark); overflow-wrap: anywhere; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem;
  margin: .6rem 0; white-space: pre-wrap; overflow-wrap: anywhere;
  font: .88rem/1.5 ui-monospace, Menlo, Consolas, monospace; }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .45rem .8rem; border-top: 1px solid var(--line); white-space: nowrap; }
thead th { border-top: 0; color: var(--soft); font-weight: 600; }
tbody th { font-weight: 500; }
@media (max-width: 40rem) { tbody th { white-space: normal; min-width: 8rem; } }
details { margin-top: .6rem; } summary { cursor: pointer; color: var(--mark); }
"""


def document(title: object, introduction: Iterable[object], *parts: Safe) -> str:
    """A whole page."""
    lead = "".join(f'<p class="soft">{safe(line)}</p>' for line in introduction)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{safe(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{safe(title)}</h1>{lead}{''.join(parts)}</main></body></html>\n"
    )


def section(heading: object, *parts: Safe) -> Safe:
    """A part of the page under its heading."""
    return Safe(f"<section><h2>{safe(heading)}</h2>{''.join(parts)}</section>")


def paragraph(text: object) -> Safe:
    """A paragraph."""
    return Safe(f"<p>{safe(text)}</p>")


def literal(text: object) -> Safe:
    """Text as it is, in letters of one width."""
    return Safe(f"<pre>{safe(text)}</pre>")


def cards(entries: Iterable[tuple[object, str, Sequence[object]]]) -> Safe:
    """Boxes side by side, each with a heading, optional bits, and lines of text."""
    boxes = []
    for heading, bits, lines in entries:
        of_bits = f'<p class="bits">{safe(bits)}</p>' if bits else ""
        text = "".join(f"<p>{safe(line)}</p>" for line in lines)
        boxes.append(f'<article class="card"><h3>{safe(heading)}</h3>{of_bits}{text}</article>')
    return Safe(f'<div class="cards">{"".join(boxes)}</div>')


def wide(inside: Safe) -> Safe:
    """Tables that scroll by themselves where they are wider than the page."""
    return Safe(f'<div class="wide" tabindex="0">{inside}</div>')
