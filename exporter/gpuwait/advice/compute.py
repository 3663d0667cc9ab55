"""Advice on causes that lie in processors, NUMA and the network, and on what has no cause."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwait.advice.model import Advice, Step, Verify, runbook
from gpuwait.wait.verdict import Cause

_GROUP = "workload_kind, workload_namespace, workload, workload_container"

ADVICE: Mapping[Cause, Advice] = {
    Cause.CPU_THROTTLING: Advice(
        "being stopped by the CPU limit",
        "the workload uses up its CPU quota early in each period of 100 ms and is stopped until the next "
        "one, however idle the node is",
        (
            Step(
                "run no more loader workers than the limit has CPUs, each with one thread",
                "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1",
            ),
            Step(
                "lift the limit where the pod runs (cgroup v2; the kubelet may set it again)",
                "echo max > /sys/fs/cgroup/KUBEPODS_GROUP/cpu.max",
                ("pod", "container"),
            ),
            Step("lift the unit's limit", "systemctl set-property {owner} CPUQuota=", ("service",)),
        ),
        (
            Step(
                "take resources.limits.cpu out of the pod's template and keep the request; or set both "
                "to the number of loader workers and 2 more",
                "",
                ("pod",),
            ),
            Step("ask for as many CPUs as there are workers", "#SBATCH --cpus-per-task=N", ("slurm",)),
            Step("start the container without --cpus, or with more", "", ("container",)),
        ),
        Verify(
            "throttled periods must fall below {cpu_throttling.periods} of all periods, at best to 0",
            "grep -E 'nr_periods|nr_throttled' /sys/fs/cgroup/GROUP/cpu.stat",
            f"sum by ({_GROUP}) (rate(gpuwait_cgroup_cpu_throttled_periods_total[5m])) "
            f"/ sum by ({_GROUP}) (rate(gpuwait_cgroup_cpu_periods_total[5m]))",
        ),
        runbook(Cause.CPU_THROTTLING),
    ),
    Cause.CPU_CONTENTION: Advice(
        "queueing for a CPU",
        "more threads want to run than the node has CPUs, so those that feed the GPU wait for their turn",
        (
            Step("see who computes", "top -b -n 1 -o %CPU | head -20"),
            Step(
                "one thread in each loader worker: libraries otherwise start one for each CPU",
                "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1",
            ),
            Step("put what matters less behind", "renice -n 19 -p PID"),
        ),
        (
            Step(
                "whole CPUs of its own: kubelet with cpuManagerPolicy: static, the pod with equal "
                "integer requests and limits",
                "",
                ("pod",),
            ),
            Step("whole CPUs of its own", "#SBATCH --cpus-per-task=N --hint=nomultithread", ("slurm",)),
            Step("fewer loader workers than CPUs, over all jobs of the node"),
        ),
        Verify(
            "CPU pressure of the node must fall below {cpu_contention.pressure}, and the run-queue wait of "
            "the workload's threads below {cpu_contention.queue}",
            "cat /proc/pressure/cpu",
            'rate(gpuwait_pressure_some_seconds_total{resource="cpu"}[5m])',
        ),
        runbook(Cause.CPU_CONTENTION),
    ),
    Cause.NUMA_REMOTE: Advice(
        "reaching over to another NUMA node",
        "the threads that feed the GPU, or the memory they copy from, are on another NUMA node than the "
        "GPU, so each batch crosses the link between the sockets",
        (
            Step("see which CPUs are near which GPU", "nvidia-smi topo -m"),
            Step(
                "move the threads of a running process to the GPU's node",
                'taskset -acp "$(cat /sys/devices/system/node/node{numa}/cpulist)" {pid}',
            ),
            Step("and its memory", "migratepages {pid} all {numa}"),
        ),
        (
            Step(
                "kubelet with cpuManagerPolicy: static and topologyManagerPolicy: single-numa-node",
                "",
                ("pod",),
            ),
            Step("let Slurm choose near CPUs", "srun --gpus-per-task=1 --gpu-bind=closest ...", ("slurm",)),
            Step(
                "start each rank on its GPU's node",
                "numactl --cpunodebind={numa} --preferred={numa} COMMAND",
                ("service", "other", "container", "slurm"),
            ),
        ),
        Verify(
            "CPU time off the GPU's node must fall below {numa_remote.threads}, and memory off it below "
            "{numa_remote.memory}, at best both to 0",
            "numastat -p {pid}",
            "gpuwait_numa_remote_hint_ratio",
        ),
        runbook(Cause.NUMA_REMOTE),
        estimated=True,
    ),
    Cause.FABRIC: Advice(
        "resending over the network between nodes",
        "a port loses packets or its link, and the sender goes back and sends again; one slow rank "
        "holds up all others of a collective operation",
        (
            Step("state and counters of the port", "rdma link show; rdma statistic show link {it}"),
            Step("error counters of InfiniBand ports", "perfquery -a"),
            Step(
                "take the port out of the next start of the job (all other ports stay in use)",
                "export NCCL_IB_HCA=^DEVICE",
            ),
        ),
        (
            Step("clean or replace the cable or transceiver; move it to another switch port to tell which"),
            Step(
                "RoCE: the same PFC priority and ECN on host and switch",
                "mlnx_qos -i NETDEV",
            ),
        ),
        Verify(
            "errors and retransmissions must stop rising",
            "rdma statistic show link {it}; sleep 10; rdma statistic show link {it}",
            "rate(gpuwait_infiniband_packet_sequence_errors_total[5m]) "
            "or rate(gpuwait_infiniband_symbol_errors_total[5m])",
        ),
        runbook(Cause.FABRIC),
        estimated=True,
    ),
    Cause.HOST_CPU: Advice(
        "host code on one full CPU core",
        "a thread of the workload computes without a pause on one core while the rest sleeps: in Python "
        "most often the interpreter lock, or a step that is not spread over workers",
        (
            Step("see the function", "py-spy top --pid {pid}"),
            Step("or its stack once, with C frames", "py-spy dump --native --pid {pid}"),
        ),
        (
            Step(
                "move decoding, tokenising and augmentation into loader processes (num_workers > 0, "
                "persistent_workers=True, pin_memory=True), or onto the GPU (DALI)"
            ),
            Step("prepare the data once, and store it in the form that the GPU takes"),
            Step("many small kernels: CUDA graphs or torch.compile, so that Python launches fewer"),
        ),
        Verify(
            "no thread of the workload may stay at {host_cpu.thread} of a core or more",
            "top -H -p {pid}",
            'rate(gpuwait_gpu_waiting_seconds_total{cause="host_cpu"}[5m])',
        ),
        runbook(Cause.HOST_CPU),
    ),
    Cause.HOST_KERNEL: Advice(
        "kernel code on one full CPU core",
        "a thread of the workload spends a full core in the kernel, and none of the known stalls explains "
        "it: page faults, copying, system calls without end",
        (
            Step("see the kernel function", "perf top -g -t {tid}"),
            Step("count its system calls for 10 s (slows it down)", "timeout 10 strace -c -p {tid}"),
        ),
        (
            Step("many page faults: use buffers again instead of allocating them for each batch"),
            Step("many small reads: read larger pieces"),
        ),
        Verify(
            "no thread of the workload may stay at {host_kernel.thread} system time or more",
            "pidstat -t -u -p {pid} 5 1",
            'rate(gpuwait_gpu_waiting_seconds_total{cause="host_kernel"}[5m])',
        ),
        runbook(Cause.HOST_KERNEL),
    ),
    Cause.UNEXPLAINED: Advice(
        "something that no signal of this host shows",
        "the GPU waits, and nothing on this host explains it; where its threads are says where to look next",
        (
            Step("what the processes do at this moment", "py-spy dump --native --pid {pid}"),
            Step(
                "what was launched on the GPU and what between",
                "nsys profile -t cuda,nvtx,osrt -d 30 COMMAND",
            ),
            Step("look at the job's other nodes: if one waits for a known cause, this one waits for it"),
        ),
        (Step("where a source listed as unavailable could tell more, enable it"),),
        Verify(
            "the unexplained waiting seconds must fall",
            "gpuwait explain",
            "sum by (instance, cause) (rate(gpuwait_gpu_waiting_seconds_total[5m]))",
        ),
        "GPUWaitingUnexplained.md",
    ),
}
