/*
 * test_optimizer_memory.c - SOAP and Muon (and Shampoo's bytes by dtype): state to the byte, no
 * memory in the middle of a step, files that are cut
 *
 * SPDX-License-Identifier: MIT
 */
#include "soap_run.h"
#include "tests/core/failing_alloc.h"
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Bytes --------------------------------------------------------------------------------- */

enum {
    ROWS = 30,
    COLS = 20,
    ALL = ROWS * COLS
};

/* Of a parameter of 30 by 20, or of 30: how many arrays as large as it have the state's dtype, and
 * the sizes of those that are f32, or f64 where the state or the parameter is. */
static const struct {
    const char *why;
    gram_optimizer_method method;
    gram_dtype dtype, state;
    int packed, ndim, moments;
    int64_t others[5];
} rows[] = {
    {  "packed", GRAM_SHAMPOO,  GRAM_F32,         0, 1, 2, 2, {465, 465, 210, 210, ALL}},
    {   "whole", GRAM_SHAMPOO,  GRAM_F32,         0, 0, 2, 2, {900, 900, 400, 400, ALL}},
    {    "bf16", GRAM_SHAMPOO,  GRAM_F32, GRAM_BF16, 1, 2, 2, {465, 465, 210, 210, ALL}},
    {     "f64", GRAM_SHAMPOO,  GRAM_F32,  GRAM_F64, 1, 2, 2, {465, 465, 210, 210, ALL}},
    {"a vector", GRAM_SHAMPOO,  GRAM_F32,         0, 1, 1, 2,          {465, 465, ROWS}},
    {  "packed",    GRAM_SOAP,  GRAM_F32,         0, 1, 2, 1, {465, 900, 210, 400, ALL}},
    {   "whole",    GRAM_SOAP,  GRAM_F32,         0, 0, 2, 1, {900, 900, 400, 400, ALL}},
    {    "bf16",    GRAM_SOAP, GRAM_BF16, GRAM_BF16, 1, 2, 1, {465, 900, 210, 400, ALL}},
    {     "f64",    GRAM_SOAP,  GRAM_F64,         0, 1, 2, 1, {465, 900, 210, 400, ALL}},
    {"a vector",    GRAM_SOAP,  GRAM_F32,         0, 1, 1, 1,                    {ROWS}},
    {  "packed",    GRAM_MUON,  GRAM_F32,         0, 1, 2, 1,                       {0}},
    {    "bf16",    GRAM_MUON,  GRAM_F32, GRAM_BF16, 1, 2, 1,                       {0}},
    {"a vector",    GRAM_MUON,  GRAM_F32,         0, 1, 1, 1,                    {ROWS}},
};

static int64_t rounded(int64_t count, gram_dtype dtype)
{
    return (count * (int64_t)gram_dtype_size(dtype) + 63) / 64 * 64;
}

static int64_t expected_bytes(int row)
{
    bool wide = rows[row].dtype == GRAM_F64 || rows[row].state == GRAM_F64;
    gram_dtype others = wide ? GRAM_F64 : GRAM_F32;
    gram_dtype state = rows[row].state ? rows[row].state : others;
    int64_t count = rows[row].ndim == 2 ? ALL : ROWS;
    int64_t sum = 3 * 64 + rows[row].moments * rounded(count, state); /* and three of counters */

    for (int i = 0; i < 5; i++)
        sum += rounded(rows[row].others[i], others);
    return sum;
}

static void bytes_are_told(struct harness *h)
{
    static const int64_t shape[] = {ROWS, COLS};

    for (int i = 0; i < LENGTH(rows); i++) {
        gram_optimizer_options options = {.size = sizeof options};
        gram_optimizer_info info = {.size = sizeof info};
        struct soap_run r;
        h->where = rows[i].why;
        CHECK(h, gram_optimizer_defaults(rows[i].method, &options), "no method");
        options.state = rows[i].state;
        options.packed = rows[i].packed;
        options.merge = 0;
        if (rows[i].method == GRAM_SHAMPOO) {
            options.graft = GRAM_GRAFT_ADAM;
            options.momentum = 0.5;
        }
        if (soap_run_begin(h, &r, &options, rows[i].dtype, rows[i].ndim, shape)) {
            CHECK(h, gram_optimizer_get(h->g, r.optimizer, NULL, &info) == GRAM_OK, "%s",
                  gram_message(h->g));
            CHECK(h, info.bytes == expected_bytes(i), "%lld bytes, expected %lld",
                  (long long)info.bytes, (long long)expected_bytes(i));
        }
        soap_run_end(&r);
    }
}

