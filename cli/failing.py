"""How a command gives up."""


class Unanswerable(Exception):
    """The question cannot be answered; the message says why and what to do."""
