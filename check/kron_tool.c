/*
 * kron_tool.c - `gram check|bench|profile kron M P[xQ]...`: all variants of kron_variants.h side by
 * side
 *
 * gram runs on each instruction set of the machine, and on a GPU that is asked for, as variants of
 * their own.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness_args.h"
#include "check/harness/harness_roof.h"
#include "kron_device.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_RUNS = 8 /* variants, and instruction sets of the last one */
};

struct run {
    char name[32];
    struct kron_result result;
};

struct comparison {
    const struct case_args *args;
    const struct harness_options *options;
    const struct kron_problem *problem;
    const struct kron_variant *variant; /* the one that harness_each_isa is to run */
    struct run run[MOST_RUNS];
    int runs, status;
    const char *roof_isa[MOST_RUNS]; /* of the processor, or "cuda" */
    double roof[MOST_RUNS];          /* flop a second that arithmetic and memory allow there */
};

static int status_of(gram_status status)
{
    return status == GRAM_OUT_OF_MEMORY ? HARNESS_NO_MEMORY : HARNESS_WRONG;
}

/* ---- gram check ---------------------------------------------------------------------------- */

/* One variant, in the context of h. */
static void run_variant(struct harness *h, void *arg)
{
    struct comparison *c = arg;
    struct run *run = &c->run[c->runs];
    gram_status status, back;
    struct kron_device t;

    if (c->runs == MOST_RUNS || !kron_result_open(c->problem, &run->result)) {
        (void)harness_no_memory(h, "a result");
        c->status = HARNESS_NO_MEMORY;
        return;
    }
    snprintf(run->name, sizeof run->name, "%s%s%s", c->variant->name,
             strcmp(c->variant->name, "gram") == 0 ? " " : "",
             strcmp(c->variant->name, "gram") == 0 ? h->isa : "");
    c->runs++;
    status = kron_send(h, c->problem, &run->result, &t);
    if (status == GRAM_OK)
        status = c->variant->forward(h->g, &t.problem, &t.result);
    if (status == GRAM_OK && c->problem->gradients)
        status = c->variant->backward(h->g, &t.problem, &t.result);
    back = kron_fetch(h, &t, &run->result);
    status = status == GRAM_OK ? back : status;
    if (status == GRAM_OK)
        return;
    fprintf(stderr, "%s: %s\n", run->name, gram_message(h->g));
    c->status = status_of(status);
}

static double norm(const gram_tensor *t)
{
    double sum = 0;

    for (int64_t e = 0; e < test_count(t); e++)
        sum += test_at(t, e) * test_at(t, e);
    return sqrt(sum);
}

/* The name of output i of kron_output: y, grad x, then grad f1, grad f2, ... */
static void output_name(int i, char *name, size_t size)
{
    if (i > 1)
        snprintf(name, size, "grad f%d", i - 1);
    else
        snprintf(name, size, "%s", i == 0 ? "y" : "grad x");
}

static void print_names(const struct comparison *c, int width)
{
    char name[24];

    for (int i = 0; kron_output(c->problem, &c->run[0].result, i); i++) {
        output_name(i, name, sizeof name);
        printf(" %*s", width, name);
    }
    printf("\n");
}

static void print_norms(const struct comparison *c)
{
    printf("%-16s", "norms");
    print_names(c, 12);
    for (int r = 0; r < c->runs; r++) {
        printf("%-16s", c->run[r].name);
        for (int i = 0; kron_output(c->problem, &c->run[r].result, i); i++)
            printf(" %12.6g", norm(kron_output(c->problem, &c->run[r].result, i)));
        printf("\n");
    }
}

/* Whether two runs agree and how far they are apart, for y and for each gradient on its own: a
 * wrong gradient beside a right y is told from a wrong y. */
static void print_pair(struct comparison *c, const struct run *a, const struct run *b)
{
    const double most = kron_tolerance(c->problem);
    const gram_tensor *output;

    printf("%-16s%-16s", a->name, b->name);
    for (int i = 0; (output = kron_output(c->problem, &a->result, i)); i++) {
        double difference = kron_difference(output, kron_output(c->problem, &b->result, i));
        printf("  %-5s %9.3g", difference <= most ? "True" : "False", difference);
        if (!(difference <= most))
            c->status = c->status > HARNESS_WRONG ? c->status : HARNESS_WRONG;
    }
    printf("\n");
}

static void print_agreement(struct comparison *c)
{
    char title[48];

    snprintf(title, sizeof title, "difference (at most %.2g)", kron_tolerance(c->problem));
    printf("%-32s", title);
    print_names(c, 16);
    for (int a = 0; a < c->runs; a++)
        for (int b = a + 1; b < c->runs; b++)
            print_pair(c, &c->run[a], &c->run[b]);
}

static struct harness_options on_cpu(const struct comparison *c)
{
    struct harness_options cpu = *c->options;

    cpu.device = (gram_device){GRAM_CPU, 0};
    return cpu;
}

