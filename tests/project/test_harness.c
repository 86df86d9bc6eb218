/*
 * test_harness.c - that the harness sees what it is there to see
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness_args.h"
#include "check/harness/trace.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const enum layout layouts[] = {
    ROW_MAJOR, COLUMN_MAJOR, PADDED, EVERY_SECOND, REVERSED, ROWS_REPEATED, MISALIGNED,
};

/* A harness whose failures are expected and not printed. */
static struct harness silent(const struct harness *h)
{
    struct harness copy = *h;

    copy.printed = 1000;
    copy.failures = 0;
    return copy;
}

static void halves_round_to_nearest_even(struct harness *h)
{
    static const gram_dtype dtypes[] = {GRAM_F16, GRAM_BF16};
    uint16_t bits, back;

    for (int d = 0; d < 2; d++) {
        gram_tensor from = gram_vector(&bits, 1, dtypes[d]), to = gram_vector(&back, 1, dtypes[d]);
        double before = -INFINITY;
        for (unsigned b = 0; b < 0x8000; b++) {
            double value;
            bits = (uint16_t)b;
            value = test_at(&from, 0);
            test_put(&to, 0, value);
            if (isnan(value)) {
                CHECK(h, isnan(test_at(&to, 0)), "NaN %#x became %g", b, test_at(&to, 0));
                continue;
            }
            CHECK(h, back == b, "%#x (%g) became %#x", b, value, back);
            CHECK(h, value > before || b == 0, "%#x is %g, its neighbour %g", b, value, before);
            if (b > 0 && isfinite(value)) {
                test_put(&to, 0, (before + value) / 2);
                CHECK(h, back == (b % 2 ? b - 1 : b), "the middle below %#x became %#x", b, back);
            }
            before = value;
        }
    }
    /* By hand: 1 + 2^-10 + 2^-12 is nearer to 1 + 2^-10; 65519 is the largest that stays finite. */
    test_put(&(gram_tensor){.data = &back, .dtype = GRAM_F16}, 0, 1 + ldexp(5, -12));
    CHECK(h, back == 0x3C01, "%#x", back);
    test_put(&(gram_tensor){.data = &back, .dtype = GRAM_F16}, 0, 65519);
    CHECK(h, back == 0x7BFF, "%#x", back);
    test_put(&(gram_tensor){.data = &back, .dtype = GRAM_BF16}, 0, -3.140625);
    CHECK(h, back == 0xC049, "%#x", back);
}

/* Each element of each layout has its own place (but for repeated rows), and unwritten ones NaN. */
static void layouts_hold_their_elements(struct harness *h)
{
    const int64_t shape[3] = {2, 3, 5};

    for (int l = 0; l < LENGTH(layouts); l++) {
        struct test_tensor t;
        test_tensor_create(h, &t, GRAM_F32, layouts[l], 3, shape);
        CHECK(h, test_count(&t.t) == 30, "%lld elements", (long long)test_count(&t.t));
        for (int64_t i = 0; i < 30; i++) {
            int64_t index[3] = {i / 15, i / 5 % 3, i % 5};
            CHECK(h, layouts[l] == ROWS_REPEATED || isnan(test_at(&t.t, i)), "element %d", (int)i);
            test_put(&t.t, i, (double)i);
            CHECK(h, test_get(&t.t, index) == (double)i, "layout %d, element %d", l, (int)i);
        }
        for (int64_t i = 0; i < 30 && layouts[l] != ROWS_REPEATED; i++)
            CHECK(h, test_at(&t.t, i) == (double)i, "layout %d: %d is gone", l, (int)i);
        test_tensor_destroy(h, &t, "t");
    }
}

