"""The fake NVML library over time: a state that changes, calls that hang, samples, events."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.fake_nvml

STATES = Path(__file__).parent / "nvml" / "states"


def one_gpu(**members):
    """A state with one GPU."""
    return {"nvmlInit_v2": "NVML_SUCCESS", "devices": [{"index": 0, "uuid": "GPU-1", "calls": {}, **members}]}


def test_a_lost_gpu_leaves_the_others_alone(ask):
    """Every call on a lost GPU, by an old handle too, is GPU_IS_LOST; the other GPU answers."""
    devices = [
        {"index": n, "uuid": f"GPU-{n}", "calls": {"nvmlDeviceGetPowerUsage": 70000 + n}} for n in (0, 1, 2)
    ]
    code = """nvmlInit()
handles = [nvmlDeviceGetHandleByIndex(n) for n in range(3)]
state["devices"][1]["lost"] = True
state["devices"][2]["nvmlDeviceGetHandleByIndex_v2"] = "NVML_ERROR_GPU_IS_LOST"
state["device_count"] = 4
write(state)
result = [nvmlDeviceGetCount(), [call(nvmlDeviceGetPowerUsage, h) for h in handles],
          [call(lambda n: nvmlDeviceGetIndex(nvmlDeviceGetHandleByIndex(n)), n) for n in range(5)],
          call(nvmlDeviceGetUUID, handles[1])]"""
    expected = [
        4,
        [70000, "error 15", "error 15"],
        [0, "error 15", "error 15", "error 15", "error 2"],
        "error 15",
    ]
    assert ask({"devices": devices}, code) == expected


def test_a_state_replaced_by_rename_is_seen_by_the_next_call(ask_gpu):
    """A new file is read at once; a broken or missing one leaves the last good state."""
    code = """
result = [nvmlDeviceGetPowerUsage(h)]
state["devices"][0]["calls"]["nvmlDeviceGetPowerUsage"] = 2
write(state)
result += [nvmlDeviceGetPowerUsage(h)]
write(json.dumps(state)[:-20])
result += [nvmlDeviceGetPowerUsage(h)]
os.remove(os.environ["FAKE_NVML_STATE"])
result += [nvmlDeviceGetPowerUsage(h)]
state["devices"][0]["calls"]["nvmlDeviceGetPowerUsage"] = 3
write(state)
result += [nvmlDeviceGetPowerUsage(h)]"""
    assert ask_gpu(one_gpu(calls={"nvmlDeviceGetPowerUsage": 1}), code) == [1, 2, 2, 2, 3]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"a": 01}',
        '{"a": 1,}',
        '{"a": "\t"}',
        '{"a": nul}',
        '{"a": 1} x',
        '{"a": "\\ud800"}',
        "[" * 99,
    ],
)
def test_text_that_is_no_state_is_refused(ask, text):
    """Without any good state the driver counts as not loaded; nothing crashes."""
    assert ask({}, f"write({text!r}); result = call(nvmlInit)") == "error 9"


def test_texts_may_hold_any_character(ask_gpu):
    """Escapes of JSON become UTF-8, beyond the basic plane too."""
    code = 'result = nvmlDeviceGetName(h) == "A/\\u00e9\\n\\U0001f600"'
    assert ask_gpu(one_gpu(name="A/é\n😀"), code) is True


def test_a_hanging_call_takes_its_time_and_blocks_no_other_thread(ask_gpu):
    """The call sleeps as long as told, then answers; a second thread is served meanwhile."""
    code = """
took = {}
def timed(name, function):
    start = time.monotonic(); value = function(h); took[name] = [value, time.monotonic() - start >= 0.6]
slow = threading.Thread(target=timed, args=("slow", nvmlDeviceGetPowerUsage))
slow.start()
time.sleep(0.1)
timed("other", nvmlDeviceGetFanSpeed)
slow.join()
result = took"""
    calls = {"nvmlDeviceGetPowerUsage": 70000, "nvmlDeviceGetFanSpeed": 30}
    inside = {**calls, "nvmlDeviceGetPowerUsage": {"hang_s": 0.6, "then": 70000}}
    device = one_gpu(calls=calls, hang={"nvmlDeviceGetPowerUsage": 0.6})
    root = {**one_gpu(calls=calls), "hang": {"nvmlDeviceGetPowerUsage": 0.6}}
    for state in (device, root, one_gpu(calls=inside)):
        assert ask_gpu(state, code) == {"slow": [70000, True], "other": [30, False]}


def test_a_hang_ends_when_the_state_no_longer_asks_for_it(ask_gpu):
    """A driver that recovers: the call returns soon after the state was replaced."""
    code = """
