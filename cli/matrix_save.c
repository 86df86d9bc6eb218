/*
 * matrix_save.c - numeric arrays to text, JSON or .npy
 *
 * SPDX-License-Identifier: MIT
 */
#include "foreign.h"
#include "json.h"
#include "matrix.h"
#include "npy.h"
#include "number.h"
#include <string.h>

const struct option_row output_options[] = {
    FILE_NAME("output", 'o', "FILE", offsetof(struct output_settings, output), "-",
              "the file for the result; - is standard output"),
    CHOICE("format", 0, "FORMAT", offsetof(struct output_settings, format), "auto",
           "auto|csv|npy|json|tsv",
           "the format; auto follows the ending of FILE, and is csv if there is none"),
    FLAG("json", 0, offsetof(struct output_settings, json), "the same as --format json"),
    OPTION_END,
};

enum format output_format_of(const struct output_settings *settings)
{
    static const struct {
        const char *end;
        enum format format;
    } ends[] = {
        { ".npy",  FORMAT_NPY},
        {".json", FORMAT_JSON},
        { ".tsv",  FORMAT_TSV}
    };
    size_t size = strlen(settings->output);

    if (settings->json)
        return FORMAT_JSON;
    if (settings->format != FORMAT_AUTO)
        return (enum format)settings->format;
    for (int i = 0; i < LENGTH(ends); i++)
        if (size > strlen(ends[i].end) &&
            strcmp(settings->output + size - strlen(ends[i].end), ends[i].end) == 0)
            return ends[i].format;
    return FORMAT_CSV;
}

enum exit_status output_check_format(const struct output_settings *settings, struct failure *why)
{
    const char *promised = foreign_ending(settings->output);

    if (!promised || settings->json || settings->format != FORMAT_AUTO)
        return CLI_OK;
    return fail(why, CLI_USAGE,
                "--output is %s, but files of type %s cannot be written; expected .csv, .tsv, "
                ".json or .npy, or a --format",
                settings->output, promised);
}

static void write_number(struct output *out, const gram_tensor *t, int64_t i)
{
    char text[NUMBER_TEXT];

    if (t->dtype == GRAM_F32)
        number_format_float(text, ((const float *)t->data)[i]);
    else
        number_format(text, ((const double *)t->data)[i]);
    output_text(out, text);
}

static void write_text(struct output *out, const gram_tensor *t, const char *delimiter)
{
    int64_t rows = t->shape[0], cols = t->ndim == 2 ? t->shape[1] : 1;

    for (int64_t row = 0; row < rows; row++) {
        for (int64_t c = 0; c < cols; c++) {
            if (c > 0)
                output_text(out, delimiter);
            write_number(out, t, row * cols + c);
        }
        output_text(out, "\n");
    }
}

/* Dimension d of the array, from element `first` on, as nested lists. */
static void write_list(struct json *j, const gram_tensor *t, int d, int64_t first)
{
    if (d == t->ndim - 1)
        json_flat_array(j, NULL);
    else
        json_array(j, NULL);
    for (int64_t i = 0; i < t->shape[d]; i++) {
        int64_t at = first + i * t->stride[d];
        if (d < t->ndim - 1)
            write_list(j, t, d + 1, at);
        else if (t->dtype == GRAM_F32)
            json_float(j, NULL, ((const float *)t->data)[at]);
        else
            json_number(j, NULL, ((const double *)t->data)[at]);
    }
    json_end(j);
}

static void write_npy(struct output *out, const gram_tensor *t)
{
    size_t bytes = gram_dtype_size(t->dtype);

    npy_write_header(out, t->dtype, t->ndim, t->shape);
    for (int d = 0; d < t->ndim; d++)
        bytes *= (size_t)t->shape[d];
    output_write(out, t->data, bytes);
}

enum exit_status matrix_save(const struct matrix *m, const struct output_settings *settings,
                             struct failure *why)
{
    enum format format = output_format_of(settings);
    struct output out;

    if (m->t.ndim > 2 && (format == FORMAT_CSV || format == FORMAT_TSV))
        return fail(why, CLI_USAGE,
                    "the result has %d dimensions, which text cannot hold; write .npy or .json",
                    m->t.ndim);
    TRY(output_open(&out, settings->output, why));
    if (format == FORMAT_NPY) {
        write_npy(&out, &m->t);
    } else if (format == FORMAT_JSON) {
        struct json j = json_to(&out);
        write_list(&j, &m->t, 0, 0);
    } else {
        write_text(&out, &m->t, format == FORMAT_TSV ? "\t" : ",");
    }
    return output_close(&out, why);
}
