"""
Pages of a repository on a site: contents, anchors and links to files that are no pages.

On a code host a page may link to a program or a folder, and an index page needs no list for machines. Here
`<!-- contents -->` in a page becomes a hidden table of contents: the pages of its folder that it links to, in
that order (`x.md` has the folder `x`), or those that the comment names on lines of their own.
`<a id="e9"></a>` is an anchor that links are checked against. A link to a file of the repository leads to a
page that shows the file, one to a folder (`docs/how-to/`) to its index.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from from_code import documented_modules
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

CONTENTS = re.compile(r"^<!-- contents(?P<caption>[^\n]*?)(?P<more>\n.*?)?-->", re.DOTALL | re.MULTILINE)
PAGE_LINK = re.compile(r"\]\((?!https?:|#|\.\.|/)([^)#\s]+)\.md(?:#[^)]*)?\)")
PICTURE = re.compile(r'(?:src|srcset)="([^":]+)"')
ANCHOR = re.compile(r'<a id="([\w-]+)">')
LARGEST = 200_000
"""Characters of a file that are shown."""


def show_contents(app: Sphinx, docname: str, source: list[str]) -> None:
    """Turn each such comment into a directive."""
    page = PurePosixPath(docname).name
    below = "" if page in ("index", "README") else f"{page}/"
    linked = dict.fromkeys(name for name in PAGE_LINK.findall(source[0]) if name.startswith(below))

    def directive(found: re.Match[str]) -> str:
        caption = f":caption: {found['caption'].strip()}\n" if found["caption"].strip() else ""
        pages = found["more"] or "\n".join(["", *linked, ""])
        return f"```{{toctree}}\n:hidden:\n:glob:\n{caption}{pages}```"

    source[0] = CONTENTS.sub(directive, source[0])


class Anchors(SphinxTransform):
    """Make anchors that are no headings known to the check of links: HTML, and what autodoc describes."""

    default_priority = 900

    def apply(self, **kwargs: Any) -> None:
        """Enter each beside the anchors of headings, and settle links from the page to itself."""
        html = [name for raw in self.document.findall(nodes.raw) for name in ANCHOR.findall(raw.astext())]
        described = [name for each in self.document.findall(addnodes.desc_signature) for name in each["ids"]]
        known = self.env.metadata[self.env.docname].setdefault("myst_slugs", {})
        known.update({name: (0, name, name) for name in [*html, *described] if name not in known})
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link["reftype"] == "myst" and link["reftarget"] in html:
                link.replace_self(
                    nodes.reference("", "", *link.children, refid=link["reftarget"], internal=True)
                )


class FileLinks(SphinxTransform):
    """Lead links to files of the repository to pages that show them, and links to folders to their index."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        """Replace what would be a download, or lead nowhere."""
        for link in list(self.document.findall(addnodes.download_reference)):
            file = self.path(link["reftarget"])
            files(self.env).setdefault(self.env.docname, set()).add(file)
            link.replace_self(self.reference(f"files/{file}", link))
        for link in list(self.document.findall(addnodes.pending_xref)):
            if (
                link["reftype"] == "myst"
                and (folder := self.path(link["reftarget"]))
                and self.is_folder(folder)
            ):
                pages = (f"{folder}/{name}" for name in ("index", "README"))
                page = next((page for page in pages if page in self.env.found_docs), None)
                link.replace_self(self.reference(page, link) if page else link.children)

    def is_folder(self, path: str) -> bool:
        """Whether a link leads to a folder rather than a page or a heading."""
        return (Path(self.env.srcdir) / path).is_dir()

    def path(self, target: str) -> str:
        """Where a link of this page leads, from the root of the repository."""
        absolute = Path(self.env.relfn2path(target, self.env.docname)[1]).resolve()
        return absolute.relative_to(self.env.srcdir).as_posix()

    def reference(self, page: str, link: Any) -> nodes.reference:
        """A link to a page of the site."""
        up = "../" * len(PurePosixPath(self.env.docname).parent.parts)
        return nodes.reference("", "", *link.children, refuri=f"{up}{page}.html", internal=True)


def files(env: BuildEnvironment) -> dict[str, set[str]]:
    """The files that each page links to."""
    if not hasattr(env, "repository_files"):
        env.repository_files = {}  # type: ignore[attr-defined]
    return env.repository_files  # type: ignore[attr-defined, no-any-return]


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """The page is read again."""
    files(env).pop(docname, None)


def file_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each file that is linked to."""
    for name in sorted(set().union(*files(app.env).values())):
        text = (Path(app.srcdir) / name).read_text()[:LARGEST]
        try:
            language = get_lexer_for_filename(name).aliases[0]
        except ClassNotFound:
            language = "text"
        shown = app.builder.highlighter.highlight_block(text, language, force=True)  # type: ignore[attr-defined]
        context = {"title": name, "body": f"<h1>{name}</h1>\n{shown}", "parents": []}
        yield f"files/{name}", context, "page.html"


def copy_pictures(app: Sphinx, failed: Exception | None) -> None:
    """Copy the pictures of pages that name them in HTML, which Sphinx does not look into."""
    if failed or app.builder.format != "html":
        return
    for page in sorted(app.env.found_docs):
        source = Path(app.env.doc2path(page))
        for name in PICTURE.findall(source.read_text()):
            picture = (source.parent / name).resolve()
            if picture.is_file():
                copy = Path(app.outdir) / picture.relative_to(app.srcdir)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(picture.read_bytes())


def own_code(app: Sphinx, module: str, name: str) -> str | None:
    """The module whose code is shown for a name: not that of a type behind an alias, nor of another page's name."""
    thing = getattr(sys.modules.get(module), name.partition(".")[0], None)
    origin = f"{getattr(thing, '__module__', module)}."
    homes = [page for page in documented_modules() if origin.startswith(f"{page}.")]
    return module if not origin.startswith("reticent") or (homes and module not in homes) else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Enter all of it."""
    app.add_lexer("csv", TextLexer)  # known to code hosts, not to Pygments
    app.connect("source-read", show_contents)
    app.add_transform(Anchors)
    app.add_transform(FileLinks)
    app.connect("env-purge-doc", forget)
    app.connect("html-collect-pages", file_pages)
    app.connect("build-finished", copy_pictures)
    app.connect("viewcode-follow-imported", own_code)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
