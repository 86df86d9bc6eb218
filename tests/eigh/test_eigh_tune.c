/*
 * test_eigh_tune.c - gram_tune_eigh: which driver wins, where it is kept, what it serves
 *
 * A backend stands in that takes as long as a table says, by a clock of its own.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/scratch.h"
#include "cpu/cpu.h"
#include "eigh/eigh.h"
#include "tests/core/tuned_choice.h"
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    N = 40,
    ITEMS = 6
};

/* ---- The backend ---------------------------------------------------------------------------- */

static struct {
    int64_t now_ns;                       /* work alone takes time */
    int us[GRAM_EIGH_DRIVER_BATCHED + 1]; /* that a driver takes; 0: it does not do it */
    bool gives_up[GRAM_EIGH_DRIVER_BATCHED + 1];
    gram_eigh_driver last;
    gram_status ends; /* calls */
} fake;

/* Instead of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = (time_t)(fake.now_ns / 1000000000),
                             .tv_nsec = (long)(fake.now_ns % 1000000000)};
    return 0;
}

static gram_eigh_driver choice_of(const struct gram_eigh_op *op)
{
    if (op->driver != GRAM_EIGH_DRIVER_AUTO)
        return op->driver;
    return op->tuned > 0 && op->tuned <= GRAM_EIGH_DRIVER_BATCHED && fake.us[op->tuned]
               ? op->tuned
               : GRAM_EIGH_DRIVER_DIVIDE;
}

static gram_status eigh(gram_context *g, const struct gram_eigh_op *op)
{
    if (g->measure) { /* a query says which driver it would be */
        if (op->report)
            op->report->driver = choice_of(op);
        return (gram_status)GRAM_MEASURED;
    }
    fake.last = choice_of(op);
    fake.now_ns += 1000L * fake.us[fake.last];
    if (op->report) {
        op->report->driver = fake.last;
        op->report->dense = fake.gives_up[fake.last];
    }
    return fake.ends == GRAM_OK ? GRAM_OK : gram_fail(g, fake.ends, "the table's");
}

static const struct gram_backend backend = {
    .name = "a table", .machine = cpu_machine, .eigh = eigh};

/* ---- Problems ------------------------------------------------------------------------------- */

static char folder[64];

static void begin(struct harness *h)
{
    memset(&fake, 0, sizeof fake);
    fake.us[GRAM_EIGH_DRIVER_DIVIDE] = 400;
    fake.us[GRAM_EIGH_DRIVER_BISECTION] = 30;
    fake.us[GRAM_EIGH_DRIVER_KRYLOV] = 20;
    fake.gives_up[GRAM_EIGH_DRIVER_KRYLOV] = true;
    snprintf(folder, sizeof folder, "/tmp/gram-cache-XXXXXX");
    CHECK(h, mkdtemp(folder), "mkdtemp");
    h->g->cache_folder = folder;
    h->g->backend = &backend;
    gram_tuned_forget(h->g);
}

static void end(struct harness *h)
{
    char path[128];

    snprintf(path, sizeof path, "%s/kernels-1.db", folder);
    (void)unlink(path);
    CHECK(h, rmdir(folder) == 0, "%s is not empty", folder);
    h->g->backend = &gram_cpu_backend;
    gram_tuned_forget(h->g);
}

/* The k largest pairs of items of order n. */
struct problem {
    double a[ITEMS * N * N], w[ITEMS * N], v[ITEMS * N * N];
    gram_tensor ta, tw, tv;
    gram_eigh_options options;
};

static gram_tensor batched(double *data, int64_t items, int64_t rows, int64_t cols)
{
    gram_tensor t = gram_matrix(data, items, rows * cols, GRAM_F64);

    t.ndim = 3;
    t.shape[1] = rows, t.shape[2] = cols;
    t.stride[1] = cols, t.stride[2] = 1;
    return t;
}

