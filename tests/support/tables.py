"""Objects that tests share by a word for each, and patterns of messages."""

import re
from typing import Any

from tests.support.paths import FIXTURES
from toposcope.api.yaml_text import load


def named_objects(file: str) -> dict[str, Any]:
    """Objects of others by a word for each, new ones at each call."""
    text = (FIXTURES / file).read_bytes()
    named: dict[str, Any] = load(text)
    return named


def says(text: str, words: str) -> bool:
    """Whether a text consists of these words, of which `*` stands for any."""
    parts = [re.escape(part) for part in words.split("*")]
    pattern = ".*".join(parts)
    return re.fullmatch(pattern, text, re.DOTALL) is not None
