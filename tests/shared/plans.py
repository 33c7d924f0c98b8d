"""The plans that tests share. A test whose subject is a plan's text, or a figure of its own, has its own plan."""

from __future__ import annotations

MINUTES = """
[plan]
name = "small"
version = 1
round = "1h"
[metrics.minutes]
kind = "mean"
max_value = 60
epsilon = 1.0
"""
"""One mean, in rounds of an hour."""

SAVES = """
[plan]
name = "saves"
version = 1
round = "6h"
[metrics.saves]
kind = "mean"
max_value = 9
epsilon = 1
flip = 0.2
"""
"""One mean whose answers are flipped."""

CLEAR = """
min_reports = 1
[plan]
name = "small"
version = 1
round = "6h"
[metrics.minutes]
kind = "mean"
unit = "minute"
max_value = 360
epsilon = 3.0
"""
"""One mean with little noise, for charts of few devices. It ends with its metric, so more can be added."""

USAGE = """
min_reports = 1
[plan]
name = "app-usage"
version = {version}
round = "{round}"
grace = "{grace}"
owner = "telemetry@example.org"

[metrics.minutes]
kind = "mean"
unit = "minute"
max_value = 360
epsilon = 1.0
flip = 0.2

[metrics.spread]
kind = "histogram"
unit = "minute"
max_value = 360
buckets = 8
mechanism = "hadamard-bit"
epsilon = 1.0

[metrics.windows]
kind = "histogram"
max_value = 16
buckets = 16
mechanism = "d-bit-flip"
bits = 4
epsilon = 1.0

[segments]
os = ["windows", "macos", "linux"]
channel = ["stable", "beta"]
"""
"""A mean, two histograms and two segments; its version and rounds are filled in by `usage`."""

BARE = """
min_reports = 1
[plan]
name = "bare"
version = 3
round = "1h"
grace = "1h"

[metrics.saves]
kind = "mean"
max_value = 100
epsilon = 1.0
"""
"""One mean and nothing else, at version 3."""

SAMPLED = """
min_reports = 1
[plan]
name = "sampled"
version = 1
round = "1h"
grace = "1h"

[metrics.saves]
kind = "mean"
max_value = 100
epsilon = 1.0

[metrics.windows]
kind = "histogram"
max_value = 16
buckets = 16
mechanism = "d-bit-flip"
bits = 4
epsilon = 1.0

[metrics.opens]
kind = "mean"
max_value = 100
epsilon = 1.0

[answers]
kind = "sampled"
window = "1d"
metrics = 2

[segments]
os = ["windows", "macos", "linux"]
"""
"""Three metrics of which two are asked, once a day."""

KINDS_HEAD = """
[plan]
name = "kinds"
version = 1
round = "1h"
"""
COMMAND = """
[metrics.command]
kind = "choice"
labels = ["build", "test", "run"]
mechanism = "hadamard-bit"
epsilon = 1
flip = 0.2
"""
CRASHED = """
[metrics.crashed]
kind = "flag"
epsilon = 1
flip = 0.2
"""
START_MS = """
[metrics.start_ms]
kind = "histogram"
edges = [0, 100, 1000]
absent = true
mechanism = "d-bit-flip"
epsilon = 1
flip = 0.2
"""
KINDS = KINDS_HEAD + COMMAND + CRASHED + START_MS
"""A choice, a flag, and a value that may be absent."""

APP_USAGE = """
[plan]
name = "app-usage"
version = 1
round = "6h"
grace = "6h"
"""
EDITOR_SECONDS = """
[metrics.editor_seconds]
kind = "mean"
max_value = 21600
step = 5400
epsilon = 1.0
flip = 0.2
"""
EDITOR_HOURS = """
[metrics.editor_hours]
kind = "histogram"
max_value = 21600
buckets = 32
mechanism = "d-bit-flip"
bits = 4
epsilon = 1.0
"""
OPENED_FILES = """
[metrics.opened_files]
kind = "histogram"
max_value = 64
buckets = 8
mechanism = "hadamard-bit"
epsilon = 2.0
"""
GROUPED = (
    APP_USAGE
    + EDITOR_SECONDS
    + """
[metrics.browser_seconds]
kind = "mean"
max_value = 21600
epsilon = 0.5
"""
    + EDITOR_HOURS
    + OPENED_FILES
    + """flip = 0.1

[groups.apps]
metrics = ["editor_seconds", "browser_seconds"]
max_total = 21600

[segments]
os = ["windows", "linux"]
"""
)
"""What most devices are tried with: a group of two means, a histogram of each mechanism, a segment."""

SHOP = """
min_reports = 20
[plan]
name = "shop"
version = 1
round = "6h"
grace = "1h"
[metrics.minutes]
kind = "mean"
unit = "minute"
max_value = 60
epsilon = 1.0
flip = 0.1
[metrics.theme]
kind = "choice"
labels = ["light", "dark", "own"]
mechanism = "hadamard-bit"
epsilon = 2.0
"""
"""A mean and a choice, for tables of results. It ends with its metrics, so more can be added."""

TOOL = """
[plan]
name = "tool"
version = 1
round = "1d"
owner = "tool@example.org"

[metrics.command]
kind = "choice"
labels = ["build", "test"]
mechanism = "hadamard-bit"
epsilon = 0.5
flip = 0.2

[metrics.failed]
kind = "flag"
epsilon = 0.5
flip = 0.2
"""
"""A command and whether it failed, within the limits of a device. It ends with its metrics."""
