"""Throwaway environments: a Python with the given packages, and nothing else."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path


class Environment:
    """
    A fresh virtual environment in `folder`.

    Commands run without PYTHONPATH and outside the repository: only what is installed can be imported.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True, symlinks=os.name != "nt")
        self.folder = folder
        self.scripts = folder / ("Scripts" if os.name == "nt" else "bin")
        self.python = self.scripts / "python"

    def install(self, *arguments: str | Path) -> None:
        """Install with pip; `arguments` are pip's."""
        quiet = ["--quiet", "--disable-pip-version-check"]
        self.run("-m", "pip", "install", *quiet, *map(str, arguments))

    def run(self, *arguments: str | Path, folder: Path | None = None) -> None:
        """Run this Python and let it speak; a failure is a `CalledProcessError`."""
        command = [str(self.python), *map(str, arguments)]
        subprocess.run(command, check=True, cwd=folder or self.folder, env=self._variables())

    def command(self, name: str, *arguments: str | Path) -> str:
        """Run a script that a package has installed and hand back what it prints; may raise likewise."""
        command = [str(self.scripts / name), *map(str, arguments)]
        return subprocess.check_output(command, cwd=self.folder, env=self._variables(), text=True)

    def answer(self, *arguments: str | Path, folder: Path | None = None) -> str:
        """Run this Python and hand back what it prints; a failure is a `CalledProcessError`."""
        command = [str(self.python), *map(str, arguments)]
        where = folder or self.folder
        return subprocess.check_output(command, cwd=where, env=self._variables(), text=True).strip()

    def _variables(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        clean["PATH"] = os.pathsep.join([str(self.scripts), clean.get("PATH", "")])
        return clean
