{{- define "sluice.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "sluice" .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-sluice" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "sluice.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "sluice.adminSecret" -}}
{{ .Values.admin.existingSecret | default (printf "%s-admin" (include "sluice.fullname" .)) }}
{{- end -}}

{{- /* What the schema cannot say, refused with its reason. */ -}}
{{- define "sluice.validate" -}}
{{- $v := .Values -}}
{{- if and (ne $v.store "redis") $v.replicas (gt (int $v.replicas) 1) -}}
{{- fail (printf "replicas: %d pods with `store: %s` would each count by themselves, so a limit would let through %d times its quota; use `store: redis`, or one replica" (int $v.replicas) $v.store (int $v.replicas)) -}}
{{- end -}}
{{- if and (ne $v.store "redis") $v.autoscaling.enabled -}}
{{- fail (printf "autoscaling: with `store: %s` there is one pod, as each would count by itself; use `store: redis`" $v.store) -}}
{{- end -}}
{{- if and $v.autoscaling.enabled (gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling: minReplicas is above maxReplicas" -}}
{{- end -}}
{{- range list "listen" "store" "workers" "drain" "rules" "policy" "users" "admin" -}}
{{- if hasKey $v.settings . -}}
{{- fail (printf "settings: `%s` is made of other values of the chart" .) -}}
{{- end -}}
{{- end -}}
{{- range list "nodes" "cluster" "username" "password" "password_file" "tls" -}}
{{- if hasKey $v.redis.settings . -}}
{{- fail (printf "redis.settings: `%s` is made of other values of the chart, and passwords of Secrets" .) -}}
{{- end -}}
{{- end -}}
{{- if and (not $v.tls.secretName) $v.tls.clients.secretName -}}
{{- fail "tls.clients: clients show certificates to listeners with TLS alone; set tls.secretName" -}}
{{- end -}}
{{- if and (not $v.tls.secretName) $v.admin.tls -}}
{{- fail "admin.tls: there is no certificate; set tls.secretName" -}}
{{- end -}}
{{- range $v.users -}}
{{- if and .certificate (not $v.tls.clients.secretName) -}}
{{- fail (printf "users: %s is known by a certificate, and no client is asked for one; set tls.clients.secretName" .name) -}}
{{- end -}}
{{- end -}}
{{- $ports := dict (toString (int $v.admin.port)) "admin" -}}
{{- if $v.admin.tls -}}
{{- if eq (int $v.admin.port) (int $v.admin.healthPort) -}}
{{- fail (printf "admin: port and healthPort are both %d" (int $v.admin.port)) -}}
{{- end -}}
{{- $_ := set $ports (toString (int $v.admin.healthPort)) "admin.healthPort" -}}
{{- end -}}
{{- range $name, $protocol := $v.protocols -}}
{{- if $protocol.enabled -}}
{{- $port := toString (int $protocol.port) -}}
{{- if hasKey $ports $port -}}
{{- fail (printf "protocols: %s and %s both have port %s" (get $ports $port) $name $port) -}}
{{- end -}}
{{- $_ := set $ports $port $name -}}
{{- if and (has $name (list "envoy" "divvy" "limitd")) (not $v.rules) (not $v.policy) -}}
{{- fail (printf "protocols: %s is enabled, and neither `rules` nor `policy` say what it limits" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq (len $ports) (ternary 2 1 $v.admin.tls) -}}
{{- fail "protocols: none is enabled" -}}
{{- end -}}
{{- range $v.policy -}}
{{- range $kind, $file := . -}}
{{- if and (has $kind (list "divvy" "limitd" "envoy")) (not (hasKey $v.files $file)) -}}
{{- fail (printf "policy: %s names %s, which is not in `files`" $kind $file) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* How many pods there may be at a time, of which each may decide alone while Redis does not answer. */ -}}
{{- define "sluice.replicas" -}}
{{- if ne .Values.store "redis" -}}1
{{- else if .Values.autoscaling.enabled -}}{{ .Values.autoscaling.maxReplicas }}
{{- else -}}{{ .Values.replicas | default 2 }}
{{- end -}}
{{- end -}}

{{- /* Whether the listener of a protocol has TLS; empty: it has none. */ -}}
{{- define "sluice.hasTls" -}}
{{- $own := index .root.Values.protocols .name -}}
{{- if and .root.Values.tls.secretName $own.tls -}}yes{{- end -}}
{{- end -}}

{{- /* Seconds; none where no other pod serves meanwhile. */ -}}
{{- define "sluice.drain" -}}
{{ eq .Values.store "disk" | ternary 0 (int .Values.drainSeconds) }}
{{- end -}}

{{- /* The keys of sluice.yaml that are read at the start alone. */ -}}
{{- define "sluice.settings" -}}
listen: # [::] is IPv4 as well, and on a node without IPv6 IPv4 alone
  {{- range $name, $protocol := .Values.protocols }}
  {{- if $protocol.enabled }}
  {{- if include "sluice.hasTls" (dict "root" $ "name" $name) }}
  - protocol: {{ $name }}
    address: "[::]:{{ $protocol.port }}"
    tls:
      certificate: /run/secrets/sluice/tls.crt
      key: /run/secrets/sluice/tls.key
      {{- with $.Values.tls.clients }}
      {{- if .secretName }}
      client_ca: /run/secrets/sluice/clients.crt
      client: {{ .verify }}
      {{- with .names }}
      names: {{ toJson . }}
      {{- end }}
      {{- end }}
      {{- end }}
  {{- else }}
  - { protocol: {{ $name }}, address: "[::]:{{ $protocol.port }}" }
  {{- end }}
  {{- end }}
  {{- end }}
  {{- if .Values.admin.tls }}
  - protocol: admin
    address: "[::]:{{ .Values.admin.port }}"
    tls: { certificate: /run/secrets/sluice/tls.crt, key: /run/secrets/sluice/tls.key }
  - { protocol: health, address: "[::]:{{ .Values.admin.healthPort }}" }
  {{- else }}
  - { protocol: admin, address: "[::]:{{ .Values.admin.port }}" }
  {{- end }}
workers: {{ .Values.workers }}
drain: {{ include "sluice.drain" . }}s
store:
  memory: {{ .Values.memory }}
  {{- if eq .Values.store "disk" }}
  path: /data/store
  durability: {{ .Values.disk.durability }}
  fsync: {{ .Values.disk.fsync }}
  {{- end }}
  {{- if eq .Values.store "redis" }}
  servers: {{ include "sluice.replicas" . }} # pods, by which `on_store_error: local` divides limits
  redis:
    {{- if not .Values.redis.settings.sentinel }}
    nodes: {{ toJson .Values.redis.nodes }}
    {{- end }}
    {{- with .Values.redis.cluster }}
    cluster: {{ . }}
    {{- end }}
    {{- with .Values.redis.username }}
    username: {{ toJson . }}
    {{- end }}
    {{- if .Values.redis.tls.enabled }}
    tls: true
    {{- if .Values.redis.tls.caSecret }}
    tls_ca: /run/secrets/sluice/redis-ca.crt
    {{- end }}
    {{- end }}
    {{- with .Values.redis.settings }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- with .Values.settings }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Those that are read again whenever they change. */ -}}
{{- define "sluice.policy" -}}
{{- with .Values.rules }}
rules:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.policy }}
policy:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.users }}
users:
  {{- range . }}
  - name: {{ toJson .name }}
    rights: {{ toJson .rights }}
    {{- if .sha256 }}
    sha256: {{ .sha256 }}
    {{- else if .certificate }}
    certificate: {{ toJson .certificate }}
    {{- else }}
    token_file: /run/secrets/sluice/user-{{ .name }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "sluice.ports" -}}
{{- range $name, $protocol := .Values.protocols }}
{{- if $protocol.enabled }}
- name: {{ $name }}
  port: {{ $protocol.port }}
  targetPort: {{ $name }}
  {{- if include "sluice.hasTls" (dict "root" $ "name" $name) }}
  appProtocol: {{ eq $name "http" | ternary "https" "tls" }}
  {{- else }}
  appProtocol: {{ get (dict "envoy" "grpc" "http" "http" "droplet" "http") $name | default "tcp" }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "sluice.podSecurity" -}}
