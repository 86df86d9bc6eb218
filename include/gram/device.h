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
 * Allocates memory on the context's device.  On a GPU, memory is allocated and freed in the order
 * of the context's stream: work that was queued before memory is freed may use it until that work
 * is done.  The memory is aligned to 64 bytes, and its contents are undefined.  *out is NULL for 0
 * bytes and on an error.  The memory must be freed with the same context, before that context is
 * destroyed.
 */
GRAM_API gram_status gram_memory_allocate(gram_context *g, size_t bytes, void **out);
GRAM_PUBLIC void gram_memory_free(gram_context *g, void *memory, size_t bytes);

/* Allocates memory that is filled with zeros (CUDA: in the order of the stream), for results
 * that are accumulated.  Otherwise the same as gram_memory_allocate. */
GRAM_API gram_status gram_memory_allocate_zeros(gram_context *g, size_t bytes, void **out);

/*
 * Copies bytes between CPU memory and the memory of the context's device, in any direction.  On
 * CUDA the copy is queued on the context's stream: until gram_context_synchronize, keep both
 * memories alive and unchanged, and do not read the copy.
 */
GRAM_API gram_status gram_memory_copy(gram_context *g, void *to, const void *from, size_t bytes);

/* ---- The cache of compiled kernels -------------------------------------------------------- */

/*
 * Device code is compiled when it is first needed, and is kept in one file that all processes of a
 * user share (docs/guide/gpu.md).  The calls of this section take any context, including one of the
 * CPU, and need neither a GPU nor a driver.  GRAM_UNSUPPORTED: there is no CUDA backend.  GRAM_IO:
 * the file cannot be used.  gram_cache_info does not fail in that case, and tells the reason.  A
 * missing file is an empty cache.
 */
typedef struct gram_cache {
    size_t size;        /* set by the caller to sizeof(gram_cache) */
    char path[4096];    /* of the file; "" if there is none */
    char why[512];      /* the reason why kernels are not kept; "" if they are */
    int64_t kernels;    /* the number of kernels in the file */
    int64_t bytes;      /* the size of their code */
    int64_t most_bytes; /* above this, the least recently used kernels are removed */
    int64_t file_bytes;
    int64_t tuned; /* classes of problems that gram_tune, _eigh and _kron have measured */
} gram_cache;

/* A kernel in the cache.  The strings are valid until the visit ends. */
typedef struct gram_cache_entry {
    size_t size;          /* sizeof(gram_cache_entry) of the library */
    const char *kernel;   /* the file of its source: "cdist.cu" */
    const char *chip;     /* "sm_90": machine code; "compute_90": PTX */
    const char *compiler; /* "nvrtc13.0" */
    const char *options;  /* of the compiler */
    int64_t bytes;        /* the size of its code */
    int64_t used;         /* the day of its last use: seconds since 1970 */
    double compile_ms;    /* gram_cache_warm: the time of its compilation; 0: it was kept before */
} gram_cache_entry;

/* Called for one kernel after the other.  It must not call functions of the cache. */
typedef void (*gram_cache_visit)(void *user, const gram_cache_entry *entry);

/* Fills in the members of cache that cache->size covers. */
GRAM_API gram_status gram_cache_info(gram_context *g, gram_cache *cache);

/* Visits all kernels, the most recently used first. */
GRAM_API gram_status gram_cache_list(gram_context *g, gram_cache_visit visit, void *user);

/*
 * Removes the kernels whose line "kernel chip compiler options" contains the pattern, in which *
 * stands for any text, ? for one character and [...] for a set of characters.  A pattern that is
 * NULL removes everything, including the measurements of gram_tune and a file that was set aside as
 * corrupt.  *removed receives the number of kernels that were removed; removed may be NULL.
 */
GRAM_API gram_status gram_cache_clear(gram_context *g, const char *pattern, int64_t *removed);

/*
 * Compiles the common kernels for count chips ("sm_90", "compute_100") with the context's number of
 * threads, and keeps them, so that the first calls of later processes do not wait for the compiler.
 * If count is 0, they are compiled for the GPUs of this machine.  This call needs NVRTC.  visit,
 * which may be NULL, is called for every kernel as soon as it is available, by one thread at a
 * time.  GRAM_INVALID_ARGUMENT: NVRTC does not know a chip.
 */
GRAM_API gram_status gram_cache_warm(gram_context *g, const char *const *chips, int count,
                                     gram_cache_visit visit, void *user);

typedef struct gram_warm_options {
    size_t size;
    const char *const *chips; /* "sm_90", "compute_100"; NULL with count 0 */
    int count;                /* of chips; 0: the GPUs of this machine */
    gram_cache_visit visit;   /* called for every kernel; NULL: not called */
    void *user;               /* passed to visit */
} gram_warm_options;

