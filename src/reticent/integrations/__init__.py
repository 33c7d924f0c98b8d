"""reticent behind instruments that a program already has: swap one part, and what leaves is noisy bits."""
