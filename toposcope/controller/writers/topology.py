"""All that is written for one topology, in order: each writer tells of what was written before."""

from collections.abc import Sequence
from dataclasses import replace

from toposcope.controller.findings import Findings
from toposcope.controller.look import Pass
from toposcope.controller.publishing.dry_run import DryRunClient
from toposcope.controller.publishing.write_backoff import WriteBackoff
from toposcope.controller.wiring import Wiring
from toposcope.controller.writers.events import EventWriter
from toposcope.controller.writers.published import PublishedWriter
from toposcope.controller.writers.segments import SegmentWriter
from toposcope.controller.writers.status import StatusWriter
from toposcope.controller.writers.writer import WriteOutcome, Writer
from toposcope.kube.client import Caller


class TopologyWriter:
    """Calls the writers of one topology."""

    def __init__(self, wiring: Wiring, status: StatusWriter) -> None:
        self._published = PublishedWriter(wiring)
        self._in_order: Sequence[Writer[Findings]] = (
            SegmentWriter(_segment_client(wiring), wiring.runtime),
            self._published,
            status,
            EventWriter(wiring),
        )
        """What workloads wait for first."""

    def write(self, look: Pass, findings: Findings) -> WriteOutcome:
        """Publish, write the status, record Events.

        Raises KubeError: then the writers after the one that failed wait for the next pass.
        """
        due: list[float] = []
        refusal = None
        for writer in self._in_order:
            outcome = writer.write(look, findings)
            findings = replace(findings, written=outcome.written)
            refusal = refusal or outcome.refusal
            if outcome.due is not None:
                due.append(outcome.due)
        return WriteOutcome(due=min(due, default=None), refusal=refusal, written=findings.written)

    def keep_only(self, uids: frozenset[str]) -> None:
        """Forget the topologies that are gone."""
        self._published.keep_only(uids)


def _segment_client(wiring: Wiring) -> Caller:
    """What the topologies of segments are written through."""
    if wiring.show:
        return DryRunClient(wiring.client, wiring.show)
    return WriteBackoff(wiring.client, wiring.runtime)