#define GRAM_WARM_OPTIONS_INIT                     \
  {                                                \
    sizeof(gram_warm_options), NULL, 0, NULL, NULL \
  }

/*
 * Compiles the kernels that gram_kernel(g, x, y, options, out) uses, also for an expression: for
 * each chip, those that are chosen for these shapes, strides and dtypes.  The tensors are on the
 * context's device, which may be the CPU.  Their elements are neither read nor written, so any
 * address except NULL will do, as for gram_kernel_workspace.  If this machine has no GPU of a
 * chip's kind, the choice is made for 100 multiprocessors, which affects only the size of the
 * tiles.  Empty tensors use no kernel.  y, which may be NULL, and options are those of gram_kernel.
 * If warm is NULL, the kernels are compiled for the GPUs of this machine.
 */
GRAM_API gram_status gram_cache_warm_kernel(gram_context *g, const gram_tensor *x,
                                            const gram_tensor *y,
                                            const gram_kernel_options *options,
                                            const gram_tensor *out, const gram_warm_options *warm);

/* The result of gram_tune. */
typedef struct gram_tuning {
    size_t size;     /* set by the caller to sizeof(gram_tuning) */
    int candidates;  /* the number of candidates that were measured */
    int tile;        /* of the fastest: the rows and columns of out per block of threads */
    int table_tile;  /* the same of the library's own choice */
    double tile_ms;  /* of a call with the fastest */
    double table_ms; /* of a call with the library's own choice */
    int kept;        /* 1: in the cache, for other processes too; 0: only in this process */
} gram_tuning;

/*
 * Measures the ways in which the context's GPU can compute gram_kernel(g, x, y, options, out).  All
 * later calls of gram_kernel and gram_cdist use the fastest of them for similar problems: those
 * with the same dtypes, layouts and p (for most p, its whole part), and with sizes that are the
 * same when they are rounded up to a power of two.  The call waits for the device and overwrites
 * out.  GRAM_UNSUPPORTED: the context is of the CPU, which has only one way.
 */
GRAM_API gram_status gram_tune(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                               const gram_kernel_options *options, gram_tensor *out,
                               gram_tuning *result);

/* ---- Device code of your own --------------------------------------------------------------- */

/* Kernels that a CUDA context has compiled.  They are used with that context, and must be
 * destroyed before it. */
typedef struct gram_module gram_module;

typedef struct gram_module_options {
    size_t size;
    const char *name;    /* in messages and the cache: letters, digits, _ . -; NULL: module.cu */
    const char *options; /* -DNAME=VALUE -UNAME --use_fast_math --fmad= --maxrregcount=, separated
                            by blanks, less than 512 bytes; NULL: none */
} gram_module_options;

/* clang-format off */
#define GRAM_MODULE_OPTIONS_INIT GRAM_SIZED_(gram_module_options)
/* clang-format on */

/*
 * Compiles CUDA C++ (C++17, with no headers except those of NVRTC) for the device of g.  The result
 * is kept in the same cache as the kernels of libgram, so that one of your processes compiles the
 * same source with the same options only once.  Kernels must be declared extern "C" __global__.
 * *out is NULL on an error.
 *
 * GRAM_UNSUPPORTED: g is a CPU context, or NVRTC refuses the source.  In the second case the
 * message holds the beginning of the compiler's log, and GRAM_LOG=debug shows all of it.
 * GRAM_INVALID_ARGUMENT: an option is not one of those that gram_module_options lists, and so could
 * change the code without changing its key in the cache.
 */
GRAM_API gram_status gram_module_compile(gram_context *g, const char *source,
                                         const gram_module_options *options, gram_module **out);

/*
 * Queues a kernel of the module on the stream of its context: grid[0] by grid[1] by grid[2] blocks
 * of block[0] by block[1] by block[2] threads, with shared_bytes of dynamic shared memory.
 * arguments holds one address per parameter of the kernel, that of the parameter's value; the
 * values are copied.  The call does not wait, and it can be captured in a CUDA graph.  Errors of
 * the kernel are reported by a later call, for example gram_context_synchronize.
 */
GRAM_API gram_status gram_kernel_launch(gram_module *module, const char *kernel,
                                        const int64_t grid[3], const int64_t block[3],
                                        size_t shared_bytes, void *const *arguments);

/* Destroys a module.  Before that, synchronize the context and destroy graphs that hold kernels
 * of the module.  NULL is allowed. */
GRAM_PUBLIC void gram_module_destroy(gram_module *module);

#ifdef __cplusplus
}
#endif
#endif
