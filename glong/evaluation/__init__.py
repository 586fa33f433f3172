"""Benchmarks of retrieval: questions with labels, metrics, baselines, report and plots.

Labels live here and nowhere else: no source reads them, so none can reach an index.
"""
