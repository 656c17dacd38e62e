"""What documents of one run say to each other: some configure what others ask for."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from demand.members import members_of_documents
from demand.reading import Known
from demand.systems.osmo_pool import OsmoPool, pools_of, schedulers_of
from demand.systems.runai_topology import RunAiTopology, ladder_of


def with_documents(known: Known, documents: Collection[Mapping[str, Any]]) -> Known:
    """The same, with OSMO's pools and backends and Run:ai's network topologies that stand in the documents.

    What the cluster itself says of a topology counts more than a document of the same name; of the pods of a PodGroup
    those of documents count.
    """
    pools, schedulers, ladders = dict(known.pools), dict(known.schedulers), dict(known.ladders)
    for document in documents:
        if OsmoPool().claims(document):
            pools.update((pool.name, pool) for pool in pools_of(document))
            schedulers.update(schedulers_of(document))
        elif RunAiTopology().claims(document):
            ladder = ladder_of(document, known.domain_of)
            ladders.setdefault(ladder.name, ladder)
    members = {**known.members, **members_of_documents(documents)}
    return replace(known, pools=pools, schedulers=schedulers, ladders=ladders, members=members)
