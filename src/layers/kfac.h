/*
 * kfac.h - the state of gram_kfac: the averages of a layer, their inverses, and room to work in
 *
 * All numbers have the dtype options.state.  In each of `groups` groups a gradient is a matrix M of
 * `rows` by `cols`, [W b]; B acts on its rows and A on its columns.  The M of an embedding is the
 * transpose of its table, and its A is diagonal.
 *
 * The algorithm is written once, in kfac_step.c and kfac_correct.c: products, factorisations and
 * eigenproblems are operations of the library, and what else is done with numbers are the passes
 * below, which each backend offers (cpu_kfac.c, cuda_kfac.c).  The backend alone knows whether
 * numbers are finite and whether a factorisation succeeded: a pass that takes numbers into the
 * state decides for itself whether it does.  So nothing waits for a device.
 *
 *   kfac.c          create, options, parts of the state for the caller, save and load
 *   kfac_step.c     averages, inverses, directions
 *   kfac_correct.c  the corrected eigenvalues of EKFAC
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KFAC_H
#define GRAM_KFAC_H
#include "core/backend.h"

enum {
    KFAC_NAME_BYTES = 40,
    KFAC_WORKS = 4, /* pieces of memory to work in, one behind the other */
    KFAC_STEP = 16, /* the numbers of a piece are a multiple of this: it can hold f64, aligned */
    KFAC_PARTS = 256
};

/* The indices of a layer's counts. */
enum kfac_count {
    KFAC_A_UPDATES,
    KFAC_B_UPDATES,
    KFAC_CORRECTIONS, /* updates of the corrections since the eigenvectors were made */
    KFAC_READY,       /* 1: the layer has inverses or eigenvectors */
    KFAC_COUNTS
};

struct kfac_layer {
    gram_layer layer;
    int64_t groups, rows, cols; /* of M in each group */
    int64_t inputs, outputs;
    bool diagonal;  /* A is diagonal */
    bool corrected; /* the layer has corrections */
    void *a, *b;    /* averages */
    /* FACTORED: inverses; EXACT: eigenvectors, in columns.  A diagonal A has no a_inverse. */
    void *a_inverse, *b_inverse;
    void *a_values, *b_values;   /* EXACT: eigenvalues; FACTORED: a_values inverts a diagonal A */
    void *corrections;           /* the eigenvalues s that are averaged; or NULL */
    void *gradient;              /* M; during an update the new corrections */
    int64_t *counts;             /* KFAC_COUNTS of them, part of the state */
    int64_t queued[KFAC_COUNTS]; /* on a device: the counts once all that is queued has run */
};

struct kfac_state {
    char name[KFAC_NAME_BYTES];
    gram_tensor view;
};

/* What passes find and report to each other and to the host. */
struct kfac_report {
    int64_t skipped, failed;
    int64_t bad;             /* 1: a number of the call that runs is not finite */
    double nu;               /* of the last precondition */
    double sum;              /* the sum of <V, M> so far */
    double shift[2];         /* the damping of A and of B */
    double part[KFAC_PARTS]; /* partial sums of a device; memory of the CPU ends before them */
};

struct gram_kfac {
    gram_kfac_options options;
    int64_t count;
    struct kfac_layer *layer;
    int64_t states;
    struct kfac_state *state;
    gram_context *owner; /* on a device: the context that made the object; NULL on the CPU */
    /* One piece of memory, on the object's device, of `bytes` bytes: first numbers, namely M of all
     * layers, works and the state, then counts, report and info. */
    void *gradients;
    void *work[KFAC_WORKS];
    int64_t *counts;
    struct kfac_report *report;
    int32_t *info; /* most_groups for A, then as many for B: the outcomes of factorising */
    size_t bytes;
    int64_t work_count; /* the numbers in each of work */
    int64_t numbers, parameters;
    int64_t most_groups; /* of any layer */
};

/* ---- Passes --------------------------------------------------------------------------------- */

/* The passes, and the members of struct gram_kfac_pass that each one reads beside report, counts
 * and state.  A pass that takes numbers into the state does nothing where report->bad is set. */
enum kfac_pass_kind {
    /* Sets bad if one of the count numbers of `from` is not finite. */
    KFAC_CHECK_FINITE,
    /* Moves the average `to` towards `from`: to = keep to + (1 - keep) from, where
     * keep = min(1 - 1 / (updates + 1), average.decay) and updates = counts[average.updates].  The
     * average of corrections moves only if the layer is ready. */
    KFAC_MOVE_AVERAGE,
    /* Counts the updates of the averages in `moved`, or the call as skipped if it is bad, and
     * resets bad. */
    KFAC_COUNT_UPDATE,
    /* Computes both shifts from x, the average A, and y, the average B. */
    KFAC_SPLIT_DAMPING,
    /* to = x + shift[side] I for matrices of order `rows`, and from = I. */
    KFAC_ADD_DAMPING,
    /* Makes `to` from x as store says, if all factorisations of the layer have succeeded. */
    KFAC_STORE,
    /* Makes the layer ready if all its factorisations have succeeded, counts it as failed if not,
     * and resets bad. */
    KFAC_COMMIT,
    /* Copies the tensor of move to its numbers. */
    KFAC_GATHER,
    /* Copies the numbers of move, times nu, to its tensor. */
    KFAC_SCATTER,
    /* Multiplies or divides `to` as scale says. */
    KFAC_SCALE,
    /* to = squares.factor times the sum of the squares of `groups` vectors x of count numbers each;
     * with squares.adds this is added to `to`. */
    KFAC_SQUARES,
    /* Adds <x, to>, or its parts, to the report, then to = x; if the layer is not ready x is `to`
     * itself. */
    KFAC_TAKE_DIRECTION,
    /* Adds the parts of <x, to>, where there are any, to sum. */
    KFAC_ADD_PARTS,
    /* nu = min(1, sqrt(clip.most / |sum clip.rate^2|)), or 0, and a skipped call, if it is bad. */
    KFAC_CLIP,
};