static void writes_outside_are_counted(struct harness *h)
{
    struct harness quiet = silent(h);
    struct test_tensor t;

    test_tensor_create(h, &t, GRAM_F32, PADDED, 2, (int64_t[]){4, 3});
    test_fill_uniform(h, &t, 0, 1);
    ((float *)t.t.data)[3] = 0; /* between two rows */
    test_tensor_destroy(&quiet, &t, "t");
    CHECK(h, quiet.failures == 1, "%d failures for a write between rows", quiet.failures);

    test_tensor_create(h, &t, GRAM_F32, MISALIGNED, 2, (int64_t[]){4, 3});
    ((float *)t.t.data)[-1] = 0;
    test_tensor_destroy(&quiet, &t, "t");
    CHECK(h, quiet.failures == 2, "a write before the first element was not seen");

    test_tensor_create(h, &t, GRAM_F64, REVERSED, 2, (int64_t[]){4, 3});
    test_fill_uniform(h, &t, 0, 1);
    test_tensor_freeze(&t);
    test_put(&t.t, 7, 2);
    test_tensor_destroy(&quiet, &t, "t");
    CHECK(h, quiet.failures == 3, "a changed element was not seen");
}

/* Whether a child that reads the byte at address is killed. */
static bool read_kills(const volatile char *address)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        close(STDERR_FILENO); /* a sanitizer's report of what is wanted here */
        _exit(*address == 'x' ? 2 : 3);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ||
           (WIFEXITED(status) && WEXITSTATUS(status) != 2 && WEXITSTATUS(status) != 3);
}

static void pages_around_cannot_be_touched(struct harness *h)
{
    struct test_tensor t;
    const char *base;

    for (int row = 0; row < 4; row++) {
        harness_seed(h, __func__, row);
        test_tensor_create(h, &t, GRAM_F32, ROW_MAJOR, 1, (int64_t[]){1000});
        base = t.mapping;
        CHECK(h, read_kills(base + t.mapping_bytes - sysconf(_SC_PAGESIZE)), "after");
        CHECK(h, read_kills(base + sysconf(_SC_PAGESIZE) - 1), "before");
        CHECK(h, !read_kills(t.t.data), "the first element");
        test_tensor_destroy(h, &t, "t");
    }
    test_tensor_create(h, &t, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){0, 7});
    CHECK(h, read_kills(t.t.data), "an empty tensor has an element");
    test_tensor_destroy(h, &t, "t");
}

static void contents_depend_on_the_seed_alone(struct harness *h)
{
    struct test_tensor t;
    double first[20], sum = 0, squares = 0;

    test_tensor_create(h, &t, GRAM_F64, ROW_MAJOR, 1, (int64_t[]){20000});
    for (int time = 0; time < 2; time++) {
        harness_seed(h, "seed", 7);
        test_fill_uniform(h, &t, -1, 1);
        for (int i = 0; i < 20; i++) {
            CHECK(h, time == 0 || first[i] == test_at(&t.t, i), "element %d", i);
            first[i] = test_at(&t.t, i);
        }
    }
    test_fill_normal(h, &t, 3, 2);
    for (int64_t i = 0; i < 20000; i++) {
        sum += test_at(&t.t, i);
        squares += pow(test_at(&t.t, i) - 3, 2);
    }
    CHECK(h, fabs(sum / 20000 - 3) < 0.06, "mean %g", sum / 20000);
    CHECK(h, fabs(squares / 20000 - 4) < 0.2, "variance %g", squares / 20000);
    test_fill_integers(h, &t, 3);
    for (int64_t i = 0; i < 20000; i++) {
        double v = test_at(&t.t, i);
        CHECK(h, v == 0 || v == 1 || v == 2, "%g", v);
    }
    test_tensor_destroy(h, &t, "t");
}

static void parameters_are_found_by_name(struct harness *h)
{
    static const char *const params[] = {"power=3", "p=1.5",  "layout=column",
                                         "q=inf",   "bad=1x", NULL};
    struct case_args args = {.params = params};

    CHECK(h, case_number(&args, "p", 2) == 1.5, "p");
    CHECK(h, case_number(&args, "r", 2) == 2, "r");
    CHECK(h, isinf(case_number(&args, "q", 2)), "q");
    CHECK(h, strcmp(case_param(&args, "layout", "row"), "column") == 0, "layout");
    CHECK(h, isnan(case_number(&args, "bad", 2)), "1x is a number");
}

