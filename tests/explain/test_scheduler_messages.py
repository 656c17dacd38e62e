"""Messages of schedulers and what they mean."""

import gzip
import json
import re

import msgspec

from tests.support.paths import FIXTURES
from tests.support.tables import each_row
from toposcope.explain.diagnosis import meaning


class Message(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    meaning: str = ""


@each_row("scheduler_messages.yaml", Message, ids=lambda row: row.text[:80] or "no text")
def test_the_meaning_of_a_message(row: Message) -> None:
    assert meaning(row.text) == row.meaning


RECORDED = json.loads(gzip.decompress((FIXTURES / "answers" / "kueue.json.gz").read_bytes()))


def test_every_recorded_message_of_kueue_has_a_meaning() -> None:
    texts = {case.get("message", "") for state in RECORDED["states"] for case in state["cases"]} - {""}
    assert len(texts) > 100
    assert [text for text in texts if not meaning(text)] == []
    # Each count of nodes that were left out is said, too.
    for text in texts:
        left_out = text.partition("; excluded: ")[2]
        assert meaning(text).count("nodes ") == len(re.findall(r": \d+(?:,|$)", left_out)), (text, meaning(text))
