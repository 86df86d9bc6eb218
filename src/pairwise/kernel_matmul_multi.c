/*
 * kernel_matmul_multi.c - gram_kernel_matmul_multi: a product with a kernel matrix that several
 * processes share
 *
 * A call checks its arguments, agrees on them with the other ranks, and takes scratch.  The points
 * and v of all ranks come to each of them.  Where K mirrors itself, the backend multiplies a part
 * of the pairs of points (gram_kernel_matmul_op.parts) for all rows of out, which go to their
 * ranks; these add them in the order of the ranks.  Else a rank multiplies its rows of K.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/expression.h"
#include "kron/kron.h"
#include "multi/communicator.h"
#include "pairwise.h"
#include <string.h>

/* A call as it is given, and what it comes to. */
struct matmul_multi {
    struct gram_matmul_args args;
    gram_kernel_matmul_options options;
    gram_communicator *c;
    struct gram_kernel_matmul_op given; /* this rank's rows, as they are */
    struct gram_kernel_matmul_op op;    /* what the backend does */
    bool mirrors;
    int64_t rows[2], first[2]; /* of all ranks, and of those before this one: of x, of y */
    int64_t element;           /* bytes */
    /* Scratch: all points and v, sums for all rows and those that have come, the product's. */
    char *points[2], *v, *sums, *received;
    void *inner;
    size_t inner_bytes;
};

/* ---- What the ranks have in common ----------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001b3) ^ hash >> 29;
}

static uint64_t hash_expression(const struct gram_expression *e)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (int i = 0; e && i < e->count; i++) {
        hash = mix(hash, e->node[i].op);
        for (int a = 0; a < 3; a++)
            hash = mix(hash, (uint64_t)(uint16_t)e->node[i].arg[a]);
        hash = mix(hash,
                   (uint64_t)gram_bits_of(e->node[i].op == GRAM_OP_NUMBER ? e->node[i].number : 0));
    }
    return hash;
}

/* The numbers of a vector on the CPU. */
static uint64_t hash_vector(const gram_context *g, const struct gram_view *v)
{
    uint64_t hash = (uint64_t)(v->data != NULL);

    if (!v->data || g->options.device.type != GRAM_CPU)
        return hash;
    for (int64_t k = 0; k < v->cols; k++) {
        const char *at = v->data + k * v->col_stride * (int64_t)gram_dtype_size(v->dtype);
        hash = mix(hash, (uint64_t)gram_bits_of(v->dtype == GRAM_F32 ? (double)*(const float *)at
                                                                     : *(const double *)at));
    }
    return hash;
}

static struct gram_common of_hyper(const char *name, const struct gram_hyper *h)
{
    return (struct gram_common){name, -1, h->tensor.data ? 0 : gram_bits_of(h->value)};
}

/* As many values whatever the call, as all ranks must send as many. */
static int list_common(const gram_context *g, const struct matmul_multi *m,
                       struct gram_common *common)
{
    static const char *const hypers[GRAM_HYPERS] = {
        "the bits of kernel.p",
        "the bits of kernel.outer_power",
        "the bits of kernel.bandwidth",
        "the bits of kernel.exponent",
        "the bits of kernel.alpha",
        "the bits of kernel.gamma",
        "the bits of kernel.coef0",
        "the bits of kernel.degree",
        "the bits of kernel.regularization",
    };
    const struct gram_cdist_op *k = &m->given.kernel;
    int used = 0;

