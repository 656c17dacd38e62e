{{/* Labels that select the pods of a component: dict "component". */}}
{{- define "toposcope.selector" -}}
app.kubernetes.io/name: toposcope
app.kubernetes.io/instance: toposcope
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of every object of the base: dict "root", and "component" where it belongs to one. */}}
{{- define "toposcope.labels" -}}
app.kubernetes.io/name: toposcope
app.kubernetes.io/instance: toposcope
app.kubernetes.io/part-of: toposcope
app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{/* What every pod of a program has: user, secrets for the image, and where it runs. dict "root" "values" (of the program) "asRoot". */}}
{{- define "toposcope.pod" -}}
enableServiceLinks: false
nodeSelector:
  {{- merge (dict "kubernetes.io/os" "linux") (.values.nodeSelector | default dict) | toYaml | nindent 2 }}
securityContext:
  {{- if .asRoot }}
  runAsUser: 0
  runAsGroup: 0
  {{- else }}
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- with .values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* Metadata of a program's pods: dict "values" "labels" (a YAML text) "container". The chart's own labels win: policies select by them. */}}
{{- define "toposcope.podMetadata" -}}
labels:
  {{- merge (fromYaml .labels) (.values.podLabels | default dict) | toYaml | nindent 2 }}
annotations:
  {{- merge (dict "kubectl.kubernetes.io/default-container" .container) (.values.podAnnotations | default dict) | toYaml | nindent 2 }}
{{- end }}

{{/* Arguments of a program: dict "values" "args" (a list). */}}
{{- define "toposcope.args" -}}
args:
{{- concat .args (.values.extraArgs | default list) | toYaml | nindent 0 }}
{{- end }}

{{- define "toposcope.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . | quote }}
{{- end }}
{{- end }}

{{/* The taints that keep other pods off GPU nodes, and those of the values. */}}
{{- define "toposcope.tolerations" -}}
- {key: nvidia.com/gpu, operator: Exists}
- {key: sku, operator: Equal, value: gpu}
- {key: CriticalAddonsOnly, operator: Exists}
{{- with .Values.agent.tolerations }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* Probes of a container; the argument is the name of its port. */}}
{{- define "toposcope.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  initialDelaySeconds: 3
  periodSeconds: 3
  timeoutSeconds: 5
  failureThreshold: 20
livenessProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  periodSeconds: 30
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end }}

{{- define "toposcope.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The objects of a file of manifests/, with labels and annotations put over their own: dict "root" "file" "labels" "annotations". */}}
{{- define "toposcope.objects" -}}
{{- range .root.Files.Get (printf "files/%s" .file) | replace "toposcope-system" .root.Release.Namespace | splitList "\n---\n" }}
{{- $object := fromYaml . }}
{{- $_ := set $object.metadata "labels" (merge (dict) $.labels ($object.metadata.labels | default dict)) }}
{{- if eq $object.kind "ClusterTopology" }}
{{- $_ := set $object "spec" $.root.Values.clusterTopology.spec }}
{{- end }}
{{- if has $object.kind (list "PodMonitor" "PrometheusRule") }}
{{- $_ := set $object.metadata "labels" (merge (dict) $object.metadata.labels $.root.Values.monitoring.labels) }}
{{- end }}
{{- with $.annotations }}
{{- $_ := set $object.metadata "annotations" (merge (dict) . ($object.metadata.annotations | default dict)) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
