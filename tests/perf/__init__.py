"""Benchmarks: `make bench` measures, docs/design/benchmarks.md shows. Nothing here is a test."""
