"""
sqlite-utils with telemetry, without a change to it.

    python sqlite_utils_telemetry.py tables my.db
"""

import sqlite_utils.cli

from reticent.programs import CommandLine

telemetry = CommandLine("plan.toml", "telemetry.db", endpoint="https://telemetry.example.org")
telemetry.add_to(sqlite_utils.cli.cli)

if __name__ == "__main__":
    sqlite_utils.cli.cli()
