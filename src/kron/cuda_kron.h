/*
 * cuda_kron.h - products with Kronecker factors on the device: the plan of one, and what the calls
 * on Kronecker products share
 *
 * A product goes through passes.  A pass is one launch of one of five kernels, which applies a span
 * of neighbouring factors to tiles of x, or of the result of the pass before it.  The plan says
 * which factors a pass applies, by which kernel, and how large the tiles are.
 *
 * A solver is what the host knows of one kernel: it plans a pass, or refuses it, and describes its
 * launch.  README.md says when each of them is chosen.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KRON_H
#define GRAM_CUDA_KRON_H
#include "cuda/cuda_ops.h"
#include "cuda/device_view.h"
#include "cuda/launch.h"
#include "kron_params.h"
#include "kron_span.h"

enum {
    CUDA_KRON_BUDGETS = 4, /* limits of a tile's shared memory to try: all of it, half of it, ... */
    CUDA_KRON_TILES = 3,   /* sizes to try of a tile that may have any size */
    CUDA_KRON_CHOICES = CUDA_KRON_BUDGETS * CUDA_KRON_TILES
};

/* ---- Passes --------------------------------------------------------------------------------- */

/* kron_matmul.cu: small factors, applied to a tile in shared memory. */
struct cuda_kron_fused_pass {
    bool in_place; /* All factors are square, so that one tile is enough. */
    bool padded;   /* Sizes are powers of two, so the tile has gaps against bank conflicts. */
};

/* kron_matmul_one.cu and kron_matmul_mma.cu: one factor of any size. */
struct cuda_kron_single_pass {
    bool along;     /* Elements that are neighbours along the factor's index are so in x. */
    int mt, nt, wq; /* MT, NT and WQ of kron_matmul_mma.cu */
};

/* kron_matmul_tile.cu: small factors, applied to a tile in registers. */
struct cuda_kron_tile_pass {
    int steps; /* how many entries of step and with are set */
    int step[GRAM_MAX_FACTORS + 2], with[GRAM_MAX_FACTORS + 2]; /* Step i contracts the with[i]
                    factors from step[i] on; where with[i] is 0 it only copies the tile. */
    int blocks;                                                 /* that a processor has at a time */
    int at_once;        /* sums of a thread at a time: WIDE of the kernel */
    int stages;         /* tiles of x that are copied ahead */
    size_t stage_bytes; /* shared memory of one of them */
    bool plain;         /* y is the product itself, without alpha, beta and z. */
    bool linear;        /* Rows lie one behind the other without gaps. */
    bool mma;           /* Tensor cores multiply; gap, spread and row are set. */
    /* Of each factor, against bank conflicts: unused elements behind a run of its elements in the
     * tile, the distance of the columns that lanes take, and the length of its rows. */
    int gap[GRAM_MAX_FACTORS], spread[GRAM_MAX_FACTORS], row[GRAM_MAX_FACTORS];
};

/* kron_matmul_resident.cu: a large factor, or the last two, that stay in shared memory. */
struct cuda_kron_resident_pass {
    int warpgroups;  /* groups of four warps in a block */
    int stages;      /* chunks of x that are copied ahead */
    int64_t columns; /* columns of the last factor that are resident */
    bool paired;     /* The pass has two factors. */
};

struct cuda_kron_pass {
    struct gram_kron_span span;            /* the factors; first, as kron_span.h wants it */
    const struct cuda_kron_solver *solver; /* which member of the union counts */
    int64_t units, columns; /* the size of a tile: TB and TA, or BQ and BN, of the kernel */
    int threads;            /* of a block */
    size_t shared_bytes;    /* of a block */
    CUfunction function;    /* the kernel, once the pass was launched; NULL before */
    union {
        struct cuda_kron_fused_pass fused;
        struct cuda_kron_single_pass single;
        struct cuda_kron_tile_pass tile;
        struct cuda_kron_resident_pass resident;
    };
};

/* ---- Plans ---------------------------------------------------------------------------------- */

struct cuda_kron_plan {
    const struct gram_kron_matmul_op *op;
    struct gram_view x, y, z; /* Those of op; where a column is contiguous, as one long row. */
    int64_t rows;             /* of x, y and z */
    int64_t inside;           /* indices behind all factors: the rows of op in such a long row */
    size_t element;           /* bytes of a number of the arithmetic */
    int64_t shared_bytes;     /* the most shared memory that a block can have */
    int64_t tile_bytes;       /* the most bytes of a tile of kron_matmul_tile.cu */
    bool tiled;               /* Columns of x, y and z are neighbours: that kernel can be taken. */
    bool tensor;              /* That kernel may use tensor cores. */
    bool pairs;               /* The last two factors make one pass of resident factors. */
    int passes;
    struct cuda_kron_pass pass[GRAM_MAX_FACTORS];
    int64_t between;      /* columns of a row between passes; 0 if there is one pass */
    int64_t wanted_bytes; /* the size to aim at of a tile that may have any size */
    double bytes;         /* of scratch, as a double: they may exceed 64 bits */
};

