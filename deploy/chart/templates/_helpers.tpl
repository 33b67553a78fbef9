{{- define "halfkey.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "halfkey.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "halfkey.labels" -}}
{{ include "halfkey.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "halfkey.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}
{{- else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end }}
{{- end }}
{{- end }}

{{- define "halfkey.host" -}}
{{ (urlParse .Values.publicUrl).hostname }}
{{- end }}

{{/* Environment of every pod. What a component adds comes after it. */}}
{{- define "halfkey.env" -}}
- name: HALFKEY_PUBLIC_URL
  value: {{ .Values.publicUrl | quote }}
- name: HALFKEY_KEK_FILE
  value: /etc/halfkey/kek.key
- name: DATABASE_URL
  valueFrom: { secretKeyRef: { name: {{ .Values.database.existingSecret | quote }}, key: {{ .Values.database.urlKey | quote }} } }
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $from := .Values.secretEnv }}
- name: {{ $name }}
  valueFrom: { secretKeyRef: { name: {{ $from.secret | quote }}, key: {{ $from.key | quote }} } }
{{- end }}
{{- end }}

{{- define "halfkey.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "halfkey.volumeMounts" -}}
- name: kek
  mountPath: /etc/halfkey
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What pods of the service and of the migration share. */}}
{{- define "halfkey.pod" -}}
automountServiceAccountToken: false
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
# Variables like HALFKEY_PORT, which Kubernetes makes of Services, are not settings.
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
volumes:
  - name: kek
    secret:
      secretName: {{ .Values.kek.existingSecret | quote }}
      # 0440: root, and the group of podSecurityContext.fsGroup.
      defaultMode: 288
      items: [{ key: {{ .Values.kek.key | quote }}, path: kek.key }]
  - name: tmp
    emptyDir: { sizeLimit: 64Mi }
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
