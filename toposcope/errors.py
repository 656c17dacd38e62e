"""The root of every exception that Toposcope raises on purpose."""


class ToposcopeError(Exception):
    """Something that Toposcope can name: the message says what is wrong and, where it can, what to do."""