    common[used++] = (struct gram_common){"the dtype of x", -1, k->x.dtype};
    common[used++] = (struct gram_common){"the number of columns of x", -1, k->x.cols};
    common[used++] = (struct gram_common){"the number of columns of v", -1, m->given.v.cols};
    common[used++] = (struct gram_common){"y, NULL or not,", -1, m->args.y != NULL};
    common[used++] = (struct gram_common){"options.all_points", -1, m->options.all_points != 0};
    common[used++] = (struct gram_common){"the number of points of x", -1,
                                          m->options.all_points ? k->x.rows : 0};
    common[used++] = (struct gram_common){"the number of points of y", -1,
                                          m->options.all_points ? k->y.rows : 0};
    common[used++] = (struct gram_common){"kernel.inner", -1, k->inner};
    common[used++] = (struct gram_common){"kernel.function", -1, k->function};
    common[used++] = (struct gram_common){"kernel.output", -1, k->output};
    common[used++] = (struct gram_common){"kernel.root", -1, k->root};
    common[used++] = (struct gram_common){"kernel.row_offset", -1, k->row_offset};
    common[used++] = (struct gram_common){"kernel.column_offset", -1, k->column_offset};
    common[used++] = (struct gram_common){"the kind of kernel.metric", -1, k->metric.kind};
    common[used++] = (struct gram_common){"a hash of kernel.metric->weights", -1,
                                          (int64_t)hash_vector(g, &k->metric.weights)};
    common[used++] =
        (struct gram_common){"a hash of kernel.lengths", -1, (int64_t)hash_vector(g, &k->lengths)};
    common[used++] = (struct gram_common){"a hash of kernel.expression", -1,
                                          (int64_t)hash_expression(k->expression)};
    for (int i = 0; i < GRAM_HYPERS; i++)
        common[used++] = of_hyper(hypers[i], &k->hyper[i]);
    for (int i = 0; i < GRAM_MAX_PARAMETERS; i++)
        common[used++] = of_hyper("the bits of a parameter", &k->parameter[i]);
    return used;
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static gram_status take_options(gram_context *g, const gram_kernel_matmul_options *given,
                                gram_kernel_matmul_options *o)
{
    *o = (gram_kernel_matmul_options)GRAM_KERNEL_MATMUL_OPTIONS_INIT;
    TRY(gram_options_copy(g, o, sizeof *o, given));
    if (!o->communicator)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.communicator is NULL, expected a communicator");
    return GRAM_OK;
}

/* What a backend checks before its first launch, here before any rank begins. */
static gram_status check_pointers(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    const struct gram_view *const views[] = {&op->kernel.x, &op->kernel.y, &op->v, &op->out};
    const char *const names[] = {"x", "y", "v", "out"};

    for (int i = 0; i < 4 && g->backend->check_pointer; i++)
        if (views[i]->rows > 0 && views[i]->cols > 0)
            TRY(g->backend->check_pointer(g, names[i], views[i]));
    return GRAM_OK;
}

/* The arguments of this rank, by themselves. */
static gram_status check_arguments(gram_context *g, struct matmul_multi *m)
{
    struct gram_kernel_matmul_op *op = &m->given;

    TRY(gram_kernel_matmul_describe(g, &m->args, &m->options, op));
    if (op->kernel.batch.ndim > 0)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "the arguments have %d batch dimensions, expected matrices: ranks share "
                         "one product",
                         op->kernel.batch.ndim);
    if (op->kernel.x.dtype != GRAM_F32 && op->kernel.x.dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "x has dtype %s, expected f32 or f64",
                         gram_dtype_name(op->kernel.x.dtype));
    if (!m->args.y && op->v.rows != op->out.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "v has %lld rows, expected %lld, those of out",
                         (long long)op->v.rows, (long long)op->out.rows);
    if (m->args.y)
        op->kernel.symmetric = false;
    m->mirrors = gram_cdist_mirrors(&op->kernel);
    m->element = (int64_t)gram_dtype_size(op->kernel.x.dtype);
    TRY(gram_check_transport(g, m->c));
    return check_pointers(g, op);
}

/* Fills in how many rows all ranks have, and where those of this one begin. */
static gram_status count_rows(gram_context *g, struct matmul_multi *m)
{
    const int64_t own[2] = {m->given.out.rows, m->given.v.rows};

    for (int side = 0; side < 2; side++)
        TRY(gram_count_rows(g, m->c, side, own[side], &m->first[side], &m->rows[side]));
    return GRAM_OK;
}

/* ---- Scratch --------------------------------------------------------------------------------- */

/* Bytes of so many rows of cols numbers, not exact beyond 2^52. */
static double bytes_of(const struct matmul_multi *m, int64_t rows, int64_t cols)
{
    return (double)rows * (double)cols * (double)m->element;
}

