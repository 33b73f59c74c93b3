{{- define "holdfast.name" -}}
{{- if contains "holdfast" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-holdfast{{ end -}}
{{- end }}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "holdfast.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "holdfast.databaseSecret" -}}
{{- if .Values.database.url }}{{ include "holdfast.name" . }}-database
{{- else }}{{ required "database.existingSecret (or database.url) says where Postgres is" .Values.database.existingSecret }}
{{- end -}}
{{- end }}

{{- define "holdfast.scheme" -}}
{{- if .Values.tls.secretName }}https
{{- else if .Values.tls.behindProxy }}http
{{- else }}{{ fail "tls.secretName names the servers' certificate; without one, set tls.behindProxy" }}
{{- end -}}
{{- end }}

{{- define "holdfast.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "holdfast.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Of `root`; its URL is that of `secret`, if one is named, else that of the servers. */}}
{{- define "holdfast.databaseEnv" -}}
{{- $database := .root.Values.database }}
- name: HOLDFAST_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .secret | default (include "holdfast.databaseSecret" .root) }}
      key: {{ if and $database.url (not .secret) }}url{{ else }}{{ $database.key }}{{ end }}
{{- if $database.trustNetwork }}
- {name: HOLDFAST_TRUST_DATABASE_NETWORK, value: "true"}
{{- end }}
{{- end }}
