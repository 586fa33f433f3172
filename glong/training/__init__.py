"""Data sets in one form for training, and what a trained model is judged by. Knows no torch."""
