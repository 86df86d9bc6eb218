/*
 * kfac.h - the state of gram_kfac: a layer's averages, their inverses, and room to work in
 *
 * All numbers are of options.state and seen the same way: in each of `groups` groups a gradient is
 * a matrix M of `rows` by `cols`, [W b], B acts on its rows and A on its columns.  An embedding's M
 * is its table's transpose, and its A is diagonal.
 *
 *   kfac.c               create, options, what is told
 *   kfac_update.c        averages
 *   kfac_correct.c       corrected eigenvalues, on every device
 *   kfac_refresh.c       inverses
 *   kfac_precondition.c  directions
 *   kfac_file.c          save and load
 *   kfac_put.c           a part of the state from the caller
 *   kfac_device.c        the same on a device, which decides by itself what is taken
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KFAC_H
#define GRAM_KFAC_H
#include "backend.h"

enum {
    KFAC_NAME_BYTES = 40,
    KFAC_WORKS = 4, /* pieces of memory to work in, one behind the other */
    KFAC_STEP = 16  /* what a piece has is a multiple of this: it may hold numbers of f64 too */
};

/* What layer.counts holds. */
enum kfac_count {
    KFAC_A_UPDATES,
    KFAC_B_UPDATES,
    KFAC_CORRECTIONS, /* since the eigenvectors are there */
    KFAC_READY,       /* 1: there are inverses */
    KFAC_COUNTS
};

struct kfac_layer {
    gram_layer layer;
    int64_t groups, rows, cols; /* of M in each group */
    int64_t inputs, outputs;
    bool diagonal; /* A is */
    bool corrected;
    void *a, *b;                 /* averages */
    void *a_inverse, *b_inverse; /* or eigenvectors, in columns; a diagonal A has none of these */
    void *a_values, *b_values;   /* EXACT: eigenvalues; a diagonal A's inverse or values */
    void *corrections;           /* corrected: s */
    void *gradient;              /* M, in the memory of all layers; new corrections in an update */
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
    int64_t work_count; /* numbers in each */
    int64_t numbers, parameters;
    int64_t skipped, failed;
    double nu;
    /* On a device: the context, which everything above but layer and state is in memory of. */
    gram_context *owner;
    struct kfac_report *report;
    int64_t *layer_counts; /* KFAC_COUNTS of every layer; layer.counts is what was queued */
    int32_t *info;         /* two of most_groups */
    int64_t most_groups;
    size_t bytes; /* of the memory */
};

enum {
    KFAC_PARTS = 256
};

/* What the device found. */
struct kfac_report {
    int64_t skipped, failed, bad;
    double nu, sum, shift[2];
    double part[KFAC_PARTS];
};

enum kfac_pass_kind {
    KFAC_LOOK,      /* bad, if one of count numbers from `from` on is not finite */
    KFAC_MIX,       /* to, an average with its updates in counts[slot], moves; number: decay; mode
                       1: if the layer is ready */
    KFAC_TAKEN,     /* updates are counted, of A (mode 1), of B (2), of corrections (4) */
    KFAC_SHIFT,     /* the damping of x, A, and y, B; mode 1: A is diagonal; number: lambda, other:
                       see gram_kfac_least */
    KFAC_LOAD,      /* to = x + shift[slot] I of order rows; from = I */
    KFAC_KEEP,      /* to = x, see enum kfac_take, if the layer's factorisations were right */
    KFAC_SETTLE,    /* the layer is ready, or has failed; bad is done with */
    KFAC_GATHER,    /* move */
    KFAC_SCATTER,   /* move, times nu */
    KFAC_SCALE,     /* to *= x of the column, or (mode 1) /= x y + number, or (2) /= x + number */
    KFAC_SQUARES,   /* to = number sum of the squares of `groups` x of count numbers, (1) added */
    KFAC_DIRECTION, /* to = x if the layer is ready; parts of <x, to> */
    KFAC_NU,        /* parts are added, or (mode 1) nu is made: number: kl_clip, other: the rate */
};

enum kfac_take {
    KFAC_TAKE,
    KFAC_TAKE_SYMMETRIC,
    KFAC_TAKE_VALUES,  /* not below 0 */
    KFAC_TAKE_INVERSE, /* of a diagonal with its damping */
    KFAC_TAKE_PRODUCTS /* x of the column times y of the row */
};

struct kfac_move;