static void run_once(struct comparison *c, const struct harness_options *options,
                     void (*body)(struct harness *h, void *arg))
{
    struct harness h;

    if (harness_open(&h, options, options->isa)) {
        body(&h, c);
        harness_close(&h);
    } else {
        c->status = h.no_memory ? HARNESS_NO_MEMORY : HARNESS_USAGE;
    }
}

/* Runs a variant in the best context of the CPU, or on each instruction set, and on the GPU. */
static void run_variants(struct comparison *c, void (*body)(struct harness *h, void *arg))
{
    const struct harness_options cpu = on_cpu(c);

    for (int i = 0; kron_variants[i].name && c->status == HARNESS_RIGHT; i++) {
        c->variant = &kron_variants[i];
        if (!c->variant->fits(c->problem)) {
            printf("%-16s too large, left out\n", c->variant->name);
        } else if (strcmp(c->variant->name, "gram") == 0) {
            const int failures = harness_each_isa(&cpu, body, c);
            if (failures < 0)
                c->status = failures == -2 ? HARNESS_NO_MEMORY : HARNESS_USAGE;
            if (c->options->device.type != GRAM_CPU && c->status == HARNESS_RIGHT)
                run_once(c, c->options, body);
        } else {
            run_once(c, &cpu, body);
        }
    }
}

static void print_title(const struct case_args *args, const struct kron_problem *p)
{
    static const char *const names[] = {"?", "f32", "f64", "f16", "bf16", "i32", "i64"};

    printf("kron %lld", (long long)p->m);
    for (int i = 1; i <= p->count; i++)
        printf(" %lldx%lld", (long long)args->sizes[i], (long long)args->widths[i]);
    printf(" %s, factors on the %s\n", names[p->dtype], p->side == GRAM_LEFT ? "left" : "right");
}

static int with_problem(const struct case_args *args, const struct harness_options *options,
                        void (*body)(struct comparison *c))
{
    struct comparison c = {.args = args, .options = options};
    struct kron_problem problem;
    struct harness h = {.where = "kron"};

    harness_seed(&h, "kron", 0);
    if (!kron_problem_open(&h, args, &problem))
        return h.no_memory ? HARNESS_NO_MEMORY : HARNESS_USAGE;
    c.problem = &problem;
    body(&c);
    for (int r = 0; r < c.runs; r++)
        kron_result_close(&c.run[r].result);
    kron_problem_close(&problem);
    return c.status;
}

static void check_body(struct comparison *c)
{
    print_title(c->args, c->problem);
    run_variants(c, run_variant);
    if (c->status != HARNESS_RIGHT)
        return;
    print_norms(c);
    print_agreement(c);
}

int kron_check(const struct case_args *args, const struct harness_options *options)
{
    return with_problem(args, options, check_body);
}

/* ---- One variant as a problem of the harness ------------------------------------------------ */

struct timed {
    struct kron_problem problem;
    const struct kron_problem *at; /* that one, or somebody else's */
    struct kron_result result;
    const struct kron_variant *variant;
    bool forward, backward;
};

static gram_status timed_run(gram_context *g, void *state)
{
    struct timed *t = state;
    gram_status status = GRAM_OK;

    if (t->forward)
        status = t->variant->forward(g, t->at, &t->result);
    if (status == GRAM_OK && t->backward)
        status = t->variant->backward(g, t->at, &t->result);
    return status;
}

static void timed_destroy(void *state)
{
    struct timed *t = state;

    kron_result_close(&t->result);
    kron_problem_close(&t->problem);
    free(t);
}

/* kron_check compares; a profile needs a run that ends. */
static double timed_error(struct harness *h, void *state)
{
    const struct timed *t = state;

    (void)h;
    return isfinite(norm(&t->result.y)) ? 0 : INFINITY;
}

bool kron_prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    const char *name = case_param(args, "implementation", "gram");
    struct timed *t = calloc(1, sizeof *t);

    if (!t)
        return harness_no_memory(h, "the problem");
    t->variant = find_kron_variant(name);
    if (!t->variant) {
        fprintf(stderr, "implementation=%s, expected naive, explicit, shuffle or gram\n", name);
        free(t);
        return false;
    }
    if (h->device.type != GRAM_CPU && strcmp(name, "gram") != 0) {
        fprintf(stderr, "implementation=%s computes on the CPU, expected gram on a GPU\n", name);
        free(t);
        return false;
    }
    if (!kron_problem_open(h, args, &t->problem)) {
        free(t);
        return false;
    }
    t->at = &t->problem;
    t->forward = true, t->backward = t->problem.gradients;
    if (!t->variant->fits(t->at)) {
        fprintf(stderr, "the problem is too large for %s\n", name);
        timed_destroy(t);
        return false;
    }
    if (!kron_result_open(t->at, &t->result)) {
        (void)harness_no_memory(h, "the result");
        timed_destroy(t);
        return false;
    }
    *out = (struct case_problem){
        .state = t,
        .run = timed_run,
        .error = timed_error,
        .destroy = timed_destroy,
        .work = t->at->flop,
        .unit = "flop",
        .bytes = t->at->bytes,
    };
    kron_tensors(&t->problem, &t->result, out->tensors);
    return true;
}

