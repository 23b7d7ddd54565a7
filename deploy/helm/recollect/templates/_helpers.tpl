{{/* Name of every object: that of the release, and of the chart unless it is in there. */}}
{{- define "recollect.name" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end -}}
{{- $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "recollect.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "recollect.labels" -}}
{{ include "recollect.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "recollect.cephConfigMap" -}}
{{- .Values.ceph.existingConfigMap | default (printf "%s-ceph" (include "recollect.name" .)) -}}
{{- end -}}

{{/* What cannot work is said before anything is made. */}}
{{- define "recollect.check" -}}
{{- if not .Values.ceph.pool }}{{ fail "ceph.pool: empty, needs the name of a pool that exists" }}{{ end -}}
{{- if and (not .Values.ceph.conf) (not .Values.ceph.existingConfigMap) }}{{ fail "ceph.conf: empty; give the file with --set-file ceph.conf=FILE, or name ceph.existingConfigMap" }}{{ end -}}
{{- if and .Values.ceph.conf .Values.ceph.existingConfigMap }}{{ fail "ceph.conf and ceph.existingConfigMap: both are set, expected one of them" }}{{ end -}}
{{- if and (not .Values.keysSecret) (not .Values.insecure) }}{{ fail "keysSecret: empty, so that nobody would need a key; name a secret, or set insecure=true if this is meant" }}{{ end -}}
{{- if eq (int .Values.ports.grpc) (int .Values.ports.http) }}{{ fail (printf "ports.grpc and ports.http: both %d" (int .Values.ports.grpc)) }}{{ end -}}
{{- end -}}