def recover():
    time.sleep(0.2); del state["devices"][0]["hang"]; write(state)
threading.Thread(target=recover).start()
start = time.monotonic()
result = [nvmlDeviceGetPowerUsage(h), time.monotonic() - start < 5]"""
    state = one_gpu(calls={"nvmlDeviceGetPowerUsage": 1}, hang={"*": 60})
    state["devices"][0]["hang"] = {"nvmlDeviceGetPowerUsage": 60}
    assert ask_gpu(state, code) == [1, True]


def test_recorded_samples_newer_than_the_last_seen(ask_gpu):
    """All for 0, the newer ones for a time, NOT_FOUND for none; too little room is an error and the count."""
    samples = [{"timestamp_us": 1000, "value": 10}, {"timestamp_us": 2000, "value": 90}]
    code = """
import pynvml
show = lambda since: (lambda r: r if isinstance(r, str) else
    [r[0], [[s.timeStamp, s.sampleValue.uiVal] for s in r[1]]])(call(nvmlDeviceGetSamples, h, 1, since))
kind, count, room = c_uint(), c_uint(1), (c_nvmlSample_t * 1)()
small = pynvml.nvmlLib.nvmlDeviceGetSamples(h, 1, c_ulonglong(0), byref(kind), byref(count), room)
result = [show(0), show(1000), show(2000), small, count.value, call(nvmlDeviceGetSamples, h, 0, 0)]"""
    expected = [[1, [[1000, 10], [2000, 90]]], [1, [[2000, 90]]], "error 6", 7, 2, "error 3"]
    assert ask_gpu(one_gpu(samples=samples), code) == expected


@pytest.mark.parametrize(
    ("samples", "code"), [("NVML_ERROR_NOT_SUPPORTED", 3), ("NVML_ERROR_UNKNOWN", 999), ([], 6)]
)
def test_samples_that_fail(ask_gpu, samples, code):
    """The buffer may be an error, as on a MIG GPU, or empty."""
    assert (
        ask_gpu(one_gpu(samples=samples), "result = call(nvmlDeviceGetSamples, h, 1, 0)") == f"error {code}"
    )


def test_generated_samples_follow_the_clock(ask_gpu):
    """One sample a period, at its multiples, the newest ones kept; a duty cycle gives its share."""
    generate = {"period_us": 10000, "keep": 100, "duty": {"period_s": 0.04, "busy_s": 0.025, "value": 80}}
    code = """
def read(since):
    # a sample may come between the two questions of pynvml
    r = "error 7"
    while r == "error 7":
        r = call(nvmlDeviceGetSamples, h, 1, since)
    return r if isinstance(r, str) else [(s.timeStamp, s.sampleValue.uiVal) for s in r[1]]
first = read(0)
time.sleep(0.055)
later = read(first[-1][0])
age = time.time() * 1e6 - later[-1][0]
steps = {b[0] - a[0] for a, b in zip(first, first[1:])} | {later[0][0] - first[-1][0]}
phases = {t % 40000: v for t, v in first}
result = [len(first), sorted(steps), len(later) in (5, 6, 7), 0 <= age < 10000 + 5e5, phases,
          nvmlDeviceGetUtilizationRates(h).gpu in (0, 40, 80)]"""
    calls = {"nvmlDeviceGetUtilizationRates": {**generate, "memory": 5}}
    phases = {"10000": 80, "20000": 80, "30000": 40, "0": 0}
    expected = [100, [10000], True, True, phases, True]
    assert ask_gpu(one_gpu(samples={"generate": generate}, calls=calls), code) == expected


def test_generated_samples_of_given_spans(ask_gpu):
    """Busy spans count from the origin; a sample is the mean over its own period."""
    code = """
origin = int(time.time()) - 10
state["devices"][0]["samples"]["generate"]["origin_s"] = origin
write(state)
while isinstance(answer := call(nvmlDeviceGetSamples, h, 1, (origin + 1) * 1000000), str):
    pass  # a sample may come between the two questions of pynvml
