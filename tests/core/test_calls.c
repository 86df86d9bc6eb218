/*
 * test_calls.c - what every call keeps to, for every row of every table of cases
 *
 * The linker sends each call of an operation that a case makes to __wrap_gram_<op> here (option
 * --wrap).  The call runs, and then again, in contexts of their own and with the outputs restored:
 * with exactly the workspace that its query names (right, the same bytes), with one byte less
 * (GRAM_OUT_OF_MEMORY), and with each of its allocations failing in turn (GRAM_OUT_OF_MEMORY, or
 * right where it can do without).  A call that fails has written nothing and leaks nothing; none
 * changes the floating-point environment or depends on the locale.
 *
 *   test_calls [OP...]
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "comma_locale.h"
#include "failing_alloc.h"
#include "tests/linalg/solve_extra.h"
#include "wrapped.h"
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

static struct harness *current; /* whose row is running */
static int calls, failed_allocations;

/* ---- Outputs ------------------------------------------------------------------------------ */

struct image {
    unsigned char *bytes;
    size_t size;
};

static void *must_allocate(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);

    if (!memory) {
        fprintf(stderr, "test_calls: no memory for %zu bytes\n", bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* Copies the elements of every output of c: out of them, or back. */
static void move_outputs(const struct wrapped_call *c, unsigned char *bytes, bool back)
{
    for (int i = 0; i < c->output_count; i++) {
        const gram_tensor *t = c->outputs[i];
        size_t size = gram_dtype_size(t->dtype);
        for (int64_t e = 0, n = test_count(t); e < n; e++, bytes += size) {
            void *at = test_address(t, e);
            memcpy(back ? at : bytes, back ? bytes : at, size);
        }
    }
}

static struct image save_outputs(const struct wrapped_call *c)
{
    struct image image = {NULL, 0};

    for (int i = 0; i < c->output_count; i++)
        image.size += (size_t)test_count(c->outputs[i]) * gram_dtype_size(c->outputs[i]->dtype);
    image.bytes = must_allocate(image.size);
    move_outputs(c, image.bytes, false);
    return image;
}

static bool same_outputs(const struct wrapped_call *c, const struct image *expected)
{
    struct image now = save_outputs(c);
    bool same = memcmp(now.bytes, expected->bytes, now.size) == 0;

    free(now.bytes);
    return same;
}

/* ---- The floating-point environment ------------------------------------------------------- */

struct modes {
    int rounding;
    unsigned mxcsr;
    unsigned short x87;
};

static struct modes read_modes(void)
{
    struct modes m = {.rounding = fegetround()};

#ifdef __x86_64__
    m.mxcsr = __builtin_ia32_stmxcsr() & ~0x3Fu; /* without the sticky flags */
    __asm__ volatile("fnstcw %0" : "=m"(m.x87));
#endif
    return m;
}

static gram_status run_watched(gram_context *g, const struct wrapped_call *c)
{
    struct modes before = read_modes(), after;
    gram_status status = c->run(g, c);

    after = read_modes();
    CHECK(current,
          before.rounding == after.rounding && before.mxcsr == after.mxcsr &&
              before.x87 == after.x87,
          "%s: rounding %d to %d, MXCSR %#x to %#x, x87 %#x to %#x", c->name, before.rounding,
          after.rounding, before.mxcsr, after.mxcsr, before.x87, after.x87);
    return status;
}

/* ---- The same call under trouble ---------------------------------------------------------- */

static gram_context *open_like(gram_context *g, gram_context_options *options)
{
    gram_info info = {.size = sizeof info};
    gram_context *result = NULL;

    if (!CHECK(current, gram_context_info(g, &info) == GRAM_OK, "%s", gram_message(g)))
        return NULL;
    options->threads = info.threads;
    options->cpu_isa = info.cpu_isa;
    CHECK(current, gram_context_create(options, &result) == GRAM_OK, "%s", gram_message(NULL));
    return result;
}

/* Runs c with a workspace of so many bytes between guard pages. */
static gram_status run_with(gram_context *like, const struct wrapped_call *c, size_t bytes)
{
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g = open_like(like, &options);
    struct test_tensor memory;
    int64_t lines = (int64_t)(bytes + 63) / 64 + (bytes == 0);
    bool spoiled = false;
    gram_status status;

    if (!g)
        return GRAM_OUT_OF_MEMORY;
    /* whole lines against a guard page, so the start is aligned */
    test_tensor_create(current, &memory, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){lines, 8});
    status = gram_context_use_workspace(g, memory.t.data, bytes);
    CHECK(current, status == GRAM_OK, "%s", gram_message(g));
    if (status == GRAM_OK)
        status = run_watched(g, c);
    gram_context_destroy(g);
    for (size_t i = bytes; i < (size_t)lines * 64; i++)
        spoiled |= ((unsigned char *)memory.t.data)[i] != 0xFF;
    CHECK(current, !spoiled, "%s wrote beyond its %zu bytes of workspace", c->name, bytes);
    test_tensor_destroy(current, &memory, "the workspace");
    return status;
}

static void check_workspace(gram_context *g, const struct wrapped_call *c, gram_status expected,
                            const struct image *before, const struct image *after)
{
    gram_workspace need = {0, 0};
    gram_status status = c->workspace(g, c, &need);

    if (!CHECK(current, status == GRAM_OK, "%s", gram_message(g)))
        return;
    CHECK(current, need.device_bytes == 0, "%zu device bytes on the CPU", need.device_bytes);
    status = run_with(g, c, need.host_bytes);
    CHECK(current, status == expected, "%s with its %zu bytes of workspace: %s, alone %s", c->name,
          need.host_bytes, gram_status_name(status), gram_status_name(expected));
    CHECK(current, same_outputs(c, after), "%s: other results with a given workspace", c->name);
    move_outputs(c, before->bytes, true);
    if (need.host_bytes == 0)
        return;
    status = run_with(g, c, need.host_bytes - 1);
    CHECK(current, status == GRAM_OUT_OF_MEMORY, "%s with one byte less than %zu: %s", c->name,
          need.host_bytes, gram_status_name(status));
    CHECK(current, same_outputs(c, before), "%s wrote to an output and failed", c->name);
    move_outputs(c, before->bytes, true);
}

/* True if there was a fail_at'th allocation to fail. */
static bool check_failing(gram_context *like, const struct wrapped_call *c, int64_t fail_at,
                          gram_status expected, const struct image *images)
{
    struct failing_alloc a = FAILING_ALLOC_INIT;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g;
    gram_status status;
    bool failed;

    failing_alloc_use(&a, &options);
    g = open_like(like, &options);
    if (!g)
        return false;
    failing_alloc_reset(&a, fail_at);
    status = run_watched(g, c);
    failed = a.failed;
    if (status == GRAM_OUT_OF_MEMORY) {
        CHECK(current, failed, "%s: no memory though nothing failed", c->name);
        CHECK(current, strstr(gram_message(g), c->name) == gram_message(g), "\"%s\" after %s",
              gram_message(g), c->name);
        CHECK(current, same_outputs(c, &images[0]), "%s wrote to an output and failed", c->name);
        failing_alloc_reset(&a, 0);
        status = run_watched(g, c); /* the context is still good */
    }
    CHECK(current, status == expected, "%s: %s, but %s at first", c->name, gram_status_name(status),
          gram_status_name(expected));
    if (!a.failed) /* else it ran on fewer threads */
        CHECK(current, same_outputs(c, &images[1]), "%s: other results in another context",
              c->name);
    move_outputs(c, images[0].bytes, true);
    gram_context_destroy(g);
    CHECK(current, a.live == 0 && a.wrong_releases == 0,
          "%s: %lld blocks leak, %lld wrong releases", c->name, (long long)a.live,
          (long long)a.wrong_releases);
    failed_allocations += failed;
    return failed;
}

gram_status wrapped_torture(gram_context *g, const struct wrapped_call *c)
{
    gram_workspace need = {0, 0};
    gram_status query = c->workspace(g, c, &need), status;
    struct image images[2]; /* before, after */

    if (query != GRAM_OK) {
        status = c->run(g, c);
        CHECK(current, status == query, "%s: %s, but its workspace query %s: %s", c->name,
              gram_status_name(status), gram_status_name(query), gram_message(g));
        return status;
    }
    calls++;
    images[0] = save_outputs(c);
    status = run_watched(g, c);
    images[1] = save_outputs(c);
    if (status != GRAM_OK && status != GRAM_NUMERICAL) {
        CHECK(current, same_outputs(c, &images[0]), "%s wrote to an output and failed", c->name);
    } else {
        move_outputs(c, images[0].bytes, true);
        check_workspace(g, c, status, &images[0], &images[1]);
        for (int64_t n = 1; check_failing(g, c, n, status, images); n++)
            continue;
        move_outputs(c, images[1].bytes, true);
    }
    free(images[0].bytes);
    free(images[1].bytes);
    return status;
}

/* ---- Extras of the solves, which the tables do not have -------------------------------------- */

/* One of the items is not positive definite, or singular, as it is. */
static void solve_with_extras(struct harness *h, bool lu, gram_dtype dtype, enum layout layout)
{
    static const double jitter[] = {0, 1e-3, 10};
    struct extra_problem p;

    for (int refine = 0; refine < (dtype == GRAM_F64 ? 2 : 1); refine++)
        for (int kept = 0; kept < 2 - refine; kept++) {
            extra_create(h, &p, 70, dtype, layout);
            p.lu = lu;
            p.options.rcond = &p.rcond.t;
            p.options.jitter = lu ? NULL : jitter;
            p.options.jitters = lu ? 0 : LENGTH(jitter);
            p.options.jittered = lu ? NULL : &p.jittered.t;
            p.options.refine = refine;
            p.options.backward = refine ? &p.backward.t : NULL;
            p.options.refinings = refine ? &p.refinings.t : NULL;
            p.options.factor = kept ? &p.factor.t : NULL;
            p.options.pivots = kept && lu ? &p.pivots.t : NULL;
            for (int item = 0; item < EXTRA_ITEMS; item++)
                extra_fill(h, &p, item, 100, item == 1 ? -1 : 0, item == 2 && lu ? 0 : 1);
            CHECK(h, extra_once(h, &p) == GRAM_OK, "%s", gram_message(h->g));
            CHECK(h, lu || test_at(&p.jittered.t, 1) == 10, "s = %g", test_at(&p.jittered.t, 1));
            extra_destroy(h, &p);
        }
}

static void solve_extras(struct harness *h, bool lu)
{
    harness_seed(h, "solve_extras", lu);
    solve_with_extras(h, lu, GRAM_F64, ROW_MAJOR);
    solve_with_extras(h, lu, GRAM_F64, PADDED);
    solve_with_extras(h, lu, GRAM_F32, COLUMN_MAJOR);
}

/* The number of the context's instruction set among those that the machine has, and how many these
 * are. */
static int isa_number(const struct harness *h, int *count)
{
    gram_info info = {.size = sizeof info};
    char names[128], *next = names;
    int number = 0;

    *count = 0;
    if (gram_context_info(h->g, &info) != GRAM_OK)
        return 0;
    snprintf(names, sizeof names, "%s", info.cpu_isas);
    for (char *name; (name = strsep(&next, " ")); ++*count)
        number = strcmp(name, info.cpu_isa) == 0 ? *count : number;
    return number;
}

/* The rows take the instruction sets in turns, which differ little in what is looked at here: all
 * of them on each take minutes. */
static void run_rows(struct harness *h, void *arg)
{
    const struct case_op *op = *(const struct case_op *const *)arg;
    int isas;

    current = h;
    for (int row = isa_number(h, &isas); row < op->rows; row += isas ? isas : 1)
        harness_run_row(h, op, row);
    if (strncmp(op->name, "solve_", strlen("solve_")) == 0)
        solve_extras(h, strcmp(op->name, "solve_lu") == 0);
    current = NULL;
}

int main(int argc, char **argv)
{
    struct harness_options options = {.threads = 2};
    int failures = 0;

    comma_locale(); /* if there is one */
    for (int i = 0; harness_ops[i]; i++) {
        const struct case_op *op = harness_ops[i];
        int found = argc == 1, before = calls;
        for (int k = 1; k < argc; k++)
            found |= strcmp(argv[k], harness_ops[i]->name) == 0;
        if (!found)
            continue;
        failures |= harness_each_isa(&options, run_rows, &op);
        if (calls == before) {
            fprintf(stderr, "%s: not one call was tried: is it wrapped?\n", harness_ops[i]->name);
            failures |= 1;
        }
    }
    printf("%d calls, %d failed allocations\n", calls, failed_allocations);
    printf("%s\n", failures ? "FAILED" : "passed");
    return failures != 0 || calls == 0;
}
