"""The HTTP service: reports in, estimates out."""
