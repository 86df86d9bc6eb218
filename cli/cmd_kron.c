/*
 * cmd_kron.c - `gram kron`: products with a Kronecker product, which is not formed
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "kron_op.h"
#include "kron_ranks.h"
#include "text.h"
#include <string.h>

struct settings {
    struct common_settings common;
    struct input_settings input;
    struct output_settings output;
    int side, dtype, transpose_x, written_out, mpi, split;
    const char *op;
};

static const struct option_row rows[] = {
    CHOICE("side", 's', "SIDE", offsetof(struct settings, side), "right", "right|left",
           "the side of the factors: right is X (F1 x F2 ...), left is (F1 x F2 ...) X"),
    TEXT("op", 0, "LETTERS", offsetof(struct settings, op), NULL,
         "T for a factor that is transposed, N for one that is not: one letter per factor, for "
         "example NTN, or one for all"),
    FLAG("transpose-x", 0, offsetof(struct settings, transpose_x), "transpose X"),
    FLAG("written-out", 0, offsetof(struct settings, written_out),
         "take no X, and write F1 x F2 x ... itself"),
    DTYPE(offsetof(struct settings, dtype),
          "auto: f32 if all inputs are float32 or float16 arrays, else f64"),
    OPTION_END,
};

static const struct option_row rank_rows[] = {
    FLAG("mpi", 0, offsetof(struct settings, mpi),
         "share the product between the processes that mpirun has started; the first one writes "
         "it"),
    CHOICE("split", 0, "SPLIT", offsetof(struct settings, split), "auto", "rows|columns|auto",
           "with --mpi: the part of X (of its transpose with --side left) that each process has; "
           "auto is rows, unless there are too few"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Product", rows, 0),
    GROUP("Several processes", rank_rows, 0),
    GROUP("Input", input_options, offsetof(struct settings, input)),
    GROUP("Output", output_options, offsetof(struct settings, output)),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

struct product {
    struct matrix x, factor[GRAM_MAX_FACTORS], y;
    int count;
    uint32_t transposed; /* factors */
    int vector;          /* x was one, and so is y */
    int ndim;            /* of y */
    int64_t shape[GRAM_MAX_DIMS];
};

/* Converts all matrices to one dtype, f32 or f64. */
static enum exit_status unify(struct product *p, struct failure *why)
{
    gram_dtype dtype = p->x.t.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;

    for (int i = 0; i < p->count; i++)
        if (p->factor[i].t.dtype == GRAM_F64)
            dtype = GRAM_F64;
    for (int i = 0; i < p->count; i++)
        TRY(matrix_convert(&p->factor[i], dtype, why));
    return p->x.memory ? matrix_convert(&p->x, dtype, why) : CLI_OK;
}

static enum exit_status load(const struct settings *s, int count, char **operands,
                             struct product *p, struct failure *why)
{
    int first = s->written_out ? 0 : 1;

    if (count - first < 1 || count - first > GRAM_MAX_FACTORS)
        return fail(why, CLI_USAGE, "there are %d factors after X, expected 1 to %d", count - first,
                    GRAM_MAX_FACTORS);
    TRY(kron_op_parse(s->op, count - first, &p->transposed, why));
    if (first)
        TRY(matrix_load(operands[0], &s->input, (enum dtype_choice)s->dtype, &p->x, why));
    for (; p->count < count - first; p->count++) {
        struct matrix *f = &p->factor[p->count];
        const char *path = operands[first + p->count];
        TRY(matrix_load(path, &s->input, (enum dtype_choice)s->dtype, f, why));
        if (f->t.ndim < 2) {
            p->count++; /* it is there, to be freed */
            return fail(why, CLI_BAD_DATA, "%s has %d dimension%s, expected a matrix",
                        text_name(path), f->t.ndim, f->t.ndim == 1 ? "" : "s");
        }
    }
    if (first && p->x.t.ndim == 1) {
        gram_tensor *x = &p->x.t;
        int at = (s->side == 0) != (s->transpose_x != 0); /* of its elements */
        int64_t n = x->shape[0], stride = x->stride[0];
        p->vector = 1;
        x->ndim = 2;
        x->shape[at] = n, x->stride[at] = stride;
        x->shape[!at] = x->stride[!at] = 1;
    }
    if (first && p->x.t.ndim < 2)
        return fail(why, CLI_BAD_DATA, "%s is a number, expected a matrix", text_name(operands[0]));
    return unify(p, why);
}

