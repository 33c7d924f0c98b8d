"""
The laboratory: fleets that answer like devices, plans tried before they ship, and attacks on the real code.

Nothing in a device or a collector imports it.
"""
