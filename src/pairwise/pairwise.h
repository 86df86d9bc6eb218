/*
 * pairwise.h - what the fronts and the backends of the pairwise operations share
 *
 * A pair is a row x[i] and a row y[j].  gram_cdist and gram_kernel describe all pairs as one
 * struct gram_cdist_op (core/backend.h): an inner sum over their coordinates, a function of it, and
 * which of its derivatives is wanted.  The other operations are made of that one and of gradients.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PAIRWISE_H
#define GRAM_PAIRWISE_H
#include "core/backend.h"
#include "core/scratch.h"
#include <math.h>

/* ---- Fronts: x, y and out (cdist.c) --------------------------------------------------------- */

struct gram_pair {
    const gram_tensor *x, *y, *out;
    bool no_out;                    /* out is not an argument */
    bool condensed;                 /* out is a vector of the distances with i < j */
    int64_t bits;                   /* of the rows of x and y, which are bytes; or 0 */
    bool derivative;                /* an expression's derivative is wanted */
    const gram_tensor *v, *grad;    /* more matrices whose batches join; or NULL */
    const gram_tensor *log_weights; /* a vector whose batch joins; or NULL */
    bool grad_is_vector;
};

/* y NULL: x itself.  Joins the batches of x, y and v; hyperparameters join after it. */
gram_status gram_pair_join(gram_context *g, const struct gram_pair *pair, struct gram_batch *batch);

/* Checks shapes, dtypes and overlap, and fills in op's views and op->symmetric. */
gram_status gram_pair_view(gram_context *g, const struct gram_pair *pair, struct gram_cdist_op *op);

/* kernel.c: checks all arguments of gram_kernel, or those but out, and describes the work. */
gram_status gram_kernel_describe(gram_context *g, const struct gram_pair *pair,
                                 const gram_kernel_options *options, struct gram_cdist_op *op);

/* ---- Fronts: points that are divided by lengths (lengths.c) --------------------------------- */

/* Joins the batch of options.lengths, which may be NULL; then views and checks it. */
gram_status gram_lengths_join(gram_context *g, const gram_tensor *lengths,
                              struct gram_batch *batch);
gram_status gram_lengths_view(gram_context *g, const gram_tensor *lengths,
                              struct gram_cdist_op *op);

/* run(g, work), which is all of a backend's part of a call, with the points of kernel, which is
 * part of work, divided by its lengths, if there are any.  kernel is changed. */
gram_status gram_lengths_call(gram_context *g, struct gram_cdist_op *kernel,
                              gram_status (*run)(gram_context *g, const void *work),
                              const void *work);

/* The same for the gradients of a kernel. */
gram_status gram_lengths_vjp(gram_context *g, struct gram_kernel_vjp_op *op);

/* ---- Fronts: products (kernel_matmul.c) ------------------------------------------------------ */

/* What gram_kernel_matmul, its siblings and their workspace queries are given. */
struct gram_matmul_args {
    const gram_tensor *x, *y; /* y NULL: x itself */
    const gram_kernel_options *kernel;
    const gram_tensor *v;
    const gram_kernel_matmul_options *options;
    const gram_tensor *out;
};

/* Checks all arguments; options is the caller's, or the defaults. */
gram_status gram_kernel_matmul_describe(gram_context *g, const struct gram_matmul_args *args,
                                        const gram_kernel_matmul_options *options,
                                        struct gram_kernel_matmul_op *op);
/* The backend's part of the call; op is changed. */
gram_status gram_kernel_matmul_run(gram_context *g, struct gram_kernel_matmul_op *op);

/* ---- Fronts: neighbours (nearest.c) ---------------------------------------------------------- */

/* What gram_nearest, its sibling and their workspace queries are given. */
struct gram_nearest_args {
    const gram_tensor *x, *y; /* y NULL: x itself */
    gram_scalar p;
    const gram_nearest_options *options;
    const gram_tensor *indices, *distances;
};

/* Checks all arguments; options is the caller's, or the defaults. */
gram_status gram_nearest_describe(gram_context *g, const struct gram_nearest_args *args,
                                  const gram_nearest_options *options, struct gram_nearest_op *op);