/* Joins the batch of m with the present one.  Sizes that do not fit are refused by the library. */
static void join_batch(const struct matrix *m, int *ndim, int64_t *shape)
{
    for (; *ndim < m->t.ndim - 2; ++*ndim) { /* one more dimension of 1 in front */
        memmove(shape + 1, shape, (size_t)*ndim * sizeof *shape);
        shape[0] = 1;
    }
    for (int d = 0; d < m->t.ndim - 2; d++) {
        int64_t *size = &shape[*ndim - (m->t.ndim - 2) + d];
        *size = *size == 1 ? m->t.shape[d] : *size;
    }
}

/* The product of the rows (0) or columns (1) of the factors as they are used. */
static enum exit_status size_of(const struct product *p, int which, int64_t *out,
                                struct failure *why)
{
    *out = 1;
    for (int i = 0; i < p->count; i++) {
        const gram_tensor *t = &p->factor[i].t;
        int at = which != (int)(p->transposed >> i & 1);
        if (__builtin_mul_overflow(*out, t->shape[t->ndim - 2 + at], out))
            return fail(why, CLI_BAD_DATA, "the size of the product of the factors overflows");
    }
    return CLI_OK;
}

static enum exit_status size_result(const struct settings *s, const char *x_path, struct product *p,
                                    struct failure *why)
{
    const gram_tensor *x = &p->x.t;
    int64_t size[2];
    int left = s->side == 1;

    for (int i = 0; i < p->count; i++)
        join_batch(&p->factor[i], &p->ndim, p->shape);
    TRY(size_of(p, 0, &size[0], why));
    TRY(size_of(p, 1, &size[1], why));
    if (!s->written_out) {
        int flip = left != (s->transpose_x != 0); /* x has its row of elements in columns */
        int64_t elements = x->shape[x->ndim - (flip ? 2 : 1)];
        int64_t others = x->shape[x->ndim - (flip ? 1 : 2)];
        if (elements != size[left])
            return fail(why, CLI_BAD_DATA,
                        "%s has %lld %s, expected %lld, the product of the %s "
                        "of the factors",
                        text_name(x_path), (long long)elements, flip ? "rows" : "columns",
                        (long long)size[left], left ? "columns" : "rows");
        join_batch(&p->x, &p->ndim, p->shape);
        size[left] = others;
    }
    p->shape[p->ndim++] = size[0], p->shape[p->ndim++] = size[1];
    return CLI_OK;
}

static void fill_options(const struct settings *s, const struct product *p,
                         gram_kron_options *options)
{
    *options = (gram_kron_options)GRAM_KRON_OPTIONS_INIT;
    options->side = s->side == 1 ? GRAM_LEFT : GRAM_RIGHT;
    options->transpose_x = s->transpose_x;
    options->transpose_factors = p->transposed;
    options->split = (gram_kron_split)s->split;
}

/* A factor that is written out transposed: the same memory with its two dimensions exchanged. */
static void turn(gram_tensor *t)
{
    int64_t size = t->shape[t->ndim - 2], step = t->stride[t->ndim - 2];

    t->shape[t->ndim - 2] = t->shape[t->ndim - 1], t->shape[t->ndim - 1] = size;
    t->stride[t->ndim - 2] = t->stride[t->ndim - 1], t->stride[t->ndim - 1] = step;
}

/* The same where the context computes. */
struct there {
    struct device_matrix x, factor[GRAM_MAX_FACTORS], y;
};

static enum exit_status multiply(gram_context *g, const struct settings *s, struct product *p,
                                 struct there *at, struct failure *why)
{
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    gram_kron_options options;
    gram_status done;

    if (!s->written_out)
        TRY(device_matrix_send(g, &p->x, &at->x, why));
    for (int i = 0; i < p->count; i++) {
        TRY(device_matrix_send(g, &p->factor[i], &at->factor[i], why));
        if (s->written_out && p->transposed >> i & 1)
            turn(&at->factor[i].t);
        factors[i] = &at->factor[i].t;
    }
    TRY(device_matrix_result(g, &p->y, &at->y, why));
    fill_options(s, p, &options);
    options.split = GRAM_KRON_SPLIT_ROWS;
    done = s->written_out ? gram_kron(g, factors, p->count, &at->y.t)
                          : gram_kron_matmul(g, &at->x.t, factors, p->count, &options, &at->y.t);
    if (done != GRAM_OK)
        return fail_gram(why, done, g);
    return device_matrix_fetch(g, &at->y, &p->y, why);
}

static enum exit_status compute(const struct settings *s, struct product *p, struct failure *why)
{
    struct there there = {.x.memory = NULL};
    enum exit_status status;
    gram_context *g;

