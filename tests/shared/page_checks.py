"""What every page that a program opens for its user must be."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta"}


class _Reader(HTMLParser):
    """Fails on what does not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(page: str) -> None:
    """One document that nests, loads nothing, runs nothing, and has a language, a title and both schemes."""
    reader = _Reader()
    reader.feed(page)
    assert reader.open == []
    assert not {"script", "img", "link", "iframe", "form", "a"} & reader.tags
    assert (
        not {name for name in reader.attributes if name.startswith("on")}
        | {"src", "href"} & reader.attributes
    )
    assert {"html", "title", "main", "h1"} <= reader.tags
    assert page.startswith("<!doctype html>")
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page
    assert re.search(r"Content-Security-Policy\" content=\"default-src 'none'", page)
