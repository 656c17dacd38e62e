"""What Grove's operator is configured with: a file in a ConfigMap, which the chart labels (v0.1.0-alpha.8 to main)."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from toposcope.api.yaml_text import YamlSyntaxError, load
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.integrations.grove.schedulers import profiles_of

OPERATOR: Final = {"labelSelector": "app.kubernetes.io/name=grove-operator"}
_KIND: Final = "OperatorConfiguration"


def configuration(read: Callable[[type[Any]], Any]) -> SchedulerProfiles | None:
    """The configuration in a ConfigMap; None where it holds none, or none that is readable."""
    data = read(dict).get("data")
    for text in data.values() if isinstance(data, dict) else ():
        if not isinstance(text, str) or _KIND not in text:
            continue
        try:
            values = load(text.encode())
        except YamlSyntaxError:
            continue
        if isinstance(values, dict) and values.get("kind") == _KIND:
            return profiles_of(values)
    return None


def only(configurations: Iterable[SchedulerProfiles | None]) -> SchedulerProfiles | None:
    """The one that all agree on; None where none is known: an earlier release leaves its own behind."""
    known = set(filter(None, configurations))
    return known.pop() if len(known) == 1 else None
