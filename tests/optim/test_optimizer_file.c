/*
 * test_optimizer_file.c - optimizers saved and loaded: whole, damaged, and into others
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE // NOLINT(bugprone-reserved-identifier)
#include "optimizer_change.h"
#include "optimizer_sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_BYTES = 1 << 16
};

static gram_optimizer_options options_of(gram_dtype state, int packed)
{
    gram_optimizer_options o = optimizer_plain();

    o.block = 4;
    o.epsilon = 1e-6;
    o.graft = GRAM_GRAFT_RMSPROP;
    o.momentum = 0.5;
    o.state = state;
    o.packed = packed;
    return o;
}

static void temporary(char path[32])
{
    memcpy(path, "/tmp/gram-test-XXXXXX", 22);
    close(mkstemp(path));
}

static size_t read_bytes(const char *path, char *bytes)
{
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, MOST_BYTES, file) : 0;

    if (file)
        (void)fclose(file);
    return size;
}

static void write_bytes(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    if (!file || fwrite(bytes, 1, size, file) != size)
        exit(1);
    (void)fclose(file);
}

/* Loaded into a new optimizer, it goes on exactly as the old one does. */
static void round_trip(struct harness *h, gram_dtype state, int packed)
{
    gram_optimizer_options o = options_of(state, packed);
    struct sample s, again;
    gram_optimizer *first, *second;
    char path[32], *copy;

    temporary(path);
    sample_open(h, &s);
    first = sample_optimizer(h, &s, &o);
    for (int step = 0; step < 3; step++, sample_next(h, &s))
        sample_step(h, &s, first);
    CHECK(h, gram_optimizer_save(h->g, first, path) == GRAM_OK, "%s", gram_message(h->g));
    sample_open(h, &again);
    memcpy(again.w, s.w, sizeof s.w);
    memcpy(again.g, s.g, sizeof s.g);
    second = sample_optimizer(h, &again, &o);
    CHECK(h, gram_optimizer_load(h->g, second, path) == GRAM_OK, "%s", gram_message(h->g));
    copy = sample_state(h, first);
    CHECK(h, sample_same_state(h, second, copy), "another state");
    sample_step(h, &s, first);
    sample_step(h, &again, second);
    CHECK(h, memcmp(s.w, again.w, sizeof s.w) == 0, "another step");
    free(copy);
    gram_optimizer_destroy(first);
    gram_optimizer_destroy(second);
    unlink(path);
}

static void round_trips(struct harness *h)
{
    round_trip(h, (gram_dtype)0, 1);
    round_trip(h, GRAM_F32, 0);
    round_trip(h, GRAM_BF16, 1);
}

/* Arrays of more dimensions than a file knows. */
static void many_dimensions(struct harness *h)
{
    gram_optimizer_options o = options_of((gram_dtype)0, 1);
    double w[64], g[64];
    gram_tensor tw = {.data = w, .dtype = GRAM_F64, .ndim = 6}, tg;
    gram_tensor *values[] = {&tw};
    const gram_tensor *gradients[] = {&tg};
    gram_optimizer *first = NULL, *second = NULL;
    char path[32], *copy;

    o.merge = 0;
    for (int i = 0; i < 6; i++) {
        tw.shape[i] = 2;
        tw.stride[i] = 32 >> i;
    }
    tg = tw;
    tg.data = g;
    for (int i = 0; i < 64; i++) {
        w[i] = test_uniform(h);
        g[i] = test_uniform(h) - 0.5;
    }
    temporary(path);
    CHECK(h,
          gram_optimizer_create(h->g, &o, (const gram_tensor *const *)values, 1, &first) ==
                  GRAM_OK &&
              gram_optimizer_create(h->g, &o, (const gram_tensor *const *)values, 1, &second) ==
                  GRAM_OK &&
              gram_optimizer_step(h->g, first, values, gradients, NULL) == GRAM_OK &&
              gram_optimizer_save(h->g, first, path) == GRAM_OK &&
              gram_optimizer_load(h->g, second, path) == GRAM_OK,
          "%s", gram_message(h->g));
    copy = sample_state(h, first);
    CHECK(h, sample_same_state(h, second, copy), "another state");
    free(copy);
    gram_optimizer_destroy(first);
    gram_optimizer_destroy(second);
    unlink(path);
}

/* ---- What is refused ----------------------------------------------------------------------- */

struct victim {
    struct sample s;
    gram_optimizer *o;
    char path[32], *before;
    char *bytes; /* of a good file */
    size_t size;
};

static void open_victim(struct harness *h, struct victim *v)
{
    gram_optimizer_options o = options_of((gram_dtype)0, 1);

    temporary(v->path);
    sample_open(h, &v->s);
    v->o = sample_optimizer(h, &v->s, &o);
    sample_step(h, &v->s, v->o);
    CHECK(h, gram_optimizer_save(h->g, v->o, v->path) == GRAM_OK, "%s", gram_message(h->g));
    v->bytes = malloc(MOST_BYTES);
    if (!v->bytes)
        exit(1);
    v->size = read_bytes(v->path, v->bytes);
    sample_step(h, &v->s, v->o); /* so that loading would change something */
    v->before = sample_state(h, v->o);
}

static void close_victim(struct victim *v)
{
    gram_optimizer_destroy(v->o);
    unlink(v->path);
    free(v->before);
    free(v->bytes);
}

static void expect_refusal(struct harness *h, struct victim *v, gram_optimizer *o, const char *says)
{
    gram_status status = gram_optimizer_load(h->g, o, v->path);

    CHECK(h, status == GRAM_BAD_DATA && strstr(gram_message(h->g), says), "%s: %s, expected: %s",
          gram_status_name(status), gram_message(h->g), says);
}

