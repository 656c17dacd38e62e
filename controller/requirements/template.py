"""Annotations of objects and of the pod templates in them: the only part of a template that is ever decoded."""

from collections.abc import Mapping

import msgspec


class Meta(msgspec.Struct, frozen=True, gc=False):
    """An object's metadata, or a pod template's."""

    annotations: dict[str, str] | None = None


class Template(msgspec.Struct, frozen=True, gc=False):
    """A pod template."""

    metadata: Meta | None = None


class TemplateSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a Job, Deployment or StatefulSet."""

    template: Template | None = None


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A Job, Deployment or StatefulSet, or the template of a Job."""

    metadata: Meta | None = None
    spec: TemplateSpec | None = None

    @property
    def template(self) -> Template | None:
        """Its pod template."""
        return self.spec.template if self.spec else None


def annotations(annotated: Template | Workload | None) -> Mapping[str, str]:
    """The annotations that stand there, if any."""
    return (annotated and annotated.metadata and annotated.metadata.annotations) or {}
