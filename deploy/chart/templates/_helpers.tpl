{{/* The name of a component's objects: lazaret-controllers. Takes (list $ "controllers"). */}}
{{- define "lazaret.name" -}}
{{- $root := index . 0 -}}
{{- $release := ternary "lazaret" (printf "%s-lazaret" $root.Release.Name) (contains "lazaret" $root.Release.Name) -}}
{{- $base := ternary $root.Release.Name $release (contains "lazaret" $root.Release.Name) -}}
{{- printf "%s-%s" ($base | trunc 40 | trimSuffix "-") (index . 1) -}}
{{- end -}}

{{/* Labels by which a component's pods are selected. Takes (list $ "controllers"). */}}
{{- define "lazaret.selector" -}}
app.kubernetes.io/name: lazaret
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of a component's objects. */}}
{{- define "lazaret.labels" -}}
{{- $root := index . 0 -}}
{{ include "lazaret.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* metadata of a component's object: (list $ component), (list $ component suffix) or (list $ component suffix labels). */}}
{{- define "lazaret.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "lazaret.name" . }}{{ with index (append . "") 2 }}-{{ . }}{{ end }}
labels:
  {{- include "lazaret.labels" . | nindent 2 }}
  {{- with index (concat . (list "" "")) 3 }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "lazaret.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* Flags written as a map: keys in order, an empty value is a flag without one, null is no flag. */}}
{{- define "lazaret.flags" -}}
{{- range $flag := keys .flags | sortAlpha }}
{{- $value := get $.flags $flag }}
{{- if not (kindIs "invalid" $value) }}
- {{ ternary (printf "--%s" $flag) (printf "--%s=%v" $flag $value) (eq (toString $value) "") | quote }}
{{- end }}
{{- end }}
- --log-format={{ .logFormat }}
{{- if gt (int .verbosity) 0 }}
- -{{ repeat (int .verbosity) "v" }}
{{- end }}
{{- end -}}

{{/* env written as a map. */}}
{{- define "lazaret.env" -}}
{{- range $name := keys .env | sortAlpha }}
- name: {{ $name }}
  value: {{ get $.env $name | quote }}
{{- end }}
{{- end -}}

{{/* The part of a pod that is the same for every component. Takes (list $ component values). */}}
{{- define "lazaret.podMetadata" -}}
{{- $values := index . 2 -}}
labels:
  {{- include "lazaret.labels" . | nindent 2 }}
  {{- with $values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "lazaret.podPlacement" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
serviceAccountName: {{ include "lazaret.name" . }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range $name := keys . | sortAlpha }}
  - name: {{ $name }}
  {{- end }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- range $name := keys . | sortAlpha }}
  {{- with get $values.tolerations $name }}
  - {{ toJson . }}
  {{- end }}
  {{- end }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The ServiceAccount of a component. */}}
{{- define "lazaret.account" -}}
{{- $root := index . 0 -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "lazaret.name" . }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "lazaret.labels" . | nindent 4 }}
  {{- with merge (dict) $root.Values.serviceAccount.annotations $root.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Bindings that give a component the two cluster roles of its name: see and act. */}}
{{- define "lazaret.bindings" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- range $part := list "see" "act" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "lazaret.metadata" (list $root $component $part) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ include "lazaret.name" (list $root $component) }}-{{ $part }}
subjects:
  - kind: ServiceAccount
    name: {{ include "lazaret.name" (list $root $component) }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end -}}

{{/* A role for the leases of a component, in its own namespace: (list $ component lease-name). */}}
{{- define "lazaret.leaseRole" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "lazaret.metadata" (list $root $component "leases") | nindent 2 }}
  namespace: {{ $root.Release.Namespace }}
rules:
  # A lease that does not exist has no name to be permitted by.
  - apiGroups: ["coordination.k8s.io"]
    resources: ["leases"]
    verbs: ["create"]
  - apiGroups: ["coordination.k8s.io"]
    resources: ["leases"]
    resourceNames: [{{ index . 2 | quote }}]
    verbs: ["get", "patch"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "lazaret.metadata" (list $root $component "leases") | nindent 2 }}
  namespace: {{ $root.Release.Namespace }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "lazaret.name" (list $root $component) }}-leases
subjects:
  - kind: ServiceAccount
    name: {{ include "lazaret.name" (list $root $component) }}
    namespace: {{ $root.Release.Namespace }}
{{- end -}}