/* Makes the plan of op on a device, of which the arch and the number of processors count.  choice
 * is 0 for the model's choice, or from 1 to CUDA_KRON_CHOICES; where the tiles of such a choice do
 * not fit, the plan is the model's. */
void cuda_kron_plan(const struct cuda_device *device, const struct gram_kron_matmul_op *op,
                    int choice, struct cuda_kron_plan *plan);

/* Returns the plan of op, which is made or remembered and is valid until the next call; NULL means
 * that there is no memory. */
struct cuda_kron_plan *cuda_kron_remembered(gram_context *g, const struct gram_kron_matmul_op *op,
                                            int choice);

/* The bytes of shared memory that a block can have on a chip. */
int64_t cuda_kron_shared(int arch);

/* True if op adds beta z to the product. */
bool cuda_kron_adds(const struct gram_kron_matmul_op *op);

/* ---- Solvers -------------------------------------------------------------------------------- */

struct cuda_kron_solver {
    struct cuda_kernel kernel;
    bool early; /* A launch may begin before the pass in front of it has ended. */
    /* Plans pass `number`, whose span is set, and returns true; false: the kernel cannot do it. */
    bool (*plan)(const struct cuda_device *device, const struct cuda_kron_plan *plan, int number,
                 struct cuda_kron_pass *pass);
    /* Adds the options of such a pass to those that all kernels have. */
    void (*add_options)(const struct cuda_kron_plan *plan, int number,
                        const struct kron_params *params, struct cuda_variant *v);
    /* Sets unit_tiles and col_tiles of params, and returns the blocks of the launch. */
    int64_t (*count_blocks)(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                            const struct cuda_kron_pass *pass, struct kron_params *params);
};

/* How many tiles a launch has, but at most `most`. */
static inline int64_t cuda_kron_count_tiles(const struct kron_params *p, double most)
{
    const double tiles = (double)p->unit_tiles * (double)p->col_tiles * (double)p->items;

    return (int64_t)(tiles < most ? tiles : most);
}

extern const struct cuda_kron_solver cuda_kron_fused;    /* cuda_kron_plan.c */
extern const struct cuda_kron_solver cuda_kron_single;   /* cuda_kron_plan.c */
extern const struct cuda_kron_solver cuda_kron_mma;      /* cuda_kron_plan.c */
extern const struct cuda_kron_solver cuda_kron_tile;     /* cuda_kron_tile.c */
extern const struct cuda_kron_solver cuda_kron_resident; /* cuda_kron_resident.c */

/* cuda_kron_tile.c, before there are passes.  _takes is true if a factor has a size that the kernel
 * is for, _by_mma if its tensor cores take it, and _has_tensor if a chip has such cores.  _size
 * sets plan->tile_bytes for a choice, and returns the bytes of a larger tile that pays where it
 * saves a launch (or the same number).  _holds is true if the factors of a span fit into a tile of
 * plan->tile_bytes, with `after` indices behind them. */
bool cuda_kron_tile_takes(const struct gram_kron_matmul_op *op, int factor);
bool cuda_kron_tile_by_mma(const struct cuda_kron_plan *plan, int factor);
bool cuda_kron_tile_has_tensor(int arch, const struct gram_kron_matmul_op *op);
int64_t cuda_kron_tile_size(const struct cuda_device *device, struct cuda_kron_plan *plan,
                            int choice);
bool cuda_kron_tile_holds(const struct cuda_kron_plan *plan, const struct gram_kron_span *span,
                          int64_t after);

/* cuda_kron_resident.c: true if the last two factors can be one pass.  It is asked before there
 * are passes. */
bool cuda_kron_resident_pairs(const struct cuda_device *device, const struct cuda_kron_plan *plan);

/* ---- Launches: cuda_kron_matmul.c ----------------------------------------------------------- */

/* Fills in the parameters of a pass.  Rows between two passes lie in scratch. */
void cuda_kron_params(const struct cuda_kron_plan *plan, void *scratch, int number,
                      struct kron_params *params);

/* Names the kernel of a pass.  params are those of the pass: they decide how x and y are moved. */
void cuda_kron_variant(const struct cuda_kron_plan *plan, int number,
                       const struct kron_params *params, struct cuda_variant *v);

/* The bytes of an element that a pass reads, of its x or of its factors. */
size_t cuda_kron_stored(const struct cuda_kron_plan *plan, bool is_factor, int number);

/* How many elements of `bytes` bytes one instruction can move: 16 bytes of neighbours, or fewer
 * where these would not be aligned or would cross the end of a run.  A run has `group` elements
 * where no indices come after the factor (`after` is 1), else `width`. */
int cuda_kron_moved(const struct device_view *side, size_t bytes, int64_t after, int64_t width,
                    int64_t group);

/* ---- Dtypes as kernels get them: cuda_kron.c ------------------------------------------------ */

/* True if the arithmetic is that of integers: WHOLE of the kernels. */
bool cuda_kron_is_whole(gram_dtype dtype);
#endif