/* ---- Fronts: gradients of kernels and of products with them (kernel_vjp.c) ------------------- */

/* What gram_kernel_vjp, gram_kernel_matmul_vjp and their workspace queries are given. */
struct gram_vjp_args {
    const gram_tensor *x, *y; /* y NULL: x itself */
    const gram_kernel_options *options;
    const gram_tensor *grad;
    const gram_kernel_matmul_grads *grads;
    bool of_product;
    const gram_tensor *v; /* of_product */
    /* Of a reduction, which is of_product: see gram_soft_op. */
    const struct gram_soft_op *soft;
    const gram_tensor *log_weights, *to_log_weights;
};

gram_status gram_vjp_describe(gram_context *g, const struct gram_vjp_args *args,
                              struct gram_kernel_vjp_op *op);

/* kernel_matmul_vjp.c: all that op wants, of points that are divided already. */
gram_status gram_matmul_vjp_run(gram_context *g, const struct gram_kernel_vjp_op *op);

/* kernel_reduce_vjp.c: the same of a reduction. */
gram_status gram_reduce_vjp_run(gram_context *g, const struct gram_kernel_vjp_op *op);

/* A kernel as a backend will get it, without the points. */
void gram_lengths_settle(struct gram_cdist_op *kernel);

/* ---- Fronts: metrics (metric.c) -------------------------------------------------------------- */

/* Copies and checks what does not depend on tensors; joins the batches of its tensors; and, after
 * gram_pair_view, fills in what op says of the metric and of p. */
gram_status gram_metric_copy(gram_context *g, const gram_distance *given, gram_distance *metric);
/* The rest of the call takes x and y of bytes if the metric has packed bits. */
void gram_metric_take_bits(gram_context *g, const gram_distance *metric);
gram_status gram_metric_join(gram_context *g, const gram_distance *metric,
                             struct gram_batch *batch);
/* Refuses an output that overlaps the weights of a kernel's metric, if there are any. */
gram_status gram_metric_check_apart(gram_context *g, const gram_kernel_options *kernel,
                                    const char *name, const gram_tensor *t);
/* Refuses rows that no panel holds. */
gram_status gram_metric_rows_fit(gram_context *g, const struct gram_cdist_op *op);
gram_status gram_metric_view(gram_context *g, const gram_distance *metric, bool no_root,
                             struct gram_cdist_op *op);

/* True for metrics that are a p-norm of rows which are made from those of x and y first. */
static inline bool gram_metric_is_norm(gram_distance_kind kind)
{
    return kind == GRAM_DISTANCE_MINKOWSKI || kind == GRAM_DISTANCE_SEUCLIDEAN ||
           kind == GRAM_DISTANCE_COSINE || kind == GRAM_DISTANCE_CORRELATION ||
           kind == GRAM_DISTANCE_HELLINGER;
}

/* True if op is not a plain p-norm or inner product. */
static inline bool gram_metric_given(const struct gram_metric_op *metric)
{
    return metric->kind != GRAM_DISTANCE_MINKOWSKI || metric->weights.data;
}

/* ---- Fronts: the arguments that gram_cdist_grad and gram_agop share (cdist_grad.c) ---------- */

struct gram_grad_inputs {
    const gram_tensor *a, *b, *c, *d;
    gram_scalar p;
};

/* Checks the shapes and dtypes of in, joins their batches and fills all of op but out.  The values
 * of p are not looked at: gram_grad_check_p() does that. */
gram_status gram_grad_describe(gram_context *g, const struct gram_grad_inputs *in,
                               struct gram_cdist_grad_op *op);

/* Refuses p that is not above 0 and finite. */
gram_status gram_grad_check_p(gram_context *g, const struct gram_batch *batch,
                              const struct gram_hyper *p);

/* Refuses an out of another dtype than the inputs, or one that overlaps any of them. */
gram_status gram_grad_check_out(gram_context *g, const struct gram_grad_inputs *in,
                                const gram_tensor *out);

/* ---- Backends: struct gram_cdist_op --------------------------------------------------------- */

