"""Which device the models run on."""

import importlib.util
import os

__all__ = ["describe_device"]


def describe_device() -> str:
    """For people: the GPU's name and memory, or the number of CPU cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cpu = f"CPU, {cores} cores"
    if importlib.util.find_spec("torch") is None:
        return f"{cpu} (torch is not installed)"
    import torch

    if not torch.cuda.is_available():
        return cpu
    properties = torch.cuda.get_device_properties(0)
    return f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB; {cpu}"
