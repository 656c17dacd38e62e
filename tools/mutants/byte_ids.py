"""A plugin of pytest: names cases whose parameter is bytes.

mutmut needs the ids of tests unescaped, and then pytest fails on those of bytes.
"""


def pytest_make_parametrize_id(val: object) -> str | None:
    """The id of a parameter; None leaves it to pytest."""
    if isinstance(val, bytes):
        return repr(val)
    return None
