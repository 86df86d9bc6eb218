/*
 * krr_task.c - what `gram krr` reads: the rows of X, Y and Z, and those of them that a rank has
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr_task.h"
#include "parquet.h"
#include "text.h"
#include <math.h>
#include <string.h>

enum {
    MEDIAN_ROWS = 4096 /* of a file that is read in pieces, or by several processes */
};

/* Whether this process is alone, or the first of several. */
bool krr_first(const struct krr_task *p)
{
    return !p->ranks.c || ranks_first(&p->ranks);
}

enum exit_status krr_agree(struct krr_task *p, enum exit_status status, struct failure *why)
{
    return p->ranks.c ? ranks_agree(&p->ranks, status, why) : status;
}

struct output_settings krr_output_of(const char *path)
{
    return (struct output_settings){.output = path, .format = FORMAT_AUTO};
}

/* A file beside the report, which goes to standard output. */
static enum exit_status check_output(const char *option, const char *path, struct failure *why)
{
    const struct output_settings output = krr_output_of(path);

    if (!path)
        return CLI_OK;
    if (strcmp(path, "-") == 0)
        return fail(why, CLI_USAGE,
                    "--%s is -, expected a file: the report goes to standard output", option);
    return output_check_format(&output, why);
}

enum exit_status krr_check(const struct krr_settings *s, struct failure *why)
{
    TRY(kernel_check(&s->kernel, s->dtype, why));
    if (isnan(s->ridge))
        return fail(why, CLI_USAGE, "--ridge is not given");
    if (!s->predict != !s->predictions)
        return fail(why, CLI_USAGE, "--%s is given without --%s, which it needs",
                    s->predict ? "predict" : "predictions", s->predict ? "predictions" : "predict");
    if (!s->checkpoint &&
        (s->resume || s->checkpoint_iterations > 0 || !isnan(s->checkpoint_seconds)))
        return fail(why, CLI_USAGE, "--%s is given without --checkpoint, which it needs",
                    s->resume                      ? "resume"
                    : s->checkpoint_iterations > 0 ? "checkpoint-iterations"
                                                   : "checkpoint-seconds");
    if (s->mpi && (s->centres > 0 || s->centre_points))
        return fail(why, CLI_USAGE, "--%s cannot be used with --mpi",
                    s->centres > 0 ? "centres" : "centre-points");
    if (s->chosen && s->centres < 0)
        return fail(why, CLI_USAGE, "--chosen is given without --centres, which it needs");
    if (s->centres > 0 && s->centre_points)
        return fail(why, CLI_USAGE,
                    "--centres and --centre-points are given, expected only one of them");
    TRY(check_output("chosen", s->chosen, why));
    TRY(check_output("output", s->output, why));
    return check_output("predictions", s->predictions, why);
}

/* Of one or two dimensions, and of the rows that x has. */
static enum exit_status load_one(const struct krr_settings *s, const char *path, int vector,
                                 struct matrix *m, struct failure *why)
{
    TRY(matrix_load(path, &s->input, (enum dtype_choice)s->dtype, m, why));
    if (m->t.ndim == 2 || (vector && m->t.ndim == 1))
        return CLI_OK;
    return fail(why, CLI_BAD_DATA, "%s has %d dimension%s, expected a matrix%s", text_name(path),
                m->t.ndim, m->t.ndim == 1 ? "" : "s", vector ? " or a vector" : "");
}

static enum exit_status check_rows(const char *path, const struct matrix *m, const char *x_path,
                                   const struct krr_task *p, struct failure *why)
{
    if (m->t.shape[0] == p->rows)
        return CLI_OK;
    return fail(why, CLI_BAD_DATA, "%s has %lld rows, but %s has %lld", text_name(path),
                (long long)m->t.shape[0], text_name(x_path), (long long)p->rows);
}

/* Bytes of the host that are there. */
static double room_there(void)
{
    gram_info info = {.size = sizeof info};
    gram_context *g;
    double room = INFINITY;

    if (gram_context_create(NULL, &g) != GRAM_OK)
        return room;
    if (gram_context_info(g, &info) == GRAM_OK)
        room = 0.8 * (double)info.memory_available;
    gram_context_destroy(g);
    return room;
}

/* The rows of X would not fit, as they are and in f64. */
static bool is_too_large(const struct krr_settings *s, const struct npy *file)
{
    const double bytes = (double)npy_type_size(file->type) + sizeof(double);
    const double room = isnan(s->memory) ? room_there() : s->memory * 0x1p30;

    return bytes * (double)file->count > room;
}

