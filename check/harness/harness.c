/*
 * harness.c - counts checks, runs rows, and repeats both on every instruction set
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness.h"
#include "device_memory.h"
#include "harness_args.h"
#include "trace.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    PRINTED_PER_ROW = 8
};

bool harness_check(struct harness *h, bool ok, const char *file, int line, const char *text,
                   const char *format, ...)
{
    va_list args;

    h->checks++;
    if (trace_wanted()) {
        va_start(args, format);
        h->numbers = trace_numbers(h->numbers, &h->number_count, format, args);
        va_end(args);
    }
    if (ok)
        return true;
    h->failures++;
    if (++h->printed > PRINTED_PER_ROW)
        return false;
    fprintf(stderr, "%s:%d: [%s, %s] %s: ", file, line, h->where ? h->where : "", h->isa, text);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    if (h->printed == PRINTED_PER_ROW)
        fprintf(stderr, "(more of this row are not shown)\n");
    return false;
}

/* FNV-1a of a name: rows of different operations get different numbers. */
static uint64_t hash(const char *text)
{
    uint64_t value = 0xCBF29CE484222325u;

    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * 0x100000001B3u;
    return value;
}

void harness_seed(struct harness *h, const char *name, int row)
{
    h->random = hash(name) + (uint64_t)row;
    h->printed = 0;
}

static void begin_trace(struct harness *h, const char *kind, const char *name)
{
    h->numbers = TRACE_HASH;
    h->number_count = 0;
    trace_line("%s %s %s threads=%d", kind, name, h->isa, h->threads);
}

static void end_trace(const struct harness *h)
{
    if (h->number_count > 0)
        trace_line("numbers %lld %016llx", (long long)h->number_count,
                   (unsigned long long)h->numbers);
}

bool harness_run_row(struct harness *h, const struct case_op *op, int row)
{
    char label[256] = "", name[64];
    int length = snprintf(label, sizeof label, "%s row %d: ", op->name, row);
    int checks = h->checks, failures = h->failures;

    op->label(row, label + length, sizeof label - (size_t)length);
    h->where = label;
    harness_seed(h, op->name, row);
    snprintf(name, sizeof name, "%s %d", op->name, row);
    begin_trace(h, "row", name);
    op->check(h, row);
    end_trace(h);
    CHECK(h, h->checks > checks, "the row checks nothing");
    h->where = NULL;
    return h->failures == failures;
}

const struct case_op *harness_find(const char *name)
{
    for (int i = 0; harness_ops[i]; i++)
        if (strcmp(harness_ops[i]->name, name) == 0)
            return harness_ops[i];
    return NULL;
}

bool harness_no_memory(struct harness *h, const char *what)
{
    fprintf(stderr, "out of memory for %s\n", what);
    h->no_memory = true;
    return false;
}

_Noreturn void harness_end_without_memory(const char *what)
{
    fprintf(stderr, "out of memory for %s\n", what);
    exit(HARNESS_NO_MEMORY);
}

bool harness_open(struct harness *h, const struct harness_options *options, const char *isa)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_info info = {.size = sizeof info};
    gram_status status;

    memset(h, 0, sizeof *h);
    o.threads = options->threads;
    o.cpu_isa = isa;
    o.device = h->device = options->device;
    status = gram_context_create(&o, &h->g);
    if (status != GRAM_OK) {
        h->no_memory = status == GRAM_OUT_OF_MEMORY;
        fprintf(stderr, "%s\n", gram_message(NULL));
        return false;
    }
    if (gram_context_info(h->g, &info) != GRAM_OK) {
        fprintf(stderr, "%s\n", gram_message(h->g));
        harness_close(h);
        return false;
    }
    h->isa = options->device.type == GRAM_CUDA ? "cuda" : info.cpu_isa;
    h->threads = info.threads;
    return true;
}

void harness_close(struct harness *h)
{
    gram_context_destroy(h->g);
    h->g = NULL;
}

