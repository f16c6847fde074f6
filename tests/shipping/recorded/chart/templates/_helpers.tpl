{{/* The namespace of the operator. */}}
{{- define "doors.namespace" -}}
{{- .Values.namespace | default .Release.Namespace -}}
{{- end }}

{{/* The image; a tag and a digest are optional. */}}
{{- define "doors.image" -}}
{{- .Values.image.repository -}}
{{- with .Values.image.tag }}:{{ . }}{{ end -}}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end }}
