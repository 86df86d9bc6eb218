/*
 * harness_bench.c - `gram check` and `gram bench`: one problem checked, then timed
 *
 * Times are of whole calls after one call that warmed caches, threads and scratch memory up and
 * whose answer was checked: at least 5 calls and at least so many seconds as asked for.  On a GPU a
 * call ends when its work there is done.
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness_problem.h"
#include "harness_roof.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_REPEATS = 5,
    MOST_REPEATS = 100000,
};

/* ---- gram check --------------------------------------------------------------------------- */

/* Opens a problem and runs it once; HARNESS_RIGHT with its error over the bound. */
static int first_run(struct harness *h, const struct request *r, struct problem *problem,
                     double *error)
{
    int opened = problem_open(h, r, problem);
    gram_status status;

    if (opened != HARNESS_RIGHT)
        return opened;
    status = problem_run(h, problem);
    if (status != GRAM_OK) {
        problem_close(h, problem);
        return problem_status(status);
    }
    *error = problem_error(h, problem);
    if (!h->no_memory)
        return HARNESS_RIGHT;
    problem_close(h, problem);
    return HARNESS_NO_MEMORY;
}

struct checking {
    const struct request *request;
    int status;
};

static void check_problem(struct harness *h, void *arg)
{
    struct checking *c = arg;
    struct problem problem;
    double error = 0;
    int status = first_run(h, c->request, &problem, &error);

    if (status == HARNESS_RIGHT) {
        bool right = error <= 1;
        request_print(c->request, stdout);
        printf(": %s on %s, error %.3g of its bound\n", right ? "right" : "WRONG", h->isa, error);
        problem_close(h, &problem);
        status = right ? HARNESS_RIGHT : HARNESS_WRONG;
    }
    c->status = status > c->status ? status : c->status;
}

static int check_request(const struct request *r, void *arg)
{
    struct checking c = {.request = r};
    int failures;

    if (r->op->compare)
        return r->op->compare(&r->args, arg);
    failures = harness_each_isa(arg, check_problem, &c);
    if (failures < 0)
        return failures == -2 ? HARNESS_NO_MEMORY : HARNESS_USAGE;
    return c.status == HARNESS_RIGHT && failures > 0 ? HARNESS_WRONG : c.status;
}

static int check_table(const struct case_op *op, const struct harness_options *options)
{
    struct harness_count count = {0};

    if (!harness_run_table(op, -1, options, &count))
        return count.no_memory ? HARNESS_NO_MEMORY : HARNESS_USAGE;
    printf("%s: %d rows, %d runs, %d failed\n", op->name, op->rows, count.passed + count.failed,
           count.failed);
    return count.failed > 0 || count.passed == 0 ? HARNESS_WRONG : HARNESS_RIGHT;
}

int harness_main_check(int argc, char *const *argv, const struct harness_options *options)
{
    struct harness_options copy = *options;
    const struct case_op *op;
    int worst = HARNESS_RIGHT;

    if (argc > 1)
        return request_each(argc, argv, check_request, &copy);
    if (argc == 1) {
        op = request_op(argv[0]);
        return op ? check_table(op, options) : HARNESS_USAGE;
    }
    for (int i = 0; harness_ops[i]; i++) {
        int status = check_table(harness_ops[i], options);
        worst = status > worst ? status : worst;
    }
    return worst;
}

/* ---- gram bench --------------------------------------------------------------------------- */

struct measurement {
    double *seconds; /* sorted */
    int count, room;
    double error; /* of the first run, over its bound */
    struct roof roof;
    char device[16]; /* "cpu" or "cuda:1" */
};