/* True if every hyperparameter and parameter is a number, the same for all items. */
static inline bool gram_cdist_of_numbers(const struct gram_cdist_op *op)
{
    for (int i = 0; i < GRAM_HYPERS; i++)
        if (op->hyper[i].tensor.data)
            return false;
    for (int i = 0; i < op->parameters; i++)
        if (op->parameter[i].tensor.data)
            return false;
    return true;
}

/* Where the distance of rows i < j of m lies in a vector of the distances with i < j. */
static inline int64_t gram_condensed_at(int64_t m, int64_t i, int64_t j)
{
    return i * (m - 1) - i * (i - 1) / 2 + j - i - 1;
}

/* True if x and y may change places with the rows and columns of out. */
static inline bool gram_cdist_turns(const struct gram_cdist_op *op)
{
    return op->metric.kind != GRAM_DISTANCE_KULLBACK_LEIBLER && !op->condensed &&
           !(op->expression && op->expression->norms);
}

static inline bool gram_cdist_regularized(const struct gram_cdist_op *op)
{
    return op->regularization.tensor.data || op->regularization.value != 0;
}

/* True if half of out mirrors the other; regularization off the main diagonal does not. */
static inline bool gram_cdist_mirrors(const struct gram_cdist_op *op)
{
    return op->symmetric && !(gram_cdist_regularized(op) && op->row_offset != op->column_offset);
}

/* The row from which part number `part` of `parts` has the pairs (i, j), j >= i, of n points; or,
 * where nothing is mirrored, all pairs of its rows.  The parts have about the same number of pairs;
 * they begin with multiples of block, and part number `parts` with n. */
static inline int64_t gram_part_row(int64_t n, bool mirrors, int64_t block, int part, int parts)
{
    const double share = (double)part / parts;
    const double at = (double)n * (mirrors ? 1 - sqrt(1 - share) : share);

    return part < parts ? gram_least(n, (int64_t)(at / (double)block + 0.5) * block) : n;
}

/* The items of a round (gram_round_at) that begins with this one, as an operation of their own; out
 * is not set. */
static inline struct gram_cdist_op gram_cdist_round(const struct gram_cdist_op *op,
                                                    const struct gram_batch *round, int64_t item)
{
    struct gram_cdist_op one = *op;

    one.batch = *round;
    one.x = gram_view_alone(&op->x, &op->batch, item);
    one.y = gram_view_alone(&op->y, &op->batch, item);
    for (int i = 0; i < GRAM_HYPERS; i++)
        one.hyper[i] = gram_hyper_alone(&op->hyper[i], &op->batch, item);
    for (int i = 0; i < op->parameters; i++)
        one.parameter[i] = gram_hyper_alone(&op->parameter[i], &op->batch, item);
    one.metric.weights = gram_view_alone(&op->metric.weights, &op->batch, item);
    return one;
}

/* One item as an operation of its own; out is not set. */
static inline struct gram_cdist_op gram_cdist_alone(const struct gram_cdist_op *op, int64_t item)
{
    return gram_cdist_round(op, &(struct gram_batch){.count = 1}, item);
}

/* ---- Backends: the gradients whose products gram_agop sums ---------------------------------- */

/* The gradients of points [first, first + count) of the items of a round (gram_round_at) that
 * begins with this one, as an operation of their own; left to the caller: out. */
static inline struct gram_cdist_grad_op gram_agop_gradients(const struct gram_agop_op *op,
                                                            const struct gram_batch *round,
                                                            int64_t item, int64_t first,
                                                            int64_t count)
{
    struct gram_cdist_grad_op grad = {
        .batch = *round,
        .a = gram_view_alone(&op->a, &op->batch, item),
        .b = gram_view_alone(&op->b, &op->batch, item),
        .c = gram_view_alone(&op->c, &op->batch, item),
        .d = gram_view_alone(&op->d, &op->batch, item),
        .p = gram_hyper_alone(&op->p, &op->batch, item),
    };
    const int64_t size = (int64_t)gram_dtype_size(op->a.dtype);

    grad.a.cols = grad.d.cols = count;
    if (grad.a.data)
        grad.a.data += first * grad.a.col_stride * size;
    if (grad.d.data)
        grad.d.data += first * grad.d.col_stride * size;
    return grad;
}

