"""Models behind the seams of :mod:`glong.protocols`; heavy libraries are imported only here."""
