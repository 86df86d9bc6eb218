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
#endif
