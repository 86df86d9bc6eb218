/*
 * cmd_eigh.c - `gram eigh`: eigenvalues and eigenvectors of symmetric matrices
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "devices.h"
#include "number.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    struct common_settings common;
    struct input_settings input;
    const char *range, *values, *prefix;
    int64_t largest, smallest;
    int uplo, dtype, driver, no_vectors, force;
};

static const struct option_row rows[] = {
    TEXT("range", 0, "I:J", offsetof(struct settings, range), NULL,
         "the pairs I to J - 1 in ascending order, counted from 0; I or J may be left out"),
    INTEGER("largest", 0, "K", offsetof(struct settings, largest), NULL, 0, 0x1p53,
            "the pairs of the K largest values"),
    INTEGER("smallest", 0, "K", offsetof(struct settings, smallest), NULL, 0, 0x1p53,
            "the pairs of the K smallest values"),
    TEXT("values", 0, "LO:HI", offsetof(struct settings, values), NULL,
         "the pairs with values above LO and at most HI; LO or HI may be left out"),
    UPLO(offsetof(struct settings, uplo),
         "the triangle of A that is read; the other one may hold anything"),
    CHOICE("driver", 0, "NAME", offsetof(struct settings, driver), "auto",
           "auto|closed|jacobi|divide|bisection|krylov|batched",
           "the method; closed is for orders up to 3, jacobi for orders up to 32, batched for "
           "GPUs"),
    DTYPE(offsetof(struct settings, dtype),
          "auto: f32 if A is a float32 or float16 array, else f64"),
    OPTION_END,
};

static const struct option_row result_rows[] = {
    TEXT("output", 'o', "PREFIX", offsetof(struct settings, prefix), NULL,
         "write PREFIX-values.npy and PREFIX-vectors.npy (default: write the values as text to "
         "standard output)"),
    FLAG("no-vectors", 0, offsetof(struct settings, no_vectors), "do not compute vectors"),
    OPTION_END,
};

static const struct option_row several_rows[] = {
    TEXT("device", 0, "DEVICE", offsetof(struct settings, common.device), "cpu",
         "the device: cpu; cuda or cuda:N, an NVIDIA GPU; auto, a GPU if one can be used; "
         "cuda:0,1, several GPUs that share each matrix"),
    FLAG("force", 0, offsetof(struct settings, force),
         "use several GPUs even if one of them can hold the matrix and is faster"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Which pairs", rows, 0),
    GROUP("Input", input_options, offsetof(struct settings, input)),
    GROUP("Output", result_rows, 0),
    GROUP("Device", several_rows, 0),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

/* The problem and its results; vectors.memory NULL: not wanted. */
struct problem {
    struct matrix a, values, vectors, info, found;
    gram_eigh_options options;
    int with_vectors;
};

/* Reads "LOW:HIGH".  A number that is left out keeps its value. */
static enum exit_status parse_pair(const char *name, const char *text, double *low, double *high,
                                   struct failure *why)
{
    const char *at = text, *end;

    if (*at != ':') {
        end = number_parse(at, low);
        at = end ? end : "";
    }
    if (*at == ':' && at[1] != '\0') {
        end = number_parse(at + 1, high);
        at = end ? end : ":";
    } else if (*at == ':') {
        at++;
    } else {
        at = ":";
    }
    if (*at != '\0')
        return fail(why, CLI_USAGE, "--%s: \"%s\" is not of the form LOW:HIGH", name, text);
    return CLI_OK;
}

static enum exit_status choose_range(const char *text, int64_t n, gram_eigh_options *o,
                                     struct failure *why)
{
    double first = 0, end = (double)n;

    TRY(parse_pair("range", text, &first, &end, why));
    if (!(first >= 0 && first <= end && end <= (double)n && first == floor(first) &&
          end == floor(end)))
        return fail(why, CLI_USAGE,
                    "--range is \"%s\", expected whole numbers with 0 <= I <= J <= %lld", text,
                    (long long)n);
    o->select = GRAM_EIGH_INDEX;
    o->first = (int64_t)first;
    o->count = (int64_t)(end - first);
    return CLI_OK;
}

static enum exit_status choose_pairs(const struct settings *s, int64_t n, gram_eigh_options *o,
                                     struct failure *why)
{
    int given = (s->range != NULL) + (s->values != NULL) + (s->largest >= 0) + (s->smallest >= 0);

    if (given > 1)
        return fail(why, CLI_USAGE,
                    "more than one of --range, --values, --largest and --smallest is given, "
                    "expected only one of them");
    o->count = n;
    if (s->range)
        return choose_range(s->range, n, o, why);
    if (s->values) {
        o->select = GRAM_EIGH_VALUE;
        o->lower = -INFINITY, o->upper = INFINITY;
        TRY(parse_pair("values", s->values, &o->lower, &o->upper, why));
        if (!(o->lower < o->upper))
            return fail(why, CLI_USAGE, "--values is \"%s\", expected LO < HI", s->values);
    } else if (given) {
        o->select = s->largest >= 0 ? GRAM_EIGH_LARGEST : GRAM_EIGH_SMALLEST;
        o->count = s->largest >= 0 ? s->largest : s->smallest;
        if (o->count > n)
            return fail(
                why, CLI_USAGE, "--%s is %lld, expected at most %lld, the order of the matrix",
                s->largest >= 0 ? "largest" : "smallest", (long long)o->count, (long long)n);
    }
    return CLI_OK;
}

