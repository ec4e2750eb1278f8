"""How many cores this process may use, and how libraries that start threads of their own are kept to them."""

from functools import cache


@cache
def available_cores() -> int:
    """Return the cores of this process: of its affinity and of its container's limit (cgroups), at least 1.

    LOKY_MAX_CPU_COUNT lowers it, as for scikit-learn.
    """
    import joblib

    return int(joblib.cpu_count())
