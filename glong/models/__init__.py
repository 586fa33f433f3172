"""Models behind the seams of :mod:`glong.protocols`, each importing its libraries lazily.

:mod:`glong.models.load` makes an instance from a spec; the rest is one back end a module.
"""
