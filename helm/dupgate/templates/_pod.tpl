{{/* Shared by all pods: judge, worker, hook and test. */}}

{{/* Environment variables from Secrets and from the user, each name once: the last one counts. Takes root and optionally role. */}}
{{- define "dupgate.commonEnv" -}}
{{- $all := list }}
{{- range $name, $from := .root.Values.secretEnv }}
{{- $all = append $all (dict "name" $name "valueFrom" (dict "secretKeyRef" (dict "name" $from.secret "key" $from.key))) }}
{{- end }}
{{- $kept := list }}
{{- $names := list }}
{{- range concat $all .root.Values.extraEnv (dig "extraEnv" list (.role | default dict)) | reverse }}
{{- if not (has .name $names) }}
{{- $names = append $names .name }}
{{- $kept = prepend $kept . }}
{{- end }}
{{- end }}
{{- if $kept }}
{{- toYaml $kept }}
{{- end }}
{{- end }}

{{/* Mounts and volumes of the configuration and its Secrets. Volumes take root and configMap. */}}
{{- define "dupgate.commonMounts" -}}
- name: config
  mountPath: /etc/dupgate
  readOnly: true
{{- if .Values.existingSecret }}
- name: secrets
  mountPath: /run/secrets/dupgate
  readOnly: true
{{- end }}
{{- if .Values.tls.existingSecret }}
- name: tls
  mountPath: {{ .Values.tls.mountPath | quote }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "dupgate.commonVolumes" -}}
- name: config
  configMap:
    name: {{ .configMap | quote }}
{{- with .root.Values.existingSecret }}
- name: secrets
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
{{- end }}
{{- with .root.Values.tls.existingSecret }}
- name: tls
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Scheduling and security of a pod. Takes root and optionally role, whose settings take precedence. */}}
{{- define "dupgate.placement" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $role := .role | default dict }}
{{- with $role.priorityClassName | default .root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $role.nodeSelector | default .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $role.tolerations | default .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Shared by all dupgate containers. */}}
{{- define "dupgate.container" -}}
image: {{ include "dupgate.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The pod template of an instance. Takes root, component (judge or worker) and role (its values). */}}
{{- define "dupgate.podTemplate" -}}
{{- $values := .root.Values }}
{{- $isJudge := eq .component "judge" }}
metadata:
  annotations:
    {{- if not $values.existingConfigMap }}
    checksum/config: {{ include "dupgate.configData" .root | sha256sum }}
    {{- end }}
    {{- merge (dict) .role.podAnnotations $values.commonAnnotations (dict "kubectl.kubernetes.io/default-container" "dupgate") | toYaml | nindent 4 }}
  labels:
    {{- /* Without the chart's version, so that a chart release that changes no pod replaces none. */}}
    {{- $labels := include "dupgate.labels" (dict "root" .root "component" .component "serves" "http" "labels" .role.podLabels) | fromYaml }}
    {{- omit $labels "helm.sh/chart" | toYaml | nindent 4 }}
spec:
  serviceAccountName: {{ include "dupgate.serviceAccountName" .root | quote }}
  {{- include "dupgate.placement" (dict "root" .root "role" .role) | nindent 2 }}
  terminationGracePeriodSeconds: {{ int $values.terminationGracePeriodSeconds }}
  {{- with .role.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .role.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    {{- $selector := dict "matchLabels" (merge (dict "app.kubernetes.io/component" $.component) (include "dupgate.selectorLabels" $.root | fromYaml)) }}
    - {{ toYaml (merge (dict) . (dict "labelSelector" $selector)) | nindent 6 | trim }}
    {{- end }}
  {{- end }}
  {{- with $values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: dupgate
      {{- include "dupgate.container" .root | nindent 6 }}
      args:
        - run
        {{- with .role.args }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: DUPGATE_ROLES
          value: {{ $isJudge | ternary (join "," $values.judges.roles) "worker" | quote }}
        - name: DUPGATE_INPUT__INSTANCE_ID
          value: {{ and $isJudge $values.judges.staticMembership | ternary "$(POD_NAME)" "" | quote }}
        - name: DUPGATE_HTTP__LISTEN
          value: {{ include "dupgate.listen" (dict "root" .root "port" $values.http.port) | quote }}
        {{- if $isJudge }}
        - name: DUPGATE_INDEX__PATH
          value: {{ $values.judges.persistence.mountPath | quote }}
        {{- end }}
        {{- if $values.admin.enabled }}
        - name: DUPGATE_HTTP__ADMIN__LISTEN
          value: {{ include "dupgate.listen" (dict "root" .root "port" $values.admin.port) | quote }}
        - name: DUPGATE_HTTP__ADMIN__TOKEN
          value: "{file: /run/secrets/dupgate-admin/token}"
        - name: DUPGATE_HTTP__ADMIN__TEXT
          value: {{ $values.admin.text }}
        {{- end }}
        {{- with include "dupgate.commonEnv" (pick . "root" "role") | trim }}
        {{- . | nindent 8 }}
        {{- end }}
      ports:
        - name: http
          containerPort: {{ int $values.http.port }}
          protocol: TCP
        {{- if $values.admin.enabled }}
        - name: admin
          containerPort: {{ int $values.admin.port }}
          protocol: TCP
        {{- end }}
      {{- with $values.startupProbe }}
      startupProbe:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.livenessProbe }}
      livenessProbe:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.readinessProbe }}
      readinessProbe:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .role.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        {{- include "dupgate.commonMounts" .root | nindent 8 }}
        {{- if $isJudge }}
        - name: state
          mountPath: {{ $values.judges.persistence.mountPath | quote }}
        {{- end }}
        {{- if $values.admin.enabled }}
        - name: admin-token
          mountPath: /run/secrets/dupgate-admin
          readOnly: true
        {{- end }}
    {{- with $values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "dupgate.commonVolumes" (dict "root" .root "configMap" (include "dupgate.configMapName" .root)) | nindent 4 }}
    {{- if and $isJudge (not $values.judges.persistence.enabled) }}
    - name: state
      emptyDir: {}
    {{- end }}
    {{- if $values.admin.enabled }}
    - name: admin-token
      secret:
        secretName: {{ $values.admin.existingSecret | quote }}
        defaultMode: 0440
        items:
          - key: {{ $values.admin.secretKey | quote }}
            path: token
    {{- end }}
{{- end }}

{{/* The files of the ConfigMap. */}}
{{- define "dupgate.configData" -}}
dupgate.yaml: |
  {{- toYaml (merge (dict "version" 1) .Values.config) | nindent 2 }}
{{- range $name, $text := .Values.configFiles }}
{{ $name | quote }}: {{ $text | toJson }}
{{- end }}
{{- end }}
