"""
A plugin that counts the requests of datasette by database, without a change to it.

    datasette my.db --plugins-dir=plugins
    reticent device consent telemetry.db granted

Until the second command, nothing is recorded.
"""

from datasette import hookimpl

from reticent import Device
from reticent.programs import AsgiTelemetry

device = Device("plan.toml", "telemetry.db", endpoint="https://telemetry.example.org")


@hookimpl
def asgi_wrapper(datasette):
    """Called once, when datasette makes its application."""
    return lambda app: AsgiTelemetry(app, device)
