{{- define "brev-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "brev-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride }}
{{- else -}}
{{- $name := include "brev-operator.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 47 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "brev-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "brev-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "brev-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "brev-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: brev-operator
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "brev-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "brev-operator.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{- required "serviceAccount.name is required when serviceAccount.create is false." .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "brev-operator.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest }}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "brev-operator.clusterID" -}}
{{- required "clusterID is required: 1 to 12 of a-z and 0-9 that name this installation. It becomes part of every machine's name; never change it while machines exist. Example: --set clusterID=lab1" .Values.clusterID }}
{{- end }}

{{- /* The variables of the operator: what the chart decides, then the user's settings, which the schema keeps apart. */ -}}
{{- define "brev-operator.settings" -}}
{{- $ours := dict
  "BREV_OPERATOR_CLUSTER_ID" (include "brev-operator.clusterID" .)
  "BREV_OPERATOR_LISTEN_ADDRESS" "0.0.0.0"
  "BREV_OPERATOR_LISTEN_PORT" "8080"
  "BREV_OPERATOR_STATE_DIRECTORY" "/var/lib/brev-operator/state"
  "BREV_OPERATOR_TOKEN_FILE" "/var/run/secrets/brev-operator/token"
-}}
{{- with .Values.watchNamespaces -}}
{{- $_ := set $ours "BREV_OPERATOR_WATCH_NAMESPACES" (join "," .) -}}
{{- end -}}
{{- range $name, $value := merge (deepCopy .Values.settings) $ours }}
- name: {{ $name }}
  value: {{ include "brev-operator.text" $value | quote }}
{{- end }}
{{- end }}

{{- /* Numbers in values are floats; 16 must not become 16.0 or 1e+06. */ -}}
{{- define "brev-operator.text" -}}
{{- if kindIs "float64" . -}}
{{- . | toJson }}
{{- else -}}
{{- . | toString }}
{{- end }}
{{- end }}
