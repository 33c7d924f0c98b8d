"""
The rules of a device, as `spec/` has them: the second implementation that every device is compared with.

`interpreter.py` and `reference.py` are links to the files in `spec/`: there is one source, and the wheel holds it.
"""
