"""The place in a user's code that an error came from."""

import pytest

from ragindex.plugins.plugin_errors import describe_failure, is_of_plugin

_SCRIPT = """
class OwnError(Exception): pass

def retrieve(queries, k):
    raise OwnError("no such hit")
"""


def test_errors_of_a_script_name_its_line() -> None:
    """Its methods are objects, which no entry point names."""
    script: dict[str, object] = {"__name__": "__main__"}
    exec(compile(_SCRIPT, "mine.py", "exec"), script)
    retrieve = script["retrieve"]
    assert callable(retrieve)
    with pytest.raises(Exception, match="no such hit") as raised:
        retrieve([], 5)
    assert describe_failure(raised.value) == "OwnError: no such hit (mine.py, line 5, in retrieve)"
    assert is_of_plugin(raised.value)
