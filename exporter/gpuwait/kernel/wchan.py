"""What a blocked thread waits for, by the kernel function it sleeps in: `/proc/PID/task/TID/wchan`.

https://docs.kernel.org/filesystems/proc.html, table 1-1

    rpc_wait_bit_killable
    folio_wait_bit_common
    0                          runs, or the reader lacks CAP_SYS_PTRACE

Functions come and go with kernels; the patterns cover 3.10 to 6.18. Scheduler functions such as
`io_schedule` are skipped, so that their caller shows; they are here for kernels that do not.
A raw name never leaves this module: it would make an unbounded label.
"""

from __future__ import annotations

from functools import lru_cache

#: Class and the beginnings of names, first match wins. The classes are those of `WaitClass`.
_PATTERNS: tuple[tuple[str, str], ...] = (
    ("gpfs", "cxi gpfs mmfs _ZN kxWait kxCommon tsWait"),
    (
        "lustre",
        "ptlrpc_ ldlm_ cl_sync_io cl_lock cl_page cl_io_ cl_object osc_ ll_ lov_ lmv_ mdc_ vvp_ ptl_ "
        "obd_ llite_ lnet_ ksocknal_ kiblnd_ target_ client_obd fld_ seq_client",
    ),
    ("dirty_throttling", "balance_dirty_pages io_throttle throttle_vm_writeout"),
    (
        "nfs",
        "rpc_ __rpc_ nfs_ nfs3_ nfs4_ nfs41_ nfs42_ _nfs4 __nfs pnfs_ xprt_ xs_ nlmclnt_ nlm_ gss_ "
        "objlayout_ ff_layout filelayout_ bl_ cifs_wait_mtu",
    ),
    # Names of pages before those of file systems: the wait for a page says nothing of where it lies.
    (
        "page",
        "folio_wait __folio_lock folio_lock wait_on_page __lock_page lock_page sleep_on_page "
        "wait_on_folio filemap_fault filemap_read generic_file_read __filemap_get_folio page_cache_ "
        "migration_entry_wait __migration_entry_wait filemap_update_page",
    ),
    (
        "mmap_lock",
        "rwsem_down_ __down_read __down_write down_read down_write call_rwsem_down mmap_ vm_mmap "
        "__mm_populate do_page_fault __do_page_fault exc_page_fault do_user_addr_fault handle_mm_fault "
        "lock_mm_and_find_vma vm_munmap __vm_munmap do_madvise madvise_ do_mprotect",
    ),
    (
        "local_io",
        "__iomap_dio iomap_ io_schedule blk blkdev_ __blk rq_qos wbt_ bt_get bit_wait_io "
        "wait_on_bit_io out_of_line_wait_on_bit __wait_on_buffer wait_on_buffer sleep_on_buffer sync_buffer "
        "dio_ do_blockdev_direct __blockdev_direct do_direct_IO get_request submit_bio bio_ "
        "jbd2_ do_get_write_access wait_transaction start_this_handle log_wait_commit "
        "ext4_ ext3_ ext2_ xfs_ xlog_ __xfs xfsaild _xfs btrfs_ wait_current_trans read_extent_buffer f2fs_ "
        "zfs_ zil_ txg_ cv_wait spl_ zio_ dmu_ dbuf_ dm_ md_ raid raid5_ make_request nvme_ scsi_ sg_ "
        "loop_ swap_ __swap read_swap squashfs_ erofs_ overlayfs ovl_ wait_on_sync wb_ writeback_ "
        "sync_inodes __filemap_fdatawait filemap_fdatawait file_write_and_wait generic_file_direct "
        "__generic_file_fsync",
    ),
)

#: Blocked on purpose or on another thread: says nothing of storage or memory.
_BENIGN = (
    "kernel_clone _do_fork do_fork wait_for_vfork __refrigerator refrigerator freezer_ __freezer "
    "ptrace_ do_signal_stop do_coredump coredump_ do_exit exit_mm get_signal percpu_rwsem_wait_frozen "
    "msleep schedule_timeout_unint usleep_range kthread worker_thread rescuer_thread rcu_gp wait_rcu"
).split()

#: No wait at all, or none that may be seen.
_NOTHING = frozenset({"", "0"})


@lru_cache(maxsize=1024)
def wait_class(name: str) -> str | None:
    """Class of a wait by the value of a `WaitClass`; None for a benign one and where there is no name.

    A name that is not known is `other`.
    """
    if name in _NOTHING or name.startswith(tuple(_BENIGN)):
        return None
    for kind, beginnings in _BEGINNINGS:
        if name.startswith(beginnings):
            return kind
    return "other"


_BEGINNINGS = tuple((kind, tuple(names.split())) for kind, names in _PATTERNS)
