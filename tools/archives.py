"""What a wheel and an sdist must hold, and must not."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from pathlib import Path

NOT_SHIPPED = (".ci/", ".github/", ".gitignore")  # of the repository, not of the package
LEGAL = ("LICENSE", "NOTICE")
RELATIVE = re.compile(r"\]\((?!https?://|#)[^)]*\)")


def in_wheel(wheel: Path) -> set[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def in_sdist(sdist: Path) -> set[str]:
    """The files of an sdist, without the folder they are packed in."""
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive if member.isfile()}


def wheel_problems(found: set[str], modules: Iterable[str]) -> list[str]:
    """
    How the files of a wheel differ from `modules`, the files under src, and its dist-info.

    >>> legal = {f"reticent-1.dist-info/licenses/{name}" for name in LEGAL}
    >>> wheel_problems({"reticent/a.py", "reticent/py.typed"} | legal, ["reticent/a.py", "reticent/py.typed"])
    []
    >>> wheel_problems({"reticent/a.py", "tests/b.py"} | legal, ["reticent/a.py", "reticent/c.html"])
    ['the wheel lacks reticent/c.html', 'the wheel has tests/b.py']
    """
    wanted = set(modules)
    package = {name for name in found if ".dist-info/" not in name}
    legal = {name.rpartition("/")[2] for name in found if ".dist-info/licenses/" in name}
    return [
        *(f"the wheel lacks {name}" for name in sorted(wanted - package)),
        *(f"the wheel has {name}" for name in sorted(package - wanted)),
        *(f"the wheel lacks the text of {name}" for name in LEGAL if name not in legal),
    ]


def sdist_problems(found: set[str], tracked: Iterable[str]) -> list[str]:
    """
    Which of the repository's files an sdist lacks.

    >>> sdist_problems({"Makefile"}, ["Makefile", "conftest.py", ".ci/run"])
    ['the sdist lacks conftest.py']
    """
    wanted = {name for name in tracked if not name.startswith(NOT_SHIPPED)}
    return [f"the sdist lacks {name}" for name in sorted(wanted - found)]


def metadata_problems(wheel: Path, version: str) -> list[str]:
    """What the index would show wrongly: the version, what a bare install requires, links to nowhere."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    page = metadata.get_payload()
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    dead = RELATIVE.findall(str(page))
    return [
        *([f"the wheel has version {metadata['Version']}"] if metadata["Version"] != version else []),
        *(f"the bare wheel requires {line}" for line in required),
        *(f"the index page has a link that leads nowhere: {link}" for link in dead),
    ]


def changelog_problems(text: str, version: str, final: bool) -> list[str]:
    """
    Whether the changelog begins with this version, and with a date when it is to be released.

    >>> changelog_problems("# Changelog\\n\\n## 1.2.0 (not yet released)\\n", "1.2.0", final=False)
    []
    >>> changelog_problems("# Changelog\\n\\n## 1.2.0 (not yet released)\\n", "1.2.0", final=True)
    ['CHANGELOG.md: expected the heading "1.2.0 (year-month-day)", got "1.2.0 (not yet released)"']
    """
    heading = next((line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")), "none")
    date = r"\d{4}-\d{2}-\d{2}"
    allowed = date if final else f"{date}|not yet released"
    if re.fullmatch(rf"{re.escape(version)} \(({allowed})\)", heading):
        return []
    return [f'CHANGELOG.md: expected the heading "{version} (year-month-day)", got "{heading}"']
