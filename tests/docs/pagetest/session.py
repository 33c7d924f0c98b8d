"""A Python that runs the blocks of one page in one namespace: asked and answered in lines of JSON."""

from __future__ import annotations

import doctest
import io
import json
import os
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from types import ModuleType
from typing import Any


def run(source: str, file: str, line: int, namespace: dict[str, Any]) -> str:
    """What went wrong, or nothing."""
    try:
        exec(compile("\n" * (line - 1) + source, file, "exec"), namespace)  # noqa: S102
    except BaseException:
        return traceback.format_exc()
    return ""


def run_session(source: str, file: str, line: int, namespace: dict[str, Any]) -> str:
    """Where what was printed differs from what the page says, or nothing."""
    test = doctest.DocTestParser().get_doctest(source, {}, file, file, line - 1)
    test.globs = namespace
    said = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.REPORT_NDIFF)
    return said.getvalue() if runner.run(test, out=said.write, clear_globs=False).failed else ""


def main() -> None:
    """Answer until there are no more questions."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what programs started by a block print is no answer
    page = sys.modules["__main__"] = ModuleType("__main__")
    for asked in map(json.loads, sys.stdin):
        how = run_session if asked["session"] else run
        with redirect_stdout(io.StringIO()) as printed, redirect_stderr(printed):
            wrong = how(asked["source"], asked["file"], asked["line"], vars(page))
        print(json.dumps({"wrong": wrong, "printed": printed.getvalue()}), file=answers, flush=True)


if __name__ == "__main__":
    main()
