/*
 * solve_extra.c - batches of systems for the tests of rcond, jitter and refine
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_extra.h"
#include "check/matrix_power_problem.h"
#include "check/reference/reference.h"

void extra_create(struct harness *h, struct extra_problem *p, int64_t n, gram_dtype dtype,
                  enum layout layout)
{
    int64_t square[3] = {EXTRA_ITEMS, n, n}, tall[3] = {EXTRA_ITEMS, n, EXTRA_COLUMNS};

    *p = (struct extra_problem){.n = n, .options = GRAM_SOLVE_OPTIONS_INIT};
    test_tensor_create(h, &p->a, dtype, layout, 3, square);
    test_tensor_create(h, &p->factor, dtype, layout, 3, square);
    test_tensor_create(h, &p->pivots, GRAM_I32, ROW_MAJOR, 2, square);
    test_tensor_create(h, &p->b, dtype, layout, 3, tall);
    test_tensor_create(h, &p->x, dtype, layout, 3, tall);
    test_tensor_create(h, &p->rcond, dtype, ROW_MAJOR, 1, square);
    test_tensor_create(h, &p->jittered, dtype, ROW_MAJOR, 1, square);
    test_tensor_create(h, &p->backward, GRAM_F64, ROW_MAJOR, 1, square);
    test_tensor_create(h, &p->refinings, GRAM_I32, ROW_MAJOR, 1, square);
    test_tensor_create(h, &p->info, GRAM_I32, ROW_MAJOR, 1, square);
    test_fill_uniform(h, &p->b, -1, 1);
}

void extra_destroy(struct harness *h, struct extra_problem *p)
{
    test_tensor_destroy(h, &p->a, "a");
    test_tensor_destroy(h, &p->factor, "factor");
    test_tensor_destroy(h, &p->pivots, "pivots");
    test_tensor_destroy(h, &p->b, "b");
    test_tensor_destroy(h, &p->x, "x");
    test_tensor_destroy(h, &p->rcond, "rcond");
    test_tensor_destroy(h, &p->jittered, "jittered");
    test_tensor_destroy(h, &p->backward, "backward");
    test_tensor_destroy(h, &p->refinings, "refinings");
    test_tensor_destroy(h, &p->info, "info");
}

void extra_fill(struct harness *h, struct extra_problem *p, int64_t item, double condition,
                double shift, double scale)
{
    static double a[EXTRA_ORDER * EXTRA_ORDER];
    int64_t n = p->n;

    power_fill(h, n, GEOMETRIC, condition, a);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t row = p->lu ? (i + 1) % n : i; /* exchanged rows: as well conditioned */
            test_put(&p->a.t, item * n * n + i * n + j,
                     scale * (a[row * n + j] + (row == j ? shift : 0)));
        }
}

/* The problem's tensors, in the order of its copies. */
static void list(struct extra_problem *p, struct test_tensor *all[EXTRA_TENSORS])
{
    struct test_tensor *const tensors[EXTRA_TENSORS] = {
        &p->a,        &p->b,         &p->x,    &p->rcond,  &p->jittered,
        &p->backward, &p->refinings, &p->info, &p->factor, &p->pivots,
    };

    for (int i = 0; i < EXTRA_TENSORS; i++)
        all[i] = tensors[i];
}

/* A tensor of the options as the device has it. */
static gram_tensor *copy_of(struct extra_problem *p, const gram_tensor *t)
{
    struct test_tensor *all[EXTRA_TENSORS];

    list(p, all);
    for (int i = 0; i < EXTRA_TENSORS; i++)
        if (t == &all[i]->t)
            return &p->copies[i].t;
    return NULL;
}

static bool send(struct harness *h, struct extra_problem *p)
{
    struct test_tensor *all[EXTRA_TENSORS];
    gram_solve_options *o = &p->there;
    bool there = true;

    list(p, all);
    for (int i = 0; i < EXTRA_TENSORS; i++)
        there = test_send(h, all[i], &p->copies[i]) && there;
    for (int i = 0; i < EXTRA_TENSORS && h->device.type != GRAM_CPU; i++)
        for (int j = 0; j < EXTRA_TENSORS; j++) { /* data that another tensor has */
            ptrdiff_t at = (char *)all[i]->t.data - (char *)all[j]->mapping;
            ptrdiff_t from = (char *)all[i]->t.data - (char *)all[i]->mapping;
            bool own = from >= 0 && from < (ptrdiff_t)all[i]->mapping_bytes;
            if (!own && at >= 0 && at < (ptrdiff_t)all[j]->mapping_bytes)
                p->copies[i].t.data = p->copies[j].t.data;
        }
    *o = p->options;
    o->factor = copy_of(p, o->factor);
    o->pivots = copy_of(p, o->pivots);
    o->rcond = copy_of(p, o->rcond);
    o->jittered = copy_of(p, o->jittered);
    o->backward = copy_of(p, o->backward);
    o->refinings = copy_of(p, o->refinings);
    return there;
}

static void fetch(struct harness *h, struct extra_problem *p)
{
    struct test_tensor *all[EXTRA_TENSORS];

    list(p, all);
    for (int i = 0; i < EXTRA_TENSORS; i++)
        test_fetch(h, all[i], &p->copies[i]);
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct extra_problem *p = problem;
    gram_tensor *a = copy_of(p, &p->a.t), *b = copy_of(p, &p->b.t), *x = copy_of(p, &p->x.t);
    gram_tensor *info = copy_of(p, &p->info.t);

    if (p->lu)
        return need ? gram_solve_lu_workspace(h->g, a, b, &p->there, x, need)
                    : gram_solve_lu(h->g, a, b, &p->there, x, info);
    return need ? gram_solve_cholesky_workspace(h->g, a, b, &p->there, x, need)
                : gram_solve_cholesky(h->g, a, b, &p->there, x, info);
}

gram_status extra_once(struct harness *h, struct extra_problem *p)
{
    gram_status status = GRAM_DEVICE_FAILED;

    if (send(h, p))
        status = call(h, p, NULL);
    CHECK(h, status != GRAM_OK || gram_context_synchronize(h->g) == GRAM_OK, "%s",
          gram_message(h->g));
    fetch(h, p);
    return status;
}

bool extra_run(struct harness *h, struct extra_problem *p)
{
    bool ran = send(h, p) && test_in_exact_scratch(h, call, p);

    fetch(h, p);
    return ran;
}

void extra_copy(const struct extra_problem *p, int64_t item, double s, double *a, double *b,
                double *x)
{
    int64_t n = p->n;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            bool read = p->lu || (p->options.uplo == GRAM_LOWER ? i >= j : i <= j);
            int64_t at = read ? i * n + j : j * n + i;
            a[i * n + j] = test_at(&p->a.t, item * n * n + at) + (i == j ? s : 0);
        }
    for (int64_t i = 0; i < n * EXTRA_COLUMNS; i++) {
        b[i] = test_at(&p->b.t, item * n * EXTRA_COLUMNS + i);
        x[i] = test_at(&p->x.t, item * n * EXTRA_COLUMNS + i);
    }
}

void extra_check(struct harness *h, const struct extra_problem *p, int64_t item, double s,
                 double bound)
{
    static double a[EXTRA_ORDER * EXTRA_ORDER], b[EXTRA_ORDER * EXTRA_COLUMNS],
        x[EXTRA_ORDER * EXTRA_COLUMNS];
    double error;

    extra_copy(p, item, s, a, b, x);
    error = reference_solve_residual(p->n, p->n, EXTRA_COLUMNS, a, x, b);
    CHECK(h, error <= bound, "item %lld: residual %g, bound %g", (long long)item, error, bound);
}
