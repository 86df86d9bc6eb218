/*
 * kfac.h - the state of gram_kfac: a layer's averages, their inverses, and room to work in
 *
 * All numbers have the dtype options.state.  In each of `groups` groups a gradient is a matrix M of
 * `rows` by `cols`, [W b]; B acts on its rows and A on its columns.  The M of an embedding is the
 * transpose of its table, and its A is diagonal.
 *
 *   kfac.c               create, options, gram_kfac_get and gram_kfac_state_at
 *   kfac_update.c        averages
 *   kfac_correct.c       corrected eigenvalues, on every device
 *   kfac_refresh.c       inverses
 *   kfac_precondition.c  directions
 *   kfac_file.c          save and load
 *   kfac_put.c           a part of the state from the caller
 *   kfac_device.c        all of these on a device, which decides by itself which numbers it takes
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KFAC_H
#define GRAM_KFAC_H
#include "core/backend.h"

enum {
    KFAC_NAME_BYTES = 40,
    KFAC_WORKS = 4, /* pieces of memory to work in, one behind the other */
    KFAC_STEP = 16  /* the numbers of a piece are a multiple of this: it can hold f64, aligned */
};

/* The indices of layer.counts. */
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
    void *a_values, *b_values; /* EXACT: eigenvalues; FACTORED: a_values inverts a diagonal A */
    void *corrections;         /* the eigenvalues s that are averaged; or NULL */
    void *gradient;            /* M; during an update the new corrections */
    int64_t counts[KFAC_COUNTS];
};

struct kfac_state {
    char name[KFAC_NAME_BYTES];
    gram_tensor view;
};

struct gram_kfac {
    gram_kfac_options options;
    int64_t count;
    struct kfac_layer *layer;
    int64_t states;
    struct kfac_state *state;
    void *gradients; /* M of all layers */
    void *work[KFAC_WORKS];
    int64_t work_count; /* the numbers in each of work */
    int64_t numbers, parameters;
    int64_t skipped, failed;
    double nu;
    /* On a device: the context that made the object, in whose memory all numbers are, and those
     * below; NULL on the CPU. */
    gram_context *owner;
    struct kfac_report *report;
    int64_t *layer_counts; /* KFAC_COUNTS for each layer; layer.counts has those that were queued */
    int32_t *info;         /* most_groups for A, then as many for B: the outcomes of factorising */
    int64_t most_groups;   /* of any layer */
    size_t bytes;          /* of the memory */
};

enum {
    KFAC_PARTS = 256
};

/* The findings of the device, which passes write and read. */
struct kfac_report {
    int64_t skipped, failed;
    int64_t bad;     /* 1: a number of the call that runs is not finite */
    double nu;       /* of the last precondition */
    double sum;      /* the sum of <V, M> so far */
    double shift[2]; /* the damping of A and of B */
    double part[KFAC_PARTS];
};

/* The passes, with the members of struct gram_kfac_pass that each reads.  A pass that takes numbers
 * into the state does nothing where report->bad is set. */
enum kfac_pass_kind {
    /* Sets bad if one of the count numbers of from is not finite. */
    KFAC_LOOK,
    /* Moves the average `to` towards from.  counts[slot] is its number of updates and `number` the
     * decay.  mode 1: only if the layer is ready. */
    KFAC_MIX,
    /* Counts updates, or the call as skipped if it is bad, and resets bad.  mode is a sum of 1 for
     * A, 2 for B and 4 for the corrections. */
    KFAC_TAKEN,
    /* Computes shift from x, the average A, and y, the average B.  `number` is lambda and `other`
     * gram_kfac_least.  mode 1: A is diagonal. */
    KFAC_SHIFT,
    /* to = x + shift[slot] I for matrices of order `rows`, and from = I. */
    KFAC_LOAD,
    /* to = x in the way of mode (enum kfac_take), if the layer's factorisations succeeded. */
    KFAC_KEEP,
    /* The layer becomes ready or counts as failed, and bad is reset. */
    KFAC_SETTLE,
    /* Copies the tensor of move to its numbers. */
    KFAC_GATHER,
    /* Copies the numbers of move, times nu, to its tensor. */
    KFAC_SCATTER,
    /* mode 0: to *= x[column]; 1: to /= x[column] y[row] + number; 2: to /= x + number. */
    KFAC_SCALE,
    /* to = number times the sum of the squares of `groups` vectors x of count numbers each; mode 1
     * adds this to `to`. */
    KFAC_SQUARES,
    /* Writes the parts of <x, to>, then to = x; with to in the place of x if the layer is not
     * ready. */
    KFAC_DIRECTION,
    /* mode 0: adds the parts to sum.  mode 1: makes nu from sum; `number` is kl_clip and `other`
     * the learning rate. */
    KFAC_NU,
};

/* How KFAC_KEEP makes `to` from x. */
enum kfac_take {
    KFAC_TAKE,           /* to = x */
    KFAC_TAKE_SYMMETRIC, /* the mean of x and its transpose */
    KFAC_TAKE_VALUES,    /* to = max(x, 0) */
    KFAC_TAKE_INVERSE,   /* to = 1 / (max(x, 0) + shift[0]): a diagonal A with its damping */
    KFAC_TAKE_PRODUCTS   /* to = x[column] y[row] */
};

