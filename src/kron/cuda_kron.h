/*
 * cuda_kron.h - the plan of a product with Kronecker factors on the device
 *
 * A product goes through passes.  A pass is one launch, of one of five kernels, which applies a
 * span of neighbouring factors to tiles of x or of the result of the pass before it.  The plan says
 * which factors each pass has, which kernel it takes, and how large the tiles are.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KRON_H
#define GRAM_CUDA_KRON_H
#include "cuda/cuda_ops.h"
#include "cuda/kron_params.h"
#include "kron_span.h"

enum {
    CUDA_KRON_DEFINES = 448,
    CUDA_KRON_BUDGETS = 4, /* limits of a tile's shared memory to try: all of it, half of it, ... */
    CUDA_KRON_TILES = 3,   /* sizes to try of a tile that may have any size */
    CUDA_KRON_CHOICES = CUDA_KRON_BUDGETS * CUDA_KRON_TILES
};

enum cuda_kron_kernel {
    CUDA_KRON_FUSED, /* kron_matmul.cu */
    CUDA_KRON_ONE,   /* kron_matmul_one.cu */
    CUDA_KRON_MMA,   /* kron_matmul_mma.cu */
    CUDA_KRON_TILE,  /* kron_matmul_tile.cu */
    CUDA_KRON_KEPT,  /* kron_matmul_kept.cu */
};

/* One launch, which applies the neighbouring factors of span.  Members that name a kernel are of
 * passes of this kernel alone. */
struct cuda_kron_pass {
    struct gram_kron_span span;
    enum cuda_kron_kernel kernel;
    int64_t units, columns; /* the size of a tile: TB and TA, or BQ and BN, of the kernel's -D */
    int mt, nt, wq;         /* CUDA_KRON_MMA: MT, NT and WQ */
    int steps;              /* CUDA_KRON_TILE: the number of entries in step and with */
    /* CUDA_KRON_TILE: step i contracts the with[i] factors from step[i] on, or copies (0). */
    int step[GRAM_MAX_FACTORS + 2], with[GRAM_MAX_FACTORS + 2];
    int threads;        /* in a block */
    int blocks, wide;   /* CUDA_KRON_TILE: blocks on a processor, sums of a thread at a time */
    int stages;         /* CUDA_KRON_TILE and CUDA_KRON_KEPT: pieces of x that are copied ahead */
    size_t stage_bytes; /* CUDA_KRON_TILE: the bytes of one stage */
    bool plain;         /* CUDA_KRON_TILE: y is the product itself, without alpha, beta and z */
    bool linear;        /* CUDA_KRON_TILE: rows lie one behind the other without gaps */
    bool mma;           /* CUDA_KRON_TILE: tensor cores multiply; gap, spread and row are set */
    /* Of each factor, against bank conflicts: unused elements behind a run of its elements in the
     * tile, the distance of the columns that lanes take, and the length of its rows. */
    int gap[GRAM_MAX_FACTORS], spread[GRAM_MAX_FACTORS], row[GRAM_MAX_FACTORS];
    int warpgroups; /* CUDA_KRON_KEPT: groups of four warps in a block */
    int64_t kept;   /* CUDA_KRON_KEPT: columns of the last factor that a block keeps */
    bool paired;    /* CUDA_KRON_KEPT: the pass has two factors */
    bool in_place;  /* CUDA_KRON_FUSED: all factors are square, one tile is enough */
    bool padded;    /* CUDA_KRON_FUSED: sizes are powers of two, the tile has gaps */
    bool along;     /* elements that are neighbours along the factor's index are so in x */
    size_t shared_bytes;
    CUfunction function; /* the kernel, once the pass was queued; NULL before */
};

struct cuda_kron_plan {
    const struct gram_kron_matmul_op *op;
    struct gram_view x, y, z; /* those of op; where a column is contiguous, as one long row */
    int64_t rows;             /* of x, y and z */
    int64_t extra;            /* indices after the factors: the rows of op in such a long row */
    size_t element;           /* bytes of a number of the arithmetic */
    int64_t shared_bytes;     /* the most shared memory that a block can have */
    int64_t tile_bytes;       /* the most bytes of a tile of kron_matmul_tile.cu */
    bool tiled;               /* columns of x, y and z are neighbours: that kernel can be taken */
    bool tensor;              /* that kernel may use tensor cores */
    bool pairs;               /* the last two factors make a pass of CUDA_KRON_KEPT */
    int passes;
    struct cuda_kron_pass pass[GRAM_MAX_FACTORS];
    int64_t wide;                    /* columns of a row between passes; 0 if there is one pass */
    int64_t wanted_bytes;            /* the bytes to aim at of a tile that may have any size */
    int64_t chunk_rows, chunk_items; /* the rows and items that scratch between passes holds */
    double bytes;                    /* of scratch, as a double: they may exceed 64 bits */
};

/* Makes the plan of op on a device, of which the arch and the number of processors count.  choice
 * is 0 for the model's choice, or from 1 to CUDA_KRON_CHOICES; where the tiles of such a choice do
 * not fit, the plan is the model's. */
void cuda_kron_plan(const struct cuda_device *device, const struct gram_kron_matmul_op *op,
                    int choice, struct cuda_kron_plan *plan);

/* The bytes of shared memory that a block can have on a chip. */
int64_t cuda_kron_shared(int arch);

/* Binds a remembered plan to another op of the same sizes and layouts: to its addresses and its
 * numbers alpha and beta. */
void cuda_kron_plan_of(const struct gram_kron_matmul_op *op, struct cuda_kron_plan *plan);

/* cuda_kron_memo.c: returns the plan of op, which is made or remembered and is valid until the next
 * call; NULL means that there is no memory. */