    TRY(matrix_allocate(&p->y, p->factor[0].t.dtype, p->ndim, p->shape, why));
    TRY(open_context(&s->common, &g, why));
    status = multiply(g, s, p, &there, why);
    device_matrix_free(g, &there.x);
    device_matrix_free(g, &there.y);
    for (int i = 0; i < p->count; i++)
        device_matrix_free(g, &there.factor[i]);
    gram_context_destroy(g);
    return status;
}

static enum exit_status save(const struct settings *s, struct product *p, struct failure *why)
{
    if (p->vector && p->y.t.ndim == 2) {
        p->y.t.shape[0] *= p->y.t.shape[1];
        p->y.t.ndim = 1;
        p->y.t.stride[0] = 1;
    }
    return matrix_save(&p->y, &s->output, why);
}

/* ---- Several processes ---------------------------------------------------------------------- */

static enum exit_status check_shared(const struct settings *s, int count, char **operands,
                                     struct failure *why)
{
    if (s->written_out)
        return fail(why, CLI_USAGE, "--written-out cannot be used with --mpi");
    return ranks_check(&s->common, count, operands, why);
}

static enum exit_status prepare(const struct settings *s, int count, char **operands,
                                struct product *p, struct failure *why)
{
    TRY(check_shared(s, count, operands, why));
    TRY(load(s, count, operands, p, why));
    return size_result(s, operands[0], p, why);
}

static enum exit_status share(const struct settings *s, struct ranks *ranks, struct product *p,
                              struct failure *why)
{
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    struct kron_ranks_product shared = {
        .x = &p->x.t, .factors = factors, .count = p->count, .ndim = p->ndim, .shape = p->shape};

    for (int i = 0; i < p->count; i++)
        factors[i] = &p->factor[i].t;
    fill_options(s, p, &shared.options);
    TRY(kron_ranks_multiply(ranks, &shared, &p->y, why));
    return ranks_agree(ranks, ranks_first(ranks) ? save(s, p, why) : CLI_OK, why);
}

static enum exit_status run_shared(const struct settings *s, int count, char **operands,
                                   struct product *p, struct failure *why)
{
    struct ranks ranks = {.g = NULL};
    enum exit_status status;

    TRY(ranks_check(&s->common, 0, NULL, why));
    status = ranks_open(&s->common, &ranks, why);
    if (status == CLI_OK)
        status = ranks_agree(&ranks, prepare(s, count, operands, p, why), why);
    if (status == CLI_OK)
        status = share(s, &ranks, p, why);
    ranks_close(&ranks);
    return status;
}

static enum exit_status run_alone(const struct settings *s, int count, char **operands,
                                  struct product *p, struct failure *why)
{
    TRY(load(s, count, operands, p, why));
    TRY(size_result(s, operands[0], p, why));
    TRY(compute(s, p, why));
    return save(s, p, why);
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    struct product p = {.count = 0};
    enum exit_status status =
        s->mpi ? run_shared(s, count, operands, &p, why) : run_alone(s, count, operands, &p, why);

    matrix_free(&p.x);
    matrix_free(&p.y);
    for (int i = 0; i < p.count; i++)
        matrix_free(&p.factor[i]);
    return status;
}

const struct command cmd_kron = {
    .name = "kron",
    .operands = "X F1 [F2]...",
    .summary = "multiply by a Kronecker product of matrices",
    .details =
        "Writes Y = X (F1 x F2 x ...), where F1 x F2 is the Kronecker product, with the element "
        "F1[i,j] F2[k,l] in row i p + k and column j q + l (F2 is p by q). It is never formed: "
        "the factors are applied one after the other. With --side left, Y = (F1 x F2 x ...) X.\n\n"
        "X and the factors are numeric tables in text or .npy arrays; arrays with more than two "
        "dimensions are batches of matrices, and a vector X is one row (one column with --side "
        "left).\n\n"
        "With --mpi, which is required under mpirun, each process reads the files, multiplies its "
        "part of X and sends its part of Y to the first process, which writes the result. If one "
        "process fails, they all stop, and one message is printed.",
    .examples =
        "  gram kron x.npy f1.npy f2.npy f3.npy -o y.npy\n"
        "  gram kron x.npy f1.npy f2.npy --side left --op TN -o y.npy\n"
        "  gram kron --written-out f1.npy f2.npy -o f.npy\n"
        "  gram kron x.npy f1.npy f2.npy --device cuda -o y.npy\n"
        "  mpirun -n 4 gram kron --mpi x.npy f1.npy f2.npy -o y.npy",
    .least = 1,
    .most = GRAM_MAX_FACTORS + 1,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
