/*
 * view.h - what the inside of gram knows of a tensor: a checked, strided matrix in a batch
 *
 * A front first joins the batch dimensions of all inputs (gram_batch_join), then makes the views:
 * strides along the joined batch, 0 where an argument is broadcast.  Behind the front nothing is
 * checked again.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_VIEW_H
#define GRAM_VIEW_H
#include "context.h"

/* The joined batch dimensions of a call, by NumPy's broadcasting rules. */
struct gram_batch {
    int ndim;
    int64_t shape[GRAM_MAX_DIMS];
    int64_t count; /* product of shape; 1 without batch dimensions */
};

/*
 * The last dimensions of a tensor: planes x rows x cols (cdist_grad's output), rows x cols, or a
 * vector of cols (rows = 1), or a single number per item (rows = cols = 1).  Strides in elements.
 */
struct gram_view {
    char *data; /* of item 0; NULL only if the view is empty */
    gram_dtype dtype;
    int64_t planes, rows, cols;
    int64_t plane_stride, row_stride, col_stride;
    int64_t batch_stride[GRAM_MAX_DIMS];
};

/* A hyperparameter: one number, or one per item. */
struct gram_hyper {
    double value;
    struct gram_view tensor; /* data NULL: value is meant */
};

enum gram_access {
    GRAM_READ,
    GRAM_WRITE
};

/* Extends batch by the dimensions of t before its last core (0..3); checks t itself: its dtype,
 * device, shape, that sizes do not overflow.  name is the argument's, for messages. */
gram_status gram_batch_join(gram_context *g, struct gram_batch *batch, const char *name,
                            const gram_tensor *t, int core);

/* Views t along batch.  GRAM_WRITE: t must have exactly the batch's shape and no two elements
 * in one place; GRAM_READ: t must broadcast to it.  t is checked as by gram_batch_join. */
gram_status gram_view_of(gram_context *g, const struct gram_batch *batch, const char *name,
                         const gram_tensor *t, int core, enum gram_access access,
                         struct gram_view *out);

/* Views an output of one number of dtype an item, such as info. */
gram_status gram_view_number(gram_context *g, const struct gram_batch *batch, const char *name,
                             const gram_tensor *t, gram_dtype dtype, struct gram_view *out);

/* Refuse of a tensor that joined the batch: another dtype than expected, one that is not f32 or
 * f64, a matrix that is not square. */
gram_status gram_check_dtype(gram_context *g, const char *name, const gram_tensor *t,
                             gram_dtype expected);
gram_status gram_check_real(gram_context *g, const char *name, const gram_tensor *t);
gram_status gram_check_square(gram_context *g, const char *name, const gram_tensor *t);
/* Refuse an options.uplo that is none, and a query without a place for its answer. */
gram_status gram_check_uplo(gram_context *g, gram_uplo uplo);
gram_status gram_check_need(gram_context *g, const gram_workspace *need);

/* Checks a hyperparameter (its tensor joins the batch first: gram_batch_join with core 0) and that
 * every value lies in [least, most], NaN refused; strictly above least if open. */
gram_status gram_hyper_of(gram_context *g, const struct gram_batch *batch, const char *name,
                          gram_scalar s, struct gram_hyper *out);
gram_status gram_hyper_check(gram_context *g, const struct gram_batch *batch, const char *name,
                             const struct gram_hyper *h, double least, double most, bool open);
double gram_hyper_at(const struct gram_hyper *h, const struct gram_batch *batch, int64_t item);

/* Address of the item'th matrix of a view. */
char *gram_view_item(const struct gram_view *v, const struct gram_batch *batch, int64_t item);

/*
 * A batch in rounds, each of which is a batch itself, for drivers whose scratch holds some items at
 * a time: a dimension is cut into pieces of equal size, those behind it are whole, and in those
 * before it a round has one index.
 */
