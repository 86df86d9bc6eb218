/*
 * fake_driver.h - what the files of the fake driver (libcuda.so.1) share
 *
 * One lock serves everything: one thread of the host at a time is in the driver or on the "device".
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H
#include "fake_device.h"
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FAKE_MOST_DEVICES = 16,
    FAKE_ARCH = 90,
    FAKE_MOST_THREADS = 1024,
    FAKE_SHARED = 48 * 1024 /* of a block that did not ask for more */
};

/* fake_context.c */
void fake_lock(void);
void fake_unlock(void);
/* An environment variable's number, or otherwise. */
long fake_setting(const char *name, long otherwise);
/* Memory of zeros for what a caller may keep until the process ends: no leak.  free() */
void *fake_handle(size_t bytes);
CUcontext fake_context(void); /* the thread's, NULL if it has none */
int fake_current_device(void);
/* Whether a device may touch another's memory: cuCtxEnablePeerAccess, cuMemPoolSetAccess. */
bool fake_can_reach(int device, int peer);
/* Whether the pool of a device lets another in. */
bool fake_pool_lets(int owner, int device);
/* CUDA_SUCCESS: initialised, a context is current, and no kernel has failed. */
CUresult fake_usable(void);
void fake_set_fault(CUresult result);

/*
 * fake_memory.c: memory of the device is memory of the host that cannot be touched, but between
 * fake_memory_open and fake_memory_close (which nest): so that host code that reads it crashes as
 * it does with a real device.  Ends of allocations lie at pages that can never be touched.
 */
void fake_memory_open(void);
void fake_memory_close(void);
/* True if bytes at address are all within one allocation of the device, or host memory of the
 * driver's. */
bool fake_memory_is_device(uint64_t address);
bool fake_memory_is_pinned(uint64_t address);
/* The device whose memory it is; -1: of none. */
int fake_memory_device(uint64_t address);
/* Whether a copy that a device makes can touch it. */
bool fake_memory_reached(uint64_t address, int device);
/* What lies at the address, in words. */
void fake_memory_explain(const void *address, char *text, size_t size);

/* fake_stream.c: work that is done when somebody waits for it. */
struct fake_work {
    struct fake_work *next;
    void (*run)(struct fake_work *work);
    size_t bytes; /* of it all: a graph copies it as bytes */
};
/* Queues it, or adds it to the graph that the stream is captured into.  Takes work, which must come
 * from malloc; frees it on a failure. */
CUresult fake_queue(CUstream stream, struct fake_work *work);
/* Does all that the stream, and what it waits for, has. */
CUresult fake_drain(CUstream stream);
/* What waits for everything: an allocation that is freed, a copy that is not asynchronous. */
CUresult fake_drain_all(void);
/* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED where a capture forbids this thread what is unsafe. */
CUresult fake_capture_allows(void);

/* fake_block.c: runs the kernel, all blocks, one thread after the other. */
struct fake_launch {
    const char *name;
    const struct fake_kernel *kernel;
    struct fake_device *device;
    struct fake_index grid, block;
    unsigned shared; /* dynamic */
    bool early;      /* it might begin before the launch before it has ended */
    void *const *arguments;
};
void fake_run(const struct fake_launch *launch);
/* Where the running thread is, in words; "" if none runs. */
void fake_where(char *text, size_t size);
/* Ends the launch from within one of its threads, with the driver's error. */
void fake_abandon(void);
/* fake_fault.c: while a kernel runs, what it must not touch is told and ends the launch. */
void fake_fault_watch(bool on);
#endif
