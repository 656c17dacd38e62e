"""What schedulers and operators reported about the workload, with what it means."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from toposcope.explain.context import Context
from toposcope.integrations.dynamo import features as dynamo
from toposcope.integrations.framework.features import SchedulerMessage, meaning_of
from toposcope.integrations.grove import features as grove
from toposcope.integrations.kai import features as kai
from toposcope.integrations.kubernetes.messages import meaning_of_no_node
from toposcope.integrations.kueue import features as kueue
from toposcope.integrations.lws import api as lws

_QUOTING: Final = (dynamo, grove, kai, kueue)
_MEANINGS: Final = {pattern: words for system in (*_QUOTING, lws) for pattern, words in system.MEANINGS.items()}
_MAX_MESSAGES: Final = 8


def meaning(text: str) -> str:
    """What a message means, whoever sent it; empty where none is known."""
    return meaning_of(text, _MEANINGS) or meaning_of_no_node(text)


def scheduler_messages(context: Context) -> Iterator[SchedulerMessage]:
    """Conditions of the objects that schedulers created for it, then messages about its pods; equal ones once."""
    messages = [message for system in _QUOTING for message in system.messages(context)]
    texts = Counter(pod.waiting for pod in context.waiting if pod.waiting)
    for text, count in texts.most_common(_MAX_MESSAGES):
        first = next(pod for pod in context.waiting if pod.waiting == text)
        pods = f"pod/{first.name}" + (f" and {count - 1} more" if count > 1 else "")
        messages.append(SchedulerMessage(f"{first.scheduler or 'the scheduler'} on {pods}", text))
    for message in dict.fromkeys(messages):
        yield message if message.meaning else replace(message, meaning=meaning(message.text))