/* ---- No memory ------------------------------------------------------------------------------ */

/* An optimizer of 6 by 9 numbers that has done two steps, and the gradient of a third. */
static void begin(struct harness *h, struct soap_run *r, gram_optimizer_method method)
{
    gram_optimizer_options options = {.size = sizeof options};

    CHECK(h, gram_optimizer_defaults(method, &options), "no method");
    options.refresh = 1;
    if (soap_run_begin(h, r, &options, GRAM_F32, 2, (int64_t[]){6, 9}))
        for (int step = 0; step < 3; step++) {
            soap_run_draw(r);
            if (step < 2)
                CHECK(h, soap_run_step(r) == GRAM_OK, "%s", gram_message(h->g));
        }
}

/* Every allocation of a step fails once: parameters and state stay as they were. */
static void no_memory_for(struct harness *h, gram_optimizer_method method)
{
    struct failing_alloc memory = FAILING_ALLOC_INIT;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    bool stepped = false;

    failing_alloc_use(&memory, &options);
    options.threads = 2;
    for (int64_t fail = 1; fail < 40 && !stepped; fail++) {
        gram_context *g;
        struct soap_run r;
        gram_tensor *parameters[] = {&r.parameter};
        const gram_tensor *gradients[] = {&r.gradient};
        double before[SOAP_MOST];
        uint64_t hash;
        begin(h, &r, method);
        memcpy(before, r.weights, sizeof before);
        hash = soap_run_hash(&r);
        failing_alloc_reset(&memory, 0);
        CHECK(h, gram_context_create(&options, &g) == GRAM_OK, "a context");
        failing_alloc_reset(&memory, fail);
        stepped = gram_optimizer_step(g, r.optimizer, parameters, gradients, NULL) == GRAM_OK;
        CHECK(h, !stepped || fail > 1, "a step without an allocation");
        CHECK(h, (memcmp(before, r.weights, sizeof before) == 0) == !stepped, "allocation %lld",
              (long long)fail);
        CHECK(h, (soap_run_hash(&r) == hash) == !stepped, "the state, allocation %lld",
              (long long)fail);
        gram_context_destroy(g);
        soap_run_end(&r);
        CHECK(h, memory.live == 0 && memory.wrong_releases == 0, "%lld blocks left",
              (long long)memory.live);
    }
    CHECK(h, stepped, "never done");
}

static void no_memory(struct harness *h)
{
    no_memory_for(h, GRAM_SOAP);
    no_memory_for(h, GRAM_MUON);
}

/* ---- Files ---------------------------------------------------------------------------------- */

static void cut_files_of(struct harness *h, gram_optimizer_method method)
{
    char path[] = "/tmp/gram-test-XXXXXX";
    int file = mkstemp(path);
    off_t size;
    struct soap_run r;
    uint64_t hash;

    begin(h, &r, method);
    CHECK(h, gram_optimizer_save(h->g, r.optimizer, path) == GRAM_OK, "%s", gram_message(h->g));
    (void)close(file);
    file = open(path, O_RDONLY);
    size = lseek(file, 0, SEEK_END);
    CHECK(h, size > 500, "%lld bytes", (long long)size);
    CHECK(h, soap_run_step(&r) == GRAM_OK, "%s", gram_message(h->g)); /* loading would show */
    hash = soap_run_hash(&r);
    while (size > 0) {
        size -= 1 + size / 16;
        CHECK(h, truncate(path, size) == 0, "truncate");
        CHECK(h, gram_optimizer_load(h->g, r.optimizer, path) == GRAM_BAD_DATA, "%lld bytes: %s",
              (long long)size, gram_message(h->g));
    }
    CHECK(h, soap_run_hash(&r) == hash, "a refused file changed the state");
    soap_run_end(&r);
    (void)close(file);
    (void)unlink(path);
}

static void cut_files(struct harness *h)
{
    cut_files_of(h, GRAM_SOAP);
    cut_files_of(h, GRAM_MUON);
}

static const struct test_function tests[] = {
    {"bytes_are_told", bytes_are_told},
    {     "no_memory",      no_memory},
    {     "cut_files",      cut_files},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