static bool keep(struct measurement *m, double seconds)
{
    if (m->count == m->room) {
        int room = m->room ? 2 * m->room : 64;
        double *more = realloc(m->seconds, (size_t)room * sizeof *more);
        if (!more)
            return false;
        m->seconds = more;
        m->room = room;
    }
    m->seconds[m->count++] = seconds;
    return true;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static gram_status time_problem(struct harness *h, struct problem *problem, double least,
                                struct measurement *m)
{
    double total = 0;

    while (m->count < LEAST_REPEATS || (total < least && m->count < MOST_REPEATS)) {
        double start = harness_seconds(), seconds;
        gram_status status = problem_run(h, problem);
        seconds = harness_seconds() - start;
        if (status != GRAM_OK)
            return status;
        total += seconds;
        if (!keep(m, seconds)) {
            fprintf(stderr, "no memory for the times\n");
            return GRAM_OUT_OF_MEMORY;
        }
    }
    qsort(m->seconds, (size_t)m->count, sizeof *m->seconds, ascending);
    return GRAM_OK;
}

static double median(const struct measurement *m)
{
    int half = m->count / 2;

    if (!m->seconds) /* never, but the analyser cannot see it */
        return 0;
    return m->count % 2 ? m->seconds[half] : (m->seconds[half - 1] + m->seconds[half]) / 2;
}

int harness_time(struct harness *h, const struct case_problem *problem, double least,
                 double *median_seconds)
{
    struct problem timed = {.made = *problem};
    struct measurement m = {.device = "cpu"};
    int status = problem_status(time_problem(h, &timed, least, &m));

    if (status == HARNESS_RIGHT)
        *median_seconds = median(&m);
    free(m.seconds);
    return status;
}

/* Multiply-adds that the work would be if every unit was one; a flop is half of one. */
static double fma_share(const struct case_problem *p, const struct measurement *m)
{
    double work = p->unit && strcmp(p->unit, "flop") == 0 ? p->work / 2 : p->work;

    return work / median(m) / m->roof.fma;
}

static void print_text(const struct harness *h, const struct request *r,
                       const struct case_problem *p, const struct measurement *m)
{
    const char *where = h->device.type == GRAM_CPU ? "machine" : "device";
    double s = median(m);

    request_print(r, stdout);
    printf("\n  %s: error %.3g of its bound; ", m->error <= 1 ? "right" : "WRONG", m->error);
    if (h->device.type == GRAM_CPU)
        printf("%s, %d threads\n", h->isa, h->threads);
    else
        printf("%s\n", m->device);
    printf("  %.6g s median, %.6g least, %.6g most of %d calls\n", s, m->seconds[0],
           m->seconds[m->count - 1], m->count);
    if (p->work > 0) {
        printf("  %.4g %s/s, %.4g ns each", p->work / s, p->unit, s / p->work * 1e9);
        if (m->roof.fma > 0)
            printf(": %.0f %% of this %s's %.4g multiply-adds/s", 100 * fma_share(p, m), where,
                   m->roof.fma);
        printf("\n");
    }
    if (p->bytes > 0) {
        printf("  %.4g GB/s", p->bytes / s * 1e-9);
        if (m->roof.memory > 0)
            printf(": %.0f %% of this %s's %.4g GB/s for so many bytes",
                   100 * p->bytes / s / m->roof.memory, where, m->roof.memory * 1e-9);
        printf("\n");
    }
}

static void print_json_sizes(const struct request *r)
{
    const char *name = r->op->sizes;

    printf("\"sizes\": {");
    for (int i = 0; i < r->size_count; i++) {
        size_t length;
        name += strspn(name, " ");
        length = strcspn(name, " ");
        printf("%s\"%.*s\": %lld", i ? ", " : "", (int)length, name, (long long)r->sizes[i]);
        name += length;
    }
    printf("}, \"params\": {");
    for (int i = 0; r->params[i]; i++) {
        size_t length = strcspn(r->params[i], "=");
        printf("%s\"%.*s\": \"", i ? ", " : "", (int)length, r->params[i]);
        for (const char *c = r->params[i] + length + 1; *c; c++)
            printf((*c == '"' || *c == '\\') ? "\\%c" : (unsigned char)*c < 32 ? "?" : "%c", *c);
        printf("\"");
    }
    printf("}");
}

/* JSON has no infinity and no NaN. */
static void print_json_number(const char *name, double value)
{
    if (isfinite(value))
        printf(", \"%s\": %.9g", name, value);
    else
        printf(", \"%s\": null", name);
}

/* One object a line. */
static void print_json(const struct harness *h, const struct request *r,
                       const struct case_problem *p, const struct measurement *m)
{
    double s = median(m);

    printf("{\"op\": \"%s\", ", r->op->name);
    print_json_sizes(r);
    print_json_number("seconds", s);
    print_json_number("seconds_min", m->seconds[0]);
    print_json_number("seconds_max", m->seconds[m->count - 1]);
    printf(", \"repeats\": %d, \"checked\": %s", m->count, m->error <= 1 ? "true" : "false");
    print_json_number("error", m->error);
    printf(", \"device\": \"%s\", \"isa\": \"%s\", \"threads\": %d", m->device, h->isa, h->threads);
    if (p->work > 0) {
        printf(", \"unit\": \"%s\"", p->unit);
        print_json_number("work", p->work);
        print_json_number("work_per_second", p->work / s);
        if (m->roof.fma > 0)
            print_json_number("fma_roof_share", fma_share(p, m));
    }
    if (p->bytes > 0) {
        print_json_number("bytes_per_second", p->bytes / s);
        if (m->roof.memory > 0)
            print_json_number("memory_roof_share", p->bytes / s / m->roof.memory);
    }
    if (m->roof.fma > 0)
        print_json_number("fma_roof", m->roof.fma);
    if (m->roof.memory > 0)
        print_json_number("memory_roof", m->roof.memory);
    printf(", \"version\": \"%s\"}\n", gram_version());
}

static int bench_request(const struct request *r, void *arg)
{
    const struct harness_options *options = arg;
    struct measurement m = {.device = "cpu"};
    struct problem problem;
    struct harness h;
    gram_status timed;
    int status;

    if (r->op->bench)
        return r->op->bench(&r->args, options);
    if (!harness_open(&h, options, options->isa))
        return h.no_memory ? HARNESS_NO_MEMORY : HARNESS_USAGE;
    status = first_run(&h, r, &problem, &m.error);
    if (status == HARNESS_RIGHT) {
        m.roof = roof_measure(&h, r->args.dtype, problem.made.bytes);
        if (h.device.type != GRAM_CPU)
            snprintf(m.device, sizeof m.device, "cuda:%d", (int)h.device.index);
        timed = time_problem(&h, &problem, options->seconds > 0 ? options->seconds : 0.5, &m);
        status = problem_status(timed);
        if (timed == GRAM_OK) {
            (options->json ? print_json : print_text)(&h, r, &problem.made, &m);
            status = m.error <= 1 ? HARNESS_RIGHT : HARNESS_WRONG;
        }
        problem_close(&h, &problem);
    }
    free(m.seconds);
    harness_close(&h);
    return status;
}

int harness_main_bench(int argc, char *const *argv, const struct harness_options *options)
{
    struct harness_options copy = *options;

    return request_each(argc, argv, bench_request, &copy);
}
