"""Models behind the seams of :mod:`glong.protocols`: fakes, and back ends that import their libraries lazily.

:mod:`glong.models.load` makes an instance from a spec; everything else here is one back end a module.
"""