static gram_status check_sizes(gram_context *g, const struct matmul_multi *m)
{
    const struct gram_cdist_op *k = &m->given.kernel;
    const char *const names[2] = {"x", "y"};
    const int64_t points[2] = {k->x.rows, k->y.rows};
    const int64_t widest = gram_most(k->x.cols, m->given.v.cols);

    for (int side = 0; side < 2; side++) {
        if (m->options.all_points && points[side] != m->rows[side])
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "%s has %lld rows with options.all_points, but the rows of %s on all "
                             "ranks are %lld",
                             names[side], (long long)points[side], side == 0 ? "out" : "v",
                             (long long)m->rows[side]);
        if (bytes_of(m, m->rows[side], widest) * (1 + m->c->size) > 0x1p52)
            return gram_fail(g, GRAM_OUT_OF_MEMORY,
                             "the ranks have %lld rows of up to %lld numbers, whose size overflows",
                             (long long)m->rows[side], (long long)widest);
    }
    return GRAM_OK;
}

/* True if all points of a side are gathered in scratch. */
static bool gathers(const struct matmul_multi *m, int side)
{
    return !m->options.all_points && side == (m->args.y ? 1 : 0);
}

static void take(struct matmul_multi *m, struct gram_layout *layout)
{
    const struct gram_kernel_matmul_op *op = &m->given;
    const int64_t own = op->out.rows, n = m->rows[1], columns = op->v.cols;

    for (int side = 0; side < 2; side++)
        if (gathers(m, side))
            gram_take(layout, &m->points[side],
                      (size_t)bytes_of(m, m->rows[side], op->kernel.x.cols));
    gram_take(layout, &m->v, (size_t)bytes_of(m, n, columns));
    if (m->mirrors) {
        gram_take(layout, &m->sums, (size_t)bytes_of(m, n, columns));
        gram_take_many(layout, &m->received, (size_t)m->c->size, (size_t)bytes_of(m, own, columns));
    }
    gram_take(layout, &m->inner, m->inner_bytes);
}

/* The backend's work, with its pointers where they are known. */
static void set_op(struct matmul_multi *m)
{
    const struct gram_kernel_matmul_op *given = &m->given;
    const gram_dtype dtype = given->kernel.x.dtype;
    struct gram_kernel_matmul_op *op = &m->op;
    struct gram_view *x = &op->kernel.x, *y = &op->kernel.y;

    *op = *given;
    op->v = gram_view_dense(m->v, dtype, m->rows[1], given->v.cols);
    if (gathers(m, 1))
        *y = gram_view_dense(m->points[1], dtype, m->rows[1], y->cols);
    else if (gathers(m, 0))
        *y = gram_view_dense(m->points[0], dtype, m->rows[0], y->cols);
    if (m->mirrors) {
        *x = *y;
        op->out = gram_view_dense(m->sums, dtype, m->rows[0], given->out.cols);
        op->accumulate = false;
        op->part = m->c->rank, op->parts = m->c->size;
        return;
    }
    op->kernel.symmetric = false;
    if (m->options.all_points)
        *x = gram_view_rows(x, m->first[0], given->out.rows);
    op->kernel.row_offset += m->first[0];
}

static gram_status plan(gram_context *g, struct matmul_multi *m, struct gram_layout *layout)
{
    TRY(check_sizes(g, m));
    set_op(m);
    TRY(gram_measure(g, &m->inner_bytes, gram_kernel_matmul_run(g, &m->op)));
    take(m, layout);
    return GRAM_OK;
}

/* ---- The work -------------------------------------------------------------------------------- */

/* A rank's rows to their place among those of all. */
static gram_status place_rows(gram_context *g, const struct matmul_multi *m,
                              const struct gram_view *rows, int side, void *all)
{
    const int64_t offset = m->first[side] * rows->cols * m->element;
    const struct gram_kron_move_op move = {
        .batch.count = 1, .view = *rows, .dense = (char *)all + offset, .gather = true};

    return rows->rows > 0 && rows->cols > 0 ? g->backend->kron_move(g, &move) : GRAM_OK;
}

