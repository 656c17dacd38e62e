"""One log line per event, as text for people or JSON for collectors."""

import logging
import sys
from datetime import UTC, datetime
from typing import Final

from toposcope.text import compact, escaped, escaped_lines

FORMATS: Final = ("text", "json")


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Indent further lines (a difference, a traceback): none may look like a record."""
        lines = escaped_lines(super().format(record))
        return lines.replace("\n", "\n    ")


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": time,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # File names from sysfs may hold bytes that are no UTF-8, which Python keeps as lone
        # surrogates.
        for key, text in line.items():
            utf8 = text.encode(errors="backslashreplace")
            line[key] = utf8.decode()
        return escaped(compact(line))


def set_up(log_format: str, *, is_verbose: bool = False) -> None:
    """Send the log of this process to stderr, in one of `toposcope.telemetry.logs.FORMATS`."""
    formatter: logging.Formatter
    if log_format == "json":
        formatter = _Json()
    else:
        formatter = _Text("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    level = logging.DEBUG if is_verbose else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=True)