static enum exit_status load(const struct settings *s, const char *path, struct problem *p,
                             struct failure *why)
{
    gram_tensor *a = &p->a.t;
    int64_t shape[GRAM_MAX_DIMS];

    TRY(matrix_load(path, &s->input, (enum dtype_choice)s->dtype, &p->a, why));
    TRY(matrix_check_square(&p->a, path, why));
    if (a->dtype == GRAM_F16)
        TRY(matrix_convert(&p->a, GRAM_F32, why));
    p->options = (gram_eigh_options)GRAM_EIGH_OPTIONS_INIT;
    p->options.uplo = s->uplo ? GRAM_UPPER : GRAM_LOWER;
    p->options.driver = (gram_eigh_driver)s->driver;
    p->with_vectors = s->prefix && !s->no_vectors;
    TRY(choose_pairs(s, a->shape[a->ndim - 1], &p->options, why));
    memcpy(shape, a->shape, sizeof shape);
    TRY(matrix_allocate(&p->info, GRAM_I32, a->ndim - 2, shape, why));
    TRY(matrix_allocate(&p->found, GRAM_I64, a->ndim - 2, shape, why));
    if (p->with_vectors) {
        shape[a->ndim - 1] = p->options.count;
        TRY(matrix_allocate(&p->vectors, a->dtype, a->ndim, shape, why));
    }
    shape[a->ndim - 2] = p->options.count;
    return matrix_allocate(&p->values, a->dtype, a->ndim - 1, shape, why);
}

static enum exit_status check_info(const struct matrix *info, struct failure *why)
{
    const int32_t *code = info->t.data;
    int64_t items = matrix_count(info);

    for (int64_t i = 0; i < items; i++) {
        char name[MATRIX_NAME_BYTES];
        const char *item = matrix_name(name, i, items);
        if (code[i] == 1)
            return fail(why, CLI_FAILURE, "%s: the method did not converge", item);
        if (code[i])
            return fail(why, CLI_FAILURE, "%s holds NaN or infinity", item);
    }
    return CLI_OK;
}

/* The same matrices where the context computes. */
struct there {
    struct device_matrix a, values, vectors, info, found;
};

static enum exit_status solve(gram_context *g, struct problem *p, struct there *at,
                              struct failure *why)
{
    gram_eigh_options options = p->options;
    gram_status done;

    TRY(device_matrix_send(g, &p->a, &at->a, why));
    TRY(device_matrix_result(g, &p->values, &at->values, why));
    TRY(device_matrix_result(g, &p->info, &at->info, why));
    TRY(device_matrix_result(g, &p->found, &at->found, why));
    if (p->with_vectors)
        TRY(device_matrix_result(g, &p->vectors, &at->vectors, why));
    if (p->options.select == GRAM_EIGH_VALUE)
        options.found = &at->found.t;
    done = gram_eigh(g, &at->a.t, &options, &at->values.t, p->with_vectors ? &at->vectors.t : NULL,
                     &at->info.t);
    if (done != GRAM_OK)
        return fail_gram(why, done, g);
    TRY(device_matrix_fetch(g, &at->info, &p->info, why));
    TRY(device_matrix_fetch(g, &at->values, &p->values, why));
    TRY(device_matrix_fetch(g, &at->found, &p->found, why));
    if (p->with_vectors)
        TRY(device_matrix_fetch(g, &at->vectors, &p->vectors, why));
    return check_info(&p->info, why);
}

/* Several GPUs read the matrix from the CPU, and write the results there. */
static enum exit_status share(const struct settings *s, struct problem *p, struct failure *why)
{
    gram_eigh_options options = p->options;
    struct devices devices;
    enum exit_status status = devices_open(&s->common, &devices, why);
    gram_status done;

    if (status == CLI_OK) {
        devices.group.force = s->force;
        if (options.select == GRAM_EIGH_VALUE)
            options.found = &p->found.t;
        done = gram_eigh_multi(&devices.group, &p->a.t, &options, &p->values.t,
                               p->with_vectors ? &p->vectors.t : NULL, &p->info.t);
        status = done == GRAM_OK ? check_info(&p->info, why) : fail_gram(why, done, devices.g[0]);
    }
    devices_close(&devices);
    return status;
}

static enum exit_status compute(const struct settings *s, struct problem *p, struct failure *why)
{
    struct there there = {.a.memory = NULL};
    enum exit_status status;
    gram_context *g;

