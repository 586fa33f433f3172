"""Parts of ``jobs/train_scorer.py``: data, vocabulary, batches, the training loop, the report."""