/* Each rank reads its own rows of a .npy file whose rows lie one after the other. */
static bool is_shared(const struct krr_settings *s, const struct npy_rows *file)
{
    return s->mpi && file->file.ndim == 2 && !file->file.fortran &&
           file->swapped == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

/* Rows of X that are evenly apart, for the median of their distances. */
static enum exit_status load_some(struct krr_task *p, gram_dtype dtype, struct failure *why)
{
    const int64_t count = p->rows < MEDIAN_ROWS ? p->rows : MEDIAN_ROWS;
    const int64_t shape[2] = {count, p->file.rows.columns}, step = count > 0 ? p->rows / count : 1;
    const size_t bytes = (size_t)shape[1] * gram_dtype_size(dtype);

    TRY(matrix_allocate(&p->x, dtype, 2, shape, why));
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = i * step;

        TRY(npy_rows_read(&p->file, &row, 1, (char *)p->x.memory + (size_t)i * bytes, why));
    }
    return CLI_OK;
}

/* Rows of X that are evenly apart, and this rank's. */
static enum exit_status divide_x(struct krr_task *p, struct failure *why)
{
    const int64_t all = p->x.t.shape[0], count = all < MEDIAN_ROWS ? all : MEDIAN_ROWS;
    const int64_t shape[2] = {count, p->x.t.shape[1]}, step = count > 0 ? all / count : 1;
    int64_t first, own = ranks_rows(&p->ranks, all, &first);

    TRY(matrix_allocate(&p->sample, p->x.t.dtype, 2, shape, why));
    ranks_copy_rows(&p->x, (const int64_t[2]){0, step}, count, p->sample.t.data);
    return ranks_keep(&p->x, first, own, why);
}

/* This rank's rows of a file that is read by rows, which is open. */
static enum exit_status read_own(struct krr_task *p, gram_dtype dtype, struct failure *why)
{
    char message[GRAM_ROWS_MESSAGE] = "";
    int64_t shape[2] = {0, p->file.rows.columns}, first;

    TRY(load_some(p, dtype, why));
    p->sample = p->x;
    p->x = (struct matrix){.memory = NULL};
    shape[0] = ranks_rows(&p->ranks, p->rows, &first);
    TRY(matrix_allocate(&p->x, dtype, 2, shape, why));
    if (p->file.rows.read(p->file.rows.user, first, shape[0], p->x.t.data, message) != 0)
        return fail(why, CLI_IO, "cannot read %s", message);
    npy_rows_close(&p->file);
    return CLI_OK;
}

/* The same of a Parquet file.  Where the bandwidth is given, one row tells how many columns there
 * are. */
static enum exit_status read_own_parquet(const struct krr_settings *s, const char *path,
                                         struct krr_task *p, struct failure *why)
{
    const enum dtype_choice dtype = (enum dtype_choice)s->dtype;
    struct parquet_rows some = {.step = 1}, own = {.step = 1};
    int64_t count = isnan(s->kernel.bandwidth) ? MEDIAN_ROWS : 1;

    TRY(parquet_count(path, &p->rows, why));
    count = p->rows < count ? p->rows : count;
    if (count > 0)
        some.step = p->rows / count;
    some.end = count * some.step;
    TRY(matrix_load_rows(path, &s->input, dtype, &some, &p->sample, why));
    own.end = ranks_rows(&p->ranks, p->rows, &own.first);
    own.end += own.first;
    return matrix_load_rows(path, &s->input, dtype, &own, &p->x, why);
}

/* X, or some rows of a file that is too large for the memory, unless it is to be factorised. */
static enum exit_status load_x(const struct krr_settings *s, const char *path, struct krr_task *p,
                               struct failure *why)
{
    if (s->method != GRAM_KRR_CHOLESKY && s->method != GRAM_KRR_BLOCKS)
        TRY(npy_rows_open(path, &p->file, why));
    if (p->file.stream && (is_too_large(s, &p->file.file) || is_shared(s, &p->file))) {
        const enum npy_type type = p->file.file.type;
        const bool narrow = s->dtype == DTYPE_F32 ||
                            (s->dtype == DTYPE_AUTO && (type == NPY_F32 || type == NPY_F16));

        TRY(npy_rows_begin(&p->file, narrow ? GRAM_F32 : GRAM_F64, why));
        p->rows = p->file.rows.rows;
        return s->mpi ? read_own(p, p->file.rows.dtype, why)
                      : load_some(p, p->file.rows.dtype, why);
    }
    npy_rows_close(&p->file);
    if (s->mpi && s->method != GRAM_KRR_CHOLESKY && s->method != GRAM_KRR_BLOCKS &&
        parquet_is(path))
        return read_own_parquet(s, path, p, why);
    TRY(load_one(s, path, 0, &p->x, why));
    p->rows = p->x.t.shape[0];
    return s->mpi ? divide_x(p, why) : CLI_OK;
}

