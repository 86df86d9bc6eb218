/*
 * kfac.h - the state of gram_kfac: a layer's averages, their inverses, and room to work in
 *
 * Everything is f64 and seen the same way: in each of `groups` groups a gradient is a matrix M of
 * `rows` by `cols`, [W b], B acts on its rows and A on its columns.  An embedding's M is its
 * table's transpose, and its A is diagonal.
 *
 *   kfac.c               create, options, what is told
 *   kfac_update.c        averages and corrected eigenvalues
 *   kfac_refresh.c       inverses
 *   kfac_precondition.c  directions
 *   kfac_file.c          save and load
 *   kfac_device.c        the same on a device, which decides by itself what is taken
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KFAC_H
#define GRAM_KFAC_H
#include "backend.h"

enum {
    KFAC_NAME_BYTES = 40,
    KFAC_WORKS = 4 /* pieces of memory to work in */
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
    double *a, *b;                 /* averages */
    double *a_inverse, *b_inverse; /* or eigenvectors, in columns; a diagonal A has none of these */
    double *a_values, *b_values;   /* EXACT: eigenvalues; a diagonal A's inverse or values */
    double *corrections;           /* corrected: s */
    double *gradient;              /* M, in the memory of all layers */
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
    double *gradients; /* M of all layers */
    double *work[KFAC_WORKS];
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
    KFAC_MIX,       /* to, an average with its updates in counts[slot], moves; number: decay */
    KFAC_TAKEN,     /* updates are counted, of A (mode 1), of B (2) */
    KFAC_SHIFT,     /* the damping of x, A, and y, B; mode 1: A is diagonal; number: lambda */
    KFAC_LOAD,      /* to = x + shift[slot] I of order rows; from = I */
    KFAC_KEEP,      /* to = x, see enum kfac_take, if the layer's factorisations were right */
    KFAC_SETTLE,    /* the layer is ready, or has failed */
    KFAC_GATHER,    /* move */
    KFAC_SCATTER,   /* move, times nu */
    KFAC_SCALE,     /* to *= x of the column, or (mode 1) /= x y + number */
    KFAC_DIRECTION, /* to = x if the layer is ready; parts of <x, to> */
    KFAC_NU,        /* parts are added, or (mode 1) nu is made: number: kl_clip, other: the rate */
};

enum kfac_take {
    KFAC_TAKE,
    KFAC_TAKE_SYMMETRIC,
    KFAC_TAKE_VALUES, /* not below 0 */
    KFAC_TAKE_INVERSE /* of a diagonal with its damping */
};

struct kfac_move;

struct gram_kfac_pass {
    enum kfac_pass_kind what;
    void *report;
    int64_t *counts;
    const void *from;
    gram_dtype dtype; /* of from */
    double *to;
    const double *x, *y;
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

/* True if all are. */
bool gram_kfac_finite(int64_t count, const double *values);

/* The parameters of layer i as their gradients are shaped; ndim 0: there is no bias. */
struct gram_batch gram_kfac_weight_shape(const struct kfac_layer *l);

/* Checks a tensor of a shape, f32 or f64, in any strides. */
gram_status gram_kfac_check_shape(gram_context *g, const char *name, const gram_tensor *t,
                                  const struct gram_batch *shape, enum gram_access access);

/* The elements of a tensor of f32 or f64 and any strides, row-major, to or from doubles: element e
 * is at to[(e / inner) * outer_step + (e % inner) * inner_step]. */
struct kfac_move {
    const gram_tensor *tensor;
    double *numbers;
    int64_t inner, outer_step, inner_step;
    double factor; /* of what is stored */
};
void gram_kfac_gather(const struct kfac_move *m);
void gram_kfac_scatter(const struct kfac_move *m);

/* kfac_update.c: the options of a layer's factors. */
double gram_kfac_keep(const struct gram_kfac *k, int64_t updates);
/* The shape of a factor; a dense tensor of f64. */
struct gram_batch gram_kfac_factor_shape(const struct kfac_layer *l, bool of_a);
gram_tensor gram_kfac_dense(void *numbers, const struct gram_batch *shape);

/* kfac_precondition.c: M of a weight, and its last column of a bias; out = op(b) m op(a), which
 * takes a spare M where A is not diagonal. */
struct kfac_move gram_kfac_weight_of(const struct kfac_layer *l, const gram_tensor *t, double *m);
struct kfac_move gram_kfac_bias_of(const struct kfac_layer *l, const gram_tensor *t, double *m);
struct kfac_sides {
    double *m, *spare, *out;
    bool transpose_b, transpose_a;
};
gram_status gram_kfac_both_sides(gram_context *g, const struct kfac_layer *l,
                                 const struct kfac_sides *s, gram_device device);

struct kfac_tensors {
    const gram_tensor *const *weights, *const *biases;
    gram_tensor *const *to_weights, *const *to_biases;
};

/* kfac.c: refuses a context that the object does not belong to. */
gram_status gram_kfac_check_context(gram_context *g, const gram_kfac *k);

/* kfac_device.c: what the calls do there; arguments are checked. */
gram_status gram_kfac_device_take(gram_context *g, gram_kfac *k, struct kfac_layer *l,
                                  const gram_tensor *a_factor, const gram_tensor *b_factor);
gram_status gram_kfac_device_update(gram_context *g, gram_kfac *k, struct kfac_layer *l,
                                    const gram_tensor *activations, const gram_tensor *gradients);
gram_status gram_kfac_device_refresh(gram_context *g, gram_kfac *k);
gram_status gram_kfac_device_precondition(gram_context *g, gram_kfac *k, double learning_rate,
                                          const struct kfac_tensors *t);
gram_status gram_kfac_device_report(gram_context *g, const gram_kfac *k, struct kfac_report *out);
#endif
