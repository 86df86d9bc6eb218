/*
 * kron_matmul_multi.c - gram_kron_matmul_multi: checks the arguments, agrees on them with the other
 * ranks, takes scratch, and multiplies rows as one process does or columns as kron_multi.h says
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_multi.h"
#include <string.h>

/* A call as it is given, and what it comes to. */
struct multi_call {
    struct gram_kron_args args;
    gram_kron_options options;
    struct gram_kron_matmul_op op;
    struct gram_kron_multi plan; /* by columns */
    size_t bytes;                /* of scratch */
};

static gram_status take_options(gram_context *g, const gram_kron_options *given,
                                gram_kron_options *o)
{
    *o = (gram_kron_options)GRAM_KRON_OPTIONS_INIT;
    TRY(gram_options_copy(g, o, sizeof *o, given));
    if (!o->communicator)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.communicator is NULL, expected a communicator");
    return GRAM_OK;
}

/* What a backend checks before its first launch, here before any rank begins. */
static gram_status check_pointers(gram_context *g, const struct gram_kron_matmul_op *op)
{
    gram_status (*check)(gram_context *, const char *, const struct gram_view *) =
        g->backend->check_pointer;

    if (!check || op->batch.count == 0 || op->x.rows == 0)
        return GRAM_OK;
    TRY(check(g, "x", &op->x));
    TRY(check(g, "y", &op->y));
    for (int i = 0; i < op->count; i++)
        TRY(check(g, "factors", &op->factor[i]));
    TRY(check(g, "options.z", &op->z));
    TRY(check(g, "options.alpha", &op->alpha.tensor));
    return check(g, "options.beta", &op->beta.tensor);
}

/* An exchange takes memory of its transport's device, and is queued on its context's stream. */
static gram_status check_device(gram_context *g, const gram_communicator *c)
{
    const struct gram_transport *transport = c->transport;

    if (transport->device == GRAM_CUDA && g != c->g)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.communicator was made with another context, expected this one");
    if (transport->device == g->options.device.type)
        return GRAM_OK;
    return gram_fail(g, GRAM_UNSUPPORTED,
                     "%s exchanges memory of %s, which %s does not compute in; by columns that "
                     "is needed",
                     transport->name, transport->device == GRAM_CUDA ? "GPUs" : "the CPU",
                     g->backend->name);
}

static gram_status plan_columns(gram_context *g, struct multi_call *call)
{
    struct gram_kron_multi *plan = &call->plan;
    const struct gram_kron_matmul_op *op = &call->op;
    size_t inner[2] = {0, 0};

    if (op->x.dtype == GRAM_F16 || op->x.dtype == GRAM_BF16)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "x has dtype %s, expected f32, f64, i32 or i64 in a split by columns",
                         gram_dtype_name(op->x.dtype));
    TRY(check_device(g, call->options.communicator));
    TRY(check_pointers(g, op));
    if (!gram_kron_multi_plan(op, call->options.communicator, plan))
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "this rank's part is too large: scratch overflows");
    for (int i = 0; i < 2; i++) {
        const struct gram_kron_matmul_op part = i == 0 ? gram_kron_multi_first(plan, NULL, NULL)
                                                       : gram_kron_multi_second(plan, NULL, NULL);
        if (part.count > 0)
            TRY(g->backend->kron_matmul_workspace(g, &part, &inner[i]));
    }
    plan->inner = gram_most_bytes(inner[0], inner[1]);
    call->bytes = plan->buffer[0] + plan->buffer[1] + plan->inner;
    return GRAM_OK;
}

/* The arguments of this rank and the scratch that they need. */
static gram_status describe(gram_context *g, struct multi_call *call)
{
    const gram_kron_options *o = &call->options;

    if (o->split != GRAM_KRON_SPLIT_ROWS && o->split != GRAM_KRON_SPLIT_COLUMNS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.split is %d, expected GRAM_KRON_SPLIT_ROWS or "
                         "GRAM_KRON_SPLIT_COLUMNS",
                         (int)o->split);
    if (o->split == GRAM_KRON_SPLIT_COLUMNS) {
        call->args.rank = o->communicator->rank;
        call->args.ranks = o->communicator->size;
    }
    TRY(gram_kron_matmul_describe(g, &call->args, o, &call->op));
    if (o->split == GRAM_KRON_SPLIT_COLUMNS)
        return plan_columns(g, call);
    return g->backend->kron_matmul_workspace(g, &call->op, &call->bytes);
}

/* ---- Agreement ----------------------------------------------------------------------------- */