    if (devices_several(s->common.device))
        return share(s, p, why);
    if (s->force)
        return fail(why, CLI_USAGE, "--force applies only to several GPUs: --device cuda:0,1");
    TRY(open_context(&s->common, &g, why));
    status = solve(g, p, &there, why);
    device_matrix_free(g, &there.a);
    device_matrix_free(g, &there.values);
    device_matrix_free(g, &there.vectors);
    device_matrix_free(g, &there.info);
    device_matrix_free(g, &there.found);
    gram_context_destroy(g);
    return status;
}

/* Keeps the first `keep` columns of a row-major array, or elements of each vector, and closes the
 * gaps. */
static void trim(struct matrix *m, int64_t keep)
{
    int last = m->t.ndim - 1;
    int64_t width = m->t.shape[last], rows_before = 1;
    size_t size = gram_dtype_size(m->t.dtype);
    char *data = m->t.data;

    for (int d = 0; d < last; d++)
        rows_before *= m->t.shape[d];
    for (int64_t i = 0; i < rows_before; i++)
        memmove(data + (size_t)(i * keep) * size, data + (size_t)(i * width) * size,
                (size_t)keep * size);
    m->t.shape[last] = keep;
    for (int d = last; d >= 0; d--)
        m->t.stride[d] = d == last ? 1 : m->t.stride[d + 1] * m->t.shape[d + 1];
}

/* For a range of values, the result has as many columns as the item with the most values. */
static void trim_to_found(struct problem *p)
{
    const int64_t *found = p->found.t.data;
    int64_t items = matrix_count(&p->found), most = 0;

    for (int64_t i = 0; i < items; i++)
        most = found[i] > most ? found[i] : most;
    trim(&p->values, most);
    if (p->with_vectors)
        trim(&p->vectors, most);
}

/* The files that --output PREFIX means. */
static const char *const endings[] = {"-values.npy", "-vectors.npy"};

static enum exit_status output_path(const struct settings *s, int which, char **path,
                                    struct failure *why)
{
    size_t size = strlen(s->prefix) + strlen(endings[which]) + 1;

    *path = malloc(size);
    if (!*path)
        return fail_memory(why, "a path");
    snprintf(*path, size, "%s%s", s->prefix, endings[which]);
    return CLI_OK;
}

static enum exit_status output_files(const void *settings, int count, char **operands,
                                     struct files *files, struct failure *why)
{
    const struct settings *s = settings;
    enum exit_status status = CLI_OK;

    (void)count;
    (void)operands;
    for (int i = 0; s->prefix && i < LENGTH(endings) && status == CLI_OK; i++) {
        char *path;
        TRY(output_path(s, i, &path, why));
        status = files_write(files, "output", path, why);
        free(path);
    }
    return status;
}

static enum exit_status save(const struct settings *s, const struct problem *p, struct failure *why)
{
    const struct matrix *const results[] = {&p->values, p->with_vectors ? &p->vectors : NULL};
    struct output_settings output = {.output = "-", .format = FORMAT_CSV};
    enum exit_status status = CLI_OK;

    if (!s->prefix)
        return matrix_save(&p->values, &output, why);
    for (int i = 0; i < LENGTH(results) && results[i] && status == CLI_OK; i++) {
        char *path;
        TRY(output_path(s, i, &path, why));
        output = (struct output_settings){.output = path, .format = FORMAT_NPY};
        status = matrix_save(results[i], &output, why);
        free(path);
    }
    return status;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    struct problem p = {.with_vectors = 0};
    enum exit_status status = load(s, operands[0], &p, why);

    (void)count;
    if (status == CLI_OK)
        status = compute(s, &p, why);
    if (status == CLI_OK && p.options.select == GRAM_EIGH_VALUE)
        trim_to_found(&p);
    if (status == CLI_OK)
        status = save(s, &p, why);
    matrix_free(&p.a);
    matrix_free(&p.values);
    matrix_free(&p.vectors);
    matrix_free(&p.info);
    matrix_free(&p.found);
    return status;
}

const struct command cmd_eigh = {
    .name = "eigh",
    .operands = "A",
    .summary = "compute eigenvalues and eigenvectors of a symmetric matrix",
    .details =
        "Computes the eigenvalues of the symmetric matrix A in ascending order, and its "
        "orthonormal eigenvectors, one per column: all of them, or those that --range, --largest, "
        "--smallest or --values select. A is a numeric table in a file of text, Parquet, Arrow or "
        "Feather, or an .npy array; an array "
        "with more than two dimensions is a batch of matrices.\n\n"
        "The exit status is 1, and nothing is written, if a matrix holds NaN or infinity. With "
        "--values, the results of matrices of a batch that have fewer values in the interval than "
        "others are padded with NaN.",
    .examples =
        "  gram eigh kernel.npy --largest 10 -o kernel\n"
        "  gram eigh kernel.npy --values :1e-6\n"
        "  gram eigh huge.npy --device cuda:0,1 -o huge",
    .least = 1,
    .most = 1,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .files = output_files,
    .run = run,
};
