/*
 * fake_device.h - what device code compiled for the CPU and the fake driver know of each other
 *
 * A "cubin" is a shared object with a `struct fake_device fake_device`, and a `struct fake_kernel
 * fake_kernel_<name>` for every kernel.  The driver fills in the first before a launch, and its
 * indices before it lets a thread run.  Read by C and by C++.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

struct fake_index {
    unsigned x, y, z;
};

/* What the lanes of a warp do together: mask has the lanes, arguments their pointers. */
typedef void fake_together(unsigned mask, void *const *arguments);

struct fake_runtime {
    /* Waits for `threads` threads of the block (0: all that have not ended) at barrier id; gives
     * the number of those whose predicate is not 0. */
    int (*barrier)(int id, int threads, int predicate);
    /* Waits for the lanes of mask; the last to come does `together`, then all go on. */
    void (*meet)(unsigned mask, void *argument, fake_together *together);
    /* Asynchronous copies: `bytes` bytes of size, the rest zero; they happen in wait. */
    void (*copy)(void *to, const void *from, int size, int bytes);
    void (*commit)(void);
    void (*wait)(int groups);
    /* Lets the other threads run. */
    void (*yield)(void);
    /* Says what is wrong, and where, and ends the process. */
    void (*fail)(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
    int (*lane)(void);
    /* Waits for the launch before: every thread does so in one that may overlap. */
    void (*wait_launch)(void);
};

struct fake_device {
    struct fake_index thread, block, block_size, grid_size; /* of the thread that runs */
    const struct fake_runtime *runtime;
};

struct fake_range {
    char *begin, *end;
};

struct fake_kernel {
    void (*call)(void *const *arguments);
    int arguments;
    const unsigned *bytes;       /* of each argument */
    int most_threads;            /* of a block; 0: any */
    struct fake_range shared[2]; /* static; both empty: not known */
    char *dynamic;
};

enum {
    FAKE_MOST_SHARED = 227 * 1024, /* dynamic, of a block */
    FAKE_WARP = 32
};
#endif
