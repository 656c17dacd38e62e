"""Levels that an upstream system refuses: our CRD's rules refuse them too, and nothing is ever published of them."""

import pytest
from tests.controller.cases.model import levels
from tests.controller.cases.objects import KUEUE_BLOCK, KUEUE_RACK, RACK, ZONE, cluster
from tests.controller.cases.world import World
from tests.support.cluster import History
from toposcope.api.label_keys import HOSTNAME

pytestmark = pytest.mark.slow

Levels = list[dict[str, str]]
DOMAIN_TWICE = levels(("zone", ZONE), ("zone", RACK))
NO_LABEL = levels(("rack", "@invalid"))
KEY_TWICE = levels(("block", KUEUE_BLOCK), ("rack", KUEUE_BLOCK))
HOST_FIRST = levels(("host", HOSTNAME), ("block", KUEUE_BLOCK), ("rack", KUEUE_RACK))
HOST_IN_THE_MIDDLE = levels(("block", KUEUE_BLOCK), ("host", HOSTNAME), ("rack", KUEUE_RACK))


@pytest.mark.parametrize(
    ("invalid", "refusal"),
    [
        pytest.param(DOMAIN_TWICE, "a domain appears twice", id="tas21-domain-twice"),
        pytest.param(NO_LABEL, "not a label key", id="kueue-no-label"),
        pytest.param(KEY_TWICE, "a key appears twice", id="kueue-key-twice"),
        pytest.param(HOST_FIRST, "make it the last one", id="kueue-host-first"),
        pytest.param(HOST_IN_THE_MIDDLE, "make it the last one", id="kueue-host-in-the-middle"),
    ],
)
def test_levels_that_upstream_refuses_are_refused(at: World, invalid: Levels, refusal: str) -> None:
    if not at.api.is_real:
        pytest.skip("the embedded API server does not know CEL")
    at.begin(cluster(2))
    code, answer = at.make_topology("invalid", {"levels": invalid})
    assert code == 422, answer
    assert refusal in answer["message"]


@pytest.mark.parametrize(
    ("invalid", "problem"),
    [
        pytest.param(
            DOMAIN_TWICE,
            "spec.levels[1].domain: 'zone' is listed twice; each domain names one level",
            id="tas21-domain-twice",
        ),
        pytest.param(
            NO_LABEL,
            "spec.levels[0].key: '@invalid' is not a label key with a lower-case DNS prefix",
            id="kueue-no-label",
        ),
        pytest.param(
            KEY_TWICE,
            "spec.levels[1].key: 'cloud.provider.com/topology-block' is listed twice; "
            "each level needs a label of its own",
            id="kueue-key-twice",
        ),
        pytest.param(
            HOST_FIRST,
            "spec.levels[0].key: kubernetes.io/hostname must be the last level; nothing is narrower than a host",
            id="kueue-host-first",
        ),
        pytest.param(
            HOST_IN_THE_MIDDLE,
            "spec.levels[1].key: kubernetes.io/hostname must be the last level; nothing is narrower than a host",
            id="kueue-host-in-the-middle",
        ),
    ],
)
def test_levels_that_get_past_the_server_are_not_published(invalid: Levels, problem: str) -> None:
    history = History(levels=invalid)
    history.look(())
    published = history.condition("Published")
    assert published["status"] == "False"
    assert published["reason"] == "InvalidSpec"
    assert published["message"] == problem
