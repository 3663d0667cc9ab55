{{- define "gpuwait.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "gpuwait.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "gpuwait.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "gpuwait.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "gpuwait.selector" -}}
app.kubernetes.io/name: {{ include "gpuwait.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gpuwait.labels" -}}
{{ include "gpuwait.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "gpuwait.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "gpuwait.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "gpuwait.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{- end -}}
{{- end -}}
{{- end }}

{{- define "gpuwait.bundles" -}}
{{- $task := "containerd/io.containerd.runtime.v2.task/k8s.io" -}}
{{- get (dict
  "none" ""
  "containerd" (printf "/run/%s" $task)
  "crio" "/run/containers/storage/overlay-containers"
  "k3s" (printf "/run/k3s/%s" $task)
  "k0s" (printf "/run/k0s/%s" $task)
  "microk8s" (printf "/var/snap/microk8s/common/run/%s" $task)
) .Values.runtime -}}
{{- end }}

{{- define "gpuwait.podResources" -}}
{{- if .Values.kubelet.podResourcesDirectory -}}
{{- .Values.kubelet.podResourcesDirectory | trimSuffix "/" -}}
{{- else -}}
{{- get (dict
  "k0s" "/var/lib/k0s/kubelet/pod-resources"
  "microk8s" "/var/snap/microk8s/common/var/lib/kubelet/pod-resources"
) .Values.runtime | default "/var/lib/kubelet/pod-resources" -}}
{{- end -}}
{{- end }}

{{- /* Mounts of the host as a list: name, path of the host, path in the container, propagation. */ -}}
{{- define "gpuwait.mounts" -}}
# Not /proc: with the host's process ids the container's own shows the same, and has no binfmt_misc to write to.
# Not /sys as a whole: what is mounted below a read-only mount stays writable for root, as debugfs would be.
- {name: sys-block, from: /sys/block, to: /host/sys/block}
- {name: sys-bus, from: /sys/bus, to: /host/sys/bus}
- {name: sys-class, from: /sys/class, to: /host/sys/class}
- {name: sys-devices, from: /sys/devices, to: /host/sys/devices}
- {name: sys-mm, from: /sys/kernel/mm, to: /host/sys/kernel/mm}
- {name: cgroup, from: /sys/fs/cgroup, to: /host/sys/fs/cgroup}
{{- if .Values.lustre.enabled }}
- {name: sys-lustre, from: /sys/fs/lustre, to: /host/sys/fs/lustre}
- {name: debug-lustre, from: /sys/kernel/debug/lustre, to: /host/sys/kernel/debug/lustre}
{{- end }}
- {name: udev, from: /run/udev/data, to: /host/root/run/udev/data}
{{- if .Values.kubelet.logs }}
- {name: container-logs, from: /var/log/containers, to: /host/root/var/log/containers}
- {name: pod-logs, from: /var/log/pods, to: /host/root/var/log/pods}
{{- end }}
{{- if .Values.kubelet.podResources }}
# The directory: a kubelet that restarts makes a new socket.
- {name: pod-resources, from: {{ include "gpuwait.podResources" . }}, to: /host/root{{ include "gpuwait.podResources" . }}}
{{- end }}
{{- with include "gpuwait.bundles" . }}
# HostToContainer: a mount of a container that ends must not live on here.
- {name: runtime, from: {{ . }}, to: /host/root{{ . }}, propagation: HostToContainer}
{{- end }}
{{- if .Values.slurm.enabled }}
- {name: gpu-jobs, from: {{ .Values.slurm.directory }}, to: /host/root{{ .Values.slurm.directory }}}
{{- end }}
{{- if eq .Values.gpuAccess "hostPath" }}
- {name: driver, from: {{ .Values.hostPath.driver }}, to: /host/root{{ .Values.hostPath.driver }}}
{{- end }}
{{- end }}

{{- /* Options as variables, so that `kubectl exec POD -- gpuwait check` sees what the daemon sees. */ -}}
{{- define "gpuwait.options" -}}
- {name: GPUWAIT_PATH_SYSFS, value: /host/sys}
- {name: GPUWAIT_PATH_ROOTFS, value: /host/root}
- {name: GPUWAIT_PATH_UDEV_DATA, value: /host/root/run/udev/data}
- {name: GPUWAIT_WEB_LISTEN_ADDRESS, value: ":{{ .Values.port }}"}
{{- $usual := list "/var/lib/kubelet/pod-resources" "/var/snap/microk8s/common/var/lib/kubelet/pod-resources" }}
{{- $place := include "gpuwait.podResources" . }}
{{- if and .Values.kubelet.podResources (not (has $place $usual)) }}
- {name: GPUWAIT_PATH_POD_RESOURCES, value: /host/root{{ $place }}/kubelet.sock}
{{- end }}
{{- if .Values.slurm.enabled }}
- {name: GPUWAIT_PATH_GPU_JOBS, value: /host/root{{ .Values.slurm.directory }}}
{{- end }}
{{- if .Values.config }}
- {name: GPUWAIT_CONFIG_FILE, value: /etc/gpuwait/config/gpuwait.yaml}
{{- end }}
{{- with .Values.webConfig }}
{{- if .existingSecret }}
- {name: GPUWAIT_WEB_CONFIG_FILE, value: /etc/gpuwait/web/{{ .key }}}
{{- end }}
{{- end }}
{{- end }}

{{- define "gpuwait.probe" -}}
{{- $probe := ternary .root.Values.webConfig.probe "http" (ne .root.Values.webConfig.existingSecret "") -}}
{{- if eq $probe "tcp" -}}
tcpSocket: {port: metrics}
{{- else -}}
httpGet: {path: {{ .path }}, port: metrics, scheme: {{ upper $probe }}}
{{- end -}}
{{- end }}

{{- /* A privileged container must not say that it may not escalate. */ -}}
{{- define "gpuwait.securityContext" -}}
{{- $capabilities := .Values.securityContext.capabilities | default dict -}}
{{- $reasons := dict
  "DAC_READ_SEARCH" "open files of other users' GPU workloads: /proc/PID/fd; files of runtimes and prologs"
  "SYS_PTRACE" "where threads of other users wait: /proc/PID/task/TID/wchan"
  "NET_ADMIN" "delay accounting by netlink (taskstats): compaction, reclaim, swap"
-}}
{{- if and (eq .Values.gpuAccess "hostPath") .Values.hostPath.privileged -}}
# Devices that no runtime hands over can be opened by a privileged container only.
{{ toYaml (merge (dict "privileged" true) (omit .Values.securityContext "allowPrivilegeEscalation" "capabilities")) }}
{{- else -}}
{{ toYaml (omit .Values.securityContext "capabilities") }}
{{- with $capabilities }}
capabilities:
  drop: {{ toJson (.drop | default list) }}
  {{- if .add }}
  add:
    {{- range .add }}
    - {{ . }}{{ with get $reasons . }}  # {{ . }}{{ end }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end -}}
{{- end }}

{{- /* Target labels: the node's name, and none that a rollout would change or that is the workload's own. */ -}}
{{- define "gpuwait.endpoint" -}}
port: metrics
path: /metrics
scheme: {{ .scheme }}
interval: {{ .interval }}
scrapeTimeout: {{ .scrapeTimeout }}
honorLabels: false
{{- with .tlsConfig }}
tlsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .basicAuth }}
basicAuth: {{- toYaml . | nindent 2 }}
{{- end }}
relabelings:
  - {sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: node, action: replace}
  - {sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: instance, action: replace}
  # The alerts about the exporter go by its job, whatever the release is called.
  - {targetLabel: job, replacement: gpuwait, action: replace}
  - {regex: pod|container|namespace|endpoint|service, action: labeldrop}
{{- with .relabelings }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
