"""What holds for every test."""

import os

from hypothesis import settings

os.environ.pop("DO_NOT_TRACK", None)  # a person's wish, which would make every device under test inert

settings.register_profile("reticent", settings(), deadline=None)  # nothing here is timed
settings.load_profile("reticent")
