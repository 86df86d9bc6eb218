"""core/timing.py - how everything is timed

All contenders of a row are called once before anything is timed; that call's result is checked.
Then they take turns, round after round, so that a disturbance meets all of them.  A sample is as
many calls as fill LEAST seconds.  On the CPU a sample has the time of the clock and that of the
processor; on a GPU the time between two events of the stream while the host is ahead of the
device, the time that the host needs to queue a call, the memory that a call adds, and how often a
call waits for the device.  Medians are reported, with the least and the largest.
"""

import contextlib
import dataclasses
import statistics
import time
import warnings

from core.tables import Call, derived

LEAST, MOST_CALLS = 5e-3, 100000
TRIAL = 64  # a trial takes this part of the rows


@dataclasses.dataclass
class Result:
    """The samples of a contender; seconds are per unit of work, of the whole problem."""

    seconds: list = dataclasses.field(default_factory=list)
    processor: list = dataclasses.field(default_factory=list)
    host: list = dataclasses.field(default_factory=list)
    error: float | None = None
    wrong: bool = False
    part: float = 1.0
    extra: dict = dataclasses.field(default_factory=dict)
    failed: str | None = None

    def numbers(self):
        if self.failed:
            return {"failed": self.failed}
        found = {
            "seconds": statistics.median(self.seconds),
            "seconds_min": min(self.seconds),
            "seconds_max": max(self.seconds),
            "samples": len(self.seconds),
            "error": self.error,
            "wrong": self.wrong,
            "part": self.part,
            "extra": self.extra,
        }
        for name in ("processor", "host"):
            if getattr(self, name):
                found[f"{name}_min"] = min(getattr(self, name))
        return found


# ---- One sample ---------------------------------------------------------------------------------


def repeat(run, count):
    """The clock's and the processor's seconds of so many calls."""
    busy, start = time.process_time(), time.perf_counter()
    for _ in range(count):
        run()
    return time.perf_counter() - start, time.process_time() - busy


def loop_seconds():
    """What the loop takes, without a call's work."""
    return min(repeat(lambda: None, 10000)[0] for _ in range(5)) / 10000


LOOP = loop_seconds()


def on_cpu(run, count):
    clock, busy = repeat(run, count)
    return {"seconds": max(clock / count - LOOP, 0), "processor": max(busy / count - LOOP, 0)}


def on_gpu(run, count):
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(1_000_000)  # keeps the device busy until the first calls are queued
    start.record()
    clock, _ = repeat(run, count)
    end.record()
    end.synchronize()
    return {"seconds": start.elapsed_time(end) / count * 1e-3, "host": clock / count}


def sample(call, place, count):
    if call.sample:
        return call.sample()
    if call.prepare:
        call.prepare()
    return (on_cpu if place.on_cpu else on_gpu)(call.run, count)


# ---- Before the samples -------------------------------------------------------------------------


@contextlib.contextmanager
def watched(place, extra):
    """Of one call on a GPU: the memory that it adds, and how often it waits for the device."""
    if place.on_cpu:
        yield
        return
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
    extra["MiB"] = (torch.cuda.max_memory_allocated() - before) / 2**20
    waits = sum("synchronizing" in str(w.message) for w in seen)
    if waits:
        extra["waits"] = waits


def warm(call, q, limit):
    """Calls once, checks the result, and finds how many calls make a sample."""
    result = Result(part=call.part)
    if call.sample:
        return result, 1
    if call.prepare:
        call.prepare()
    got = call.run()  # opens libraries, compiles kernels
    q.place.wait()
    check = call.error or (lambda value: q.operation.error(q, value))
    result.error, most = check(got), q.operation.limit(q)
    result.wrong = result.error is not None and most is not None and not result.error <= most
    if call.tell:
        result.extra.update(call.tell(got))
    del got
    if call.prepare:
        call.prepare()
    start = time.perf_counter()
    with watched(q.place, result.extra):
        call.run()
        q.place.wait()
    once = time.perf_counter() - start
    if once > limit:  # one sample more is enough
        return result, 0
    return result, max(1, min(MOST_CALLS, round(LEAST / max(once, 1e-8))))


def fitted(make, q, limit):
    """A contender's calls, on fewer rows where all of them would take longer than the limit."""
    rows = q.operation.rows(q)
    trial = q.operation.cut(q, max(2, rows // TRIAL)) if rows else None
    if trial is None or q.place.tiny:
        return make(q)
    found = {}
    for name, call in make(trial).items():
        if call.sample:
            found[name] = make(q)[name]
            continue
        call.run()
        q.place.wait()
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            call.run()
            q.place.wait()
            seconds.append(time.perf_counter() - start)
        few, whole = max(2, rows // TRIAL), min(seconds) * rows / max(2, rows // TRIAL)
        if whole <= limit:
            found[name] = make(q)[name]
            continue
        few = max(few, min(rows, int(rows * limit / whole)))
        part = q.operation.cut(q, few)
        call = make(part)[name]
        check = call.error or (lambda got, part=part: q.operation.error(part, got))
        found[name] = derived_call(call, error=check, part=few / rows)
    return found


def derived_call(call, **members):
    return Call(**{**vars(call), **members})


# ---- A row --------------------------------------------------------------------------------------


def measure(contenders, q, rounds, limit):
    """{name: Result} of {name: Call}."""
    results, counts = {}, {}
    for name, call in contenders.items():
        try:
            results[name], counts[name] = warm(call, q, limit)
        except Exception as error:  # noqa: BLE001 - one contender's trouble is not the others'
            results[name] = Result(failed=f"{type(error).__name__}: {error}".splitlines()[0][:150])
    for turn in range(rounds):
        for name, count in counts.items():
            call, result = contenders[name], results[name]
            if (count == 0 and turn > 0) or result.failed:
                continue
            try:
                taken = sample(call, q.place, max(count, 1))
            except Exception as error:  # noqa: BLE001
                result.failed = f"{type(error).__name__}: {error}".splitlines()[0][:150]
                continue
            keep(result, call, taken)
    return results


def keep(result, call, taken):
    for kind in ("seconds", "processor", "host"):
        if kind in taken:
            getattr(result, kind).append(taken.pop(kind) / call.units / call.part)
    if taken.get("error") is not None:
        result.error = taken.pop("error")
    result.extra.update({k: v for k, v in taken.items() if v is not None})


__all__ = ["Result", "derived", "fitted", "measure"]