{{/* A Deployment of `lazaret run`. Takes (list $ component values args). */}}
{{- define "lazaret.deployment" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := index . 2 -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "lazaret.metadata" (list $root $component) | nindent 2 }}
  namespace: {{ $root.Release.Namespace }}
spec:
  replicas: {{ $values.replicas }}
  # One that ends gives its lease back, and the next one leads; a replica more is not needed for that.
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
  selector:
    matchLabels:
      {{- include "lazaret.selector" (list $root $component) | nindent 6 }}
  template:
    metadata:
      {{- include "lazaret.podMetadata" . | nindent 6 }}
    spec:
      {{- include "lazaret.podPlacement" . | nindent 6 }}
      terminationGracePeriodSeconds: 30
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "lazaret.selector" (list $root $component) | nindent 14 }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: {{ $component }}
          image: {{ include "lazaret.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            - run
            {{- range index . 3 }}
            - {{ . }}
            {{- end }}
            - --identity=$(POD_NAME)
            - --lease-namespace=$(POD_NAMESPACE)
            - --lease-duration-seconds={{ $values.lease.durationSeconds }}
            - --lease-renew-deadline-seconds={{ $values.lease.renewDeadlineSeconds }}
            - --lease-retry-seconds={{ $values.lease.retrySeconds }}
            - --metrics-listen=0.0.0.0:{{ $root.Values.metrics.port }}
            {{- include "lazaret.flags" $values | trim | nindent 12 }}
          env:
            - name: POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: POD_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
            {{- with include "lazaret.env" $values | trim }}
            {{- . | nindent 12 }}
            {{- end }}
          ports:
            - name: metrics
              containerPort: {{ $root.Values.metrics.port }}
            {{- if and (eq $component "controllers") $root.Values.webhook.enabled }}
            - name: webhook
              containerPort: {{ $root.Values.webhook.port }}
            {{- end }}
          livenessProbe:
            httpGet: {path: /livez, port: metrics}
            periodSeconds: 10
          readinessProbe:
            httpGet: {path: /readyz, port: metrics}
            periodSeconds: 5
          startupProbe:
            httpGet: {path: /livez, port: metrics}
            failureThreshold: 30
            periodSeconds: 2
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
{{- if $values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "lazaret.metadata" (list $root $component) | nindent 2 }}
  namespace: {{ $root.Release.Namespace }}
spec:
  maxUnavailable: {{ $values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "lazaret.selector" (list $root $component) | nindent 6 }}
{{- end }}
{{- end -}}

{{/* The permissions of each controller, as JSON: the table of the program, which also the API server of `lazaret up` goes by. */}}
{{- define "lazaret.roles" -}}
{{- .Files.Get "files/controller-roles.json" -}}
{{- end -}}

{{/* Rules of a role: a list of them. */}}
{{- define "lazaret.rules" -}}
{{- range . }}
- apiGroups: {{ toJson .apiGroups }}
  resources: {{ toJson .resources }}
  {{- with .resourceNames }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: {{ toJson .verbs }}
{{- end }}
{{- end -}}

{{/* Rules to read what controllers follow: (list $ names). */}}
{{- define "lazaret.follows" -}}
{{- $roles := include "lazaret.roles" (index . 0) | fromJson }}
{{- $groups := dict }}
{{- range $name := index . 1 }}
{{- range (get $roles $name).follows }}
{{- $key := printf "group %s" (first .apiGroups) }}
{{- $_ := set $groups $key (concat (get $groups $key | default list) .resources | uniq | sortAlpha) }}
{{- end }}
{{- end }}
{{- range $key := keys $groups | sortAlpha }}
- apiGroups: [{{ trimPrefix "group " $key | quote }}]
  resources: {{ toJson (get $groups $key) }}
  verbs: ["get", "list", "watch"]
{{- end }}
{{- end -}}

{{/* The role of one controller, and the binding to its account: (list $ name). */}}
{{- define "lazaret.controllerRole" -}}
{{- $root := index . 0 -}}
{{- $name := include "lazaret.name" . -}}
{{- $role := get (include "lazaret.roles" $root | fromJson) (index . 1) -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "lazaret.metadata" . | nindent 2 }}
rules:
  {{- include "lazaret.rules" $role.may | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "lazaret.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $root.Release.Namespace }}
{{- with $role.here }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "lazaret.metadata" $ | nindent 2 }}
  namespace: {{ $root.Release.Namespace }}
rules:
  # The key by which objects that were made for incidents, and marks of replacements, are known.
  {{- include "lazaret.rules" . | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "lazaret.metadata" $ | nindent 2 }}
  namespace: {{ $root.Release.Namespace }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end -}}

{{/* A role to act as the accounts of controllers, and as no other: (list $ component controllers). */}}
{{- define "lazaret.accountsRole" -}}
{{- $root := index . 0 -}}
{{- $me := list $root (index . 1) -}}
{{- $names := list }}
{{- range index . 2 }}{{ $names = append $names (include "lazaret.name" (list $root .)) }}{{ end -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "lazaret.metadata" (append $me "accounts") | nindent 2 }}
  namespace: {{ $root.Release.Namespace }}
rules:
  - apiGroups: [""]
    resources: ["serviceaccounts"]
    resourceNames: {{ toJson $names }}
    verbs: ["impersonate"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "lazaret.metadata" (append $me "accounts") | nindent 2 }}
  namespace: {{ $root.Release.Namespace }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "lazaret.name" $me }}-accounts
subjects:
  - kind: ServiceAccount
    name: {{ include "lazaret.name" $me }}
    namespace: {{ $root.Release.Namespace }}
{{- end -}}

{{/* A DaemonSet of one container. Takes (list $ component values args mounts privileged): mounts is a map from a path on the host to a path in the
container. */}}
{{- define "lazaret.daemonSet" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := index . 2 -}}
{{- $mounts := index . 4 -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  {{- include "lazaret.metadata" (list $root $component) | nindent 2 }}
  namespace: {{ $root.Release.Namespace }}
spec:
  selector:
    matchLabels:
      {{- include "lazaret.selector" (list $root $component) | nindent 6 }}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}
  template:
    metadata:
      {{- include "lazaret.podMetadata" . | nindent 6 }}
    spec:
      {{- include "lazaret.podPlacement" . | nindent 6 }}
      terminationGracePeriodSeconds: 30
      securityContext:
        # Sockets in the kubelet's directories belong to root.
        runAsUser: 0
        seccompProfile: {type: {{ ternary "Unconfined" "RuntimeDefault" (index . 5) }}}
      containers:
        - name: {{ $component }}
          image: {{ include "lazaret.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            {{- range index . 3 }}
            - {{ . | quote }}
            {{- end }}
            {{- include "lazaret.flags" $values | trim | nindent 12 }}
          env:
            - name: NODE_NAME
              valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
            - name: POD_UID
              valueFrom: {fieldRef: {fieldPath: metadata.uid}}
            {{- with include "lazaret.env" $values | trim }}
            {{- . | nindent 12 }}
            {{- end }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            readOnlyRootFilesystem: true
            {{- if index . 5 }}
            privileged: true
            {{- else }}
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
            {{- end }}
          volumeMounts:
            {{- range $at, $host := keys $mounts | sortAlpha }}
            - name: host-{{ $at }}
              mountPath: {{ get $mounts $host }}
              {{- if eq $host "/" }}
              readOnly: true
              mountPropagation: HostToContainer
              {{- end }}
            {{- end }}
      volumes:
        {{- range $at, $host := keys $mounts | sortAlpha }}
        - name: host-{{ $at }}
          hostPath: {path: {{ $host }}, type: {{ ternary "Directory" "DirectoryOrCreate" (eq $host "/") }}}
        {{- end }}
{{- end -}}

{{/* Permissions of a driver: publish its slices, read its node and its claims. Takes (list $ component). */}}
{{- define "lazaret.driverRoles" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "lazaret.metadata" (list $root $component "see") | nindent 2 }}
rules:
  - apiGroups: ["resource.k8s.io"]
    resources: ["resourceslices"]
    verbs: ["get", "list", "watch"]
  - apiGroups: ["resource.k8s.io"]
    resources: ["resourceclaims"]
    verbs: ["get", "list", "watch"]
  - apiGroups: [""]
    resources: ["nodes"]
    verbs: ["get", "list", "watch"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "lazaret.metadata" (list $root $component "act") | nindent 2 }}
rules:
  - apiGroups: ["resource.k8s.io"]
    resources: ["resourceslices"]
    verbs: ["create", "delete", "update"]
  # status.devices of claims: conditions that devices must have before a pod is bound.
  - apiGroups: ["resource.k8s.io"]
    resources: ["resourceclaims/status"]
    verbs: ["patch", "update"]
  # Since Kubernetes 1.36 the state of devices is their driver's: on the node of its pod.
  - apiGroups: ["resource.k8s.io"]
    resources: ["resourceclaims/driver"]
    verbs: ["associated-node:patch", "associated-node:update"]
  # An event of a pod whose device was also given to another claim.
  - apiGroups: [""]
    resources: ["events"]
    verbs: ["create"]
{{- include "lazaret.bindings" . }}
{{- include "lazaret.nodePolicy" . }}
{{- end -}}

{{/* Keeps the account of a component to the node of its pod, by the node's name in its token: (list $ component). */}}
{{- define "lazaret.nodePolicy" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  {{- include "lazaret.metadata" (list $root $component "own-node") | nindent 2 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE, DELETE]
        resources: [nodes, nodes/status, pods, pods/status]
      - apiGroups: [resource.k8s.io]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE, DELETE]
        resources: [resourceslices]
  matchConditions:
    - name: by-this-account
      expression: {{ printf "request.userInfo.username == \"system:serviceaccount:%s:%s\"" $root.Release.Namespace (include "lazaret.name" (list $root $component)) | squote }}
  variables:
    # The API server puts it into the token of each pod.
    - name: key
      expression: '"authentication.kubernetes.io/node-name"'
    - name: node
      expression: 'has(request.userInfo.extra) && variables.key in request.userInfo.extra ? request.userInfo.extra[variables.key][0] : ""'
    - name: versions
      expression: '(object == null ? [] : [object]) + (oldObject == null ? [] : [oldObject])'
  validations:
    - expression: 'variables.node != ""'
      message: "the token names no node: use one of a pod, which the API server binds to the node of the pod"
    - expression: >-
        variables.versions.all(one, request.resource.resource == "nodes" ? one.metadata.name == variables.node :
          has(one.spec.nodeName) && one.spec.nodeName == variables.node)
      messageExpression: '"a token of node " + variables.node + " may change this node, its pods and its ResourceSlices alone"'
{{- include "lazaret.admissionBinding" (list $root (printf "%s-own-node" $component) (list "Deny")) }}
{{- end }}

{{/* Puts a policy into force: (list $ name actions). */}}
{{- define "lazaret.admissionBinding" -}}
{{- $root := index . 0 }}
{{- $name := index . 1 }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  {{- include "lazaret.metadata" (list $root $name) | nindent 2 }}
spec:
  policyName: {{ include "lazaret.name" (list $root $name) }}
  validationActions: {{ toJson (index . 2) }}
{{- end }}

{{/* The namespaces whose service accounts health policies may name, as JSON. */}}
{{- define "lazaret.repairNamespaces" -}}
{{- $names := list }}
{{- range $name, $on := .Values.controllers.repairNamespaces }}{{ if $on }}{{ $names = append $names $name }}{{ end }}{{ end }}
{{- if not $names }}{{ fail "controllers.repairNamespaces: name one, or set controllers.parts.health to false" }}{{ end }}
{{- toJson (sortAlpha $names) }}
{{- end }}

{{/* Roles by which a component creates objects as the accounts that policies name, and knows what it made: (list $ component). */}}
{{- define "lazaret.repairRoles" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 }}
{{- $name := include "lazaret.name" (list $root $component) }}
{{- range $namespace := include "lazaret.repairNamespaces" $root | fromJsonArray }}
{{- if $root.Values.controllers.createRepairNamespaces }}
---
apiVersion: v1
kind: Namespace
metadata:
  name: {{ $namespace }}
  labels:
    {{- include "lazaret.labels" (list $root $component) | nindent 4 }}
  annotations: {helm.sh/resource-policy: keep}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "lazaret.metadata" (list $root $component "repair") | nindent 2 }}
  namespace: {{ $namespace }}
rules:
  - apiGroups: [""]
    resources: ["serviceaccounts"]
    verbs: ["impersonate"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "lazaret.metadata" (list $root $component "repair") | nindent 2 }}
  namespace: {{ $namespace }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}-repair
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end }}