/* ---- Backends: the distances whose median is wanted ----------------------------------------- */

/* True if the distances are those of a sample, which is copied: rows of x without gaps. */
static inline bool gram_median_sampled(const struct gram_median_op *op)
{
    return op->rows < op->x.rows;
}

/* The distances of the rows of one item, as an operation of their own; left to the caller: where x
 * and out are, and p. */
static inline struct gram_cdist_op gram_median_distances(const struct gram_median_op *op)
{
    struct gram_cdist_op distances = {.batch.count = 1,
                                      .x = op->x,
                                      .symmetric = true,
                                      .inner = GRAM_DIFFERENCE,
                                      .root = op->root,
                                      .outer_power.value = 1,
                                      .function = GRAM_IDENTITY,
                                      .output = GRAM_VALUE};

    distances.out = gram_view_dense(NULL, op->out.dtype, op->rows, op->rows);
    distances.x.rows = op->rows;
    if (gram_median_sampled(op))
        distances.x.row_stride = op->x.cols, distances.x.col_stride = 1;
    distances.y = distances.x;
    return distances;
}

/* ---- Backends: gram_kernel_vjp in terms of other operations --------------------------------- */

/* A block of the kernel's weights, multiplied by grad, is the coefficients of a cdist_grad with one
 * output: see cpu_kernel_vjp.c. */

/* Rows [i, i + rows) and columns [j, j + cols) of each item's kernel matrix. */
struct vjp_block {
    int64_t i, rows, j, cols;
};

/* Rows [first, first + rows) of a matrix, transposed. */
static inline struct gram_view gram_vjp_transposed(const struct gram_view *v, int64_t first,
                                                   int64_t rows)
{
    struct gram_view part = gram_view_rows(v, first, rows);

    part.planes = 1;
    part.rows = v->cols, part.cols = rows;
    part.row_stride = v->col_stride, part.col_stride = v->row_stride;
    return part;
}

/* A part of the gradients of a product. */
typedef gram_status gram_vjp_part(gram_context *g, const struct gram_kernel_vjp_op *op);

enum {
    GRAM_VJP_PARTS = 4 /* at most */
};

/* The parts one after the other, which use the same scratch. */
static inline gram_status gram_vjp_parts(gram_context *g, const struct gram_kernel_vjp_op *op,
                                         gram_vjp_part *const *parts, int count)
{
    size_t bytes[GRAM_VJP_PARTS], most = 0;
    struct gram_layout layout = {0};
    void *lent;

    for (int i = 0; i < count; i++) {
        TRY(gram_measure(g, &bytes[i], parts[i](g, op)));
        most = gram_most_bytes(most, bytes[i]);
    }
    gram_take(&layout, &lent, most);
    TRY(gram_layout_open(g, &layout));
    for (int i = 0; i < count; i++) {
        struct gram_scratch_before before;
        gram_status status;
        gram_scratch_lend(g, lent, bytes[i], &before);
        status = parts[i](g, op);
        gram_scratch_return(g, &before);
        TRY(status);
    }
    return GRAM_OK;
}

/* The gradient of one side of a product: for each point a sum over the centres. */
struct vjp_pass {
    struct gram_view points, centres, to;
    struct gram_view left[2], right[2]; /* the columns of the one lie beside those of the other */
    int factors;
};

/* op->whole: that of the set which is both. */
static inline struct vjp_pass gram_vjp_pass(const struct gram_kernel_vjp_op *op, bool of_y)
{
    const struct gram_cdist_op *k = &op->kernel;

    if (op->whole)
        return (struct vjp_pass){
            .points = k->x,
            .centres = k->x,
            .to = op->x,
            .left = {   op->v, op->grad},
            .right = {op->grad,    op->v},
            .factors = 2
        };
    if (of_y)
        return (struct vjp_pass){.points = k->y,
                                 .centres = k->x,
                                 .to = op->y,
                                 .left = {op->grad},
                                 .right = {op->v},
                                 .factors = 1};
    return (struct vjp_pass){.points = k->x,
                             .centres = k->y,
                             .to = op->x,
                             .left = {op->v},
                             .right = {op->grad},
                             .factors = 1};
}

