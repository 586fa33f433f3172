"""Training of the tagger: targets, loss and loop; the command is ``jobs/train_tagger.py``."""