/* Weights of rows are a vector, or a matrix of one column. */
static enum exit_status load_weights(const struct krr_settings *s, const char *x_path,
                                     struct krr_task *p, struct failure *why)
{
    struct matrix *w = &p->weights;

    if (!s->row_weights)
        return CLI_OK;
    TRY(load_one(s, s->row_weights, 1, w, why));
    if (w->t.ndim == 2 && w->t.shape[1] != 1)
        return fail(why, CLI_BAD_DATA, "%s has %lld columns, expected 1", text_name(s->row_weights),
                    (long long)w->t.shape[1]);
    w->t.ndim = 1;
    return check_rows(s->row_weights, w, x_path, p, why);
}

/* Further rows with the columns of x, if there is a path. */
static enum exit_status load_points(const struct krr_settings *s, const char *path,
                                    const char *x_path, const struct matrix *x, struct matrix *m,
                                    struct failure *why)
{
    if (!path)
        return CLI_OK;
    TRY(load_one(s, path, 0, m, why));
    if (m->t.shape[1] != x->t.shape[1])
        return fail(why, CLI_BAD_DATA, "%s has %lld columns, but %s has %lld", text_name(path),
                    (long long)m->t.shape[1], text_name(x_path), (long long)x->t.shape[1]);
    return CLI_OK;
}

/* All inputs in one dtype: the widest, and f32 at least. */
static enum exit_status convert(struct krr_task *p, struct failure *why)
{
    struct matrix *const all[] = {&p->x, &p->y, &p->weights, &p->z, &p->points, &p->sample};
    gram_dtype dtype = GRAM_F32;

    for (int i = 0; i < LENGTH(all); i++)
        if (all[i]->memory && all[i]->t.dtype == GRAM_F64)
            dtype = GRAM_F64;
    for (int i = 0; i < LENGTH(all); i++)
        if (all[i]->memory)
            TRY(matrix_convert(all[i], dtype, why));
    p->file.rows.dtype = dtype;
    return CLI_OK;
}

static enum exit_status make_results(const struct krr_settings *s, struct krr_task *p,
                                     struct failure *why)
{
    const int64_t columns = p->y.t.ndim == 2 ? p->y.t.shape[1] : 1;
    const int64_t count = s->centres > 0     ? s->centres
                          : s->centre_points ? p->points.t.shape[0]
                                             : p->rows;

    if (s->centres > p->rows)
        return fail(why, CLI_USAGE, "--centres is %lld, expected at most %lld, the rows of X",
                    (long long)s->centres, (long long)p->rows);
    if (s->centres > 0)
        TRY(matrix_allocate(&p->chosen, GRAM_I64, 1, &s->centres, why));
    return matrix_allocate(&p->alpha, s->refine ? GRAM_F64 : p->x.t.dtype, p->y.t.ndim,
                           (const int64_t[2]){count, columns}, why);
}

/* What else a rank has: its rows of Y, of the weights and of Z. */
static enum exit_status divide(struct krr_task *p, struct failure *why)
{
    int64_t first, own;

    p->predicted = p->z.memory ? p->z.t.shape[0] : 0;
    own = ranks_rows(&p->ranks, p->predicted, &first);
    if (p->z.memory)
        TRY(ranks_keep(&p->z, first, own, why));
    p->all = p->rows;
    own = ranks_rows(&p->ranks, p->rows, &first);
    if (p->weights.memory)
        TRY(ranks_keep(&p->weights, first, own, why));
    TRY(ranks_keep(&p->y, first, own, why));
    p->rows = own;
    return CLI_OK;
}

enum exit_status krr_load(const struct krr_settings *s, char *const *paths, struct krr_task *p,
                          struct failure *why)
{
    TRY(load_x(s, paths[0], p, why));
    TRY(load_one(s, paths[1], 1, &p->y, why));
    TRY(check_rows(paths[1], &p->y, paths[0], p, why));
    TRY(load_weights(s, paths[0], p, why));
    TRY(load_points(s, s->predict, paths[0], &p->x, &p->z, why));
    TRY(load_points(s, s->centre_points, paths[0], &p->x, &p->points, why));
    TRY(convert(p, why));
    if (s->mpi)
        TRY(divide(p, why));
    return make_results(s, p, why);
}
