"""The loop of a process that others are forked from: it has imported everything and used nothing."""

import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NoReturn


def fork_for_requests(run: Callable[[Mapping[str, Any]], NoReturn]) -> None:
    """Run each line of standard input, JSON, in a copy of this process, one at a time; `run` ends the copy.

    Prints "ready" first, then for each request the number of the process and, at its end, its exit status, which is
    negative for a signal. Ends with standard input.
    """
    warnings.simplefilter("ignore")
    print("ready", flush=True)
    for line in sys.stdin:
        process = os.fork()
        if not process:
            run(json.loads(line))
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
