"""Which schedulers Grove's operator is configured with, as the rows of grove.yaml know them."""

from typing import Any

import pytest

from tests.support.readings import CLUSTERS
from toposcope.integrations.grove.schedulers import profiles_of


@pytest.mark.parametrize(
    ("scheduler", "cluster"),
    [
        ({"profiles": [{"name": "kai-scheduler"}]}, "Grove with KAI enabled"),
        ({"profiles": [{"name": "kai-scheduler"}], "defaultProfileName": "kai-scheduler"}, "Grove with KAI by default"),
        ({"profiles": [{"name": "volcano"}]}, "Grove with Volcano enabled"),
    ],
)
def test_the_schedulers_of_a_configuration(scheduler: dict[str, Any], cluster: str) -> None:
    known, configured = CLUSTERS[cluster].grove, profiles_of({"scheduler": scheduler})
    assert known
    assert (configured.enabled, configured.default) == (known.enabled, known.default)
