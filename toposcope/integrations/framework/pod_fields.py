"""The fields of a pod spec (Kubernetes 1.36), where the schema of a workload's CRD has them too."""

from typing import Any, Final

from toposcope.integrations.framework.unknown_fields import OPEN, STRICT

_OF_CONTAINERS: Final = """
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy
    restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath
    terminationMessagePolicy tty volumeDevices volumeMounts workingDir
"""
_OF_PODS: Final = """
    activeDeadlineSeconds affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks
    ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets
    nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates resourceClaims
    resources restartPolicy runtimeClassName schedulerName schedulingGates securityContext serviceAccount
    serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations
    topologySpreadConstraints volumes workloadRef
"""
_CONTAINER: Final = {
    OPEN: "",
    **dict.fromkeys(_OF_CONTAINERS.split(), ""),
    "resources": {STRICT: "", "claims": "", "limits": "", "requests": ""},
}
POD_SPEC: Final[dict[str, Any]] = {
    OPEN: "",
    **dict.fromkeys(_OF_PODS.split(), ""),
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
}
"""As `unknown_fields.check_fields` takes them: only what is close to one of these is a mistake."""
