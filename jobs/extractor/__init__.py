"""Fine-tuning of the extractor's language model; the command is ``jobs/train_extractor.py``."""
