/*
 * optimizer.h - what an optimizer consists of: parameters, their blocks, and the state of each
 * block
 *
 * A parameter's shape is merged (options.merge) and each dimension cut into pieces of at most
 * options.block: a block is one piece along each dimension.  All work and all state are a block's,
 * so that blocks can be done in any order, by any thread and on any rank.  Merging keeps the
 * row-major order of elements, so that a block is a set of runs of the parameter's flat indices.
 *
 * State lies in one allocation, on a GPU in its memory; a slot is one tensor in it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_OPTIMIZER_H
#define GRAM_OPTIMIZER_H
#include "core/backend.h"
#include <math.h>

/* A tensor of the state of a block: a matrix of order n, row-major (packed: the upper triangle of a
 * symmetric one, row by row, as gram_syrk_ema packs) or, n = 0, an array of the block's shape.
 * dtype 0: there is none. */
struct gram_optimizer_slot {
    gram_dtype dtype;
    bool packed;
    int64_t n, count; /* order; elements */
    size_t offset;    /* in the optimizer's state */
};

struct gram_optimizer_block {
    int64_t parameter, number;                         /* which block of the parameter */
    int64_t rank;                                      /* that does it */
    int order;                                         /* dimensions, at least 1 */
    int64_t size[GRAM_MAX_DIMS], start[GRAM_MAX_DIMS]; /* within the parameter's merged shape */
    int64_t count;                                     /* elements */
    int numerator, denominator; /* of the exponent of its roots, where the method has any */
    struct gram_optimizer_slot factor[GRAM_MAX_DIMS], root[GRAM_MAX_DIMS]; /* order n each */
    struct gram_optimizer_slot moment, velocity, second; /* arrays: M, B, V of gram.h */
};

struct gram_optimizer_parameter {
    gram_dtype dtype;
    int ndim;
    int64_t shape[GRAM_MAX_DIMS];
    int order; /* of the merged shape */
    int64_t merged[GRAM_MAX_DIMS];
    int64_t count;               /* elements */
    gram_dtype state, work;      /* of moments; of the arithmetic: f32 or f64 */
    int64_t first_block, blocks; /* in the optimizer's list */
};

/* A state tensor by name, for gram_optimizer_state_at and files. */
struct gram_optimizer_named {
    char name[64];
    gram_tensor view;
};

/* Where a tensor of a call lies, to find those that overlap. */
struct gram_optimizer_range {
    intptr_t low, high;
    const gram_tensor *tensor;
    const char *list; /* "parameters" */
    int64_t index;
    bool written;
};

struct gram_optimizer {
    gram_context_options memory; /* whose allocator the optimizer's memory came from */
    gram_optimizer_options options;
    int64_t parameters, blocks, names;
    struct gram_optimizer_parameter *parameter;
    struct gram_optimizer_block *block;
    struct gram_optimizer_named *named;
    struct gram_optimizer_range *range; /* room for three lists of tensors */
    /* Calls that did a step; one per parameter; one per block, refreshes that failed.  They lie in
     * counts, with which the state begins; on a GPU a copy that is the host's. */
    int64_t *step, *steps, *failures;
    char *counts, *state;
    size_t counts_bytes, state_bytes;
    /* On a GPU: whose memory the state is, what the backend keeps, and whether counts have to be
     * read again before the next step. */
    gram_context *owner;
    void *device;
    bool stale;
};

/* What a method is to the front (optimizer_methods.c). */
struct gram_optimizer_rules {
    const char *name;
    bool cut;    /* into blocks of at most options.block along each dimension; else one block */
    bool matrix; /* the first dimension by the rest, whatever options.merge says */
    void (*defaults)(gram_optimizer_options *o); /* changes Shampoo's to its own; NULL: none */
    /* Refuses options, and a parameter or block, that the method has no formula for, and says which
     * slots of state a block has: dtype, n and count of each.  A root begins as the identity,
     * everything else as 0. */
    gram_status (*check)(gram_context *g, const gram_optimizer_options *o);
    gram_status (*describe)(gram_context *g, const gram_optimizer *o,
                            const struct gram_optimizer_parameter *p,
                            struct gram_optimizer_block *b);
};

/* NULL: there is no such method. */
const struct gram_optimizer_rules *gram_optimizer_rules_of(gram_optimizer_method method);

/* Options is filled with the method's defaults, then what was given, all of it
 * checked. */
gram_status gram_optimizer_take_options(gram_context *g, const gram_optimizer_options *given,
                                        gram_optimizer_options *options);

/* The dtype of matrices and second moments: the state's, f32 for bf16, whose 8 bits lose the small
 * changes of a sum, and the differences that are left where a root meets a factor of low rank. */
static inline gram_dtype gram_optimizer_statistics(const struct gram_optimizer_parameter *p)
{
    return p->state == GRAM_BF16 ? GRAM_F32 : p->state;
}

/* The i'th slot of a block, 0 <= i < gram_optimizer_slots(b), with its name in the state. */
int gram_optimizer_slots(const struct gram_optimizer_block *b);
struct gram_optimizer_slot *gram_optimizer_slot(struct gram_optimizer_block *b, int i,
                                                const char **name);