runAsNonRoot: true
seccompProfile: { type: RuntimeDefault }
{{- with .Values.runAs }}
runAsUser: {{ int64 . }}
runAsGroup: {{ int64 . }}
fsGroup: {{ int64 . }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
{{- end -}}

{{- define "sluice.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "sluice.pod" -}}
metadata:
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # The settings that are read at the start alone: pods are replaced when it changes.
    sluice/settings: {{ include "sluice.settings" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "sluice.fullname" . }}
  automountServiceAccountToken: false
  # Otherwise a Service called sluice would set variables that begin like the server's own.
  enableServiceLinks: false
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- include "sluice.podSecurity" . | nindent 4 }}
  # Clients are done within five seconds after the drain; a disk that does not answer may take longer.
  terminationGracePeriodSeconds: {{ add (include "sluice.drain" .) 25 }}
  containers:
    - name: sluice
      image: {{ include "sluice.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/sluice/sluice.yaml]
      env:
        # Where commands in the pod find the server.
        {{- if .Values.admin.tls }}
        - { name: SLUICE_ADMIN_SERVER, value: "https://localhost:{{ .Values.admin.port }}" }
        - { name: SLUICE_ADMIN_CA, value: /run/secrets/sluice/ca.crt }
        {{- else }}
        - { name: SLUICE_ADMIN_SERVER, value: "127.0.0.1:{{ .Values.admin.port }}" }
        {{- end }}
        - { name: SLUICE_ADMIN_TOKEN_FILE, value: /run/secrets/sluice/admin-token }
        {{- if eq .Values.store "redis" }}
        {{- if .Values.redis.existingSecret }}
        - { name: SLUICE_REDIS_PASSWORD_FILE, value: /run/secrets/sluice/redis-password }
        {{- end }}
        {{- end }}
      ports:
        {{- range $name, $protocol := .Values.protocols }}
        {{- if $protocol.enabled }}
        - { name: {{ $name }}, containerPort: {{ $protocol.port }} }
        {{- end }}
        {{- end }}
        - { name: admin, containerPort: {{ .Values.admin.port }} }
        {{- if .Values.admin.tls }}
        - { name: health, containerPort: {{ .Values.admin.healthPort }} }
        {{- end }}
      # A store of many counters is read before the server listens.
      startupProbe:
        httpGet: { path: /health/live, port: {{ ternary "health" "admin" .Values.admin.tls }} }
        periodSeconds: 1
        timeoutSeconds: 2
        failureThreshold: 300
      livenessProbe:
        httpGet: { path: /health/live, port: {{ ternary "health" "admin" .Values.admin.tls }} }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      readinessProbe:
        httpGet: { path: /health/ready, port: {{ ternary "health" "admin" .Values.admin.tls }} }
        periodSeconds: 5
        timeoutSeconds: 2
        failureThreshold: 2
      securityContext:
        {{- include "sluice.containerSecurity" . | nindent 8 }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        # The whole folder, as a file that is mounted alone never changes.
        - { name: config, mountPath: /etc/sluice, readOnly: true }
        - { name: secrets, mountPath: /run/secrets/sluice, readOnly: true }
        {{- if eq .Values.store "disk" }}
        - { name: data, mountPath: /data }
        {{- end }}
  volumes:
    - name: config
      configMap: { name: {{ include "sluice.fullname" . }} }
    - name: secrets
      projected:
        defaultMode: {{ if .Values.runAs }}0440{{ else }}0444{{ end }}
        sources:
          - secret:
              name: {{ include "sluice.adminSecret" . }}
              items: [{ key: {{ .Values.admin.tokenKey }}, path: admin-token }]
          {{- with .Values.tls }}
          {{- if .secretName }}
          - secret:
              name: {{ .secretName }}
              items:
                - { key: {{ .certKey }}, path: tls.crt }
                - { key: {{ .keyKey }}, path: tls.key }
                {{- if $.Values.admin.tls }}
                - { key: {{ .caKey }}, path: ca.crt }
                {{- end }}
          {{- end }}
          {{- if .clients.secretName }}
          - secret:
              name: {{ .clients.secretName }}
              items: [{ key: {{ .clients.caKey }}, path: clients.crt }]
          {{- end }}
          {{- end }}
          {{- if eq .Values.store "redis" }}
          {{- with .Values.redis.existingSecret }}
          - secret:
              name: {{ . }}
              items: [{ key: {{ $.Values.redis.passwordKey }}, path: redis-password }]
          {{- end }}
          {{- if and .Values.redis.tls.enabled .Values.redis.tls.caSecret }}
          - secret:
              name: {{ .Values.redis.tls.caSecret }}
              items: [{ key: {{ .Values.redis.tls.caKey }}, path: redis-ca.crt }]
          {{- end }}
          {{- end }}
          {{- range .Values.users }}
          {{- if .secret }}
          - secret:
              name: {{ .secret.name }}
              items: [{ key: {{ .secret.key }}, path: {{ printf "user-%s" .name | quote }} }]
          {{- end }}
          {{- end }}
  {{- if eq .Values.store "redis" }}
  # On different nodes and in different zones, where there are some.
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "sluice.selector" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
