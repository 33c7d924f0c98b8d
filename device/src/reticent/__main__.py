"""`python -m reticent`: the command line, where `reticent` is not on the path."""

from reticent.cli import main

if __name__ == "__main__":
    main()
