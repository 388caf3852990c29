{{/* Names. Labels of StatefulSet pods are 12 characters longer than its name, so names have at most 45. */}}
{{- define "dupgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 45 | trimSuffix "-" }}
{{- end }}

{{- define "dupgate.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 45 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "dupgate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "dupgate.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "dupgate.configMapName" -}}
{{- default (include "dupgate.fullname" .) .Values.existingConfigMap }}
{{- end }}

{{/* Labels. Selectors are the labels of the release and the component. */}}
{{- define "dupgate.selectorLabels" -}}
app.kubernetes.io/name: {{ include "dupgate.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The labels that the chart sets. Takes root, and optionally component and serves. */}}
{{- define "dupgate.ownLabels" -}}
{{ include "dupgate.selectorLabels" .root }}
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .serves }}
dupgate/serves: {{ . }}
{{- end }}
{{- end }}

{{/* These and the user's labels, each key once. Takes the same, and optionally labels, which take precedence. */}}
{{- define "dupgate.labels" -}}
{{- merge (dict) (.labels | default dict) (include "dupgate.ownLabels" . | fromYaml) .root.Values.commonLabels | toYaml }}
{{- end }}

{{/* Metadata of an object. Takes root, name, and optionally component, labels and annotations. */}}
{{- define "dupgate.metadata" -}}
name: {{ .name | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "dupgate.labels" (pick . "root" "component" "labels") | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "dupgate.image" -}}
{{- $image := .Values.image }}
{{- $name := trimPrefix "/" (printf "%s/%s" $image.registry $image.repository) }}
{{- if $image.digest }}
{{- printf "%s@%s" $name $image.digest }}
{{- else }}
{{- printf "%s:%s" $name (default .Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* A size such as 4GiB, 6Gi or 1073741824, in bytes. */}}
{{- define "dupgate.bytes" -}}
{{- $text := toString . | trim }}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?([eE][+]?[0-9]+)?" $text }}
{{- $unit := trimPrefix $number $text | trim | trimSuffix "B" }}
{{- $units := dict "" 1 "m" 0.001 "k" 1e3 "K" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 }}
{{- if or (not $number) (not (hasKey $units $unit)) }}
{{- fail (printf "%q is no size" $text) }}
{{- end }}
{{- mulf (float64 $number) (get $units $unit) | floor }}
{{- end }}

{{- define "dupgate.gibibytes" -}}
{{- printf "%.1f GiB" (divf (float64 .) 1073741824.0) }}
{{- end }}

{{/* Memory need of an instance, in bytes, as in `dupgate check`: the index (also that of the earlier scheme) and a fifth of it,
     pages in flight with their HTML trees, 120 MiB for each judge after the first, and half a gibibyte for the rest. Takes
     settings and roles. */}}
{{- define "dupgate.memory" -}}
{{- $index := has "judge" .roles | ternary (include "dupgate.bytes" .settings.maxMemory | float64 | mulf .settings.indexes) 0.0 }}
{{- $pages := has "worker" .roles | ternary (include "dupgate.bytes" .settings.maxInFlight | float64) 0.0 }}
{{- $judges := has "judge" .roles | ternary (sub .settings.servedPartitions 1) 0 }}
{{- addf (mulf $index 1.2) (mulf $pages (eq .settings.format "text" | ternary 2 6)) (mulf $judges 125829120) 536870912 }}
{{- end }}

{{/* A time such as 30s or `1m 30s`, in seconds. */}}
{{- define "dupgate.seconds" -}}
{{- $units := dict "ms" 0.001 "msec" 0.001 "s" 1 "sec" 1 "second" 1 "seconds" 1 "m" 60 "min" 60 "mins" 60 "minute" 60 "minutes" 60 "h" 3600 "hr" 3600 "hour" 3600 "hours" 3600 "d" 86400 "day" 86400 "days" 86400 }}
{{- $sum := 0.0 }}
{{- range regexFindAll "[0-9]+ *[a-z]+" (toString .) -1 }}
{{- $number := regexFind "^[0-9]+" . }}
{{- $sum = addf $sum (mulf (float64 $number) (get $units (trimPrefix $number . | trim) | default 0)) }}
{{- end }}
{{- $sum }}
{{- end }}

{{/* A list, or a text with commas, as a list in JSON. */}}
{{- define "dupgate.list" -}}
{{- $items := list }}
{{- range join "," . | splitList "," }}
{{- $items = append $items (trim .) }}
{{- end }}
{{- without $items "" | toJson }}
{{- end }}

{{/* An address to listen on, with brackets if it is an IPv6 address. Takes root and port. */}}
{{- define "dupgate.listen" -}}
{{- $address := .root.Values.http.address | trimPrefix "[" | trimSuffix "]" }}
{{- printf (contains ":" $address | ternary "[%s]:%d" "%s:%d") $address (int .port) }}
{{- end }}

{{/* The settings that the chart itself uses, with the defaults of the program. */}}
{{- define "dupgate.settings" -}}
{{- $config := .Values.config }}
{{- $mode := dig "mode" "" $config | default "route" }}
{{- $group := dig "input" "group" "" $config | default "dupgate" }}
mode: {{ $mode | quote }}
group: {{ eq $mode "observe" | ternary (printf "%s.observe" $group) $group | quote }}
brokers: {{ include "dupgate.list" (dig "kafka" "brokers" "" $config) }}
topics: {{ include "dupgate.list" (dig "input" "topics" "" $config) }}
start: {{ dig "input" "start" "" $config | default "earliest" | quote }}
window: {{ dig "window" "size" "" $config | default "72h" | quote }}
maxMemory: {{ dig "index" "max_memory" "" $config | default "4GiB" | toString | quote }}
{{- with dig "index" "max_entries" nil $config }}
maxEntries: {{ int64 . }}
{{- end }}
maxInFlight: {{ dig "processing" "max_in_flight_bytes" "" $config | default "64MiB" | toString | quote }}
format: {{ dig "input" "format" "" $config | default "json" | quote }}
{{- $served := dig "judge" "served_partitions" "all" $config }}
{{- $partitions := list (dig "judge" "partitions" 1 $config) }}
{{- with get $config "previous" }}
{{- $partitions = append $partitions (dig "judge" "partitions" (first $partitions) .) }}
{{- end }}
indexes: {{ len $partitions }}
{{- $all := 0 }}
{{- range $partitions }}
{{- $all = add $all (kindIs "slice" $served | ternary $served (int . | until) | len) }}
{{- end }}
servedPartitions: {{ $all }}
coldStart: {{ dig "index" "cold_start" "" $config | default "proceed" | quote }}
shutdownGrace: {{ dig "processing" "shutdown_grace" "" $config | default "30s" | quote }}
{{- end }}

{{/* The value of a setting, or null if it is unset, as JSON: {"value": ...}. Takes config and path. */}}
{{- define "dupgate.value" -}}
{{- $value := .config }}
{{- range splitList "." .path }}
{{- $value = get (kindIs "map" $value | ternary $value dict) . | default nil }}
{{- end }}
{{- dict "value" $value | toJson }}
{{- end }}

{{/* Whether a setting is given: in the configuration, or possibly by an environment variable. Takes root and path. */}}
{{- define "dupgate.isGiven" -}}
{{- $variable := printf "DUPGATE_%s" (.path | replace "." "__" | upper) }}
{{- $names := keys .root.Values.secretEnv }}
{{- range concat .root.Values.extraEnv .root.Values.judges.extraEnv }}
{{- $names = append $names .name }}
{{- end }}
{{- $given := include "dupgate.value" (dict "config" .root.Values.config "path" .path) | fromJson }}
{{- if or $given.value .root.Values.existingConfigMap .root.Values.extraEnvFrom (has $variable $names) }}true{{ end }}
{{- end }}

{{/* Problems with the values that the schema cannot detect, one per line. */}}
{{- define "dupgate.problems" -}}
{{- $values := .Values }}
{{- $config := $values.config }}
{{- $settings := include "dupgate.settings" . | fromYaml }}
{{- if and $values.existingConfigMap $config }}
- config and existingConfigMap exclude each other
{{- end }}
{{- if and $values.existingConfigMap $values.configFiles }}
- configFiles and existingConfigMap exclude each other: put the files into {{ $values.existingConfigMap }}
{{- end }}
{{- if hasKey $values.configFiles "dupgate.yaml" }}
- configFiles: dupgate.yaml is written from config
{{- end }}
{{- range concat (list $values.tls $values.judges.persistence) $values.extraVolumeMounts }}
{{- if hasPrefix "/etc/dupgate/" (printf "%s/" .mountPath) }}
- {{ .mountPath }}: nothing can be mounted in /etc/dupgate, which is a ConfigMap; configFiles adds files to it
{{- end }}
{{- end }}
{{- $required := list "kafka.brokers" "input.topics" }}
{{- if ne $settings.mode "observe" }}
{{- $required = append $required "output.unique.topic" }}
{{- end }}
{{- if eq $settings.mode "route" }}
{{- $required = append $required "output.duplicate.topic" }}
{{- end }}
{{- if and (ne $settings.mode "observe") (eq (dig "processing" "on_bad_record" "" $config | default "dead_letter") "dead_letter") }}
{{- $required = append $required "output.dead_letter.topic" }}
{{- end }}
{{- range $required }}
{{- if not (include "dupgate.isGiven" (dict "root" $ "path" .)) }}
- config.{{ . }} is missing
{{- end }}
{{- end }}
{{- with dig "roles" nil $config }}
- config.roles is set by the chart: use judges.roles, judges.replicas and workers.replicas
{{- end }}
{{- if not (has "judge" $values.judges.roles) }}
- judges.roles must have judge: use workers.replicas for instances that only work
{{- end }}
{{- with dig "input" "instance_id" "" $config }}
{{- if not (contains "$" .) }}
- config.input.instance_id must not be the same for all instances; the chart sets it (judges.staticMembership)
{{- end }}
{{- end }}
{{- with dig "index" "path" "" $config }}
{{- if ne . $values.judges.persistence.mountPath }}
- config.index.path differs from the mount path of the volume: set judges.persistence.mountPath instead
{{- end }}
{{- end }}
{{- with dig "http" "listen" "" $config }}
{{- if ne . (include "dupgate.listen" (dict "root" $ "port" $values.http.port)) }}
- config.http.listen is set by the chart: set http.address and http.port instead
{{- end }}
{{- end }}
{{- if dig "http" "admin" nil $config }}
- config.http.admin is set by the chart: set admin instead
{{- end }}
{{- range list "kafka.security.tls.key_password" "kafka.security.sasl.password" "kafka.security.sasl.oauth.client_secret" "match.seed" }}
{{- $secret := include "dupgate.value" (dict "config" $config "path" .) | fromJson }}
{{- if and (kindIs "string" $secret.value) (not (contains "${" (toString $secret.value))) }}
- config.{{ . }} would be readable in a ConfigMap: write {file: /run/secrets/dupgate/KEY} with existingSecret, or {env: NAME} with secretEnv
{{- end }}
{{- end }}
{{- range $path, $variables := dict "extraEnv" $values.extraEnv "judges.extraEnv" $values.judges.extraEnv "workers.extraEnv" $values.workers.extraEnv "secretEnv" $values.secretEnv }}
{{- range $name, $variable := $variables }}
{{- $name = eq $path "secretEnv" | ternary $name (get $variable "name") }}
{{- if has $name (list "POD_NAME" "DUPGATE_ROLES" "DUPGATE_INPUT__INSTANCE_ID" "DUPGATE_INDEX__PATH" "DUPGATE_HTTP__LISTEN" "DUPGATE_HTTP__ADMIN__LISTEN" "DUPGATE_HTTP__ADMIN__TOKEN" "DUPGATE_HTTP__ADMIN__TEXT") }}
- {{ $path }}: {{ $name }} is set by the chart
{{- end }}
{{- end }}
{{- end }}
{{- $names := include "dupgate.ownLabels" (dict "root" . "component" "any" "serves" "any") | fromYaml | keys }}
{{- range $path, $labels := dict "commonLabels" $values.commonLabels "judges.podLabels" $values.judges.podLabels "workers.podLabels" $values.workers.podLabels "replayJob.podLabels" $values.replayJob.podLabels }}
{{- range $name, $_ := $labels }}
{{- if has $name $names }}
- {{ $path }}: {{ $name }} is set by the chart
{{- end }}
{{- end }}
{{- end }}
{{- range $path, $annotations := dict "commonAnnotations" $values.commonAnnotations "judges.podAnnotations" $values.judges.podAnnotations "workers.podAnnotations" $values.workers.podAnnotations }}
{{- if and (hasKey $annotations "checksum/config") (not $values.existingConfigMap) }}
- {{ $path }}: checksum/config is set by the chart
{{- end }}
{{- end }}
{{- if and $values.admin.enabled (not $values.admin.existingSecret) }}
- admin.enabled needs admin.existingSecret: a Secret with a token of at least 16 characters under the key {{ $values.admin.secretKey }}
{{- end }}
{{- if and $values.admin.enabled (int $values.judges.replicas) (ge (int $values.admin.judge) (int $values.judges.replicas)) }}
- admin.judge: there is no judge {{ int $values.admin.judge }}, as judges.replicas is {{ int $values.judges.replicas }}
{{- end }}
{{- if and $values.admin.enabled (eq (int $values.admin.port) (int $values.http.port)) }}
- admin.port must not be http.port
{{- end }}
{{- if and $values.ingress.enabled (not $values.admin.enabled) }}
- ingress.enabled needs admin.enabled, its only backend
{{- end }}
{{- if and $values.ingress.enabled (not $values.ingress.hosts) }}
- ingress.enabled needs ingress.hosts
{{- end }}
{{- if and $values.httpRoute.enabled (not $values.admin.enabled) }}
- httpRoute.enabled needs admin.enabled, its only backend
{{- end }}
{{- if and $values.httpRoute.enabled (not $values.httpRoute.parentRefs) }}
- httpRoute.enabled needs httpRoute.parentRefs
{{- end }}
{{- if and $values.replayJob.enabled (not $values.replayJob.args) }}
- replayJob.enabled needs replayJob.args: the arguments after `dupgate replay`, such as [run, --from=-48h, --execute]
{{- end }}
{{- range $values.replayJob.args }}
{{- if hasPrefix "--listen" . }}
- replayJob.args: --listen is set by the chart, from http.address and http.port
{{- end }}
{{- end }}
{{- if and $values.networkPolicy.enabled (not $values.networkPolicy.kafkaEgress) (not $settings.brokers) }}
- networkPolicy.enabled needs networkPolicy.kafkaEgress: the chart does not know the brokers
{{- end }}
{{- if $values.prometheusRule.enabled }}
{{- $names := include "dupgate.alertNames" . | fromJsonArray }}
{{- range concat $values.prometheusRule.disabled (keys $values.prometheusRule.severity) }}
{{- if not (has . $names) }}
- prometheusRule: there is no alert {{ . }}; there are {{ join ", " $names }}
{{- end }}
{{- end }}
{{- end }}
{{- if $values.keda.enabled }}
{{- if lt (int $values.keda.maxReplicas) (int $values.keda.minReplicas) }}
- keda.maxReplicas is less than keda.minReplicas
{{- end }}
{{- if and $values.keda.limitToPartitionsWithLag $values.keda.ensureEvenDistributionOfPartitions }}
- keda.limitToPartitionsWithLag and keda.ensureEvenDistributionOfPartitions exclude each other
{{- end }}
{{- if not (or $values.keda.bootstrapServers $settings.brokers) }}
- keda.bootstrapServers is missing: the chart does not know the brokers
{{- end }}
{{- $topics := $values.keda.topics | default $settings.topics }}
{{- if not $topics }}
- keda.topics is missing: the chart does not know the topics of the input
{{- end }}
{{- range $topics }}
{{- if hasPrefix "^" . }}
- keda.topics is missing: KEDA cannot follow the pattern {{ . }}
{{- end }}
{{- end }}
{{- if and $values.existingConfigMap (not $values.keda.consumerGroup) }}
- keda.consumerGroup is missing: the chart does not know the group
{{- end }}
{{- end }}
{{- end }}

{{/* The names of all alerts, as JSON. */}}
{{- define "dupgate.alertNames" -}}
{{- $names := list }}
{{- range (.Files.Get "files/alerts.yaml" | fromYaml).groups }}
{{- range .rules }}
{{- if .alert }}
{{- $names = append $names .alert }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{/* Ports of the brokers, the token server and the trace collector, as JSON. */}}
{{- define "dupgate.ports" -}}
{{- $ports := list }}
{{- $config := .Values.config }}
{{- if not .Values.networkPolicy.kafkaEgress }}
{{- range (include "dupgate.settings" . | fromYaml).brokers }}
{{- $ports = append $ports (regexFind ":[0-9]+$" . | trimPrefix ":" | default "9092" | int) }}
{{- end }}
{{- end }}
{{- range list (dig "kafka" "security" "sasl" "oauth" "token_url" "" $config) (dig "tracing" "otlp_endpoint" "" $config) }}
{{- if . }}
{{- $url := urlParse . }}
{{- $ports = append $ports (regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (eq $url.scheme "https" | ternary "443" "80") | int) }}
{{- end }}
{{- end }}
{{- toJson (uniq $ports) }}
{{- end }}
