/*
 * krr_solve_ranks.c - gram_krr_solve by several ranks, each of which has some of the rows
 *
 * The rows of all come to every rank, which then solves the whole problem with the others
 * (krr_ranks.h), and keeps its own rows of alpha.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_ranks.h"
#include "krr_solve.h"
#include <string.h>

enum {
    X,
    Y,
    ALPHA,
    WEIGHTS,
    COUNT
};

/* A call of one rank: its rows, and those of all, row by row without gaps. */
struct shared {
    struct krr_call own, whole;
    struct krr_problem described; /* of the own rows */
    gram_krr_options options;     /* of the whole */
    struct krr_ranks ranks;
    struct krr_array memory[COUNT];
    gram_tensor tensor[COUNT];
};

static gram_status refuse_some(gram_context *g, const gram_krr_options *o)
{
    const char *name = o->method == GRAM_KRR_CENTRES  ? "method GRAM_KRR_CENTRES"
                       : o->method == GRAM_KRR_BLOCKS ? "method GRAM_KRR_BLOCKS"
                       : o->rows                      ? "rows"
                                                      : NULL;

    return name ? gram_fail(g, GRAM_UNSUPPORTED,
                            "options.%s is given, which there is not with options.communicator",
                            name)
                : GRAM_OK;
}

/* The products compare the kernel. */
static int list_common(const struct shared *s, struct gram_common *common)
{
    const struct krr_problem *p = &s->described;
    const gram_krr_options *o = &p->options;
    const struct gram_common all[] = {
        {                   "the dtype of x", -1,                               p->dtype},
        {       "the number of columns of x", -1,                               p->width},
        {       "the number of columns of y", -1,                             p->columns},
        {               "the dtype of alpha", -1, s->own.alpha ? s->own.alpha->dtype : 0},
        {    "options.weights, NULL or not,", -1,                     o->weights != NULL},
        {                   "options.method", -1,                              o->method},
        {        "the bits of options.ridge", -1,                 gram_bits_of(o->ridge)},
        {    "the bits of options.tolerance", -1,             gram_bits_of(o->tolerance)},
        {"the bits of options.held_out_rmse", -1,         gram_bits_of(o->held_out_rmse)},
        {                     "options.rank", -1,                                o->rank},
        {                 "options.products", -1,                            o->products},
        {"options.time_limit, none or some,", -1,                      o->time_limit > 0},
        {                   "options.refine", -1,                         o->refine != 0},
        {               "options.warm_start", -1,                     o->warm_start != 0},
        { "options.checkpoint, NULL or not,", -1,                  o->checkpoint != NULL},
        {                   "options.resume", -1,                         o->resume != 0},
        {    "options.checkpoint_iterations", -1,               o->checkpoint_iterations},
        {         "the bits of options.seed", -1,                       (int64_t)o->seed},
    };

    memcpy(common, all, sizeof all);
    return (int)(sizeof all / sizeof *all);
}

static size_t totals_bytes(const struct shared *s)
{
    return (size_t)s->ranks.c->size * sizeof *s->ranks.totals;
}

/* The arguments of this rank, and what the ranks have to have in common. */
static gram_status describe(gram_context *g, struct shared *s, const gram_krr_options *options)
{
    struct gram_common common[GRAM_MAX_COMMON];
    gram_communicator *c = options->communicator;
    gram_status status = refuse_some(g, options);
    int used;

    s->ranks.c = c;
    s->ranks.totals = gram_alloc(g, totals_bytes(s));
    if (status == GRAM_OK && !s->ranks.totals)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", totals_bytes(s));
    if (status == GRAM_OK)
        status = gram_krr_describe(g, &s->own, options, &s->described);
    if (status == GRAM_OK)
        status = refuse_some(g, &s->described.options);
    if (status == GRAM_OK)
        status = gram_check_transport(g, c);
    used = list_common(s, common);
    TRY(gram_agree(g, c, status, common, used));
    return gram_count_rows(g, c, 0, s->described.n, &s->ranks.first, &s->ranks.n);
}