static void fill(struct problem *p, int64_t items, int64_t n, int64_t k)
{
    *p = (struct problem){.options = GRAM_EIGH_OPTIONS_INIT};
    for (int64_t i = 0; i < items * n * n; i++)
        p->a[i] = i % n == i / n % n ? (double)(i % n + 1) : 0;
    p->ta = batched(p->a, items, n, n);
    p->tv = batched(p->v, items, n, k);
    p->tw = gram_matrix(p->w, items, k, GRAM_F64);
    p->options.select = GRAM_EIGH_LARGEST;
    p->options.count = k;
}

static gram_status tune(struct harness *h, struct problem *p, gram_eigh_tuning *result)
{
    return gram_tune_eigh(h->g, &p->ta, &p->options, &p->tw, &p->tv, NULL, result);
}

/* The driver that a call takes, which is the one that a plan names. */
static gram_eigh_driver takes(struct harness *h, struct problem *p, gram_plan_description *d)
{
    gram_plan_description other = {.size = sizeof other};
    gram_plan *plan = NULL;

    d = d ? d : &other;
    *d = (gram_plan_description){.size = sizeof *d};
    CHECK(h, gram_eigh_plan(h->g, &p->ta, &p->options, &p->tw, &p->tv, NULL, &plan) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, plan && gram_plan_describe(plan, d) == GRAM_OK, "%s", gram_message(h->g));
    gram_plan_destroy(plan);
    CHECK(h, gram_eigh(h->g, &p->ta, &p->options, &p->tw, &p->tv, NULL) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, fake.last == d->driver, "driver %d, the plan says %d", (int)fake.last, (int)d->driver);
    return fake.last;
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void the_fastest_is_taken_and_kept(struct harness *h)
{
    static const struct {
        int64_t items, n, k;
        bool same;
    } others[] = {
        {3, 39,  4,  true}, /* 32 to 39 */
        {4, 36,  3,  true}, /* sizes to the next power of two */
        {3, 40,  4, false}, /* another n */
        {5, 36,  4, false}, /* more items */
        {3, 36,  5, false}, /* more pairs */
        {3, 36, 36, false}, /* all of them */
    };
    struct problem p;
    gram_eigh_tuning t = {.size = sizeof t};
    gram_plan_description d;

    begin(h);
    fill(&p, 3, 36, 4);
    CHECK(h, takes(h, &p, &d) == GRAM_EIGH_DRIVER_DIVIDE && d.time_source == GRAM_TIME_ESTIMATED,
          "source %d", (int)d.time_source);
    CHECK(h, tune(h, &p, &t) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, t.driver == GRAM_EIGH_DRIVER_BISECTION && t.table_driver == GRAM_EIGH_DRIVER_DIVIDE,
          "%d, the table has %d", (int)t.driver, (int)t.table_driver);
    CHECK(h, t.candidates == 2 && t.kept, "%d candidates, kept %d", t.candidates, t.kept);
    CHECK(h,
          fabs(t.driver_seconds[GRAM_EIGH_DRIVER_BISECTION] - 30e-6) < 1e-9 &&
              fabs(t.driver_seconds[GRAM_EIGH_DRIVER_DIVIDE] - 400e-6) < 1e-9 &&
              isnan(t.driver_seconds[GRAM_EIGH_DRIVER_KRYLOV]) && isnan(t.driver_seconds[0]) &&
              isnan(t.driver_seconds[15]),
          "%g and %g s", t.driver_seconds[4], t.driver_seconds[3]);
    for (int process = 0; process < 2; process++) {
        CHECK(h, takes(h, &p, &d) == GRAM_EIGH_DRIVER_BISECTION, "it is not taken");
        CHECK(h, d.time_source == GRAM_TIME_MEASURED && fabs(d.seconds - 30e-6) < 1e-8, "%g s, %d",
              d.seconds, (int)d.time_source);
        CHECK(h, strstr(d.text, "time: 0.03 ms, measured"), "%s", d.text);
        for (int i = 0; i < LENGTH(others); i++) {
            fill(&p, others[i].items, others[i].n, others[i].k);
            CHECK(h, (takes(h, &p, NULL) == GRAM_EIGH_DRIVER_BISECTION) == others[i].same,
                  "sizes %d", i);
        }
        fill(&p, 3, 36, 4);
        p.options.select = GRAM_EIGH_INDEX, p.options.first = 2;
        CHECK(h, takes(h, &p, NULL) == GRAM_EIGH_DRIVER_DIVIDE, "taken inside of the spectrum");
        p.options.first = 0;
        CHECK(h, takes(h, &p, NULL) == GRAM_EIGH_DRIVER_BISECTION, "not taken at the other end");
        p.options.driver = GRAM_EIGH_DRIVER_JACOBI;
        CHECK(h, takes(h, &p, &d) == GRAM_EIGH_DRIVER_JACOBI && d.time_source != GRAM_TIME_MEASURED,
              "a driver is given");
        fill(&p, 3, 36, 4);
        gram_tuned_forget(h->g); /* as another process begins */
    }
    CHECK(h, gram_eigh(h->g, &p.ta, NULL, &p.tw, &p.tv, NULL) == GRAM_INVALID_ARGUMENT, "shapes");
    gram_tuned_clear(h->g);
    CHECK(h, takes(h, &p, NULL) == GRAM_EIGH_DRIVER_DIVIDE, "it cannot be removed");
    end(h);
}

static void a_plan_keeps_its_driver(struct harness *h)
{
    struct problem p;
    gram_eigh_tuning t = {.size = sizeof t};
    gram_plan *plan = NULL;

    begin(h);
    fill(&p, 3, 36, 4);
    CHECK(h, gram_eigh_plan(h->g, &p.ta, &p.options, &p.tw, &p.tv, NULL, &plan) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, tune(h, &p, &t) == GRAM_OK && t.driver == GRAM_EIGH_DRIVER_BISECTION, "%s",
          gram_message(h->g));
    CHECK(h, plan && gram_plan_execute(plan) == GRAM_OK && fake.last == GRAM_EIGH_DRIVER_DIVIDE,
          "driver %d", (int)fake.last);
    gram_plan_destroy(plan);
    end(h);
}

static void the_table_stays_where_nothing_is_faster(struct harness *h)
{
    struct problem p;
    gram_eigh_tuning t = {.size = sizeof t};

    begin(h);
    fill(&p, 3, 36, 4);
    fake.us[GRAM_EIGH_DRIVER_BISECTION] = 396; /* noise */
    CHECK(h, tune(h, &p, &t) == GRAM_OK && t.driver == GRAM_EIGH_DRIVER_DIVIDE, "driver %d",
          (int)t.driver);
    CHECK(h, takes(h, &p, NULL) == GRAM_EIGH_DRIVER_DIVIDE, "driver %d", (int)fake.last);
    fake.gives_up[GRAM_EIGH_DRIVER_DIVIDE] = true; /* as block Lanczos may */
    CHECK(h, tune(h, &p, &t) == GRAM_OK && t.driver == GRAM_EIGH_DRIVER_BISECTION, "driver %d",
          (int)t.driver);
    end(h);
}

static void without_a_cache_the_process_keeps_it(struct harness *h)
{
    struct problem p;
    gram_eigh_tuning t = {.size = sizeof t};

    begin(h);
    fill(&p, 3, 36, 4);
    h->g->cache_folder = "/proc/nowhere";
    CHECK(h, tune(h, &p, &t) == GRAM_OK && !t.kept, "kept %d", t.kept);
    CHECK(h, takes(h, &p, NULL) == GRAM_EIGH_DRIVER_BISECTION, "driver %d", (int)fake.last);
    gram_tuned_forget(h->g);
    CHECK(h, takes(h, &p, NULL) == GRAM_EIGH_DRIVER_DIVIDE, "driver %d", (int)fake.last);
    end(h);
}

/* What stands in the file is not trusted: the CPU takes what does the problem, else its own. */
static void choices_that_are_none(struct harness *h)
{
    static const struct {
        long long choice;
        gram_eigh_driver driver;
    } rows[] = {
        {               (1LL << 40) | 3,    GRAM_EIGH_DRIVER_DIVIDE},
        {               (1LL << 40) | 5,    GRAM_EIGH_DRIVER_KRYLOV},
        {               (1LL << 40) | 1, GRAM_EIGH_DRIVER_BISECTION}, /* not for n = 36 */
        {               (1LL << 40) | 2, GRAM_EIGH_DRIVER_BISECTION},
        {               (1LL << 40) | 6, GRAM_EIGH_DRIVER_BISECTION}, /* of CUDA */
        {              (1LL << 40) | 15, GRAM_EIGH_DRIVER_BISECTION},
        {                            -1, GRAM_EIGH_DRIVER_BISECTION},
        {(long long)0x8000000000000000u, GRAM_EIGH_DRIVER_BISECTION},
    };
    struct problem p;
    gram_eigh_tuning t = {.size = sizeof t};
    gram_eigh_report report = {.size = sizeof report};

    begin(h);
    fill(&p, 3, 36, 4);
    CHECK(h, tune(h, &p, &t) == GRAM_OK, "%s", gram_message(h->g));
    h->g->backend = &gram_cpu_backend;
    p.options.report = &report;
    for (int i = 0; i < LENGTH(rows); i++) {
        tuned_choice(h, rows[i].choice);
        CHECK(h, gram_eigh(h->g, &p.ta, &p.options, &p.tw, &p.tv, NULL) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, report.driver == rows[i].driver, "row %d: driver %d", i, (int)report.driver);
        CHECK(h, fabs(p.w[3] - 36) < 1e-9 && fabs(p.w[0] - 33) < 1e-9, "values %g to %g", p.w[0],
              p.w[3]);
    }
    end(h);
}

static void what_cannot_be_tuned(struct harness *h)
{
    struct problem p;
    gram_eigh_tuning t = {.size = sizeof t, .candidates = 77};

    begin(h);
    fill(&p, 3, 36, 4);
    CHECK(h, tune(h, &p, NULL) == GRAM_INVALID_ARGUMENT, "NULL");
    t.size++;
    CHECK(h,
          tune(h, &p, &t) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "gram_tune_eigh: result.size"),
          "%s", gram_message(h->g));
    t.size = sizeof t;
    p.options.driver = GRAM_EIGH_DRIVER_DIVIDE;
    CHECK(h,
          tune(h, &p, &t) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "options.driver is 3"),
          "%s", gram_message(h->g));
    fill(&p, 3, 36, 36);
    CHECK(h,
          gram_tune_eigh(h->g, &p.ta, &p.options, &p.tw, &p.ta, NULL, &t) == GRAM_INVALID_ARGUMENT,
          "in place");
    fill(&p, 0, 36, 4);
    CHECK(h, tune(h, &p, &t) == GRAM_INVALID_ARGUMENT, "no items");
    fill(&p, 3, 0, 0);
    CHECK(h, tune(h, &p, &t) == GRAM_INVALID_ARGUMENT, "no rows");
    fill(&p, 3, 36, 4);
    p.tw.shape[1] = 3;
    CHECK(h, tune(h, &p, &t) == GRAM_INVALID_ARGUMENT, "another shape of values");
    fill(&p, 3, 36, 4);
    fake.ends = GRAM_NUMERICAL;
    CHECK(h, tune(h, &p, &t) == GRAM_NUMERICAL, "%s", gram_message(h->g));
    CHECK(h, t.candidates == 77, "an error wrote");
    CHECK(h, rmdir(folder) == 0 && mkdtemp(strcpy(folder, "/tmp/gram-cache-XXXXXX")),
          "something was kept");
    end(h);
}

static const struct test_function tests[] = {
    {          "the_fastest_is_taken_and_kept",           the_fastest_is_taken_and_kept},
    {                "a_plan_keeps_its_driver",                 a_plan_keeps_its_driver},
    {"the_table_stays_where_nothing_is_faster", the_table_stays_where_nothing_is_faster},
    {   "without_a_cache_the_process_keeps_it",    without_a_cache_the_process_keeps_it},
    {                  "choices_that_are_none",                   choices_that_are_none},
    {                   "what_cannot_be_tuned",                    what_cannot_be_tuned},
};

int main(void)
{
    void *sqlite = dlopen("libsqlite3.so.0", RTLD_NOW);

    if (!sqlite)
        return 77; /* nothing can be kept */
    return harness_run_tests(tests, LENGTH(tests));
}
