/*
 * fuzz_model.c - any bytes as a model file: refused with a message, or a machine that can predict
 *
 * The bytes are parsed as a safetensors file, whose arrays must then be readable to their last
 * byte, and loaded as a machine through a file in memory.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE // NOLINT(bugprone-reserved-identifier)
#include "core/model_file.h"
#include "machine/table.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ROWS = 3
};

static void require(int condition)
{
    if (!condition)
        abort();
}

static gram_context *open_context(void)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g = NULL;

    o.threads = 1;
    require(gram_context_create(&o, &g) == GRAM_OK);
    return g;
}

/* Reads every byte of every array: a sanitizer sees those that are not there. */
static unsigned walk(const struct gram_model_file *file)
{
    unsigned sum = 0;

    for (size_t i = 0; i < file->arrays; i++) {
        const struct gram_model_placed *a = &file->placed[i];
        const unsigned char *bytes = a->array.data;
        for (int64_t k = 0; k < a->end - a->begin; k++)
            sum += bytes[k];
        require(gram_model_find(file, a->array.name) == &a->array);
    }
    for (size_t i = 0; i < file->texts; i++)
        require(gram_model_text(file, file->text[i].key) == file->text[i].value);
    return sum;
}

static void parse(gram_context *g, const uint8_t *data, size_t size)
{
    struct gram_model_file *file;
    struct gram_encoder *encoder;
    unsigned first;
    gram_status status = gram_model_parse(g, "fuzz", data, size, &file);

    require(status == GRAM_OK || (status == GRAM_BAD_DATA && !file && *gram_message(g)));
    if (status != GRAM_OK)
        return;
    first = walk(file);
    require(walk(file) == first);
    status = gram_model_need_encoder(g, file, &encoder);
    require(status == GRAM_OK || (status == GRAM_BAD_DATA && !encoder));
    gram_encoder_destroy(encoder);
    gram_model_file_destroy(file);
}

/* Intervals or sets of a level that few errors allow; no set may be empty. */
static void bound(gram_context *g, const gram_machine *machine, const gram_table *table)
{
    const int64_t classes = gram_machine_class_count(machine);
    const int64_t targets = gram_machine_target_count(machine);
    double *ends = calloc((size_t)(2 * ROWS * targets), sizeof *ends);
    int32_t *place = calloc((size_t)(ROWS * classes) + 1, sizeof *place);
    gram_tensor interval = gram_matrix(ends, ROWS, 2 * targets, GRAM_F64);
    gram_tensor set = gram_matrix(place, ROWS, classes, GRAM_I32);
    gram_status status;

    require(ends != NULL && place != NULL);
    status = classes ? gram_machine_predict_set(g, machine, table, 0.4, NULL, &set)
                     : gram_machine_predict_interval(g, machine, table, 0.4, NULL, &interval);
    require((status == GRAM_OK) == (gram_machine_highest_level(machine) > 0));
    for (int64_t row = 0; status == GRAM_OK && row < ROWS; row++) {
        int32_t size = classes == 0;

        for (int64_t k = 0; k < classes; k++)
            size += place[row * classes + k] > 0;
        require(size > 0);
        for (int64_t t = 0; classes == 0 && t < targets; t++) {
            const double *end = ends + 2 * (row * targets + t);

            require(!(end[0] > end[1]));
        }
    }
    free(ends);
    free(place);
}

/* Predicts rows of zeros, of missing labels and of dates. */
static void predict(gram_context *g, const gram_machine *machine)
{
    int64_t features = gram_machine_feature_count(machine);
    gram_column *column = calloc((size_t)features + 1, sizeof *column);
    gram_table table = {ROWS, features, column};
    static const double zeros[ROWS];
    static const char *const missing[ROWS], *const dates[ROWS] = {"2024-03-01T12:30", "3/4/2024"};
    const int64_t targets = gram_machine_target_count(machine);
    double *out = calloc((size_t)(ROWS * targets), sizeof *out);
    gram_tensor t =
        targets > 1 ? gram_matrix(out, ROWS, targets, GRAM_F64) : gram_vector(out, ROWS, GRAM_F64);

    require(column != NULL && out != NULL && targets > 0 && gram_machine_target_name(machine, 0));
    for (int64_t i = 0; i < features; i++) {
        gram_machine_feature feature = {.size = sizeof feature};
        require(gram_machine_feature_at(g, machine, i, &feature) == GRAM_OK);
        column[i].name = feature.name;
        column[i].numbers = feature.labels > 0 ? NULL : zeros;
        column[i].labels = feature.dates ? dates : feature.labels > 0 ? missing : NULL;
    }
    for (int64_t i = 0; i < features; i++) {
        gram_machine_unseen unseen = {.size = sizeof unseen};
        require(gram_machine_unseen_at(g, machine, &table, i, &unseen) == GRAM_OK);
    }
    if (gram_machine_predict(g, machine, &table, &t) != GRAM_OK)
        require(*gram_message(g) != 0);
    else
        bound(g, machine, &table);
    free(out);
    free(column);
}

static void load(gram_context *g, const uint8_t *data, size_t size)
{
    gram_machine *machine;
    gram_status status;
    char path[64];
    int descriptor = memfd_create("fuzz", MFD_CLOEXEC);

    require(descriptor >= 0 && write(descriptor, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    status = gram_machine_load(g, path, &machine);
    require(status == GRAM_OK || (status == GRAM_BAD_DATA && !machine && *gram_message(g)));
    if (status == GRAM_OK)
        predict(g, machine);
    gram_machine_destroy(machine);
    (void)close(descriptor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gram_context *g = open_context();

    g->call = "fuzz";
    parse(g, data, size);
    load(g, data, size);
    gram_context_destroy(g);
    return 0;
}
