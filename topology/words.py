"""Words that messages of all rooms share."""


def plural(count: int, one: str, several: str = "") -> str:
    """The word for so many: `node`, `nodes`."""
    return one if count == 1 else several or f"{one}s"
