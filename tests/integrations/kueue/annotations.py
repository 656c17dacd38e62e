"""Places of Kueue's annotations in a Job, and what Kueue says of them."""

SLICE_LAYERS = "spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-required-topology-constraints]"
REQUIRED = "spec.template.metadata.annotations[kueue.x-k8s.io/podset-required-topology]"
PREFERRED = "spec.template.metadata.annotations[kueue.x-k8s.io/podset-preferred-topology]"
UNCONSTRAINED = "spec.template.metadata.annotations[kueue.x-k8s.io/podset-unconstrained-topology]"
SLICE_LEVEL = "spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-required-topology]"
SLICE_SIZE = "spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-size]"