/* The kernel (of the given output) of a block, to elements without gaps, item after item. */
static inline struct gram_cdist_op gram_vjp_kernel(const struct gram_cdist_op *kernel,
                                                   const struct vjp_block *b,
                                                   gram_kernel_output output, void *elements)
{
    struct gram_cdist_op op = *kernel;

    op.symmetric = false;
    op.output = output;
    op.regularization = (struct gram_hyper){.value = 0};
    op.x = gram_view_rows(&kernel->x, b->i, b->rows);
    op.y = gram_view_rows(&kernel->y, b->j, b->cols);
    op.out = gram_view_dense_items(elements, op.x.dtype, b->rows, b->cols, &op.batch);
    return op;
}

/* The cotangent grad v^T of a block as a kernel, which an inner product of their rows is. */
static inline struct gram_cdist_op gram_vjp_cotangent(const struct gram_batch *batch,
                                                      const struct gram_view *grad,
                                                      const struct gram_view *v,
                                                      const struct vjp_block *b, void *elements)
{
    struct gram_cdist_op op = {.batch = *batch,
                               .x = gram_view_rows(grad, b->i, b->rows),
                               .y = gram_view_rows(v, b->j, b->cols),
                               .inner = GRAM_DOT,
                               .p.value = 2,
                               .outer_power.value = 1,
                               .function = GRAM_IDENTITY,
                               .output = GRAM_VALUE};

    op.out = gram_view_dense_items(elements, op.x.dtype, b->rows, b->cols, batch);
    return op;
}

/* Where the device reads the numbers 1, -1 and 0. */
enum {
    VJP_ONE,
    VJP_MINUS_ONE,
    VJP_ZERO,
    VJP_NUMBERS
};

/* One of them seen as a matrix. */
static inline struct gram_view gram_vjp_number(const void *numbers, int place, gram_dtype dtype,
                                               int64_t rows, int64_t cols)
{
    const size_t at = (size_t)place * gram_dtype_size(dtype);

    return (struct gram_view){.data = numbers ? (char *)numbers + at : NULL,
                              .dtype = dtype,
                              .planes = 1,
                              .rows = rows,
                              .cols = cols};
}

/* What the weights of a block, which are without gaps, add to the gradient of x, or of y, whose
 * place is `to`.  weights and numbers may be NULL where sizes alone count. */
static inline struct gram_cdist_grad_op gram_vjp_gradient(const struct gram_cdist_op *kernel,
                                                          const struct vjp_block *b, bool of_x,
                                                          const struct gram_view *to, void *weights,
                                                          const void *numbers)
{
    const gram_dtype dtype = kernel->x.dtype;
    const bool dot = kernel->inner == GRAM_DOT;
    const struct gram_view w =
        gram_view_dense_items(weights, dtype, b->rows, b->cols, &kernel->batch);
    const struct gram_view x = gram_vjp_transposed(&kernel->x, b->i, b->rows);
    const struct gram_view y = gram_vjp_transposed(&kernel->y, b->j, b->cols);
    struct gram_cdist_grad_op op = {
        .batch = kernel->batch,
        .a = of_x ? gram_vjp_transposed(&w, 0, b->rows) : w,
        .b = of_x ? y : x,
        .c = gram_vjp_number(numbers, dot ? VJP_MINUS_ONE : VJP_ONE, dtype, 1,
                             of_x ? b->cols : b->rows),
        .d = of_x ? x : y,
        .out =
            of_x ? gram_vjp_transposed(to, b->i, b->rows) : gram_vjp_transposed(to, b->j, b->cols),
        .p = kernel->p,
    };

    if (dot) {
        op.d = gram_vjp_number(numbers, VJP_ZERO, dtype, op.d.rows, op.d.cols);
        op.p = (struct gram_hyper){.value = 2};
    }
    return op;
}

/* The kernel of a block that multiplies x, or y, in its gradient. */
static inline struct gram_cdist_op gram_vjp_norm_kernel(const struct gram_kernel_vjp_op *op,
                                                        const struct gram_cdist_op *kernel,
                                                        const struct vjp_block *b, bool of_x,
                                                        void *elements)
{
    struct gram_cdist_op k = gram_vjp_kernel(kernel, b, GRAM_VALUE, elements);

    k.expression = op->by_norm[of_x ? 0 : 1];
    return k;
}

