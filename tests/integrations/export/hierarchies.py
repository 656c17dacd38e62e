"""Hierarchies at random, for tests of formats and of the API servers that take them."""

import random

from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import Level
from toposcope.hierarchy.platforms import KEYS
from toposcope.integrations.framework.levels import TopologyLevels

ODD_KEYS = (
    "example.com/Rack_1",
    "rack",
    "a.b/numa",
    "example.com/9th.floor",
    "x/gpu",
    "example.com/UPS",
    "y/rack",
)
"""Label keys that the catalogue does not have."""


def random_hierarchy(seed: int) -> TopologyLevels:
    """Levels with keys from the catalogue and odd ones, each key and domain once, hostname last if at all."""
    rng = random.Random(seed)
    candidates = []
    for domain, keys in KEYS.items():
        if domain != "host":
            candidates.append(Level(domain, rng.choice(keys)))
    for number, key in enumerate(ODD_KEYS):
        if "/" in key:
            candidates.append(Level(f"level-{number}", key))

    levels = rng.sample(candidates, rng.randint(1, 14))
    if rng.random() < 0.5:
        levels.append(Level("host", HOSTNAME))
    return TopologyLevels(f"t{seed}", tuple(levels))
