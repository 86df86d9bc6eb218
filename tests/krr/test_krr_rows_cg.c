/*
 * test_krr_rows_cg.c - conjugate gradients with points that are read in blocks, against x in memory
 *
 * GRAM_TEST_DEVICE is as in run_cases.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "tests/core/scratch_folder.h"
#include "tests/krr/krr_numbers.h"
#include <math.h>
#include <string.h>

enum {
    N = 600, /* rows, of which a block has 256 in the least memory */
    WIDTH = 3,
    COLUMNS = 2,
    BLOCKS = 3
};

struct source {
    const void *x;
    gram_dtype dtype;
    int fails, calls; /* fails: at this call; 0: never */
    int64_t read;     /* rows */
    gram_context *cancels;
};

static int read_rows(void *user, int64_t first, int64_t count, void *out,
                     char message[GRAM_ROWS_MESSAGE])
{
    struct source *s = user;
    const size_t row = WIDTH * gram_dtype_size(s->dtype);

    if (++s->calls == s->fails && s->cancels)
        gram_context_cancel(s->cancels);
    else if (s->calls == s->fails) {
        (void)snprintf(message, GRAM_ROWS_MESSAGE, "the cable is out");
        return 1;
    }
    s->read += count;
    memcpy(out, (const char *)s->x + (size_t)first * row, (size_t)count * row);
    return 0;
}

struct call {
    gram_dtype dtype;
    double x[N * WIDTH], y[N * COLUMNS], weights[N], alpha[N * COLUMNS];
    bool weighted;
    gram_kernel_options kernel;
    gram_krr_options options;
    gram_krr_report report;
    struct source source;
    gram_rows rows;
    char path[SCRATCH_BYTES];
};

static void call_open(struct call *c, gram_dtype dtype)
{
    memset(c, 0, sizeof *c);
    c->dtype = dtype;
    fill_numbers(dtype, 7, N, (int64_t[2]){WIDTH, COLUMNS}, c->x, c->y, c->weights);
    c->kernel = gram_gaussian(1);
    c->options = (gram_krr_options)GRAM_KRR_OPTIONS_INIT;
    c->options.ridge = 0.1;
    c->options.tolerance = dtype == GRAM_F32 ? 1e-4 : 1e-9;
    c->options.memory = 1;
    c->source = (struct source){.x = c->x, .dtype = dtype};
    c->rows = (gram_rows)GRAM_ROWS_INIT;
    c->rows.rows = N;
    c->rows.columns = WIDTH;
    c->rows.dtype = dtype;
    c->rows.read = read_rows;
}

/* By rows, or with x. */
static gram_status run(struct harness *h, struct call *c, bool by_rows)
{
    const int64_t n = c->rows.rows;
    gram_tensor x = gram_matrix(c->x, n, WIDTH, c->dtype);
    gram_tensor y = gram_matrix(c->y, n, COLUMNS, c->dtype);
    gram_tensor alpha = gram_matrix(c->alpha, n, COLUMNS, c->dtype);
    gram_tensor weights = gram_vector(c->weights, n, c->dtype);
    gram_tensor *const all[] = {&x, &y, &alpha, &weights};
    const size_t bytes[] = {sizeof c->x, sizeof c->y, sizeof c->alpha, sizeof c->weights};
    gram_krr_options options = c->options;
    gram_status status;

    c->rows.user = &c->source;
    c->report = (gram_krr_report){.size = sizeof c->report};
    options.report = &c->report;
    options.weights = c->weighted ? &weights : NULL;
    options.rows = by_rows ? &c->rows : NULL;
    for (int i = 0; i < LENGTH(all) && h->device.type != GRAM_CPU; i++)
        upload(h, all[i], bytes[i]);
    status = gram_krr_solve(h->g, by_rows ? NULL : &x, &c->kernel, &y, &options, &alpha);
    if (h->device.type == GRAM_CPU)
        return status;
    if (!device_download(c->alpha, alpha.data, sizeof c->alpha))
        abort();
    for (int i = 0; i < LENGTH(all); i++)
        gram_memory_free(h->g, all[i]->data, bytes[i]);
    return status;
}

static void check_same(struct harness *h, const struct call *c, const struct call *other,
                       const char *what)
{
    const double bound = c->dtype == GRAM_F32 ? 2e-3 : 1e-7;
    double most = 0, change = 0;

    for (int64_t i = 0; i < N * COLUMNS; i++) {
        const double one = get_number(c->dtype, c->alpha, i);

        most = fmax(most, fabs(one));
        change = fmax(change, fabs(one - get_number(c->dtype, other->alpha, i)));
    }
    CHECK(h, change <= bound * most, "%s: alpha changes by %g of %g", what, change, most);
}

