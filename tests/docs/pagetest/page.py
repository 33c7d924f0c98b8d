"""
What a page holds: its fenced blocks, each with the comments that steer it.

An HTML comment right before a block steers it, unseen by readers:

    <!-- file: plan.toml -->                  written to that file rather than run
    <!-- test: skip, needs a bucket -->       not run, for this reason
    <!-- test: soak -->                       long: run by `make soak` alone
    <!-- test: ignore output, a clock -->     run; what it prints is not compared, for this reason
    <!-- test: exits 3 -->                    its one command ends with this status rather than 0

and one of the form `<!-- setup`, commands on lines of their own, `-->` runs them unseen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markdown_it import MarkdownIt

RUNNABLE = ("console", "python", "pycon")
PARSED = ("toml", "json")
_COMMENT = re.compile(r"\s*<!--\s*(file:|test:|setup\b)(.*?)-->\s*", re.DOTALL)
_STEER = re.compile(r"(?P<word>skip|soak|ignore output|exits)(?:,\s*(?P<reason>\S.*)|\s+(?P<status>\d+))?")


class PageError(AssertionError):
    """A page does not keep the convention, or does not do what it says."""


@dataclass(frozen=True)
class Block:
    """One fenced block and its steers; `line` is where its text begins."""

    language: str
    text: str
    line: int
    file: str | None = None
    skipped: bool = False
    soak: bool = False
    any_output: bool = False
    status: int = 0
    hidden: bool = False

    @property
    def is_session(self) -> bool:
        """Whether it is a Python session with prompts rather than a program."""
        return self.language == "pycon" or re.search(r"^\s*>>> ", self.text, re.MULTILINE) is not None


@dataclass(frozen=True)
class Command:
    """One command of a console block, and the lines that it is said to print."""

    text: str
    expected: tuple[str, ...]
    line: int

    @property
    def in_background(self) -> bool:
        """Whether it ends in `&`: a server, that runs until the page ends."""
        return re.search(r"(?<!&)&\s*$", self.text) is not None


def read_page(text: str) -> list[Block]:
    """The blocks of a page in their order; raises where a block or a comment is not as agreed."""
    blocks: list[Block] = []
    steers: list[tuple[int, str, str]] = []
    for token in MarkdownIt().parse(text):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block" and (comment := _COMMENT.fullmatch(token.content)):
            kind, words = comment[1].rstrip(":"), comment[2].strip()
            if kind == "setup":
                blocks.append(Block("console", words + "\n", line + 1, any_output=True, hidden=True))
            else:
                steers.append((line, kind, words))
        elif token.type == "code_block":
            raise PageError(f"line {line}: an indented block; fence it, so that it is known what it is")
        elif token.type == "fence":
            blocks.append(_block(token.info.strip(), token.content, line + 1, steers))
            steers = []
        elif steers and token.content:
            break
    if steers:
        raise PageError(f"line {steers[0][0]}: a comment steers a block, but none follows it")
    return blocks


def _block(language: str, text: str, line: int, steers: list[tuple[int, str, str]]) -> Block:
    said: dict[str, object] = {}
    for place, kind, words in steers:
        said.update({"file": words} if kind == "file" else _steered(place, words))
    block = Block(language, text, line, **said)  # type: ignore[arg-type]
    if block.file == "":
        raise PageError(f"line {line}: `file:` wants the name of a file")
    if language not in RUNNABLE + PARSED and block.file is None and not block.skipped:
        known = ", ".join(RUNNABLE + PARSED)
        raise PageError(
            f"line {line}: expected a block of {known}, got {language or 'one without a language'}; "
            "or say `<!-- file: NAME -->` or `<!-- test: skip, REASON -->` before it"
        )
    if block.status and (language != "console" or len(commands(block)) != 1):
        raise PageError(f"line {line}: `exits` is for a console block of one command")
    return block


def _steered(line: int, words: str) -> dict[str, object]:
    found = _STEER.fullmatch(words)
    if found is None:
        raise PageError(f"line {line}: `test: {words}` is none of skip, soak, ignore output, exits")
    match found["word"], found["reason"], found["status"]:
        case "soak", None, None:
            return {"soak": True}
        case "exits", None, str(status):
            return {"status": int(status)}
        case "skip", str(), None:
            return {"skipped": True}
        case "ignore output", str(), None:
            return {"any_output": True}
    raise PageError(f"line {line}: `test: {words}` wants {'a status' if 'exits' in words else 'a reason'}")


def commands(block: Block) -> list[Command]:
    """The commands of a console block; what comes before the first `$ ` would be lost, so it is refused."""
    found: list[tuple[int, list[str], list[str]]] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            found.append((number, [line[2:]], []))
        elif not found:
            raise PageError(f"line {number}: expected a command after `$ `, got {line!r}")
        elif not found[-1][2] and _goes_on(found[-1][1][-1], line):
            found[-1][1].append(re.sub(r"^> ?", "", line))
        else:
            found[-1][2].append(line)
    if not found:
        raise PageError(f"line {block.line}: a console block without a command")
    return [Command("\n".join(text), tuple(_trimmed(lines)), number) for number, text, lines in found]


def _goes_on(before: str, line: str) -> bool:
    return before.endswith("\\") or line == ">" or line.startswith("> ")


def _trimmed(lines: list[str]) -> list[str]:
    """Without blanks at the ends of lines and empty lines at the end, which nobody sees."""
    return "\n".join(line.rstrip() for line in lines).rstrip("\n").split("\n") if any(lines) else []


PROGRESS = re.compile(r"; continuing\.$|, about \d+ s left$")


def matches(expected: tuple[str, ...], printed: str, *, begins: bool = False) -> bool:
    """
    Whether this was printed; `...` stands for anything in a line, and alone in a line for any lines.

    Lines of progress, which a busy machine makes a command print, are left out.
    """
    pattern = "".join(
        r"(?:.*\n)*" if line.strip() == "..." else r"[^\n]*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in expected
    )
    lines = [line for line in printed.splitlines() if not PROGRESS.search(line)]
    text = "".join(f"{line}\n" for line in _trimmed(lines))
    return (re.match if begins else re.fullmatch)(pattern, text) is not None
