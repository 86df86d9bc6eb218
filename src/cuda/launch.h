/*
 * launch.h - kernels: how one is declared, described, launched and compiled ahead
 *
 * A kernel is a constant beside its launcher, which names its file and its extern "C" function.
 * Plain kernels, whose file has REAL as its only option, are launched with a dtype:
 *
 *     static const struct cuda_kernel ema_add = {"syrk_ema.cu", "syrk_ema_add"};
 *
 *     TRY(cuda_launch_plain(g, &ema_add, dtype, blocks, EMA_THREADS, &params));
 *
 * All others have options, named values from which the compiler's -D are made, here
 * "-DREAL=float -DORDER=8":
 *
 *     static const struct cuda_kernel eigh_jacobi = {"eigh_jacobi.cu", "eigh_jacobi"};
 *
 *     const struct cuda_grid grid = {.blocks = blocks, .blocks_y = items, .threads = EIGH_LANES};
 *     struct cuda_variant v;
 *     cuda_variant(&v, &eigh_jacobi, CUDA_OPTIONS({"REAL", cuda_type(dtype)}, {"ORDER", 8}));
 *     TRY(cuda_launch(g, &v, &grid, (void *[]){&params}));
 *
 * A variant is found by its kernel and its options in a table of the context: where the context has
 * launched it before, a launch formats, allocates and locks nothing.  Otherwise its function comes
 * from the process's table, from the cache on disk, or from the compiler (jit.h).
 *
 * The device must be current (gram_cuda_enter), and nothing waits for what is queued.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_LAUNCH_H
#define GRAM_CUDA_LAUNCH_H
#include "jit.h"

struct cuda_kernel {
    const char *file;     /* "syrk_ema.cu" */
    const char *function; /* "syrk_ema_add", extern "C" __global__ */
};

/* All plain kernels, with NULL at the end.  The build finds them (cmake/embed.cmake): they are the
 * functions of the .cu files whose header comment says "Parameters (-D): REAL.".  gram_cache_warm
 * and the table of registers (tests/cuda) take them from here. */
extern const struct cuda_kernel cuda_plain_kernels[];

/* ---- Options --------------------------------------------------------------------------------- */

/* One named value.  Several in a row with the same name are a list: "-DP_OF=8,8,4".  A name that
 * begins with '-' is an option of the compiler's own, which the value follows immediately:
 * {"--ptxas-options=-O", 1}. */
struct cuda_option {
    const char *name; /* a literal: names are compared by their addresses first */
    int64_t value;    /* a number, or a type that cuda_type gives */
};

enum {
    CUDA_MOST_OPTIONS = 144, /* of a variant; kron_matmul_tile.cu has most */
    CUDA_TEXT_BYTES = 768    /* of all options as text */
};

/* The option value that stands for the type in which device code holds a dtype: float (for f16 and
 * bf16 too), double, unsigned or whole64. */
int64_t cuda_type(gram_dtype dtype);

/* Device code that is written when it is first wanted, for a kernel that includes it.  Two variants
 * are the same only if the identities of their codes are, byte by byte. */
struct cuda_code {
    const char *name;               /* the file that the kernel includes: "pair_expression.cuh" */
    const void *identity;           /* what tells the text from all others of this name */
    size_t identity_bytes;          /* a multiple of 8 */
    char *(*write)(const void *of); /* gives the text, to be free()d; NULL: no memory is left */
    const void *of;
};

struct cuda_variant {
    const struct cuda_kernel *kernel;
    const struct cuda_code *code; /* or NULL */
    CUfunction *known; /* or NULL: where a plan keeps the function between launches of the same
                          shared memory, at first NULL; while it is set nothing else counts */
    bool chip_alone;   /* it uses what only chips of the same number have: sm_90a */
    int count;
    struct cuda_option option[CUDA_MOST_OPTIONS]; /* only the first `count` are set */
};

/* Begins a variant with these options, to which cuda_option can add others; its other members are 0
 * and may be set then. */
void cuda_variant(struct cuda_variant *v, const struct cuda_kernel *kernel,
                  const struct cuda_option *options, size_t count);
#define CUDA_OPTIONS(...)                    \
  (const struct cuda_option[]){__VA_ARGS__}, \
      sizeof((const struct cuda_option[]){__VA_ARGS__}) / sizeof(struct cuda_option)
void cuda_option(struct cuda_variant *v, const char *name, int64_t value);

/* What the cache and the compiler know of a variant without code of its own.  The request refers to
 * text, which receives the options. */
struct jit_request cuda_variant_request(const struct cuda_variant *v, char text[CUDA_TEXT_BYTES]);

/* ---- Launches -------------------------------------------------------------------------------- */

struct cuda_grid {
    int64_t blocks, blocks_y, blocks_z;     /* More in x than a launch can have are cut to the most:
                                               kernels go on from tile to tile. */
    unsigned threads, threads_y, threads_z; /* of a block; 0 in y and z counts as 1 everywhere */
    size_t shared;                          /* bytes of dynamic shared memory of a block */
    bool
        early; /* the kernel may begin before the one that was queued before it has ended.  It calls
                   ptx_grid_wait before it reads what the other writes, and before it writes itself.
                   Allowed only where device->overlaps is true */
};

/* Queues a kernel; arguments holds the address of each of its parameters. */
gram_status cuda_launch(gram_context *g, const struct cuda_variant *v, const struct cuda_grid *grid,
                        void *const *arguments);
/* The same for a kernel whose only option is REAL and whose only parameter is a struct. */
gram_status cuda_launch_plain(gram_context *g, const struct cuda_kernel *kernel, gram_dtype dtype,
                              int64_t blocks, unsigned threads, void *params);
/* The same for a function that is loaded already: one of a caller's module. */
gram_status cuda_launch_function(gram_context *g, CUfunction function, const struct cuda_grid *grid,
                                 void *const *arguments);

/* ---- Ahead of launches ----------------------------------------------------------------------- */

/* True if the context has launched the variant before. */
bool cuda_is_loaded(const gram_context *g, const struct cuda_variant *v);
/* Has the variants that a call is about to launch loaded, most expensive first: those that the
 * process lacks are compiled side by side.  What cannot be made is made again by the launch itself,
 * which says what is wrong. */
void cuda_load_ahead(const gram_context *g, const struct cuda_variant *variants, int count);

/* Frees the table of a context whose device is closed.  Functions stay loaded in the process. */
void cuda_forget_kernels(gram_context *g, struct cuda_device *device);
#endif
