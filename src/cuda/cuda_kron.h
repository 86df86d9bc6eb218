/*
 * cuda_kron.h - the plan of a product with Kronecker factors on the device
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KRON_H
#define GRAM_CUDA_KRON_H
#include "cuda_ops.h"
#include "kernels/kron_params.h"
#include "kron_span.h"

enum {
    CUDA_KRON_DEFINES = 448,
    CUDA_KRON_BUDGETS = 4, /* of a tile's shared memory: all that there is, half, ... */
    CUDA_KRON_TILES = 3,   /* of what is wanted of a tile that can be as large as one likes */
    CUDA_KRON_CHOICES = CUDA_KRON_BUDGETS * CUDA_KRON_TILES
};

enum cuda_kron_kernel {
    CUDA_KRON_FUSED, /* kron_matmul.cu */
    CUDA_KRON_ONE,   /* kron_matmul_one.cu */
    CUDA_KRON_MMA,   /* kron_matmul_mma.cu */
    CUDA_KRON_TILE,  /* kron_matmul_tile.cu */
    CUDA_KRON_KEPT,  /* kron_matmul_kept.cu */
};

/* Neighbouring factors that one launch applies. */
struct cuda_kron_pass {
    struct gram_kron_span span;
    enum cuda_kron_kernel kernel;
    int64_t units, columns; /* TB and TA, or BQ and BN, of a tile */
    int mt, nt, wq;         /* CUDA_KRON_MMA */
    int steps;              /* CUDA_KRON_TILE: of factors step and on, so many */
    int step[GRAM_MAX_FACTORS + 2], with[GRAM_MAX_FACTORS + 2];
    int threads, blocks, wide; /* CUDA_KRON_TILE: blocks on a processor, sums at a time */
    int stages;                /* CUDA_KRON_TILE, each of so many bytes; CUDA_KRON_KEPT */
    size_t stage_bytes;
    bool plain, linear;
    bool mma; /* CUDA_KRON_TILE: by tensor cores, with these of each factor */
    int gap[GRAM_MAX_FACTORS], spread[GRAM_MAX_FACTORS], row[GRAM_MAX_FACTORS];
    int warpgroups; /* CUDA_KRON_KEPT */
    int64_t kept;   /* columns of the last factor that a block keeps */
    bool paired;    /* it has two factors */
    bool in_place, padded;
    bool along; /* neighbours in x are those along the factor's index */
    size_t shared_bytes;
    CUfunction function; /* its kernel, once it was queued; NULL before */
};

struct cuda_kron_plan {
    const struct gram_kron_matmul_op *op;
    struct gram_view x, y, z; /* op's; columns before rows are seen as one row */
    int64_t rows, extra;      /* extra: rows of op, where they are indices after the factors */
    size_t element;           /* bytes of a number of the arithmetic */
    int64_t shared_bytes;     /* that a block can have */
    int64_t tile_bytes;       /* most of a tile of kron_matmul_tile.cu */
    bool tiled;               /* columns of x, y and z are neighbours */
    bool tensor;              /* kron_matmul_tile.cu may use tensor cores */
    bool pairs;               /* the last two factors make a pass of CUDA_KRON_KEPT */
    int passes;
    struct cuda_kron_pass pass[GRAM_MAX_FACTORS];
    int64_t wide;                    /* columns of a row between passes; 0 if there is one pass */
    int64_t wanted_bytes;            /* of a tile that can be as large as one likes */
    int64_t chunk_rows, chunk_items; /* that go through all passes together */
    double bytes;                    /* of scratch: more than can be counted is told so */
};

/* device: its arch and number of processors count.  choice: 0 the model's, or one of 1 to
 * CUDA_KRON_CHOICES, in whose place the model's is taken where its tiles do not fit. */
void cuda_kron_plan(const struct cuda_device *device, const struct gram_kron_matmul_op *op,
                    int choice, struct cuda_kron_plan *plan);

/* Shared memory that a block can have. */
int64_t cuda_kron_shared(int arch);

/* What of a plan are op's addresses and numbers, which are not those that it was made for. */
void cuda_kron_plan_of(const struct gram_kron_matmul_op *op, struct cuda_kron_plan *plan);

/* cuda_kron_memo.c: the plan, made or remembered, until the next call; NULL: out of memory. */
struct cuda_kron_plan *cuda_kron_remembered(gram_context *g, const struct gram_kron_matmul_op *op,
                                            int choice);