static inline bool gram_optimizer_owns(const gram_optimizer *o,
                                       const struct gram_optimizer_block *b)
{
    return b->rank == o->options.rank;
}

/* Whether the roots of a block are due in its step t. */
static inline bool gram_optimizer_due(const gram_optimizer *o, const struct gram_optimizer_block *b,
                                      int64_t t)
{
    const gram_optimizer_options *options = &o->options;
    int64_t number = b - o->block;

    if (t <= options->start)
        return t == options->start;
    return (t % options->refresh + (options->stagger ? number % options->refresh : 0)) %
               options->refresh ==
           0;
}

/* Whether the factors of Shampoo take in the gradient of step t, and how many they have by then. */
static inline bool gram_optimizer_takes(const gram_optimizer *o, int64_t t)
{
    return t == 1 || t % o->options.statistics == 0;
}

static inline int64_t gram_optimizer_taken(const gram_optimizer *o, int64_t t)
{
    return t / o->options.statistics + (o->options.statistics > 1);
}

/* A tensor in as few dimensions as its strides allow, the last one first; gives their number. */
static inline int gram_optimizer_join(const gram_tensor *t, int64_t shape[GRAM_MAX_DIMS],
                                      int64_t stride[GRAM_MAX_DIMS])
{
    int ndim = 0;

    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] == 1)
            continue;
        if (ndim > 0 && t->stride[i] == stride[ndim - 1] * shape[ndim - 1]) {
            shape[ndim - 1] *= t->shape[i];
        } else {
            shape[ndim] = t->shape[i];
            stride[ndim++] = t->stride[i];
        }
    }
    if (ndim == 0)
        shape[0] = stride[0] = 1;
    return ndim > 0 ? ndim : 1;
}

static inline void *gram_optimizer_data(const gram_optimizer *o,
                                        const struct gram_optimizer_slot *s)
{
    return o->state + s->offset;
}

/* A step behind the front.  All lists have one entry a parameter. */
struct gram_optimizer_op {
    gram_optimizer *optimizer;
    const gram_tensor *const *parameters;
    const gram_tensor *const *gradients; /* NULL: the parameter rests */
    gram_tensor *const *directions;      /* NULL, or an entry NULL: not wanted */
    gram_tensor *const *updated;         /* the parameters, to be changed in place; or NULL */
    gram_optimizer_report *report;       /* never NULL; zeros, first_failed -1 */
    bool asked;                          /* the caller wants the report */
};

/* Refuses a missing optimizer, and a device without any. */
gram_status gram_optimizer_check_call(gram_context *g, const gram_optimizer *o);

/* The bytes of scratch that a step takes; the status is that of a step whose sizes cannot be
 * done. */
gram_status gram_optimizer_measure(gram_context *g, const gram_optimizer *o, size_t *bytes);

/* optimizer_file.c: the state from a file that was read, all of it or, if it is refused, nothing.
 */
struct gram_model_file;
gram_status gram_optimizer_take_file(gram_context *g, gram_optimizer *o,
                                     const struct gram_model_file *file);

/* Reads the counts of an optimizer whose state is on a GPU, and waits for them. */
static inline gram_status gram_optimizer_read_counts(gram_context *g, const gram_optimizer *o)
{
    if (!o->owner)
        return GRAM_OK;
    TRY(g->backend->memory_copy(g, o->counts, o->state, o->counts_bytes));
    return g->backend->synchronize(g);
}

/* ---- The roots of Shampoo -------------------------------------------------------------------- */

/* Of count factors of order n of blocks like b, one after the other; places are still to be filled
 * in. */
static inline struct gram_matrix_power_op gram_optimizer_power(const gram_optimizer *o,
                                                               const struct gram_optimizer_block *b,
                                                               int64_t n, gram_dtype work,
                                                               int64_t count)
{
    struct gram_matrix_power_op op = {
        .batch = {                  .ndim = 1, .shape = {count}, .count = count},
        .a = gram_view_dense(NULL, work, n, n),
        .out = gram_view_dense(NULL, work, n, n),
        .info = gram_view_dense(NULL, GRAM_I32, 1, 1),
        .has_info = true,
        .numerator = -b->numerator,
        .denominator = b->denominator,
        .method = o->options.root,
        .precision = work == GRAM_F32 ? o->options.root_precision : GRAM_POWER_PRECISION_AUTO,
        .uplo = GRAM_UPPER,
        .ridge = {.value = o->options.epsilon                 },
        .ridge_relative = o->options.epsilon_relative != 0,
        .factor = true,
        .tolerance = INFINITY,
        .iterations = 100,
    };

    op.a.batch_stride[0] = op.out.batch_stride[0] = n * n;
    op.info.batch_stride[0] = 1;
    return op;
}

/* What a root that fits adds to the eigenvalues of a factor, the largest of which is most: as
 * gram.h has r, but for negative eigenvalues; least is that of the device's roots. */
static inline double gram_optimizer_ridge(const gram_optimizer_options *o, double least,
                                          double most)
{
    double ridge = fmax(o->epsilon_relative ? o->epsilon * most : o->epsilon, least * most);

    return ridge > 0 ? ridge : 1;
}
#endif
