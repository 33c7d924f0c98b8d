"""What the wheel and the sdist of a house must hold, and must not."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from pathlib import Path

LEGAL = ("LICENSE", "NOTICE")
SHIPPED = ("src/", "tests/", "README.md", "pyproject.toml", *LEGAL)
ADDED = {"PKG-INFO", ".gitignore"}  # by the build
OWN = re.compile(r"reticent(-\w+)?\b(?!-)")
RELATIVE = re.compile(r"\]\((?!https?://|#)[^)]*\)")


def in_wheel(wheel: Path) -> set[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def in_sdist(sdist: Path) -> set[str]:
    """The files of an sdist, without the folder they are packed in."""
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive if member.isfile()}


def wheel_problems(found: set[str], tracked: Iterable[str]) -> list[str]:
    """
    How the files of a wheel differ from those under src among `tracked`, the house's, and its dist-info.

    >>> legal = {f"reticent-1.dist-info/licenses/{name}" for name in LEGAL}
    >>> wheel_problems({"reticent/a.py", "reticent/py.typed"} | legal, ["src/reticent/a.py", "src/reticent/py.typed"])
    []
    >>> wheel_problems({"reticent/a.py", "tests/b.py"} | legal, ["src/reticent/a.py", "src/reticent/c.html"])
    ['the wheel lacks reticent/c.html', 'the wheel has tests/b.py']
    """
    wanted = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    package = {name for name in found if ".dist-info/" not in name}
    legal = {name.rpartition("/")[2] for name in found if ".dist-info/licenses/" in name}
    return [
        *(f"the wheel lacks {name}" for name in sorted(wanted - package)),
        *(f"the wheel has {name}" for name in sorted(package - wanted)),
        *(f"the wheel lacks the text of {name}" for name in LEGAL if name not in legal),
    ]


def sdist_problems(found: set[str], tracked: Iterable[str]) -> list[str]:
    """
    How the files of an sdist differ from `tracked`, the house's: its sources, tests, page and licences.

    >>> sdist_problems({"src/reticent/a.py", "PKG-INFO"}, ["src/reticent/a.py", "tests/test_a.py"])
    ['the sdist lacks tests/test_a.py']
    >>> sdist_problems({"README.md", "state.db", "notes.txt"}, ["README.md", "notes.txt"])
    ['the sdist has notes.txt', 'the sdist has state.db']
    """
    wanted = {name for name in tracked if name.startswith(SHIPPED)}
    return [
        *(f"the sdist lacks {name}" for name in sorted(wanted - found)),
        *(f"the sdist has {name}" for name in sorted(found - wanted - ADDED)),
    ]


def requirement_problems(name: str, version: str, required: Iterable[str]) -> list[str]:
    """
    Which requirements of the distribution `name` are wrong: the device has none, the houses are of one version.

    >>> requirement_problems("reticent-lake", "1.2.0", ["reticent==1.2.0", "reticent-collector>=1.1", "click>=8"])
    ['the wheel requires reticent-collector>=1.1, not reticent-collector==1.2.0']
    >>> requirement_problems("reticent", "1.2.0", ["click>=8"])
    ['the device requires click>=8']
    """
    if name == "reticent":
        return [f"the device requires {line}" for line in required]
    own = {line: match[0] for line in required if (match := OWN.match(line))}
    return [
        f"the wheel requires {line}, not {house}=={version}"
        for line, house in own.items()
        if line != f"{house}=={version}"
    ]


def metadata_problems(wheel: Path, version: str) -> list[str]:
    """What the index would show wrongly: the version, what is required, links to nowhere."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    page = str(metadata.get_payload())
    return [
        *([f"the wheel has version {metadata['Version']}"] if metadata["Version"] != version else []),
        *requirement_problems(metadata["Name"], version, metadata.get_all("Requires-Dist", [])),
        *([] if page.strip() else ["the index page is empty"]),
        *(f"the index page has a link that leads nowhere: {link}" for link in RELATIVE.findall(page)),
    ]


def version_problems(versions: dict[str, str]) -> list[str]:
    """
    Which houses have another version than the device.

    >>> version_problems({"device": "1.2.0", "collector": "1.2.0", "lake": "1.1.0"})
    ['lake: has version 1.1.0, the device 1.2.0']
    """
    wanted = versions["device"]
    return [
        f"{house}: has version {version}, the device {wanted}"
        for house, version in versions.items()
        if version != wanted
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


def npm_problems(files: set[str], found: str, version: str) -> list[str]:
    """
    What is wrong with the package of the JavaScript device.

    >>> npm_problems({"LICENSE", "README.md", "package.json", "index.d.ts", "src/index.js"}, "0.1.0", "0.1.0")
    []
    >>> npm_problems({"LICENSE", "README.md", "package.json", "src/index.js", "tests/a.test.mjs"}, "0.1.0", "0.2.0")
    ['holds tests/a.test.mjs', 'lacks index.d.ts', 'has version 0.1.0, expected 0.2.0']
    """
    needed = {"LICENSE", "README.md", "package.json", "index.d.ts", "src/index.js"}
    wanted = re.compile(r"src/[\w-]+\.js|[\w-]+\.d\.ts|LICENSE|README\.md|package\.json")
    problems = [f"holds {name}" for name in sorted(files) if not wanted.fullmatch(name)]
    problems += [f"lacks {name}" for name in sorted(needed - files)]
    if found != version:
        problems.append(f"has version {found}, expected {version}")
    return problems


_AGREED = re.compile(
    r"MIT|BSD|Apache|ISC|PSF|Python Software Foundation|MPL|Mozilla Public|Zlib|Unlicense|HPND"
    r"|LGPL|Lesser General Public",
    re.IGNORECASE,
)


def licence_problems(licences: dict[str, str]) -> list[str]:
    """
    The packages whose licence is none of those that a dependency may have, by name.

    >>> licence_problems({"click": "BSD-3-Clause", "psycopg": "GNU Lesser General Public License v3"})
    []
    >>> licence_problems({"viral": "AGPL-3.0-only", "silent": ""})
    ['silent: its metadata name no licence', 'viral: AGPL-3.0-only is not a licence that a dependency may have']
    """
    problems = []
    for name, words in sorted(licences.items()):
        if not words.strip():
            problems.append(f"{name}: its metadata name no licence")
        elif not _AGREED.search(words):
            problems.append(f"{name}: {words.strip()} is not a licence that a dependency may have")
    return problems


def without_folders(bill: str) -> str:
    """
    A bill of materials that names archives by their files, not by where they were on the machine that built them.

    >>> without_folders('{"url": "file:///dist/reticent-0.1.0-py3-none-any.whl"}')
    '{"url": "reticent-0.1.0-py3-none-any.whl"}'
    """
    return re.sub(r'"file://[^"]*/', '"', bill)