struct gram_kfac_pass {
    enum kfac_pass_kind what;
    void *report;
    int64_t *counts;
    gram_dtype state; /* of to, x and y, which numbers of the object are */
    const void *from;
    gram_dtype dtype; /* of from */
    void *to;
    const void *x, *y;
    int64_t count, groups, rows, cols;
    int slot, mode;
    double number, other;
    const int32_t *info[2];
    const struct kfac_move *move;
};

/* Numbers of A, B and M of all groups. */
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

/* True if all are, as numbers of the state too. */
bool gram_kfac_finite(int64_t count, const void *numbers, gram_dtype dtype, gram_dtype state);

/* The parameters of layer i as their gradients are shaped; ndim 0: there is no bias. */
struct gram_batch gram_kfac_weight_shape(const struct kfac_layer *l);

/* Checks a tensor of a shape, f32 or f64, in any strides. */
gram_status gram_kfac_check_shape(gram_context *g, const char *name, const gram_tensor *t,
                                  const struct gram_batch *shape, enum gram_access access);

/* The elements of a tensor of f32 or f64 and any strides, row-major, to or from numbers: element e
 * is at numbers[(e / inner) * outer_step + (e % inner) * inner_step]. */
struct kfac_move {
    const gram_tensor *tensor;
    void *numbers;
    gram_dtype state; /* of numbers */
    int64_t inner, outer_step, inner_step;
    double factor; /* of what is stored */
};
void gram_kfac_gather(const struct kfac_move *m);
void gram_kfac_scatter(const struct kfac_move *m);

/* kfac_update.c: the options of a layer's factors. */
double gram_kfac_keep(const struct gram_kfac *k, int64_t updates);
/* The shape of a factor; a dense tensor of the object's device. */
struct gram_batch gram_kfac_factor_shape(const struct kfac_layer *l, bool of_a);
gram_tensor gram_kfac_dense(const gram_kfac *k, void *numbers, const struct gram_batch *shape,
                            gram_dtype dtype);
/* New factors of a dtype to work 0 and 2. */
gram_status gram_kfac_new_factors(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                                  const gram_tensor *activations, const gram_tensor *gradients,
                                  gram_dtype dtype);

/* kfac_correct.c: E[(Qb^T G Qa)^2] over the samples, to l->gradient. */
gram_status gram_kfac_correct(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                              const gram_tensor *activations, const gram_tensor *gradients);

/* kfac_refresh.c: the least damping of a factor, over its trace: what is smaller is rounding there,
 * and Cholesky's factorisation could break down. */
double gram_kfac_least(const gram_kfac *k);

/* kfac_precondition.c: M of a weight, and its last column of a bias; out = op(b) m op(a), which
 * takes a spare M where A is not diagonal. */
struct kfac_move gram_kfac_weight_of(const gram_kfac *k, const struct kfac_layer *l,
                                     const gram_tensor *t);
struct kfac_move gram_kfac_bias_of(const gram_kfac *k, const struct kfac_layer *l,
                                   const gram_tensor *t);
struct kfac_sides {
    void *m, *spare, *out;
    bool transpose_b, transpose_a;
};
gram_status gram_kfac_both_sides(gram_context *g, const gram_kfac *k, const struct kfac_layer *l,
                                 const struct kfac_sides *s);

struct kfac_tensors {
    const gram_tensor *const *weights, *const *biases;
    gram_tensor *const *to_weights, *const *to_biases;
};

/* kfac.c: refuses a context that the object does not belong to. */
gram_status gram_kfac_check_context(gram_context *g, const gram_kfac *k);

/* kfac_file.c: false of counts that no object could have. */
bool gram_kfac_counts_hold(const int64_t *counts);

/* kfac_device.c: what the calls do there; arguments are checked.  update: new factors of a dtype
 * are in work 0 and 2, with corrects new corrections in l->gradient. */
gram_status gram_kfac_device_run(gram_context *g, const gram_kfac *k, struct gram_kfac_pass pass);
gram_status gram_kfac_device_take(gram_context *g, gram_kfac *k, struct kfac_layer *l,
                                  const gram_tensor *a_factor, const gram_tensor *b_factor);
gram_status gram_kfac_device_update(gram_context *g, gram_kfac *k, struct kfac_layer *l,
                                    gram_dtype dtype, bool corrects);
gram_status gram_kfac_device_refresh(gram_context *g, gram_kfac *k);
gram_status gram_kfac_device_precondition(gram_context *g, gram_kfac *k, double learning_rate,
                                          const struct kfac_tensors *t);
gram_status gram_kfac_device_report(gram_context *g, const gram_kfac *k, struct kfac_report *out);
#endif
