"""The engine: queue, cache, workers, and one module per kind that observes, decides, acts and patches."""