/* What the elements of that kernel, times grad, add to the gradient: as gram_vjp_gradient with
 * p = 2 and all centres at 0. */
static inline struct gram_cdist_grad_op gram_vjp_norm_gradient(const struct gram_cdist_op *kernel,
                                                               const struct vjp_block *b, bool of_x,
                                                               const struct gram_view *to,
                                                               void *weights, const void *numbers)
{
    struct gram_cdist_grad_op op = gram_vjp_gradient(kernel, b, of_x, to, weights, numbers);
    const struct gram_view *points = of_x ? &kernel->x : &kernel->y;

    op.c = gram_vjp_number(numbers, VJP_ONE, points->dtype, 1, of_x ? b->cols : b->rows);
    op.b = gram_vjp_number(numbers, VJP_ZERO, points->dtype, op.b.rows, op.b.cols);
    op.d = gram_vjp_transposed(points, of_x ? b->i : b->j, of_x ? b->rows : b->cols);
    op.p = (struct gram_hyper){.value = 2};
    return op;
}

/* The kernel of a block that multiplies sgn(x_k - y_k), or with squares x_k - y_k, in gradients;
 * and what its elements, times grad, add to them. */
static inline struct gram_cdist_op gram_vjp_sum_kernel(const struct gram_kernel_vjp_op *op,
                                                       const struct gram_cdist_op *kernel,
                                                       const struct vjp_block *b, bool squares,
                                                       void *elements)
{
    struct gram_cdist_op k = gram_vjp_kernel(kernel, b, GRAM_VALUE, elements);

    k.expression = op->by_sum[squares];
    return k;
}

/* The kernel of which gram_vjp_gradient then takes the gradients. */
static inline struct gram_cdist_op gram_vjp_sum_of(const struct gram_cdist_op *kernel, bool squares)
{
    struct gram_cdist_op k = *kernel;

    k.inner = GRAM_DIFFERENCE;
    k.p = (struct gram_hyper){.value = squares ? 2 : 1};
    return k;
}

/* A soft reduction: whether anything is wanted that is beside the gradients of the kernel. */
static inline bool gram_soft_has_sides(const struct gram_kernel_vjp_op *op)
{
    return op->want_v || op->soft.want_log_weights || op->want_regularization;
}

/* The values of the kernel of a block, with what is added to its diagonal. */
static inline struct gram_cdist_op gram_soft_values(const struct gram_kernel_vjp_op *op,
                                                    const struct gram_cdist_op *kernel,
                                                    const struct vjp_block *b, void *elements)
{
    struct gram_cdist_op values = gram_vjp_kernel(kernel, b, GRAM_VALUE, elements);

    if (op->value)
        values.expression = op->value;
    values.regularization = kernel->regularization;
    values.row_offset += b->i, values.column_offset += b->j;
    return values;
}

/* The kernel whose gradient to y, with the weights of a block, is what they add to that of v. */
static inline struct gram_cdist_op gram_soft_product(const struct gram_cdist_op *kernel,
                                                     const struct gram_view *grad,
                                                     const struct gram_view *v)
{
    return (struct gram_cdist_op){
        .batch = kernel->batch, .x = *grad, .y = *v, .inner = GRAM_DOT, .p.value = 2};
}

static inline bool gram_vjp_has_bandwidth(gram_function function)
{
    return function >= GRAM_LAPLACE && function <= GRAM_RATIONAL_QUADRATIC;
}

/* Where the regularization was added: (i, j), (i + 1, j + 1), ..., count of them, maybe none. */
struct vjp_diagonal {
    int64_t i, j, count;
};

static inline struct vjp_diagonal gram_vjp_diagonal(const struct gram_cdist_op *kernel)
{
    const int64_t shift = kernel->row_offset - kernel->column_offset;
    const int64_t first = gram_most(0, -shift);
    const int64_t end = gram_least(kernel->x.rows, kernel->y.rows - shift);

    return (struct vjp_diagonal){
        .i = first, .j = first + shift, .count = gram_most(0, end - first)};
}
#endif
