"""The collector: counts of noisy bits, estimates with intervals, stores, results, HTTP, dashboard."""