/* ---- gram bench ---------------------------------------------------------------------------- */

static double roof_of(const struct kron_problem *p, const struct roof *roof)
{
    double arithmetic = 2 * roof->fma;

    return p->bytes > 0 ? fmin(arithmetic, roof->memory * p->flop / p->bytes) : arithmetic;
}

static double seconds_of(struct harness *h, struct comparison *c, struct timed *t, bool backward)
{
    const struct case_problem problem = {.state = t, .run = timed_run};
    double seconds = 0;
    int status;

    t->forward = !backward, t->backward = backward;
    status =
        harness_time(h, &problem, c->options->seconds > 0 ? c->options->seconds : 0.5, &seconds);
    c->status = status > c->status ? status : c->status;
    return seconds;
}

static void print_time(const struct comparison *c, const char *name, double roof,
                       const double seconds[2])
{
    double forward = seconds[0], backward = seconds[1];
    double rate = forward > 0 ? c->problem->flop / forward : 0;

    if (c->options->json) {
        printf(
            "{\"op\": \"kron\", \"implementation\": \"%s\", \"seconds\": %.9g, "
            "\"flop_per_second\": %.9g",
            name, forward, rate);
        if (roof > 0)
            printf(", \"roof_share\": %.9g", rate / roof);
        if (c->problem->gradients)
            printf(", \"backward_seconds\": %.9g", backward);
        printf(", \"version\": \"%s\"}\n", gram_version());
        return;
    }
    printf("%-16s %12.1f %10.2f", name, forward * 1e6, rate * 1e-9);
    if (roof > 0)
        printf(" %8.0f %%", 100 * rate / roof);
    else
        printf(" %10s", "");
    if (c->problem->gradients)
        printf(" %12.1f %10.2f x", backward * 1e6, forward > 0 ? backward / forward : 0);
    printf("\n");
}

/* The roof of where a variant runs: measured once for each. */
static double measured_roof(struct harness *h, struct comparison *c)
{
    int place = 0;

    while (place < MOST_RUNS - 1 && c->roof_isa[place] && strcmp(c->roof_isa[place], h->isa) != 0)
        place++;
    if (!c->roof_isa[place] || strcmp(c->roof_isa[place], h->isa) != 0) {
        struct roof roof = roof_measure(h, c->problem->dtype, c->problem->bytes);
        c->roof_isa[place] = h->isa;
        c->roof[place] = roof_of(c->problem, &roof);
    }
    return c->roof[place];
}

static void time_variant(struct harness *h, void *arg)
{
    struct comparison *c = arg;
    struct timed t = {.variant = c->variant, .forward = true};
    bool is_gram = strcmp(c->variant->name, "gram") == 0;
    struct kron_result result;
    struct kron_device there;
    double forward = 0, backward = 0;
    gram_status status;
    char name[32];

    if (c->status != HARNESS_RIGHT)
        return;
    if (!kron_result_open(c->problem, &result)) {
        (void)harness_no_memory(h, "a result");
        c->status = HARNESS_NO_MEMORY;
        return;
    }
    snprintf(name, sizeof name, "%s%s%s", c->variant->name, is_gram ? " " : "",
             is_gram ? h->isa : "");
    t.backward = c->problem->gradients;
    status = kron_send(h, c->problem, &result, &there);
    t.at = &there.problem, t.result = there.result;
    if (status == GRAM_OK)
        status = timed_run(h->g, &t); /* which also warms up */
    if (status != GRAM_OK) {
        fprintf(stderr, "%s: %s\n", name, gram_message(h->g));
        c->status = status_of(status);
    }
    if (c->status == HARNESS_RIGHT)
        forward = seconds_of(h, c, &t, false);
    if (c->status == HARNESS_RIGHT && c->problem->gradients)
        backward = seconds_of(h, c, &t, true);
    if (c->status == HARNESS_RIGHT)
        print_time(c, name, measured_roof(h, c), (double[]){forward, backward});
    there.result = t.result;
    (void)kron_fetch(h, &there, &result);
    kron_result_close(&result);
}

static void bench_body(struct comparison *c)
{
    const struct kron_problem *p = c->problem;

    if (!c->options->json) {
        print_title(c->args, p);
        printf("x and y %.4g MB, %.4g Mflop, %.4g flop a byte\n", p->bytes * 1e-6, p->flop * 1e-6,
               p->bytes > 0 ? p->flop / p->bytes : 0);
        printf("%-16s %12s %10s %10s%s\n", "", "forward us", "GFLOP/s", "of roof",
               p->gradients ? "  backward us" : "");
    }
    run_variants(c, time_variant);
}

int kron_bench(const struct case_args *args, const struct harness_options *options)
{
    return with_problem(args, options, bench_body);
}