struct cuda_kron_plan *cuda_kron_remembered(gram_context *g, const struct gram_kron_matmul_op *op,
                                            int choice);

/* True if op adds beta z to the product. */
bool cuda_kron_adds(const struct gram_kron_matmul_op *op);

/* ---- cuda_kron_tile.c: passes of kron_matmul_tile.cu --------------------------------------- */

/* True if a factor has a size that this kernel is for. */
bool cuda_kron_tile_takes(const struct gram_kron_matmul_op *op, int factor);
/* Sets plan->tile_bytes, and returns the bytes of a larger tile that pays where it saves a launch
 * (or the same number). */
int64_t cuda_kron_tile_size(const struct cuda_device *device, struct cuda_kron_plan *plan,
                            int choice);
/* True if the factors of a span fit into a tile of plan->tile_bytes, with `after` indices behind
 * them. */
bool cuda_kron_tile_holds(const struct cuda_kron_plan *plan, const struct gram_kron_span *span,
                          int64_t after);
/* Makes pass `number` one of this kernel; false: it cannot be one. */
bool cuda_kron_tile_choose(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                           int number, struct cuda_kron_pass *pass);
/* Writes the defines (-D) of such a pass. */
void cuda_kron_tile_define(const struct cuda_kron_plan *plan, int number, char *to, size_t room);

/* ---- cuda_kron_tile_mma.c: the same by tensor cores ---------------------------------------- */

/* True if tensor cores are worth it on a chip, and for one factor. */
bool cuda_kron_has_tensor(int arch, const struct gram_kron_matmul_op *op);
bool cuda_kron_tile_by_mma(const struct cuda_kron_plan *plan, int factor);
/* Lays out the shared memory of a pass whose steps are chosen and whose tile has this number of
 * elements; false: there is too little shared memory. */
bool cuda_kron_tile_choose_mma(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass,
                               int64_t elements);

/* ---- cuda_kron_kept.c: passes of kron_matmul_kept.cu --------------------------------------- */

/* Makes a pass of one factor, or of a pair, whose span is set, one of this kernel; false: it cannot
 * be one. */
bool cuda_kron_keep(const struct cuda_device *device, const struct cuda_kron_plan *plan, int number,
                    struct cuda_kron_pass *pass);
/* True if the last two factors can be a pair.  It is asked before there are passes. */
bool cuda_kron_pairs(const struct cuda_device *device, const struct cuda_kron_plan *plan);
/* Writes the defines (-D) of such a pass. */
void cuda_kron_kept_defines(const struct cuda_kron_plan *plan, int number,
                            const struct kron_params *params, char *to, size_t room);

/* ---- Others -------------------------------------------------------------------------------- */

/* cuda_kron_tune.c: the choice that was fastest for problems like op; 0: none was measured. */
int cuda_kron_tuned(const gram_context *g, const struct gram_kron_matmul_op *op);
/* cuda_kron_matmul.c: computes the product by one of the choices. */
gram_status cuda_kron_matmul_chosen(gram_context *g, const struct gram_kron_matmul_op *op,
                                    int choice);

/* cuda_kron_matmul.c: a view and a hyperparameter as kernels get them. */
struct kron_side cuda_kron_side(const struct gram_view *v);
struct kron_number cuda_kron_number(const struct gram_hyper *h);
/* cuda_kron_batch.c: writes the shape of a batch as kernels get it. */
void cuda_kron_put_batch(const struct gram_batch *batch, long long *ndim, long long *shape);
/* True if a matrix is the same in all items of the batch. */
bool cuda_kron_is_shared(const struct gram_batch *batch, const struct gram_view *v);
/* The batch of the matrices that are different ones: dimensions along which v repeats count 1. */
struct gram_batch cuda_kron_own(const struct gram_batch *batch, const struct gram_view *v);
/* True if the rows of all items lie one after the other without gaps. */
bool cuda_kron_is_dense(const struct gram_batch *batch, const struct gram_view *v);
/* A view of matrices that lie one after the other, row by row, one for each item of own. */
struct gram_view cuda_kron_dense(void *data, gram_dtype dtype, const struct gram_batch *own,
                                 int64_t rows, int64_t cols);
/* Fills in the parameters of a pass.  Rows between two passes lie in scratch. */
void cuda_kron_params(const struct cuda_kron_plan *plan, void *scratch, int number,
                      struct kron_params *params);

/* cuda_kron_matmul_request.c: -DX_KIND and -DREAL of a dtype. */
int cuda_kron_kind(gram_dtype dtype);
const char *cuda_kron_real(gram_dtype dtype);
/* The bytes of an element that a pass reads, of its x or of its factors. */
size_t cuda_kron_stored(const struct cuda_kron_plan *plan, bool is_factor, int number);

/* How many elements of `bytes` bytes one instruction can move: 16 bytes of neighbours, or fewer
 * where these would not be aligned or would cross the end of a run.  A run has `group` elements
 * where no indices come after the factor (`after` is 1), else `width`. */
int cuda_kron_moved(const struct kron_side *side, size_t bytes, int64_t after, int64_t width,
                    int64_t group);

/* The request of a pass's kernel.  params are those of the pass: they decide how x and y are
 * moved. */
struct jit_request cuda_kron_request(const struct cuda_kron_plan *plan, int number,
                                     const struct kron_params *params,
                                     char defines[CUDA_KRON_DEFINES]);

/* cuda_kron.c */
struct jit_request cuda_kron_expand_request(gram_dtype dtype, int count,
                                            char defines[CUDA_KRON_DEFINES]);
struct jit_request cuda_kron_trace_request(gram_dtype dtype, char defines[CUDA_KRON_DEFINES]);
/* cuda_kron_move.c */
struct jit_request cuda_kron_move_request(gram_dtype dtype, char defines[CUDA_KRON_DEFINES]);
#endif