/* How KFAC_STORE makes `to` from x.  Device code has these numbers too (kfac_params.h). */
enum kfac_store {
    KFAC_STORE_SAME,      /* to = x */
    KFAC_STORE_SYMMETRIC, /* the mean of x and its transpose */
    KFAC_STORE_VALUES,    /* to = max(x, 0) */
    KFAC_STORE_INVERSE,   /* to = 1 / (max(x, 0) + shift[0]): a diagonal A with its damping */
    KFAC_STORE_PRODUCTS   /* to = x[column] y[row] */
};

/* How KFAC_SCALE changes `to`, a matrix M. */
enum kfac_scale {
    KFAC_SCALE_COLUMNS, /* to *= x[column] */
    KFAC_SCALE_FACTORS, /* to /= x[column] y[row] + lambda */
    KFAC_SCALE_VALUES   /* to /= x + lambda */
};

/* A copy between numbers and a tensor of f32 or f64 and any strides.  Element e of the tensor, in
 * row-major order, is
 *   numbers[(e / inner) * outer_step + (e % inner) * inner_step]. */
struct kfac_move {
    const gram_tensor *tensor;
    void *numbers;
    gram_dtype state; /* the dtype of numbers */
    int64_t inner, outer_step, inner_step;
};

/* One pass over numbers. */
struct gram_kfac_pass {
    enum kfac_pass_kind kind;
    struct kfac_report *report;
    int64_t *counts;  /* the layer's */
    gram_dtype state; /* the dtype of to, x and y, which are numbers of the object */
    const void *from; /* new numbers of the dtype below */
    gram_dtype dtype;
    void *to;
    const void *x, *y;
    int64_t count, groups, rows, cols;
    const int32_t
        *info[2]; /* outcomes of factorising A and B, one per group; NULL: no factorisation */
    const struct kfac_move *move;
    union {
        struct {
            enum kfac_count updates;
            double decay;
        } average;
        unsigned moved; /* the sum of 1 << (enum kfac_count) of the averages that have moved */
        struct {
            bool diagonal; /* A is */
            double lambda, least;
        } damping;
        int side; /* 0: A, 1: B */
        enum kfac_store store;
        struct {
            enum kfac_scale by;
            double lambda;
        } scale;
        struct {
            bool adds;
            double factor;
        } squares;
        struct {
            double most, rate; /* most 0: no bound */
        } clip;
    };
};

/* Runs one pass, or queues it on a device. */
gram_status gram_kfac_run(gram_context *g, const gram_kfac *k, struct gram_kfac_pass pass);

/* ---- Numbers -------------------------------------------------------------------------------- */

/* How many numbers A, B and M have, of all groups. */
static inline int64_t kfac_a_count(const struct kfac_layer *l)
{
    return l->diagonal ? l->cols : l->groups * l->cols * l->cols;
}
static inline int64_t kfac_b_count(const struct kfac_layer *l)
{
    return l->groups * l->rows * l->rows;
}
static inline int64_t kfac_m_count(const struct kfac_layer *l)
{
    return l->groups * l->rows * l->cols;
}

/* Number i of f32 or f64. */
static inline double kfac_read(gram_dtype dtype, const void *numbers, int64_t i)
{
    return dtype == GRAM_F32 ? (double)((const float *)numbers)[i] : ((const double *)numbers)[i];
}
static inline void kfac_write(gram_dtype dtype, void *numbers, int64_t i, double value)
{
    if (dtype == GRAM_F32)
        ((float *)numbers)[i] = (float)value;
    else
        ((double *)numbers)[i] = value;
}
/* The numbers from i on. */
static inline void *kfac_from(gram_dtype dtype, void *numbers, int64_t i)
{
    return (char *)numbers + i * (int64_t)gram_dtype_size(dtype);
}

/* A layer's counts as far as the host knows them: on a device those that were queued. */
static inline const int64_t *kfac_known_counts(const gram_kfac *k, const struct kfac_layer *l)
{
    return k->owner ? l->queued : l->counts;
}

/* cpu_kfac.c: true if all numbers are finite, also after they are rounded to the dtype state. */
bool gram_kfac_finite(int64_t count, const void *numbers, gram_dtype dtype, gram_dtype state);

/* ---- Parts of the object -------------------------------------------------------------------- */

/* kfac.c: refuses a context that the object does not belong to. */
gram_status gram_kfac_check_context(gram_context *g, const gram_kfac *k);
/* The shape of a layer's weight and of its gradient. */
struct gram_batch gram_kfac_weight_shape(const struct kfac_layer *l);
/* A tensor without gaps on the object's device. */
gram_tensor gram_kfac_dense(const gram_kfac *k, void *numbers, const struct gram_batch *shape,
                            gram_dtype dtype);

/* kfac_correct.c: computes the mean of (Qb^T G Qa)^2 over the samples, to l->gradient. */
gram_status gram_kfac_correct(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                              const gram_tensor *activations, const gram_tensor *gradients);
#endif