/* Whether beta z is added. */
bool cuda_kron_adds(const struct gram_kron_matmul_op *op);

/* cuda_kron_tile.c: factors that kron_matmul_tile.cu is for; sets tile_bytes, and gives those that
 * are worth it where they save a launch; whether a group, with so many indices behind it, fits
 * tile_bytes; makes a pass one of this kernel, or gives false; what the
 * compiler is told of it. */
bool cuda_kron_tile_takes(const struct gram_kron_matmul_op *op, int factor);
int64_t cuda_kron_tile_size(const struct cuda_device *device, struct cuda_kron_plan *plan,
                            int choice);
bool cuda_kron_tile_holds(const struct cuda_kron_plan *plan, const struct gram_kron_span *span,
                          int64_t after);
bool cuda_kron_tile_choose(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                           int number, struct cuda_kron_pass *pass);
void cuda_kron_tile_define(const struct cuda_kron_plan *plan, int number, char *to, size_t room);
/* cuda_kron_tile_mma.c: whether tensor cores are worth it at all, and for a factor; the places in
 * shared memory of a pass whose steps are chosen, and whose tile has so many elements, by tensor
 * cores, or false if there is too little of it. */
bool cuda_kron_has_tensor(int arch, const struct gram_kron_matmul_op *op);
bool cuda_kron_tile_by_mma(const struct cuda_kron_plan *plan, int factor);
bool cuda_kron_tile_choose_mma(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass,
                               int64_t elements);
/* cuda_kron_kept.c: makes a pass of one factor, whose span is set, one of kron_matmul_kept.cu;
 * false if it cannot be. */
bool cuda_kron_keep(const struct cuda_device *device, const struct cuda_kron_plan *plan, int number,
                    struct cuda_kron_pass *pass);
/* Whether it can be with the last two, before there are passes. */
bool cuda_kron_pairs(const struct cuda_device *device, const struct cuda_kron_plan *plan);
void cuda_kron_kept_defines(const struct cuda_kron_plan *plan, int number,
                            const struct kron_params *params, char *to, size_t room);

/* cuda_kron_tune.c: the choice that was fastest for problems like op; 0: not measured. */
int cuda_kron_tuned(const gram_context *g, const struct gram_kron_matmul_op *op);
/* cuda_kron_matmul.c: the product by one of the choices. */
gram_status cuda_kron_matmul_chosen(gram_context *g, const struct gram_kron_matmul_op *op,
                                    int choice);

/* cuda_kron_matmul.c */
struct kron_side cuda_kron_side(const struct gram_view *v);
struct kron_number cuda_kron_number(const struct gram_hyper *h);
/* cuda_kron_batch.c: the shape of a batch for the device; blocks of so many threads. */
void cuda_kron_put_batch(const struct gram_batch *batch, long long *ndim, long long *shape);
/* Whether a matrix is the same in all items; the batch of those that it has. */
bool cuda_kron_is_shared(const struct gram_batch *batch, const struct gram_view *v);
struct gram_batch cuda_kron_own(const struct gram_batch *batch, const struct gram_view *v);
/* Whether rows of all items lie one after the other without gaps. */
bool cuda_kron_is_dense(const struct gram_batch *batch, const struct gram_view *v);
/* Matrices one after the other, row by row, one for each item of own. */
struct gram_view cuda_kron_dense(void *data, gram_dtype dtype, const struct gram_batch *own,
                                 int64_t rows, int64_t cols);
/* What a pass gets; between passes rows lie in scratch. */
void cuda_kron_params(const struct cuda_kron_plan *plan, void *scratch, int number,
                      struct kron_params *params);

/* cuda_kron_matmul_request.c: -DX_KIND and -DREAL of a dtype. */
int cuda_kron_kind(gram_dtype dtype);
const char *cuda_kron_real(gram_dtype dtype);
/* Bytes of an element of x, or of the factors, of a pass. */
size_t cuda_kron_stored(const struct cuda_kron_plan *plan, bool is_factor, int number);

/* Elements of so many bytes that can be moved at once: neighbours, none of them across the end of a
 * run of `group` indices or, with others after them, of `width` of these. */
int cuda_kron_moved(const struct kron_side *side, size_t bytes, int64_t after, int64_t width,
                    int64_t group);

/* The params of a pass without its tensors' addresses, and the request of its kernel. */
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
