"""What holds for every test."""

import os

os.environ.pop("DO_NOT_TRACK", None)  # a person's wish, which would make every device under test inert