/* What the ranks compare; as many values whatever the call, as all ranks must send as many. */
static int list_common(const struct multi_call *call, struct gram_common *common)
{
    const struct gram_kron_matmul_op *op = &call->op;
    bool columns = call->options.split == GRAM_KRON_SPLIT_COLUMNS;
    double alpha = op->alpha.tensor.data ? 0 : op->alpha.value;
    int used = 0;
    int64_t bits;

    memcpy(&bits, &alpha, sizeof bits);
    common[used++] = (struct gram_common){"options.split", -1, call->options.split};
    common[used++] = (struct gram_common){"the dtype", -1, op->x.dtype};
    common[used++] = (struct gram_common){"the number of factors", -1, op->count};
    for (int i = 0; i < GRAM_MAX_FACTORS; i++) {
        bool there = i < op->count;
        common[used++] = (struct gram_common){"the rows", i, there ? op->factor[i].rows : 0};
        common[used++] = (struct gram_common){"the columns", i, there ? op->factor[i].cols : 0};
    }
    common[used++] = (struct gram_common){"x's number of rows", -1, columns ? op->x.rows : 0};
    common[used++] = (struct gram_common){"the number of items", -1, columns ? op->batch.count : 0};
    common[used++] = (struct gram_common){"options.alpha, as bits,", -1, bits};
    common[used++] = (struct gram_common){"the cut", -1, call->plan.cut.first};
    return used;
}

static gram_status reserve(gram_context *g, struct multi_call *call, void **scratch)
{
    *scratch = NULL;
    TRY(describe(g, call));
    if (!g->backend->scratch)
        return gram_scratch(g, call->bytes, scratch);
    if (call->options.split == GRAM_KRON_SPLIT_ROWS)
        return GRAM_OK; /* its product takes its own scratch */
    return g->backend->scratch(g, call->bytes, scratch);
}

gram_status gram_kron_matmul_multi(gram_context *g, const gram_tensor *x,
                                   const gram_tensor *const *factors, int64_t count,
                                   const gram_kron_options *options, gram_tensor *y)
{
    struct multi_call call = {
        .args = {.x = x, .factors = factors, .count = count, .y = y}
    };
    struct gram_common common[GRAM_MAX_COMMON];
    gram_communicator *c;
    gram_status status;
    void *scratch;
    int used;

    TRY(gram_begin(g, __func__));
    TRY(take_options(g, options, &call.options));
    c = call.options.communicator;
    status = reserve(g, &call, &scratch);
    used = list_common(&call, common);
    TRY(gram_agree(g, c, status, common, used));
    if (call.options.split == GRAM_KRON_SPLIT_COLUMNS)
        return gram_kron_multi_columns(g, &call.plan, scratch);
    return gram_agree(g, c, g->backend->kron_matmul(g, &call.op), NULL, 0);
}

gram_status gram_kron_matmul_multi_workspace(gram_context *g, const gram_tensor *x,
                                             const gram_tensor *const *factors, int64_t count,
                                             const gram_kron_options *options, const gram_tensor *y,
                                             gram_workspace *need)
{
    struct multi_call call = {
        .args = {.x = x, .factors = factors, .count = count, .y = y}
    };

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(take_options(g, options, &call.options));
    TRY(describe(g, &call));
    *need = gram_workspace_on(g, call.bytes);
    return GRAM_OK;
}

/* ---- Parts --------------------------------------------------------------------------------- */

gram_status gram_kron_matmul_part(gram_context *g, int64_t rows, const gram_tensor *const *factors,
                                  int64_t count, const gram_kron_options *options,
                                  gram_kron_part *part)
{
    struct gram_kron_matmul_op op = {.batch.count = 1, .count = (int)count};
    struct gram_kron_cut cut;
    struct gram_range of_rows, a, c;
    gram_kron_options o;
    int64_t size[2];
    bool left;
    int ranks, rank;

    TRY(gram_begin(g, __func__));
    TRY(take_options(g, options, &o));
    if (!part)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "part is NULL");
    if (rows < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "rows is %lld, expected 0 or more",
                         (long long)rows);
    if (o.split != GRAM_KRON_SPLIT_ROWS && o.split != GRAM_KRON_SPLIT_COLUMNS &&
        o.split != GRAM_KRON_SPLIT_AUTO)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.split is %d, expected 0 to 2",
                         (int)o.split);
    TRY(gram_factors_join(g, &op.batch, factors, count));
    TRY(gram_factors_view(g, &op.batch, factors, count, o.transpose_factors, op.factor, size));
    left = o.side == GRAM_LEFT;
    ranks = o.communicator->size, rank = o.communicator->rank;
    gram_kron_cut(&op, left, ranks, &cut);
    of_rows = gram_range_of(rows, ranks, rank);
    if (o.split == GRAM_KRON_SPLIT_AUTO)
        o.split = (double)gram_ceil_div(rows, ranks) * ranks > 1.25 * (double)rows
                      ? GRAM_KRON_SPLIT_COLUMNS
                      : GRAM_KRON_SPLIT_ROWS;
    *part = (gram_kron_part){.split = o.split, .rows = rows, .columns = size[left]};
    part->outs = size[!left];
    if (o.split == GRAM_KRON_SPLIT_ROWS) {
        part->first_row = of_rows.first, part->rows = of_rows.count;
        return GRAM_OK;
    }
    a = gram_range_of(cut.in[0], ranks, rank), c = gram_range_of(cut.out[0], ranks, rank);
    part->first_column = a.first * cut.in[1], part->columns = a.count * cut.in[1];
    part->first_out = c.first * cut.out[1], part->outs = c.count * cut.out[1];
    return GRAM_OK;
}
