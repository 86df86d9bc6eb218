/*
 * grad_problem.c - builds a row of gram_cdist_grad or gram_agop, runs it, checks every element
 *
 * The call gets exactly the scratch that its workspace query names, and one byte less is refused.
 *
 * SPDX-License-Identifier: MIT
 */
#include "grad_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE = 400 /* elements of an outer product that are compared */
};

struct problem {
    const struct grad_row *row;
    struct test_tensor input[INPUTS], p, out;
    struct test_copy input_there[INPUTS], p_there, out_there; /* where the context's device is */
    struct reference_grad in;
    struct reference_batch batch;
    gram_agop_options options;
    double *before; /* what out held, to accumulate on */
};

static const char *const names[INPUTS] = {"a", "b", "c", "d"};

static double draw(struct harness *h, enum grad_data data)
{
    double u = test_uniform(h) - 0.5;

    return data == GRAD_INTEGERS ? floor(3 * (u + 0.5))
           : data == GRAD_OFFSET ? 1e4 + 3 * u
           : data == GRAD_TINY   ? ldexp(u, -(int)(120 + 30 * test_uniform(h)))
                                 : 4 * u;
}

static void fill(struct harness *h, struct test_tensor *t, int which, enum grad_data data)
{
    bool features = which == B || which == D;
    int64_t count = test_count(&t->t);

    for (int64_t i = 0; i < count; i++)
        test_put(&t->t, i, draw(h, features ? data : GRAD_NORMAL));
    if (features && count > 0 && (data == GRAD_NAN || data == GRAD_INFINITE))
        test_put(&t->t, which == B ? count / 2 : count - 1, data == GRAD_NAN ? NAN : INFINITY);
    test_tensor_freeze(t);
}

static void create_p(struct harness *h, struct problem *q)
{
    q->in.p = gram_number(q->row->p);
    if (!q->row->per_item)
        return;
    test_tensor_create(h, &q->p, GRAM_F64, ROW_MAJOR, q->batch.ndim, q->batch.shape);
    for (int64_t i = 0; i < q->batch.count; i++)
        test_put(&q->p.t, i, q->row->p + (double)i / 2);
    test_tensor_freeze(&q->p);
    q->in.p = gram_values(&q->p.t);
}

static void create_out(struct harness *h, struct problem *q)
{
    const struct grad_row *row = q->row;
    int64_t shape[GRAM_MAX_DIMS] = {0};
    int ndim = q->batch.ndim;

    memcpy(shape, q->batch.shape, (size_t)ndim * sizeof *shape);
    if (!row->agop)
        shape[ndim++] = row->o;
    shape[ndim++] = row->n;
    if (!row->diagonal)
        shape[ndim++] = row->agop ? row->n : row->m;
    test_tensor_create(h, &q->out, row->dtype, row->out_layout, ndim, shape);
    if (!row->accumulate)
        return;
    q->before = malloc(((size_t)test_count(&q->out.t) + 1) * sizeof *q->before);
    for (int64_t i = 0; q->before && i < test_count(&q->out.t); i++) {
        int64_t column = i % row->n, line = row->diagonal ? 0 : i / row->n % row->n;
        test_put(&q->out.t, i, 1 + (double)(column + line) / 4); /* symmetric */
        q->before[i] = test_at(&q->out.t, i);
    }
}

static bool setup(struct harness *h, const struct grad_row *row, struct problem *q)
{
    const int64_t core[INPUTS][2] = {
        {row->k, row->m},
        {row->n, row->k},
        {row->o, row->k},
        {row->n, row->m}
    };

    *q = (struct problem){.row = row};
    for (int i = 0; i < INPUTS; i++) {
        int64_t shape[4];
        int ndim = 0;
        for (int b = 0; b < 2 && row->batch[i][b]; b++)
            shape[ndim++] = row->batch[i][b];
        shape[ndim++] = core[i][0], shape[ndim++] = core[i][1];
        test_tensor_create(h, &q->input[i], row->dtype, row->layout[i], ndim, shape);
        fill(h, &q->input[i], i, row->data);
    }
    q->in = (struct reference_grad){
        .a = &q->input[A].t, .b = &q->input[B].t, .c = &q->input[C].t, .d = &q->input[D].t};
    q->batch = reference_join(INPUTS, (const gram_tensor *[]){q->in.a, q->in.b, q->in.c, q->in.d},
                              (const int[]){2, 2, 2, 2});
    q->options = (gram_agop_options)GRAM_AGOP_OPTIONS_INIT;
    q->options.diagonal = row->diagonal, q->options.accumulate = row->accumulate;
    q->options.points = row->points;
    create_p(h, q);
    create_out(h, q);
    return CHECK(h, !row->accumulate || q->before, "no memory");
}

