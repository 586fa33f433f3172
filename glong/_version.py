"""The version, in one place: packaging and store metadata read it from here."""

__version__ = "0.1.0"
