"""Log lines as people and collectors read them."""

import json
import logging
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from toposcope.telemetry.logs import FORMATS, set_up


@pytest.fixture
def logged(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Sets logging up and gives what a function then writes to stderr."""

    def run(log_format: str, write: Callable[[logging.Logger], Any], *, verbose: bool = False) -> str:
        # Those that are there belong to the test runner; `set_up` would close them.
        logging.getLogger().handlers[:] = []
        set_up(log_format, is_verbose=verbose)
        write(logging.getLogger("agent"))
        return capsys.readouterr().err

    return run


def test_text_line_has_time_level_and_logger(logged: Callable[..., str]) -> None:
    text = logged("text", lambda log: log.warning("node %s: %d GPUs", "bär", 8))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING agent: node bär: 8 GPUs\n", text)


@pytest.mark.regression
def test_text_of_others_forges_no_record_and_steers_no_terminal(logged: Callable[..., str]) -> None:
    text = "gone\x1b[2J\u202e\nERROR agent: forged"
    written = logged("text", lambda log: log.warning(text))
    assert written.endswith("gone\\u001b[2J\\u202e\n    ERROR agent: forged\n")
    line = logged("json", lambda log: log.warning(text))
    assert json.loads(line)["message"] == text
    assert line[:-1].isprintable()


def test_json_line_has_time_level_and_logger(logged: Callable[..., str]) -> None:
    line = json.loads(logged("json", lambda log: log.info("node %s:\n%d GPUs", "bär😀", 8)))
    assert line["level"] == "info"
    assert line["logger"] == "agent"
    assert line["message"] == "node bär😀:\n8 GPUs"
    assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)


@pytest.mark.parametrize("log_format", FORMATS)
def test_records_from_info_on_are_written(logged: Callable[..., str], log_format: str) -> None:
    def write(log: logging.Logger) -> None:
        log.debug("unseen")
        log.info("one")
        log.error("two")

    first, second = logged(log_format, write).splitlines()
    assert "one" in first
    assert "two" in second


@pytest.mark.parametrize("log_format", FORMATS)
def test_verbose_writes_debug_records_too(logged: Callable[..., str], log_format: str) -> None:
    assert "details" in logged(log_format, lambda log: log.debug("details"), verbose=True)


def fail(log: logging.Logger) -> None:
    try:
        int("größer als erlaubt")
    except ValueError:
        log.exception("probe failed")


def test_exception_is_whole_and_in_json_one_line(logged: Callable[..., str]) -> None:
    last_words = "invalid literal for int() with base 10: 'größer als erlaubt'"
    assert logged("text", fail).rstrip().endswith(last_words)

    text = logged("json", fail)
    assert text.count("\n") == 1
    line = json.loads(text)
    assert line["message"] == "probe failed"
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith(last_words)


def test_bytes_that_are_no_text_lose_no_record(logged: Callable[..., str]) -> None:
    """File names from sysfs reach Python with lone surrogates."""
    name = b"net\xff".decode(errors="surrogateescape")
    line = json.loads(logged("json", lambda log: log.info("/sys/%s", name)))
    assert line["message"] == "/sys/net\\udcff"


def test_logging_set_up_twice_writes_once(logged: Callable[..., str]) -> None:
    def write(log: logging.Logger) -> None:
        set_up("json")
        log.info("once")

    assert logged("json", write).count("once") == 1
