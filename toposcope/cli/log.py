"""Shows the logs of what commands call: warnings about credentials, errors of plugins."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from toposcope.cli.terminal import complain


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        complain(f"{record.levelname.lower()}: {record.getMessage()}")


@contextmanager
def shown() -> Iterator[None]:
    """Show logs as commands show warnings; without a handler, Python prints them unescaped."""
    handler = _Handler(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
