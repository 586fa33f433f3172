"""What ``reindex_benchmark`` is made of: options, work on Ray's workers, files of the report."""