/* Scratch, and in it what this rank has. */
static gram_status begin(gram_context *g, struct matmul_multi *m)
{
    const struct gram_kernel_matmul_op *op = &m->given;
    struct gram_layout layout = {0};

    TRY(plan(g, m, &layout));
    TRY(gram_layout_open(g, &layout));
    set_op(m);
    if (gathers(m, 0))
        TRY(place_rows(g, m, &op->kernel.x, 0, m->points[0]));
    if (gathers(m, 1))
        TRY(place_rows(g, m, &op->kernel.y, 1, m->points[1]));
    return place_rows(g, m, &op->v, 1, m->v);
}

static gram_status gather(gram_context *g, const struct matmul_multi *m)
{
    const size_t row = (size_t)(m->given.kernel.x.cols * m->element);

    for (int side = 0; side < 2; side++)
        if (gathers(m, side))
            TRY(gram_gather_rows(g, m->c, m->c->rows[side], row, m->points[side]));
    return gram_gather_rows(g, m->c, m->c->rows[1], (size_t)(m->given.v.cols * m->element), m->v);
}

static gram_status multiply(gram_context *g, struct matmul_multi *m)
{
    struct gram_scratch_before before;
    gram_status status;

    gram_scratch_lend(g, m->inner, m->inner_bytes, &before);
    status = gram_kernel_matmul_run(g, &m->op);
    gram_scratch_return(g, &before);
    return status;
}

/* What the ranks have for this rank's rows, in their order. */
static gram_status add_sums(gram_context *g, const struct matmul_multi *m)
{
    const struct gram_view *out = &m->given.out;
    struct gram_kron_move_op move = {.batch.count = 1, .view = *out, .beta.value = 1};

    if (out->rows == 0 || out->cols == 0)
        return GRAM_OK;
    for (int rank = 0; rank < m->c->size; rank++) {
        move.dense = m->received + rank * out->rows * out->cols * m->element;
        if (rank > 0 || m->given.accumulate)
            move.z = *out;
        TRY(g->backend->kron_move(g, &move));
    }
    return GRAM_OK;
}

static gram_status run(gram_context *g, struct matmul_multi *m)
{
    const size_t row = (size_t)(m->given.out.cols * m->element);
    gram_status status;

    TRY(gram_agree(g, m->c, begin(g, m), NULL, 0));
    status = gather(g, m);
    if (status == GRAM_OK)
        status = multiply(g, m);
    TRY(gram_agree_or_abandon(g, m->c, status));
    if (!m->mirrors)
        return GRAM_OK;
    status = gram_scatter_rows(g, m->c, m->c->rows[0], row, m->sums, m->received);
    TRY(gram_agree_or_abandon(g, m->c, status));
    return add_sums(g, m);
}

/* ---- Entries --------------------------------------------------------------------------------- */

/* All but the work: the ranks agree on their arguments. */
static gram_status describe(gram_context *g, struct matmul_multi *m)
{
    struct gram_common common[GRAM_MAX_COMMON];
    gram_status status;
    int used;

    TRY(take_options(g, m->args.options, &m->options));
    m->c = m->options.communicator;
    status = check_arguments(g, m);
    used = list_common(g, m, common);
    TRY(gram_agree(g, m->c, status, common, used));
    return count_rows(g, m);
}

gram_status gram_kernel_matmul_multi(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                     const gram_kernel_options *kernel, const gram_tensor *v,
                                     const gram_kernel_matmul_options *options, gram_tensor *out)
{
    struct matmul_multi m = {
        .args = {x, y, kernel, v, options, out}
    };

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &m));
    return gram_call_ended(g, run(g, &m));
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the call */
gram_status gram_kernel_matmul_multi_workspace(gram_context *g, const gram_tensor *x,
                                               const gram_tensor *y,
                                               const gram_kernel_options *kernel,
                                               const gram_tensor *v,
                                               const gram_kernel_matmul_options *options,
                                               const gram_tensor *out, gram_workspace *need)
{
    struct matmul_multi m = {
        .args = {x, y, kernel, v, options, out}
    };
    struct gram_layout layout = {0};

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &m));
    TRY(gram_agree(g, m.c, plan(g, &m, &layout), NULL, 0));
    *need = gram_workspace_on(g, gram_layout_bytes(&layout));
    return GRAM_OK;
}
