/*
 * device.h - memory of devices, the cache of compiled kernels, tuning, device code of your own
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_DEVICE_H
#define GRAM_PUBLIC_DEVICE_H
#include "core.h"
#include "pairwise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Memory ------------------------------------------------------------------------------- */

/*
 * Memory that the context computes in: of its GPU, in the order of its stream (what was queued
 * before may use the memory until it is done, also after it is freed), or of the CPU.  Aligned to
 * 64 bytes; contents undefined; *out is NULL for 0 bytes and on an error.  To be freed with the
 * same context, before it is destroyed.
 */
GRAM_API gram_status gram_memory_allocate(gram_context *g, size_t bytes, void **out);
GRAM_PUBLIC void gram_memory_free(gram_context *g, void *memory, size_t bytes);

/* The same with contents of zeros, for what is accumulated into (CUDA: set in the order of the
 * stream). */
GRAM_API gram_status gram_memory_allocate_zeros(gram_context *g, size_t bytes, void **out);

/*
 * Copies bytes between the CPU's memory and that of the context's device, in any direction.  On
 * CUDA the copy is queued on the context's stream: keep both memories alive and unchanged, and do
 * not read the copy, until gram_context_synchronize.
 */
GRAM_API gram_status gram_memory_copy(gram_context *g, void *to, const void *from, size_t bytes);

/* ---- The cache of compiled kernels -------------------------------------------------------- */

/*
 * Device code is compiled when it is first wanted and kept in one file, which all processes of a
 * user share (docs/guide/gpu.md).  These calls take any context, of the CPU too, and need neither a
 * GPU nor a driver.  GRAM_UNSUPPORTED: there is no CUDA backend here.  GRAM_IO: the file cannot be
 * used; gram_cache_info says why and is no error then.  No file is an empty cache.
 */
typedef struct gram_cache {
    size_t size;        /* set by the caller to sizeof(gram_cache) */
    char path[4096];    /* of the file; "" if none can be named */
    char why[512];      /* why kernels are not kept in it; "" if they are */
    int64_t kernels;    /* how many it has */
    int64_t bytes;      /* of their code */
    int64_t most_bytes; /* above this the kernels that were not used for longest go */
    int64_t file_bytes;
    int64_t tuned; /* classes of problems that gram_tune, _eigh and _kron measured */
} gram_cache;

/* A kernel of the cache; the strings are valid until the visit ends. */
typedef struct gram_cache_entry {
    size_t size;          /* sizeof(gram_cache_entry) of the library */
    const char *kernel;   /* the file of its source: "cdist.cu" */
    const char *chip;     /* "sm_90": machine code; "compute_90": PTX */
    const char *compiler; /* "nvrtc13.0" */
    const char *options;  /* of the compiler */
    int64_t bytes;        /* of its code */
    int64_t used;         /* when it was, to the day: seconds since 1970 */
    double compile_ms;    /* gram_cache_warm: how long it took; 0: it was there */
} gram_cache_entry;

/* Called for one kernel after the other; may not call the cache. */
typedef void (*gram_cache_visit)(void *user, const gram_cache_entry *entry);

/* Fills in cache, as much of it as cache->size covers. */
GRAM_API gram_status gram_cache_info(gram_context *g, gram_cache *cache);

/* Visits all kernels, what was used last first. */
GRAM_API gram_status gram_cache_list(gram_context *g, gram_cache_visit visit, void *user);

/*
 * Removes the kernels whose line "kernel chip compiler options" holds the pattern, in which *
 * stands for any text, ? for one character and [...] for a set.  NULL removes everything: what
 * gram_tune measured and a file that was set aside as corrupt too.  The number of kernels that went
 * goes to *removed, which may be NULL.
 */
GRAM_API gram_status gram_cache_clear(gram_context *g, const char *pattern, int64_t *removed);

/*
 * Compiles the common kernels for count chips ("sm_90", "compute_100"), with the context's number
 * of threads, and keeps them: the first calls of later processes then wait for no compiler.  count
 * 0: for the GPUs of this machine.  Needs NVRTC.  visit, which may be NULL, is called for every
 * kernel when it is there, by one thread at a time.  GRAM_INVALID_ARGUMENT: a chip that NVRTC does
 * not know.
 */
GRAM_API gram_status gram_cache_warm(gram_context *g, const char *const *chips, int count,
                                     gram_cache_visit visit, void *user);

