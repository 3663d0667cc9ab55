"""Classes of wait channels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.wchan import wait_class
from gpuwait.wait.snapshot import WaitClass

TABLE = {
    "nfs": "rpc_wait_bit_killable nfs_file_direct_read nfs_wait_on_request nfs4_wait_clnt_recover "
    "nfs_wait_bit_killable __rpc_wait_for_completion_task pnfs_update_layout",
    "lustre": "ptlrpc_set_wait ldlm_completion_ast cl_sync_io_wait osc_enter_cache ll_file_read lov_io_init",
    "gpfs": "cxiWaitEventWait mmfs_wait gpfs_i_lookup",
    "local_io": "__iomap_dio_rw io_schedule io_schedule_timeout blk_mq_get_tag jbd2_log_wait_commit "
    "xfs_buf_lock ext4_file_read_iter __wait_on_buffer get_request_wait do_blockdev_direct_IO rq_qos_wait",
    "page": "folio_wait_bit_common wait_on_page_bit_common wait_on_page_bit __lock_page_killable "
    "__lock_page sleep_on_page folio_wait_writeback",
    "dirty_throttling": "balance_dirty_pages balance_dirty_pages_ratelimited_flags io_throttle",
    "mmap_lock": "rwsem_down_read_slowpath rwsem_down_write_failed __down_read_common "
    "call_rwsem_down_read_failed do_user_addr_fault vm_mmap_pgoff lock_mm_and_find_vma",
    "other": "percpu_rwsem_wait request_wait_answer os_acquire_mutex io_wait_something fuse_dev_do_read",
}


@pytest.mark.parametrize(("kind", "name"), [(k, n) for k, names in TABLE.items() for n in names.split()])
def test_known_names(kind, name):
    """Names of kernels 3.10 to 6.18 have their class, which is one of WaitClass."""
    assert wait_class(name) == WaitClass(kind)


@pytest.mark.parametrize(
    "name", ["", "0", "kernel_clone", "_do_fork", "do_fork", "__refrigerator", "do_exit"]
)
def test_no_wait(name):
    """A vfork parent, a frozen or a running thread is not blocked in anything."""
    assert wait_class(name) is None


@given(st.text(max_size=60))
def test_any_name(name):
    """Every name has a class or none."""
    kind = wait_class(name)
    assert kind is None or WaitClass(kind)