/* One array of all rows, in which this rank's are. */
static gram_status place(gram_context *g, struct shared *s, int which, bool given)
{
    const struct gram_view *v = &s->own.views[which];
    const int64_t element = (int64_t)gram_dtype_size(v->dtype);
    struct gram_kron_move_op move = {.batch.count = 1, .view = *v, .gather = true};
    int64_t elements, bytes;

    if (__builtin_mul_overflow(s->ranks.n, v->cols, &elements) ||
        __builtin_mul_overflow(elements, element, &bytes))
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "the ranks have %lld rows of %lld numbers, whose size overflows",
                         (long long)s->ranks.n, (long long)v->cols);
    TRY(gram_krr_allocate(g, (size_t)bytes, &s->memory[which]));
    s->tensor[which] = gram_krr_matrix(g, s->memory[which].data, s->ranks.n, v->cols, v->dtype);
    move.dense = (char *)s->memory[which].data + s->ranks.first * v->cols * element;
    return given && v->rows > 0 && v->cols > 0 ? g->backend->kron_move(g, &move) : GRAM_OK;
}

static gram_status place_all(gram_context *g, struct shared *s)
{
    const gram_krr_options *o = &s->options;

    TRY(place(g, s, X, true));
    TRY(place(g, s, Y, true));
    TRY(place(g, s, ALPHA, o->warm_start));
    return o->weights ? place(g, s, WEIGHTS, true) : GRAM_OK;
}

static gram_status gather(gram_context *g, struct shared *s)
{
    for (int which = 0; which < COUNT; which++) {
        const struct gram_view *v = &s->own.views[which];
        if (s->memory[which].data && (which != ALPHA || s->options.warm_start))
            TRY(gram_gather_rows(g, s->ranks.c, s->ranks.c->rows[0],
                                 (size_t)v->cols * gram_dtype_size(v->dtype),
                                 s->memory[which].data));
    }
    return GRAM_OK;
}

/* This rank's rows of alpha. */
static gram_status keep(gram_context *g, const struct shared *s)
{
    const struct gram_view *v = &s->own.views[ALPHA];
    const int64_t row = v->cols * (int64_t)gram_dtype_size(v->dtype);
    const struct gram_kron_move_op move = {.batch.count = 1,
                                           .view = *v,
                                           .dense = (char *)s->memory[ALPHA].data +
                                                    s->ranks.first * row};

    if (v->rows == 0 || v->cols == 0)
        return GRAM_OK;
    TRY(g->backend->kron_move(g, &move));
    return g->backend->synchronize ? g->backend->synchronize(g) : GRAM_OK;
}

static gram_status run(gram_context *g, struct shared *s)
{
    gram_status status;

    s->whole = (struct krr_call){.x = &s->tensor[X],
                                 .y = &s->tensor[Y],
                                 .alpha = &s->tensor[ALPHA],
                                 .kernel = s->own.kernel};
    if (s->options.weights)
        s->options.weights = &s->tensor[WEIGHTS];
    status = gram_krr_solve_whole(g, &s->whole, &s->options, &s->ranks);
    /* GRAM_IO: of a checkpoint that could not be written; there is an answer. */
    if (status != GRAM_OK && status != GRAM_NUMERICAL && status != GRAM_IO)
        return gram_krr_ranks_end(g, &s->ranks, status);
    if (!s->ranks.ended) {
        const gram_status kept = keep(g, s);
        status = kept == GRAM_OK ? status : kept;
    }
    return gram_krr_ranks_end(g, &s->ranks, status);
}

static gram_status solve(gram_context *g, struct shared *s)
{
    gram_communicator *c = s->ranks.c;

    TRY(gram_agree(g, c, place_all(g, s), NULL, 0));
    TRY(gram_agree_or_abandon(g, c, gather(g, s)));
    return run(g, s);
}

gram_status gram_krr_solve_ranks(gram_context *g, struct krr_call *c,
                                 const gram_krr_options *options)
{
    struct shared *s = gram_alloc(g, sizeof *s); /* it has the room of a preconditioner's growth */
    const char *call = g->call;
    gram_status status;

    if (!s)
        return gram_agree(g, options->communicator,
                          gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *s),
                          NULL, 0);
    *s = (struct shared){.own = *c, .options = *options};
    s->options.communicator = NULL;
    status = describe(g, s, options);
    if (status == GRAM_OK)
        status = solve(g, s);
    for (int i = 0; i < COUNT; i++)
        gram_krr_free(g, &s->memory[i]);
    gram_free(g, s->ranks.totals, totals_bytes(s));
    gram_free(g, s, sizeof *s);
    g->call = call;
    return status;
}