typedef struct gram_warm_options {
    size_t size;
    const char *const *chips; /* "sm_90", "compute_100"; NULL with count 0 */
    int count;                /* of chips; 0: the GPUs of this machine */
    gram_cache_visit visit;   /* for every kernel when it is there; NULL: for none */
    void *user;               /* visit's */
} gram_warm_options;

#define GRAM_WARM_OPTIONS_INIT                     \
  {                                                \
    sizeof(gram_warm_options), NULL, 0, NULL, NULL \
  }

/*
 * The same for the kernels that gram_kernel(g, x, y, options, out) takes, of an expression too: for
 * each chip those of its plan for such shapes, strides and dtypes.  The tensors are on the
 * context's device, of the CPU too, and their elements are neither read nor written: as for
 * gram_kernel_workspace any address that is not NULL will do.  Where a GPU of the kind is not here,
 * the plan is one for 100 processors, which decides between tiles alone.  Empty tensors take no
 * kernel.  y, which may be NULL, and options as there; warm NULL: the GPUs of this machine.
 */
GRAM_API gram_status gram_cache_warm_kernel(gram_context *g, const gram_tensor *x,
                                            const gram_tensor *y,
                                            const gram_kernel_options *options,
                                            const gram_tensor *out, const gram_warm_options *warm);

/* What gram_tune found. */
typedef struct gram_tuning {
    size_t size;     /* set by the caller to sizeof(gram_tuning) */
    int candidates;  /* that were measured */
    int tile;        /* of the fastest: rows and columns of out that a block of threads has */
    int table_tile;  /* of the library's own choice */
    double tile_ms;  /* a call */
    double table_ms; /* a call */
    int kept;        /* 1: in the cache, for other processes too; 0: for this process */
} gram_tuning;

/*
 * Measures how the context's GPU computes gram_kernel(g, x, y, options, out) fastest, and has all
 * later calls of gram_kernel and gram_cdist take it for such problems: the same dtypes, p (its
 * whole part, where it is not special) and layouts, and sizes that are the same to the next power
 * of two.  Waits for the device; out is overwritten.  GRAM_UNSUPPORTED: the CPU, where there is no
 * choice.
 */
GRAM_API gram_status gram_tune(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                               const gram_kernel_options *options, gram_tensor *out,
                               gram_tuning *result);

/* ---- Device code of your own --------------------------------------------------------------- */

/* Kernels that a CUDA context compiled: used with that context, destroyed before it. */
typedef struct gram_module gram_module;

typedef struct gram_module_options {
    size_t size;
    const char *name;    /* in messages and in the cache: letters, digits, _ . -; NULL: module.cu */
    const char *options; /* -DNAME=VALUE -UNAME --use_fast_math --fmad= --maxrregcount=, separated
                            by blanks, less than 512 bytes; NULL: none */
} gram_module_options;

/* clang-format off */
#define GRAM_MODULE_OPTIONS_INIT GRAM_SIZED_(gram_module_options)
/* clang-format on */

/*
 * Compiles CUDA C++ (C++17, no headers but those of NVRTC) for the device of g, through the cache
 * that libgram's own kernels come from: the same source and options are compiled once, by one of
 * your processes.  Kernels are declared extern "C" __global__.  *out is NULL on an error.
 *
 * GRAM_UNSUPPORTED: g is a CPU context, or NVRTC refuses the source: the message holds the
 * beginning of its log, GRAM_LOG=debug shows all of it.  GRAM_INVALID_ARGUMENT: an option that is
 * not listed above, since it could change the code without changing its place in the cache.
 */
GRAM_API gram_status gram_module_compile(gram_context *g, const char *source,
                                         const gram_module_options *options, gram_module **out);

/*
 * Queues a kernel of the module on its context's stream: grid[0] by grid[1] by grid[2] blocks of
 * block[0] by block[1] by block[2] threads, with shared_bytes of dynamic shared memory.  arguments
 * holds the address of the value of each of the kernel's parameters; they are copied.  Nothing is
 * waited for, and the call can be captured in a CUDA graph.  What a kernel does wrong is told by a
 * later call, as gram_context_synchronize.
 */
GRAM_API gram_status gram_kernel_launch(gram_module *module, const char *kernel,
                                        const int64_t grid[3], const int64_t block[3],
                                        size_t shared_bytes, void *const *arguments);

/* Synchronize the context first, and destroy graphs that hold its kernels.  NULL is allowed. */
GRAM_PUBLIC void gram_module_destroy(gram_module *module);

#ifdef __cplusplus
}
#endif
#endif
