/*
 * matrix.h - numeric arrays of the commands: read, converted, made for a result, written
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_MATRIX_H
#define GRAM_CLI_MATRIX_H
#include "command.h"

/* A matrix, or a batch of them (or a vector), in its own memory: matrix_free when done. */
struct matrix {
    gram_tensor t;
    void *memory; /* what t.data points into */
};

/* Row-major, elements undefined. */
enum exit_status matrix_allocate(struct matrix *m, gram_dtype dtype, int ndim, const int64_t *shape,
                                 struct failure *why);
void matrix_free(struct matrix *m);

/* Number of elements. */
int64_t matrix_count(const struct matrix *m);

/* An item of a batch, for messages, in name unless it is the only one: "the matrix". */
enum {
    MATRIX_NAME_BYTES = 64
};
const char *matrix_name(char name[MATRIX_NAME_BYTES], int64_t item, int64_t items);

/*
 * Reads a numeric array, from text or .npy.  dtype auto: f32 and f16 stay as they are, everything
 * else becomes f64.  Text has a header line if its first line is not all numbers; a missing number
 * is NaN.
 */
enum exit_status matrix_load(const char *path, const struct input_settings *input,
                             enum dtype_choice dtype, struct matrix *out, struct failure *why);

struct parquet_rows;

/* The same of some rows of a Parquet file. */
enum exit_status matrix_load_rows(const char *path, const struct input_settings *input,
                                  enum dtype_choice dtype, const struct parquet_rows *rows,
                                  struct matrix *out, struct failure *why);

/* Refuses what was read from path if it is not a square matrix, or a batch of them. */
enum exit_status matrix_check_square(const struct matrix *m, const char *path, struct failure *why);

/* Converts to f32 or f64; nothing happens if m has that dtype. */
enum exit_status matrix_convert(struct matrix *m, gram_dtype dtype, struct failure *why);

/* Converts so that both have the same dtype, the wider of the two. */
enum exit_status matrix_common_dtype(struct matrix *a, struct matrix *b, struct failure *why);

/*
 * Makes room for a result of rows by cols, with the batch to which those of a and b (two dimensions
 * or more) broadcast, in f64 if a is f64, else in f32.
 */
enum exit_status matrix_result(const struct matrix *a, const struct matrix *b, int64_t rows,
                               int64_t cols, struct matrix *out, struct failure *why);

/* The one or two matrices of cdist and kernel: of the same dtype, with two dimensions or more, and
 * with the same number of columns. */
struct matrix_pair {
    struct matrix x, y;
    int two; /* y is there */
};

/* ---- Writing ------------------------------------------------------------------------------ */

enum format {
    FORMAT_AUTO, /* by the end of the path: .npy, .json, .tsv, else CSV */
    FORMAT_CSV,
    FORMAT_NPY,
    FORMAT_JSON,
    FORMAT_TSV,
};

struct output_settings {
    const char *output;
    int format;
    int json; /* short for format json */
};

extern const struct option_row output_options[];

enum format output_format_of(const struct output_settings *settings);
/* Refuses a path whose ending names a format that is not written, unless --format is given. */
enum exit_status output_check_format(const struct output_settings *settings, struct failure *why);

/* Writes a row-major f32 or f64 array. */
enum exit_status matrix_save(const struct matrix *m, const struct output_settings *settings,
                             struct failure *why);

/* ---- Commands on pairs of rows -------------------------------------------------------------- */

/* The settings that commands share which write a number for every row of X and every row of Y. */
struct matrix_pair_settings {
    struct common_settings common;
    struct input_settings input;
    struct output_settings output;
    int dtype; /* enum dtype_choice */
};

struct metric_settings;

/* What such a command is made of. */
struct matrix_pair_job {
    const struct matrix_pair_settings *pair;
    const struct metric_settings *metric;
    const void *settings; /* of the command */
    /* x, y and out are where the context computes; y NULL: the rows of x among themselves. */
    enum exit_status (*compute)(gram_context *g, const void *settings, const gram_tensor *x,
                                const gram_tensor *y, gram_tensor *out, struct failure *why);
};

/* Reads the one or two files, computes into a fresh result, writes it. */
enum exit_status matrix_pair_run(const struct matrix_pair_job *job, int count, char *const *paths,
                                 struct failure *why);
#endif