static void finish(struct harness *h, struct problem *q)
{
    for (int i = 0; i < INPUTS; i++)
        test_tensor_destroy(h, &q->input[i], names[i]);
    test_tensor_destroy(h, &q->out, "out");
    if (q->row->per_item)
        test_tensor_destroy(h, &q->p, "p");
    free(q->before);
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    const gram_tensor *a = &q->input_there[A].t, *b = &q->input_there[B].t,
                      *c = &q->input_there[C].t, *d = &q->input_there[D].t;
    gram_tensor *out = &q->out_there.t;
    gram_scalar p = q->row->per_item ? gram_values(&q->p_there.t) : q->in.p;

    if (q->row->agop)
        return need ? gram_agop_workspace(h->g, a, b, c, d, p, &q->options, out, need)
                    : gram_agop(h->g, a, b, c, d, p, &q->options, out);
    return need ? gram_cdist_grad_workspace(h->g, a, b, c, d, p, out, need)
                : gram_cdist_grad(h->g, a, b, c, d, p, out);
}

/* The call where the context's device is, in memory of that device. */
static bool run(struct harness *h, struct problem *q)
{
    struct test_pair pairs[INPUTS + 2] = {
        {                        &q->out, &q->out_there},
        {q->row->per_item ? &q->p : NULL,   &q->p_there},
    };

    for (int i = 0; i < INPUTS; i++)
        pairs[i + 2] = (struct test_pair){&q->input[i], &q->input_there[i]};
    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

static void compare(struct harness *h, const struct problem *q, int64_t i, struct grad_answer a)
{
    double got = test_at(&q->out.t, i);

    if (q->before)
        a.want += q->before[i], a.bound += 2 * test_eps(q->row->dtype) * fabs(a.want);
    if (isnan(a.want) || isinf(a.want))
        CHECK(h, isnan(a.want) ? isnan(got) : got == a.want, "element %lld is %g, expected %g",
              (long long)i, got, a.want);
    else
        CHECK(h, fabs(got - a.want) <= a.bound, "element %lld is %.9g, expected %.9g +- %.2g",
              (long long)i, got, a.want, a.bound);
}

static void check_gradients(struct harness *h, const struct problem *q)
{
    const struct grad_row *row = q->row;
    int64_t i = 0, count = test_count(&q->out.t);

    for (int64_t item = 0; item < q->batch.count; item++)
        for (int64_t o = 0; o < row->o; o++)
            for (int64_t n = 0; n < row->n; n++)
                for (int64_t m = 0; m < row->m; m++, i++)
                    if (test_sampled(i, count, row->k))
                        compare(h, q, i,
                                grad_answer(&q->in, &q->batch, (int64_t[]){item, o, n, m}));
}

static void check_products(struct harness *h, const struct problem *q)
{
    const struct grad_row *row = q->row;
    int64_t wide = row->diagonal ? 1 : row->n, count = test_count(&q->out.t);
    int64_t step = 1 + count / SAMPLE;

    for (int64_t i = 0; i < count; i += step) {
        int64_t item = i / (row->n * wide), n = i / wide % row->n, l = row->diagonal ? n : i % wide;
        compare(h, q, i, agop_answer(&q->in, &q->batch, row->points, (int64_t[]){item, n, l}));
        if (!row->diagonal) {
            int64_t mirror = (item * row->n + l) * row->n + n;
            double one = test_at(&q->out.t, i), other = test_at(&q->out.t, mirror);
            CHECK(h, one == other || (isnan(one) && isnan(other)),
                  "elements %lld and %lld are %.9g and %.9g, expected symmetry", (long long)i,
                  (long long)mirror, one, other);
        }
    }
}

void grad_row_check(struct harness *h, const struct grad_row *row)
{
    struct problem q;

    if (setup(h, row, &q) && run(h, &q)) {
        if (row->agop)
            check_products(h, &q);
        else
            check_gradients(h, &q);
    }
    finish(h, &q);
}

void grad_row_label(const struct grad_row *row, char *text, size_t size)
{
    snprintf(text, size, "%lldx%lldx%lldx%lld %s p=%g: %s", (long long)row->k, (long long)row->m,
             (long long)row->n, (long long)row->o, row->dtype == GRAM_F64 ? "f64" : "f32", row->p,
             row->why);
}
