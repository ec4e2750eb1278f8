"""What a comparison was made with; neither the machine's name nor its folders are in it."""

import os
import platform
from collections.abc import Mapping

from ragindex import manifest


def environment() -> Mapping[str, str]:
    """Versions of Python and of the libraries that figures can depend on, the system, the number of processors."""
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": str(os.cpu_count() or "unknown"),
    }
    return {**machine, **manifest.libraries()}