struct kfac_move;

/* One pass of a device over numbers. */
struct gram_kfac_pass {
    enum kfac_pass_kind what;
    void *report;
    int64_t *counts;  /* the layer's, on the device */
    gram_dtype state; /* the dtype of to, x and y, which are numbers of the object */
    const void *from; /* new numbers of the dtype below */
    gram_dtype dtype;
    void *to;
    const void *x, *y;
    int64_t count, groups, rows, cols;
    int slot, mode;
    double number, other;
    const int32_t *info[2];
    const struct kfac_move *move;
};

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

/* True if all numbers are finite, also after they are rounded to the dtype state. */
bool gram_kfac_finite(int64_t count, const void *numbers, gram_dtype dtype, gram_dtype state);

/* The shape of a layer's weight and of its gradient. */
struct gram_batch gram_kfac_weight_shape(const struct kfac_layer *l);

/* Checks that a tensor has this shape and is f32 or f64; its strides are free. */
gram_status gram_kfac_check_shape(gram_context *g, const char *name, const gram_tensor *t,
                                  const struct gram_batch *shape, enum gram_access access);

/* A copy between numbers and a tensor of f32 or f64 and any strides.  Element e of the tensor, in
 * row-major order, is
 *   numbers[(e / inner) * outer_step + (e % inner) * inner_step]. */
struct kfac_move {
    const gram_tensor *tensor;
    void *numbers;
    gram_dtype state; /* the dtype of numbers */
    int64_t inner, outer_step, inner_step;
    double factor; /* gram_kfac_scatter multiplies by it */
};
void gram_kfac_gather(const struct kfac_move *m);
void gram_kfac_scatter(const struct kfac_move *m);

/* kfac_update.c: the part of an average that stays in the update after `updates` others. */
double gram_kfac_keep(const struct gram_kfac *k, int64_t updates);
/* The shape of a layer's A or B. */
struct gram_batch gram_kfac_factor_shape(const struct kfac_layer *l, bool of_a);
/* A tensor without gaps on the object's device. */
gram_tensor gram_kfac_dense(const gram_kfac *k, void *numbers, const struct gram_batch *shape,
                            gram_dtype dtype);
/* Computes new factors of a dtype: A to work 0 and B to work 2. */
gram_status gram_kfac_new_factors(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                                  const gram_tensor *activations, const gram_tensor *gradients,
                                  gram_dtype dtype);

/* kfac_correct.c: computes the mean of (Qb^T G Qa)^2 over the samples, to l->gradient. */
gram_status gram_kfac_correct(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                              const gram_tensor *activations, const gram_tensor *gradients);

/* kfac_refresh.c: the least damping of a factor, divided by its trace.  A smaller one is lost in
 * the rounding of the factor, so that Cholesky's factorisation could break down. */
double gram_kfac_least(const gram_kfac *k);

/* kfac_precondition.c: the copy between a weight and M, and between a bias and M's last column. */
struct kfac_move gram_kfac_weight_of(const gram_kfac *k, const struct kfac_layer *l,
                                     const gram_tensor *t);
struct kfac_move gram_kfac_bias_of(const gram_kfac *k, const struct kfac_layer *l,
                                   const gram_tensor *t);
/* out = op(b_inverse) m op(a_inverse).  spare has the size of M and is used unless A is diagonal,
 * where a_inverse is left out. */
struct kfac_sides {
    void *m, *spare, *out;
    bool transpose_b, transpose_a;
};
gram_status gram_kfac_both_sides(gram_context *g, const gram_kfac *k, const struct kfac_layer *l,
                                 const struct kfac_sides *s);

/* The arguments of gram_kfac_precondition. */
struct kfac_tensors {
    const gram_tensor *const *weights, *const *biases;
    gram_tensor *const *to_weights, *const *to_biases;
};

/* kfac.c: refuses a context that the object does not belong to. */
gram_status gram_kfac_check_context(gram_context *g, const gram_kfac *k);

/* kfac_file.c: false if no object could have these counts. */
bool gram_kfac_counts_hold(const int64_t *counts);

/* ---- kfac_device.c: the calls on a device, with arguments that are checked ------------------- */

/* Queues one pass. */
gram_status gram_kfac_device_run(gram_context *g, const gram_kfac *k, struct gram_kfac_pass pass);
gram_status gram_kfac_device_take(gram_context *g, gram_kfac *k, struct kfac_layer *l,
                                  const gram_tensor *a_factor, const gram_tensor *b_factor);
/* New factors of a dtype are in work 0 and 2, and with corrects new corrections in l->gradient. */
gram_status gram_kfac_device_update(gram_context *g, gram_kfac *k, struct kfac_layer *l,
                                    gram_dtype dtype, bool corrects);
gram_status gram_kfac_device_refresh(gram_context *g, gram_kfac *k);
gram_status gram_kfac_device_precondition(gram_context *g, gram_kfac *k, double learning_rate,
                                          const struct kfac_tensors *t);
gram_status gram_kfac_device_report(gram_context *g, const gram_kfac *k, struct kfac_report *out);
#endif