result = [s.sampleValue.uiVal for s in answer[1]][:5]"""
    generate = {"period_us": 1000000, "keep": 60, "busy": [[2, 3, 100], [3.5, 4, 60]]}
    assert ask_gpu(one_gpu(samples={"generate": generate}), code) == [0, 100, 30, 0, 0]


def test_process_utilisation_newer_than_the_last_seen(ask_gpu):
    """Entries without a time are new; older ones than the last seen are left out; none is NOT_FOUND."""
    use = [
        {"pid": 7, "timeStamp": 5000, "smUtil": 62, "memUtil": 20},
        {"pid": 8, "timeStamp": 9000, "smUtil": 1},
    ]
    code = """
show = lambda r: r if isinstance(r, str) else [[s.pid, s.timeStamp, s.smUtil, s.memUtil] for s in r]
result = [show(call(nvmlDeviceGetProcessUtilization, h, since)) for since in (0, 5000, 9000)]"""
    expected = [[[7, 5000, 62, 20], [8, 9000, 1, 0]], [[8, 9000, 1, 0]], "error 6"]
    assert ask_gpu(one_gpu(calls={"nvmlDeviceGetProcessUtilization": use}), code) == expected


def test_events_come_once_to_each_set(ask_gpu):
    """XIDs in order of their number, one at a time, then TIMEOUT after the time given; new ones come live."""
    code = """
def make():
    s = nvmlEventSetCreate(); nvmlDeviceRegisterEvents(h, nvmlEventTypeXidCriticalError, s); return s
def wait(s, ms=0):
    e = call(nvmlEventSetWait_v2, s, ms)
    if isinstance(e, str):
        return e
    return [nvmlDeviceGetIndex(e.device), e.eventType, e.eventData, e.gpuInstanceId]
a, b = make(), make()
result = [wait(a), wait(a), wait(a), wait(b)]
start = time.monotonic()
result += [wait(a, 200), 0.2 <= time.monotonic() - start < 4]
state["events"].append({"device": 0, "xid": 31, "seq": 9})
threading.Timer(0.1, write, [state]).start()
result += [wait(a, 5000)]
state["devices"][0]["lost"] = True
write(state)
result += [wait(a, 5000)]
nvmlEventSetFree(a)"""
    events = [
        {"device": 0, "xid": 79, "seq": 4},
        {"device": 0, "xid": 13, "seq": 2},
        {"device": 1, "xid": 48, "seq": 3},
    ]
    first, second = [0, 8, 13, 4294967295], [0, 8, 79, 4294967295]
    expected = [first, second, "error 10", first, "error 10", True, [0, 8, 31, 4294967295], "error 15"]
    assert ask_gpu({**one_gpu(), "events": events}, code) == expected


def test_events_from_before_are_left_out_on_request(ask_gpu):
    """With events_replay false a set hears only what is added after it was registered."""
    code = """
s = nvmlEventSetCreate(); nvmlDeviceRegisterEvents(h, 8, s)
result = [call(nvmlEventSetWait_v2, s, 0)]
state["events"].append({"device": 0, "xid": 94, "seq": 2})
write(state)
result += [nvmlEventSetWait_v2(s, 0).eventData]"""
    state = {**one_gpu(), "events": [{"device": 0, "xid": 79, "seq": 1}], "events_replay": False}
    assert ask_gpu(state, code) == ["error 10", 94]


def test_one_error_for_everything(ask_gpu):
    """A driver that went away under an open library: the wildcard of the root covers devices too."""
    code = """
state["calls"] = {"*": "NVML_ERROR_DRIVER_NOT_LOADED"}
write(state)
result = [call(nvmlDeviceGetCount), call(nvmlDeviceGetPowerUsage, h), call(nvmlDeviceGetUUID, h),
          call(nvmlEventSetCreate), call(nvmlInit)]"""
    assert ask_gpu(one_gpu(calls={"nvmlDeviceGetPowerUsage": 1}), code) == ["error 9"] * 5


def test_the_ready_made_states_answer(ask):
    """Each state that is kept for people loads and shows its GPUs."""
    code = """nvmlInit()
name = lambda n: nvmlDeviceGetName(nvmlDeviceGetHandleByIndex(n))
result = [call(name, n) for n in range(nvmlDeviceGetCount())]"""
    expected = {
        "eight-h100": ["NVIDIA H100 80GB HBM3"] * 8,
        "one-mig": ["NVIDIA A100-SXM4-80GB"],
        "lost-gpu": ["NVIDIA H100 80GB HBM3", "error 15"],
    }
    for name, names in expected.items():
        assert ask(json.loads((STATES / f"{name}.json").read_text()), code) == names
    assert sorted(expected) == sorted(path.stem for path in STATES.iterdir())