struct gram_rounds {
    int dim;                   /* that is cut; ndim: the whole batch is one round */
    int64_t inner, piece;      /* items of one of its indices; indices of a round */
    int64_t items, last_items; /* of a round, and of the last one along the dimension */
};

/* Rounds of at most `most` items, 1 <= most, and of at least half of these unless the batch has
 * fewer. */
struct gram_rounds gram_rounds_of(const struct gram_batch *batch, int64_t most);
/* The round that begins with item first: a multiple of rounds, as their counts add up.  Its views
 * are those of gram_view_alone(v, batch, first). */
struct gram_batch gram_round_at(const struct gram_batch *batch, const struct gram_rounds *rounds,
                                int64_t first);

/* The item'th matrix without its batch, for drivers that go through the items one by one. */
static inline struct gram_view gram_view_alone(const struct gram_view *v,
                                               const struct gram_batch *batch, int64_t item)
{
    struct gram_view one = *v;

    one.data = gram_view_item(v, batch, item);
    return one;
}

/* The same of a hyperparameter: a tensor stays one, so that nothing is read. */
static inline struct gram_hyper gram_hyper_alone(const struct gram_hyper *h,
                                                 const struct gram_batch *batch, int64_t item)
{
    struct gram_hyper one = *h;

    one.tensor = gram_view_alone(&h->tensor, batch, item);
    return one;
}

/* One matrix, row by row without gaps. */
static inline struct gram_view gram_view_dense(void *data, gram_dtype dtype, int64_t rows,
                                               int64_t cols)
{
    return (struct gram_view){.data = data,
                              .dtype = dtype,
                              .planes = 1,
                              .rows = rows,
                              .cols = cols,
                              .row_stride = cols,
                              .col_stride = 1};
}

/* The same for every item of a batch, one item after the other. */
static inline struct gram_view gram_view_dense_items(void *data, gram_dtype dtype, int64_t rows,
                                                     int64_t cols, const struct gram_batch *batch)
{
    struct gram_view v = gram_view_dense(data, dtype, rows, cols);
    int64_t stride = rows * cols;

    for (int d = batch->ndim - 1; d >= 0; stride *= batch->shape[d], d--)
        v.batch_stride[d] = stride;
    return v;
}

/* Exchanges rows and columns of a matrix. */
static inline void gram_view_transpose(struct gram_view *v)
{
    int64_t rows = v->rows, stride = v->row_stride;

    v->rows = v->cols, v->cols = rows;
    v->row_stride = v->col_stride, v->col_stride = stride;
}

/* Rows [first, first + rows) of a matrix. */
static inline struct gram_view gram_view_rows(const struct gram_view *v, int64_t first,
                                              int64_t rows)
{
    struct gram_view part = *v;

    part.rows = rows;
    if (part.data)
        part.data += first * v->row_stride * (int64_t)gram_dtype_size(v->dtype);
    return part;
}

/* True if two tensors may share an element: their address ranges meet, and they are not two column
 * blocks of rows of one stride. */
bool gram_tensors_overlap(const gram_tensor *a, const gram_tensor *b);

/* The addresses of the first byte of a checked tensor and of that behind its last. */
void gram_tensor_range(const gram_tensor *t, intptr_t *low, intptr_t *high);

/* Refuses an output that overlaps an input. */
gram_status gram_check_apart(gram_context *g, const char *out_name, const gram_tensor *out,
                             const char *in_name, const gram_tensor *in);

/* True if both describe the same elements in the same order. */
bool gram_tensors_same(const gram_tensor *a, const gram_tensor *b);

/* Copies a caller's options struct into ours: its size bounds what is read, the rest keeps the
 * defaults already in options. */
gram_status gram_options_copy(gram_context *g, void *options, size_t size, const void *given);
/* The same for another struct that begins with its size; name: how messages call its members, for
 * example "options.metric->". */
gram_status gram_struct_copy(gram_context *g, const char *name, void *to, size_t size,
                             const void *given);

/* "f32", "f64", ... for messages. */
const char *gram_dtype_name(gram_dtype dtype);
#endif
