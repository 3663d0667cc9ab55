"""The example node: adds up rates to the counters that the sampler would read."""

from __future__ import annotations

from collections.abc import Hashable

from gpuwait.scenarios.rates import GIB, NEIGHBOUR, STORY, LoadRate, Rates
from gpuwait.wait.snapshot import (
    Delay,
    Disk,
    FabricPort,
    Gpu,
    Host,
    Nfs,
    Pressure,
    Snapshot,
    Thread,
    Workload,
)

#: Looks at a starved workload's threads in a tick, and at another one's.
_OFTEN, _ONCE = 6, 1

_PAGE = 4096
#: Dirty pages at which writers are made to wait: 200 GiB.
_DIRTY_PAGES = 200 * GIB // _PAGE

#: Below this use the sampler looks often.
_LINE = 0.70


class Node:
    """Eight GPUs, two NUMA nodes, 128 CPUs. One call of `step` is one second."""

    def __init__(self) -> None:
        self.at = 1000.0
        self._sums: dict[Hashable, float] = {}

    def _sum(self, key: Hashable, grown: float) -> float:
        value = self._sums.get(key, 0.0) + grown
        self._sums[key] = value
        return value

    def _count(self, key: Hashable, grown: float) -> int:
        return int(self._sum(key, grown))

    def step(self, rates: Rates) -> Snapshot:
        """Let one second pass and take the snapshot at its end."""
        self.at += 1.0
        below = rates.use[0] < _LINE
        loads = {
            STORY: self._load("story", rates.story, _OFTEN if below else _ONCE),
            NEIGHBOUR: self._load("neighbour", rates.neighbour, _ONCE),
        }
        gpus = tuple(self._gpu(i, use, rates) for i, use in rates.use.items())
        return Snapshot(self.at, self._host(rates), gpus, loads)

    def _gpu(self, index: int, use: float, rates: Rates) -> Gpu:
        story = index < 4
        return Gpu(
            index=index,
            uuid=f"GPU-00000000-0000-0000-0000-00000000000{index}",
            busy_seconds=self._sum(("busy", index), use),
            observed_seconds=self._sum(("observed", index), 1.0),
            utilization=use,
            in_use=rates.in_use if story else True,
            allocated=True,
            numa_node=index // 4,
            model="NVIDIA H100 80GB HBM3",
            workloads=(STORY,) if story else (NEIGHBOUR,),
        )

    def _pressure(self, who: str, shares: dict[str, float]) -> dict[str, Pressure]:
        return {
            resource: Pressure(self._sum((who, resource), share), self._sum((who, resource, 1), share / 2))
            for resource, share in shares.items()
        }

    def _load(self, who: str, load: LoadRate, looks: int) -> Workload:
        def add(what: Hashable, grown: float) -> float:
            return self._sum((who, what), grown)

        threads = {
            tid: Thread(
                user_seconds=add((tid, "user"), rate.user),
                system_seconds=add((tid, "system"), rate.system),
                queue_seconds=add((tid, "queue"), rate.queue),
                numa_node=rate.numa_node,
                name=rate.name,
                state=rate.state,
                wait=rate.wait,
            )
            for tid, rate in load.threads.items()
        }
        used = sum(rate.user + rate.system for rate in load.threads.values())
        covered = load.covered is not None
        return Workload(
            threads=threads,
            thread_count=len(threads),
            looks=looks,
            blocked={kind: round(share * looks) for kind, share in load.blocked.items()},
            delays=self._delays(who, load) if covered else {},
            covered=load.covered,
            pressure=self._pressure(who, load.pressure),
            cpu_seconds=add("cpu seconds", used),
            periods=int(add("periods", 10.0)) if load.quota_cores else None,
            throttled_periods=int(add("throttled", 10.0 * load.throttled)) if load.quota_cores else None,
            throttled_seconds=add("held", load.throttled_seconds) if load.quota_cores else None,
            quota_cores=load.quota_cores,
            reclaim_pages=int(add("reclaim", load.reclaim_pages)),
            refaults=int(add("refaults", load.refaults)),
            memory_by_node=dict(load.memory_by_node),
        )

    def _delays(self, who: str, load: LoadRate) -> dict[int, dict[Delay, float]]:
        """Of every process, so that one that is delayed for the first time has a zero before."""
        return {
            tid: {
                kind: self._sum((who, tid, kind), load.delays.get(tid, {}).get(kind, 0.0))
                for kind in (Delay.COMPACT, Delay.RECLAIM, Delay.THRASHING, Delay.SWAPIN)
            }
            for tid, thread in load.threads.items()
            if thread.name != "pt_pin_memory"  # a thread of a rank, no process of its own
        }

    def _host(self, rates: Rates) -> Host:
        lustre, dirty = rates.lustre, int(rates.dirty * _DIRTY_PAGES)
        written = int(dirty * rates.writeback)
        pages = {"nr_dirty": dirty - written, "nr_writeback": written, "nr_dirty_threshold": _DIRTY_PAGES}
        return Host(
            vmstat={name: self._count(name, rate) for name, rate in rates.vmstat.items()} | pages,
            pressure=self._pressure("node", rates.pressure),
            dirty_bytes=dirty * _PAGE,
            dirty_limit_bytes=_DIRTY_PAGES * _PAGE,
            unusable_ratio=dict(rates.unusable),
            settings=dict(rates.settings),
            disks={name: self._disk(name, rates) for name in rates.disks},
            nfs={mount: self._nfs(mount, rates) for mount in rates.nfs},
            fabric={
                name: FabricPort(
                    port.up,
                    port.bytes_per_second,
                    self._count((name, "errors"), port.errors),
                    self._count((name, "again"), port.retransmissions),
                    port.numa_node,
                )
                for name, port in rates.fabric.items()
            },
            lustre_seconds=None if lustre is None else self._sum("lustre", lustre),
            lustre_operations=None if lustre is None else self._count("lustre operations", lustre * 400),
            gpfs_waiter_seconds=rates.gpfs,
            cpus=128,
        )

    def _disk(self, name: str, rates: Rates) -> Disk:
        rate = rates.disks[name]
        seconds = rate.operations * rate.latency
        return Disk(
            operations=self._count((name, "operations"), rate.operations),
            operation_seconds=self._sum((name, "seconds"), seconds),
            busy_seconds=self._sum((name, "busy"), rate.busy),
            weighted_seconds=self._sum((name, "weighted"), seconds),
            in_flight=round(seconds),
            reads=self._count((name, "reads"), rate.operations * rate.reads),
            read_seconds=self._sum((name, "read seconds"), seconds * rate.reads),
        )

    def _nfs(self, mount: str, rates: Rates) -> Nfs:
        rate = rates.nfs[mount]
        sends, receives = (
            self._count((mount, "sends"), rate.sends),
            self._count((mount, "recvs"), rate.answers),
        )
        operations = self._count((mount, "operations"), rate.answers)
        return Nfs(
            sends=sends,
            receives=receives,
            in_flight=max(0, sends - receives),
            operations=operations,
            transmissions=operations + self._count((mount, "again"), rate.lost),
            timeouts=0,
            response_seconds=self._sum((mount, "response"), rate.answers * rate.response),
        )