static int count_problem(const struct request *r, void *arg)
{
    (void)r;
    ++*(int *)arg;
    return HARNESS_RIGHT;
}

/* Every operation has its file of shapes, and all lines of it are understood. */
static void files_of_shapes(struct harness *h)
{
    const char *source = getenv("GRAM_SOURCE_DIR");

    for (int i = 0; harness_ops[i]; i++) {
        char path[512], op[64];
        char *words[] = {op, path};
        int problems = 0, status;
        snprintf(op, sizeof op, "%s", harness_ops[i]->name);
        snprintf(path, sizeof path, "@%s/bench/shapes/%s.txt", source ? source : ".", op);
        status = request_each(2, words, count_problem, &problems);
        CHECK(h, status == HARNESS_RIGHT && problems > 0, "%s: status %d, %d problems", path + 1,
              status, problems);
    }
}

static void requests_that_are_not_understood(struct harness *h)
{
    static char *const rows[][5] = {
        {            "cdist",            "10", "10"},
        {            "cdist",            "10", "10", "10", "10"},
        {            "cdist",            "10", "10", "ten"},
        {            "cdist",            "10", "10", "-1"},
        {            "cdist",            "10", "10", "3", "no_such=1"},
        {            "cdist",            "10", "10", "3", "dtype=f8"},
        {"no_such_operation",            "10", "10", "3"},
        {            "cdist", "@no_such_file"     },
    };
    int saved = dup(STDERR_FILENO), problems = 0;

    for (int i = 0; i < LENGTH(rows); i++) {
        int count = 0, status;
        while (count < 5 && rows[i][count])
            count++;
        fflush(stderr);
        CHECK(h, freopen("/dev/null", "w", stderr) != NULL, "row %d", i);
        status = request_each(count, rows[i], count_problem, &problems);
        fflush(stderr);
        dup2(saved, STDERR_FILENO);
        CHECK(h, status != HARNESS_RIGHT && problems == 0, "row %d: status %d", i, status);
    }
    close(saved);
}

/* What a row of cdist writes into a trace, text of size bytes; the number of lines. */
static int traced_row(struct harness *h, int row, char *text, size_t size)
{
    char name[] = "/tmp/gram-trace-XXXXXX";
    struct harness own = {.g = h->g, .isa = h->isa, .threads = h->threads};
    int file = mkstemp(name), lines = 0;
    ssize_t length;

    setenv("GRAM_TEST_TRACE", name, 1);
    CHECK(h, harness_run_row(&own, harness_find("cdist"), row), "row %d", row);
    unsetenv("GRAM_TEST_TRACE");
    length = file < 0 ? -1 : read(file, text, size - 1);
    CHECK(h, length > 0 && length < (ssize_t)size - 1, "%lld bytes", (long long)length);
    text[length > 0 ? length : 0] = '\0';
    (void)close(file);
    (void)unlink(name);
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    return lines;
}

static void two_traces_of_a_row_are_the_same(struct harness *h)
{
    char one[4096], other[4096];
    int lines = traced_row(h, 1, one, sizeof one);

    CHECK(h, traced_row(h, 1, other, sizeof other) == lines && strcmp(one, other) == 0,
          "one trace:\n%sthe other:\n%s", one, other);
    CHECK(h, strncmp(one, "row cdist 1 ", 12) == 0, "%s", one);
    CHECK(h,
          strstr(one, "\nscratch host=") && strstr(one, "\ntensor in x ") &&
              strstr(one, "\ntensor out out "),
          "%s", one);
}