static void cut_files(struct harness *h)
{
    struct victim v;

    open_victim(h, &v);
    CHECK(h, v.size > 1000 && v.size < MOST_BYTES, "%zu bytes", v.size);
    for (size_t size = 0; size < v.size; size += 1 + size / 16) {
        write_bytes(v.path, v.bytes, size);
        expect_refusal(h, &v, v.o, "gram_optimizer_load: ");
    }
    CHECK(h, sample_same_state(h, v.o, v.before), "a refused file changed the state");
    close_victim(&v);
}

/* Where in the file the data of an array begin. */
static size_t data_of(struct harness *h, const struct victim *v, const char *name)
{
    uint64_t header;
    char key[64], *at;
    size_t offset;

    memcpy(&header, v->bytes, sizeof header);
    (void)snprintf(key, sizeof key, "\"%s\"", name);
    at = memmem(v->bytes + 8, (size_t)header, key, strlen(key));
    at = at ? strstr(at, "\"data_offsets\": [") : NULL;
    CHECK(h, at, "no array %s", name);
    offset = at ? (size_t)strtoull(at + 17, NULL, 10) : 0;
    return 8 + (size_t)header + offset;
}

static void bad_numbers(struct harness *h)
{
    static const struct {
        const char *array;
        double value;
        int64_t count; /* where value is 0 */
        const char *says;
    } rows[] = {
        {  "0.0.root.0",      NAN,         0,                     "array \"0.0.root.0\" holds nan"},
        {"0.1.factor.1", INFINITY,         0,                   "array \"0.1.factor.1\" holds inf"},
        {  "0.0.second",       -1,         0,                      "array \"0.0.second\" holds -1"},
        {        "step",        0,        -1,                            "array \"step\" holds -1"},
        {        "step",        0, INT64_MAX,              "it has done 9223372036854775807 steps"},
        {    "failures",        0,        -7,                        "array \"failures\" holds -7"},
        {       "steps",        0,         9, "parameter 0 has done more steps than the optimizer"},
        {      "shapes",        0,         3,           "parameter 0 has 3 dimensions, expected 2"},
    };
    struct victim v;

    open_victim(h, &v);
    for (int i = 0; i < LENGTH(rows); i++) {
        size_t at = data_of(h, &v, rows[i].array);
        char was[8];
        memcpy(was, v.bytes + at, 8);
        if (rows[i].value != 0)
            memcpy(v.bytes + at, &rows[i].value, 8);
        else
            memcpy(v.bytes + at, &rows[i].count, 8);
        write_bytes(v.path, v.bytes, v.size);
        expect_refusal(h, &v, v.o, rows[i].says);
        memcpy(v.bytes + at, was, 8);
    }
    CHECK(h, sample_same_state(h, v.o, v.before), "a refused file changed the state");
    write_bytes(v.path, v.bytes, v.size);
    CHECK(h, gram_optimizer_load(h->g, v.o, v.path) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, !sample_same_state(h, v.o, v.before), "a good file changed nothing");
    close_victim(&v);
}

/* A file of another optimizer. */
static void other_optimizers(struct harness *h)
{
    gram_optimizer_options o = options_of((gram_dtype)0, 1);
    struct victim v;
    gram_optimizer *other;

    open_victim(h, &v);
    o.packed = 0;
    other = sample_optimizer(h, &v.s, &o);
    expect_refusal(h, &v, other, "0.0.factor.0");
    gram_optimizer_destroy(other);
    o.packed = 1;
    o.momentum = 0; /* fewer arrays than the file has */
    other = sample_optimizer(h, &v.s, &o);
    expect_refusal(h, &v, other, "arrays, expected");
    gram_optimizer_destroy(other);
    o.momentum = 0.5;
    o.rank = 1;
    o.ranks = 2;
    other = sample_optimizer(h, &v.s, &o);
    expect_refusal(h, &v, other, "its rank is \"0 of 1\", expected \"1 of 2\"");
    gram_optimizer_destroy(other);
    o.rank = 0;
    o.ranks = 1;
    v.s.value[0].shape[0] = 5;
    v.s.value[0].shape[1] = 6;
    other = sample_optimizer(h, &v.s, &o);
    expect_refusal(h, &v, other, "parameter 0 has 6 as a size, expected 5");
    gram_optimizer_destroy(other);
    close_victim(&v);
}

static void no_files(struct harness *h)
{
    struct victim v;

    open_victim(h, &v);
    CHECK(h, gram_optimizer_load(h->g, v.o, "/tmp/gram-no-such-file") == GRAM_IO, "loaded");
    CHECK(h, gram_optimizer_save(h->g, v.o, "/tmp/gram-no-such-folder/file") == GRAM_IO, "saved");
    CHECK(h, gram_optimizer_load(h->g, v.o, NULL) == GRAM_INVALID_ARGUMENT, "loaded nothing");
    CHECK(h, gram_optimizer_save(h->g, v.o, NULL) == GRAM_INVALID_ARGUMENT, "saved nowhere");
    CHECK(h, sample_same_state(h, v.o, v.before), "the state changed");
    close_victim(&v);
}

static const struct test_function tests[] = {
    {     "round_trips",      round_trips},
    { "many_dimensions",  many_dimensions},
    {       "cut_files",        cut_files},
    {     "bad_numbers",      bad_numbers},
    {"other_optimizers", other_optimizers},
    {        "no_files",         no_files},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
