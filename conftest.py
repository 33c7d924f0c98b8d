"""What holds for every test."""

import os

from hypothesis import settings

from reticent.device import policy

# The machine that runs the tests may be a build machine, a container or a person's who is not to be tracked, all of
# which would silence every device under test.
for variable in ("DO_NOT_TRACK", *policy.CI_VARIABLES, *policy.CONTAINER_VARIABLES):
    os.environ.pop(variable, None)
policy.CONTAINER_FILES = ()

settings.register_profile("reticent", settings(), deadline=None)  # nothing here is timed
settings.load_profile("reticent")