/* Copies the index'th word of text; false if there is none. */
static bool word_at(const char *text, int index, char *word, size_t size)
{
    size_t length;

    for (; index > 0; index--) {
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    length = strcspn(text, " ");
    if (length == 0 || length >= size)
        return false;
    memcpy(word, text, length);
    word[length] = '\0';
    return true;
}

int harness_each_isa(const struct harness_options *options,
                     void (*body)(struct harness *h, void *arg), void *arg)
{
    gram_info info = {.size = sizeof info};
    struct harness h;
    char names[128], isa[32];
    int failures = 0;

    if (options->isa) {
        snprintf(names, sizeof names, "%s", options->isa);
    } else {
        if (!harness_open(&h, options, NULL))
            return h.no_memory ? -2 : -1;
        if (options->device.type != GRAM_CPU)
            snprintf(names, sizeof names, "%s", info.cpu_isa ? info.cpu_isa : "base");
        else if (gram_context_info(h.g, &info) == GRAM_OK)
            snprintf(names, sizeof names, "%s", info.cpu_isas);
        harness_close(&h);
    }
    for (int i = 0; word_at(names, i, isa, sizeof isa); i++) {
        if (!harness_open(&h, options, isa))
            return h.no_memory ? -2 : -1;
        body(&h, arg);
        failures += h.failures;
        harness_close(&h);
    }
    return failures;
}

struct table_run {
    const struct case_op *op;
    int row;
    struct harness_count *count;
};

static void run_table(struct harness *h, void *arg)
{
    struct table_run *t = arg;

    for (int row = 0; row < t->op->rows; row++) {
        if (t->row >= 0 && t->row != row)
            continue;
        if (harness_run_row(h, t->op, row))
            t->count->passed++;
        else
            t->count->failed++;
    }
}

bool harness_run_table(const struct case_op *op, int row, const struct harness_options *options,
                       struct harness_count *count)
{
    struct table_run t = {.op = op, .row = row, .count = count};
    const int failures = harness_each_isa(options, run_table, &t);

    count->no_memory = failures == -2;
    return failures >= 0;
}

struct test_run {
    const struct test_function *test;
    bool passed;
};

static void run_test(struct harness *h, void *arg)
{
    struct test_run *t = arg;

    h->where = t->test->name;
    harness_seed(h, t->test->name, 0);
    begin_trace(h, "test", t->test->name);
    t->test->run(h);
    end_trace(h);
    CHECK(h, h->checks > 0, "the test checks nothing");
    t->passed &= h->failures == 0;
}

static int run_tests(const struct test_function *tests, int count, bool every_isa,
                     gram_device device)
{
    const struct harness_options options = {.threads = 2, .device = device};
    int passed = 0;

    for (int i = 0; i < count; i++) {
        struct test_run t = {.test = &tests[i], .passed = true};
        struct harness h;
        if (every_isa) {
            t.passed &= harness_each_isa(&options, run_test, &t) >= 0;
        } else if (harness_open(&h, &options, NULL)) {
            run_test(&h, &t);
            harness_close(&h);
        } else {
            t.passed = false;
        }
        passed += t.passed;
    }
    printf("%d passed, %d failed\n", passed, count - passed);
    return passed < count;
}

int harness_run_tests(const struct test_function *tests, int count)
{
    return run_tests(tests, count, false, (gram_device){GRAM_CPU, 0});
}

int harness_run_tests_where_asked(const struct test_function *tests, int count)
{
    return run_tests(tests, count, false, test_asked_device());
}

int harness_run_tests_or_some(const struct test_function *tests, int count, int on_gpu)
{
    const gram_device device = test_asked_device();

    if (device.type == GRAM_CPU)
        return harness_run_tests(tests, count);
    return device_open(device.index) ? harness_run_tests_where_asked(tests, on_gpu) : EXIT_FAILURE;
}

int harness_run_tests_each_isa(const struct test_function *tests, int count)
{
    return run_tests(tests, count, true, (gram_device){GRAM_CPU, 0});
}