static void rows_are_as_good_as_x(struct harness *h)
{
    static const char *const what[] = {"no preconditioner", "a rank", "weights",
                                       "a kernel of sums"};
    static struct call c, whole;

    for (int f32 = 0; f32 < 2; f32++)
        for (int i = 0; i < LENGTH(what); i++) {
            call_open(&c, f32 ? GRAM_F32 : GRAM_F64);
            c.options.rank = i == 0 ? -1 : 100;
            c.weighted = i == 2;
            if (i == 3)
                c.kernel.function = GRAM_LAPLACE;
            whole = c;
            whole.options.method = GRAM_KRR_CG;
            CHECK(h, run(h, &whole, false) == GRAM_OK && run(h, &c, true) == GRAM_OK, "%s: %s",
                  what[i], gram_message(h->g));
            CHECK(h,
                  c.report.method == GRAM_KRR_CG && c.report.reached &&
                      c.report.rank == whole.report.rank &&
                      llabs((long long)(c.report.products - whole.report.products)) <= 2,
                  "%s: rank %lld, %lld products; with x rank %lld, %lld", what[i],
                  (long long)c.report.rank, (long long)c.report.products,
                  (long long)whole.report.rank, (long long)whole.report.products);
            check_same(h, &c, &whole, what[i]);
        }
}

/* Once for the diagonal; a product takes each pair of blocks once, and columns of K all rows. */
static void rows_are_read_as_often_as_is_said(struct harness *h)
{
    static struct call c;
    int64_t product = N + (N - 256) + (N - 512); /* BLOCKS of 256, 256 and 88 */

    call_open(&c, GRAM_F64);
    c.options.rank = -1;
    CHECK(h, run(h, &c, true) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, c.source.read == N + product * c.report.products, "%lld rows for %lld products",
          (long long)c.source.read, (long long)c.report.products);
    call_open(&c, GRAM_F64);
    c.options.memory = 0; /* one block */
    c.options.rank = 100;
    CHECK(h, run(h, &c, true) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, c.source.read == N + 100 + N + N * c.report.products,
          "%lld rows for %lld products, and columns", (long long)c.source.read,
          (long long)c.report.products);
}

/* A file of one goes on with the other. */
static void a_checkpoint_serves_both(struct harness *h)
{
    static struct call whole, c;

    call_open(&whole, GRAM_F64);
    whole.options.rank = 100;
    CHECK(h, run(h, &whole, true) == GRAM_OK, "%s", gram_message(h->g));
    for (int first = 0; first < 2; first++) {
        gram_status status;

        call_open(&c, GRAM_F64);
        c.options.rank = 100;
        c.options.method = GRAM_KRR_CG;
        c.options.checkpoint = scratch_path("checkpoint", c.path);
        c.options.products = whole.report.products / 2 + 2;
        status = run(h, &c, first);
        CHECK(h, status == GRAM_NUMERICAL && c.report.end == GRAM_KRR_PRODUCTS, "%s: %s",
              gram_status_name(status), gram_message(h->g));
        c.options.products = 0;
        c.options.resume = 1;
        CHECK(h, run(h, &c, !first) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, c.report.products <= whole.report.products + 6, "%lld products",
              (long long)c.report.products);
        check_same(h, &c, &whole, "gone on");
        (void)remove(c.path);
    }
}

/* Wherever in the solve that is. */
static void what_cannot_be_read_is_said(struct harness *h)
{
    static struct call c;

    call_open(&c, GRAM_F64);
    c.options.rank = 50;
    CHECK(h, run(h, &c, true) == GRAM_OK, "%s", gram_message(h->g));
    for (int at = 1, last = c.source.calls; at <= last; at += 13) {
        gram_status status;

        for (int cancels = 0; cancels < 2; cancels++) {
            call_open(&c, GRAM_F64);
            c.options.rank = 50;
            c.source.fails = at;
            c.source.cancels = cancels ? h->g : NULL;
            status = run(h, &c, true);
            CHECK(h,
                  status == (cancels ? GRAM_CANCELLED : GRAM_IO) &&
                      (cancels || strstr(gram_message(h->g), "the cable is out")),
                  "call %d: %s, %s", at, gram_status_name(status), gram_message(h->g));
        }
    }
}

static void what_is_refused_and_nothing(struct harness *h)
{
    static struct call c;
    gram_status status;

    call_open(&c, GRAM_F64);
    c.options.method = GRAM_KRR_CHOLESKY;
    status = run(h, &c, true);
    CHECK(h,
          status == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "options.rows is given, but options.method is 1"),
          "%s: %s", gram_status_name(status), gram_message(h->g));
    call_open(&c, GRAM_F64);
    set_number(c.dtype, c.x, 300 * WIDTH + 1, NAN);
    status = run(h, &c, true);
    CHECK(h, status == GRAM_INVALID_ARGUMENT && strstr(gram_message(h->g), "x[300, 1] is nan"),
          "%s: %s", gram_status_name(status), gram_message(h->g));
    call_open(&c, GRAM_F64);
    c.rows.rows = 0;
    CHECK(h, run(h, &c, true) == GRAM_OK && c.report.products == 0, "%s", gram_message(h->g));
}

static const struct test_function tests[] = {
    {            "rows_are_as_good_as_x",             rows_are_as_good_as_x},
    {"rows_are_read_as_often_as_is_said", rows_are_read_as_often_as_is_said},
    {         "a_checkpoint_serves_both",          a_checkpoint_serves_both},
    {      "what_cannot_be_read_is_said",       what_cannot_be_read_is_said},
    {      "what_is_refused_and_nothing",       what_is_refused_and_nothing},
};

int main(void)
{
    return scratch_run_tests(tests, LENGTH(tests));
}
