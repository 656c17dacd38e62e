"""Which schedulers Grove's operator is configured with, as the rows of grove.yaml know them."""

from typing import Any

from tests.support.readings import CLUSTERS
from tests.support.tables import each_case
from toposcope.integrations.grove.schedulers import profiles_of


@each_case("tables/integrations.yaml")
def test_the_schedulers_of_a_configuration(scheduler: dict[str, Any], cluster: str) -> None:
    known, configured = CLUSTERS[cluster].grove, profiles_of({"scheduler": scheduler})
    assert known
    assert (configured.enabled, configured.default) == (known.enabled, known.default)