static void traced_bits(struct harness *h, double value, char *text, size_t size)
{
    char name[] = "/tmp/gram-trace-XXXXXX";
    struct test_tensor t;
    int file = mkstemp(name);
    ssize_t length;

    test_tensor_create(h, &t, GRAM_F64, EVERY_SECOND, 2, (int64_t[]){2, 2});
    for (int i = 0; i < 4; i++)
        test_put(&t.t, i, i == 3 ? value : i);
    setenv("GRAM_TEST_TRACE", name, 1);
    test_tensor_destroy(h, &t, "t");
    unsetenv("GRAM_TEST_TRACE");
    length = file < 0 ? -1 : read(file, text, size - 1);
    text[length > 0 ? length : 0] = '\0';
    (void)close(file);
    (void)unlink(name);
}

/* A tensor that a test points at memory of another, which is gone first, was a crash. */
static void a_tensor_without_memory_of_its_own_is_traced(struct harness *h)
{
    struct test_tensor one, other;

    test_tensor_create(h, &one, GRAM_F64, ROW_MAJOR, 1, (int64_t[]){3});
    test_tensor_create(h, &other, GRAM_F64, ROW_MAJOR, 1, (int64_t[]){3});
    other.t.data = one.t.data;
    setenv("GRAM_TEST_TRACE", "/dev/null", 1);
    test_tensor_destroy(h, &one, "one");
    test_tensor_destroy(h, &other, "other");
    unsetenv("GRAM_TEST_TRACE");
    CHECK(h, !other.mapping, "not destroyed");
}

static void the_last_bit_of_a_tensor_shows_in_a_trace(struct harness *h)
{
    char one[256], other[256];

    traced_bits(h, 1, one, sizeof one);
    traced_bits(h, nextafter(1, 2), other, sizeof other);
    CHECK(h, strncmp(one, "tensor out t dtype=2 shape=2x2 ", 31) == 0, "%s", one);
    CHECK(h, strncmp(one, other, 31) == 0 && strcmp(one, other) != 0, "%s%s", one, other);
}

__attribute__((format(printf, 2, 3))) static uint64_t numbers_of(int64_t *count, const char *format,
                                                                 ...)
{
    uint64_t hash;
    va_list args;

    va_start(args, format);
    *count = 0;
    hash = trace_numbers(TRACE_HASH, count, format, args);
    va_end(args);
    return hash;
}

static void numbers_of_a_check_are_found_among_its_words(struct harness *h)
{
    int64_t count;
    double value = 0.1;
    uint64_t wanted = trace_hash(TRACE_HASH, &value, sizeof value);

    CHECK(h, numbers_of(&count, "%d %s 5%% %-*.3f %zu", 7, "a", 9, 0.1, (size_t)1) == wanted,
          "of one");
    CHECK(h, count == 1, "%lld numbers", (long long)count);
    CHECK(h, numbers_of(&count, "%lld %p %c %.17g", 1LL, (void *)h, 'c', 0.1) == wanted, "of one");
    CHECK(h, numbers_of(&count, "%#x", 3u) == TRACE_HASH && count == 0, "of none");
    CHECK(h, numbers_of(&count, "%g %e", 0.1, 0.2) != wanted && count == 2, "of two");
}

static const struct test_function tests[] = {
    {                "halves_round_to_nearest_even",                 halves_round_to_nearest_even},
    {                 "layouts_hold_their_elements",                  layouts_hold_their_elements},
    {                  "writes_outside_are_counted",                   writes_outside_are_counted},
    {              "pages_around_cannot_be_touched",               pages_around_cannot_be_touched},
    {           "contents_depend_on_the_seed_alone",            contents_depend_on_the_seed_alone},
    {                "parameters_are_found_by_name",                 parameters_are_found_by_name},
    {                             "files_of_shapes",                              files_of_shapes},
    {            "requests_that_are_not_understood",             requests_that_are_not_understood},
    {            "two_traces_of_a_row_are_the_same",             two_traces_of_a_row_are_the_same},
    {"a_tensor_without_memory_of_its_own_is_traced", a_tensor_without_memory_of_its_own_is_traced},
    {   "the_last_bit_of_a_tensor_shows_in_a_trace",    the_last_bit_of_a_tensor_shows_in_a_trace},
    {"numbers_of_a_check_are_found_among_its_words", numbers_of_a_check_are_found_among_its_words},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
