/*
 * cpu_cdist.h - how a pairwise problem is cut into pieces of memory and of work
 *
 * Loops, outermost first:
 *   round   packs panels of some rows of x, some rows of y and some columns k, of one or several
 *           items of the batch, into scratch of bounded size, so that no input is copied whole
 *   block   one piece of out in a round, done by one thread from the packed panels
 *   strip   mr rows of a block: a row of register tiles, summed in a buffer, mapped and stored
 * Where k takes several rounds, out holds the partial sums in between.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_CDIST_H
#define GRAM_CPU_CDIST_H
#include "core/scratch.h"
#include "core/threads.h"
#include "cpu/cpu.h"
#include "cpu/cpu_kernels.h"
#include "cpu_metric.h"

/* What the hyperparameters of an item come to. */
struct cdist_item {
    gram_cdist_tile *tile;
    bool mapped, weighted; /* weighted: the map is not the identity's root */
    double regularization;
    struct gram_power power;
    struct gram_map map;
    struct cpu_metric metric; /* where the plan has one */
};

struct cdist_plan {
    const gram_context *g;
    struct gram_cdist_op op; /* transposed if out's rows are the contiguous dimension */
    const struct gram_cpu_kernels *kernels;
    int threads; /* that may work on it: the context's, or the calling one alone */
    int64_t mr, nr;
    bool expand;                   /* p = 2 by norms and products: panels have shifted copies */
    gram_dtype dtype;              /* of the arithmetic and of out */
    int64_t element;               /* its bytes */
    bool stream;                   /* out is too large to stay in the cache and can be streamed */
    bool norms;                    /* the expression has |x| or |y| */
    bool sums;                     /* it has sums of |x - y| or (x - y)^2 beside s */
    bool metric;                   /* panels and sums are those of a metric */
    int64_t columns;               /* of panels: those of x, and what a metric adds */
    int64_t depth;                 /* columns of a round */
    int64_t x_rows, y_rows, items; /* of a round, whole panels */
    int64_t block_rows, block_cols;
    int64_t buffer_rows; /* of a block that are summed before they are mirrored: whole strips */
    bool shared_item;    /* all items have the same hyperparameters */
    size_t item_bytes; /* of a cdist_item, with an expression's evaluation and a metric's numbers */
    bool empty;        /* there is nothing to do */
    /* Scratch: panels of x and y, where expand is set their shifted copies and the centre, norms,
     * what the hyperparameters of items come to, a buffer of each thread. */
    char *x_panels, *y_panels, *x_centred, *y_centred, *centre, *x_norms, *y_norms, *item_memory,
        *buffers;
    char *x_lengths, *y_lengths;       /* |x| and |y| where norms is set, else NULL */
    size_t buffer_bytes, second_bytes; /* second_bytes: from a buffer to that of second sums, and
                                          from there to a third one's, of squares */
};

/* The piece of the problem that a round works on. */
struct cdist_round {
    const struct cdist_plan *plan;
    int64_t item, items;      /* of the batch */
    int64_t i, rows, j, cols; /* of out */
    int64_t k, depth;
    bool first, last; /* of the rounds over k */
    bool pack_y;      /* not yet done for these j and k */
    int64_t x_panels, y_panels, item_blocks, blocks_across;
};

/* A block's part of out and its buffer: element (r, c) of out's block at buffer[r*ld + c]. */
struct cdist_piece {
    char *out;
    int64_t row_stride, col_stride; /* of out, in elements */
    int64_t rows, cols;
    int64_t diagonal; /* columns c < r + diagonal are left alone; very negative: none */
    char *buffer;
    int64_t ld;
};

/* Where the panels of an item of the round lie from x_panels and y_panels on, and the shifted ones
 * from x_centred and y_centred on. */
static inline size_t cpu_cdist_x_panel(const struct cdist_plan *plan, int64_t item, int64_t panel)
{
    return (size_t)((item * plan->x_rows + panel * plan->mr) * plan->depth * plan->element);
}

static inline size_t cpu_cdist_y_panel(const struct cdist_plan *plan, int64_t item, int64_t panel)
{
    return (size_t)((item * plan->y_rows + panel * plan->nr) * plan->depth * plan->element);
}

/* Behind a cdist_item: the evaluation of its expression, and then the numbers of its metric. */
static inline size_t cpu_cdist_metric_at(const struct gram_cdist_op *op)
{
    return gram_round64(sizeof(struct cdist_item)) +
           (op->expression ? gram_round64(gram_evaluation_bytes(op->expression)) : 0);
}

/* cpu_cdist.c: the whole work of a plan whose layout is open. */
void cpu_cdist_run(struct cdist_plan *plan);
/* cpu_cdist as a part of other operations, in a piece of their scratch. */
gram_status cpu_cdist_in(gram_context *g, const struct gram_cdist_op *op, void *memory,
                         size_t bytes);

/* Rows [first, first + count) of a matrix of one item, all columns, as a panel of `width` rows in
 * the dtype of the arithmetic: panel[k*width + r] = row r, column k; zeros from row count on. */
void cpu_cdist_pack(const struct gram_view *v, int64_t first, int64_t count, int64_t width,
                    void *panel);

/* cpu_cdist_plan.c: chooses pieces, without reading a tensor's data; and takes the plan's scratch,
 * whose pointers opening the layout fills in: until then the plan must stay where it is. */
void cpu_cdist_plan(const gram_context *g, const struct gram_cdist_op *op, struct cdist_plan *plan);
/* The same for a task of a parallel loop: the calling thread does all of the work. */
void cpu_cdist_plan_alone(const gram_context *g, const struct gram_cdist_op *op,
                          struct cdist_plan *plan);
void cpu_cdist_take(struct cdist_plan *plan, struct gram_layout *layout);
void cpu_cdist_item(const struct cdist_plan *plan, int64_t item, struct cdist_item *out);

/* cpu_cdist_grad.c: the power of a tile of gradients for 0 < p < INFINITY. */
enum gram_grad_power cpu_cdist_grad_power(double p);
/* cpu_cdist_grad as a part of other operations, in a piece of their scratch; with
 * add the gradients are added to what out holds. */
gram_status cpu_cdist_grad_in(gram_context *g, const struct gram_cdist_grad_op *op, bool add,
                              void *memory, size_t bytes);
#endif
