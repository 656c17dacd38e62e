"""The names of the log's formats, apart from the code so that a command line costs no logging."""

from typing import Final

FORMATS: Final = ("text", "json")
