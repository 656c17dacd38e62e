"""The root of every exception that Toposcope raises on purpose."""


class ToposcopeError(Exception):
    """The message says what is wrong and, where it can, what to do."""
