/*
 * cmd_krr.c - `gram krr`: kernel ridge regression of the rows of a matrix, with a certificate
 *
 * SPDX-License-Identifier: MIT
 */
#include "interrupt.h"
#include "json.h"
#include "krr_task.h"
#include "progress.h"
#include "text.h"
#include <math.h>
#include <string.h>
#include <sys/stat.h>

static const struct option_row rows[] = {
    NUMBER("ridge", 'r', "R", offsetof(struct krr_settings, ridge), NULL, 0, 1e300,
           "added to the diagonal of K; it is not multiplied by the number of rows"),
    TEXT("row-weights", 0, "FILE", offsetof(struct krr_settings, row_weights), NULL,
         "a column of numbers > 0, one for each row of X, by which its ridge is divided"),
    CHOICE("method", 0, "NAME", offsetof(struct krr_settings, method), "auto",
           "auto|cholesky|cg|centres|blocks",
           "cholesky: a factorisation of K, which is stored; cg: conjugate gradients with products "
           "with K, which is not; centres: fewer unknowns, see --centres; blocks: rows in blocks, "
           "while --time-limit lasts; auto: centres if there are any, else cholesky up to some "
           "thousand rows"),
    INTEGER("centres", 0, "M", offsetof(struct krr_settings, centres), NULL, 1, 0x1p31 - 1,
            "so many rows of X, which are drawn, are the centres: A has a row for each of them"),
    TEXT("centre-points", 0, "FILE", offsetof(struct krr_settings, centre_points), NULL,
         "the centres, rows with the columns of X"),
    NUMBER(
        "tolerance", 't', "T", offsetof(struct krr_settings, tolerance), NULL, 1e-300, 1e300,
        "the norm of the residual over that of Y at which the solve ends (default: 0.01, or 0.03 "
        "with --held-out-rmse)"),
    NUMBER("held-out-rmse", 0, "E", offsetof(struct krr_settings, held_out_rmse), NULL, 1e-300,
           1e300,
           "the error of predictions on rows that were held out: the solve ends when predictions "
           "would change by at most T times as much"),
    INTEGER(
        "rank", 0, "N", offsetof(struct krr_settings, rank), NULL, 0, 0x1p31 - 1,
        "of the preconditioner of cg; 0: none (default: about 8 times the root of the number of "
        "rows, at most 1000, and more where that pays)"),
    INTEGER("products", 0, "N", offsetof(struct krr_settings, products), "1000", 1, 0x1p53,
            "the most products with K"),
    NUMBER("time-limit", 0, "S", offsetof(struct krr_settings, time_limit), NULL, 1e-300, 1e300,
           "the most seconds (default: no limit)"),
    FLAG("refine", 0, offsetof(struct krr_settings, refine),
         "repeat cg in f32 for residuals in f64, and write coefficients in f64: for small ridges"),
    FILE_NAME("checkpoint", 0, "FILE", offsetof(struct krr_settings, checkpoint), NULL,
              "keep the state of cg, centres or blocks in FILE, from where --resume goes on; an "
              "interrupt by Ctrl-C or SIGTERM and a limit keep it, too"),
    FLAG("resume", 0, offsetof(struct krr_settings, resume),
         "go on from the file of --checkpoint, if it is there"),
    NUMBER("checkpoint-seconds", 0, "S", offsetof(struct krr_settings, checkpoint_seconds), NULL,
           1e-300, 1e300, "so long between two writes of it (default: 60)"),
    INTEGER("checkpoint-iterations", 0, "N", offsetof(struct krr_settings, checkpoint_iterations),
            NULL, 1, 0x1p53,
            "so many iterations between two writes of it (default: by time alone)"),
    NUMBER("memory", 0, "GIB", offsetof(struct krr_settings, memory), NULL, 1e-6, 1e6,
           "so many GiB of memory at most for the preconditioner of cg (default: a quarter of what "
           "is available); read X in pieces where it would take more and is a .npy file, with "
           "centres or by cg (default: all that is available)"),
    DTYPE(offsetof(struct krr_settings, dtype),
          "auto: f32 if all inputs are float32 or float16 arrays, else f64"),
    OPTION_END,
};

static const struct option_row output_rows[] = {
    FILE_NAME("output", 'o', "FILE", offsetof(struct krr_settings, output), NULL,
              "the file for the coefficients (.npy, .csv, .tsv or .json)"),
    TEXT("predict", 0, "FILE", offsetof(struct krr_settings, predict), NULL,
         "rows with the columns of X, for which to predict"),
    FILE_NAME("predictions", 0, "FILE", offsetof(struct krr_settings, predictions), NULL,
              "the file for the predictions (.npy, .csv, .tsv or .json)"),
    FILE_NAME("chosen", 0, "FILE", offsetof(struct krr_settings, chosen), NULL,
              "the file for the numbers of the rows of X, from 0, that are the centres"),
    FLAG("json", 0, offsetof(struct krr_settings, json), "write the report in JSON"),
    OPTION_END,
};

static const struct option_row several_rows[] = {
    FLAG("mpi", 0, offsetof(struct krr_settings, mpi),
         "share the solve between the processes that mpirun or srun has started, each of which has "
         "some of the rows; the first one writes"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Kernel", kernel_rows, offsetof(struct krr_settings, kernel)),
    GROUP("Solve", rows, 0),
    GROUP("Input", input_options, offsetof(struct krr_settings, input)),
    GROUP("Output", output_rows, 0),
    GROUP("Device", device_options, offsetof(struct krr_settings, common)),
    GROUP("", several_rows, 0),
    GROUP("Other options", threads_options, offsetof(struct krr_settings, common)),
    GROUP("", common_options, offsetof(struct krr_settings, common)),
    GROUP_END,
};

enum {
    PREDICT_BYTES = 64 << 20 /* of a piece of X, for predictions by all rows */
};

/* The same where the context computes. */
struct there {
    struct device_matrix x, y, weights, z, points, chosen, alpha, narrow, predictions, sample;
    struct kernel_taken kernel;
};

/* ---- The solve ------------------------------------------------------------------------------- */

static double or_zero(double given)
{
    return isnan(given) ? 0 : given;
}

static gram_krr_options options_of(const struct krr_settings *s, struct krr_task *p,
                                   struct there *at)
{
    gram_krr_options o = GRAM_KRR_OPTIONS_INIT;

    o.method = (gram_krr_method)s->method;
    o.ridge = s->ridge;
    o.tolerance = or_zero(s->tolerance);
    o.held_out_rmse = or_zero(s->held_out_rmse);
    o.rank = s->rank == 0 ? -1 : s->rank < 0 ? 0 : s->rank;
    o.products = s->products;
    o.time_limit = or_zero(s->time_limit);
    o.memory = isnan(s->memory) ? 0 : (int64_t)ceil(s->memory * 0x1p30);
    o.refine = s->refine;
    o.seed = (uint64_t)s->kernel.seed;
    o.weights = p->weights.memory ? &at->weights.t : NULL;
    o.report = &p->report;
    o.rows = p->file.stream ? &p->file.rows : NULL;
    o.communicator = p->ranks.c;
    o.checkpoint = s->checkpoint;
    o.resume = s->resume;
    o.checkpoint_seconds = or_zero(s->checkpoint_seconds);
    o.checkpoint_iterations = s->checkpoint_iterations > 0 ? s->checkpoint_iterations : 0;
    o.centres = s->centre_points ? &at->points.t : NULL;
    if (s->centres > 0) {
        o.centre_count = s->centres;
        o.chosen = &at->chosen.t;
    }
    return o;
}

/* There is an answer, though something went wrong that must be said in the end. */
static bool has_answer(const struct krr_task *p)
{
    return p->status == GRAM_NUMERICAL || (p->status == GRAM_IO && p->report.products > 0);
}

static enum exit_status stopped(const struct krr_settings *s, struct krr_task *p, gram_context *g,
                                struct failure *why)
{
    struct stat about;

    if (p->status == GRAM_CANCELLED && s->checkpoint && stat(s->checkpoint, &about) == 0)
        return fail(why, CLI_INTERRUPTED, "interrupted; --resume goes on from %s",
                    text_name(s->checkpoint));
    return fail_gram(why, p->status, g);
}

static enum exit_status solve(gram_context *g, const struct krr_settings *s, struct krr_task *p,
                              struct there *at, struct failure *why)
{
    const gram_krr_options options = options_of(s, p, at);
    struct progress progress;

    progress_begin(&progress, s->common.progress == PROGRESS_AUTO && krr_first(p));
    progress_update(&progress, 0, "solving");
    interrupt_cancels(g);
    p->status = gram_krr_solve(g, p->file.stream ? NULL : &at->x.t, &at->kernel.options, &at->y.t,
                               &options, &at->alpha.t);
    p->status = interrupt_ends(p->status);
    progress_end(&progress);
    if (p->status != GRAM_OK && !has_answer(p))
        return stopped(s, p, g, why);
    if (p->status != GRAM_OK) /* the message, for the end; what there is is written */
        p->later = fail_gram(why, p->status, g);
    return device_matrix_fetch(g, &at->alpha, &p->alpha, why);
}

/* Coefficients of refined solves are narrowed for products with points in f32. */
static enum exit_status narrow(gram_context *g, struct krr_task *p, struct there *at,
                               const gram_tensor **alpha, struct failure *why)
{
    struct matrix copy = {.memory = NULL};
    enum exit_status status;

    *alpha = &at->alpha.t;
    if (p->alpha.t.dtype == p->x.t.dtype)
        return CLI_OK;
    TRY(matrix_allocate(&copy, p->alpha.t.dtype, p->alpha.t.ndim, p->alpha.t.shape, why));
    memcpy(copy.memory, p->alpha.memory, (size_t)matrix_count(&copy) * sizeof(double));
    status = matrix_convert(&copy, p->x.t.dtype, why);
    if (status == CLI_OK) /* memory of its own also on the CPU */
        status =
            device_matrix_allocate(g, copy.t.dtype, copy.t.ndim, copy.t.shape, &at->narrow, why);
    if (status == CLI_OK) {
        gram_status done = gram_memory_copy(g, at->narrow.t.data, copy.t.data, at->narrow.bytes);
        if (done == GRAM_OK)
            done = gram_context_synchronize(g);
        status = done == GRAM_OK ? CLI_OK : fail_gram(why, done, g);
    }
    matrix_free(&copy);
    *alpha = &at->narrow.t;
    return status;
}

/* Columns of a vector or a matrix. */
static gram_tensor by_columns(const gram_tensor *t)
{
    gram_tensor m = *t;

    if (m.ndim == 1) {
        m.ndim = 2;
        m.shape[1] = m.stride[1] = 1;
    }
    return m;
}

/* out += k(Z, rows) alpha of some rows of X, which are on the host. */
static enum exit_status predict_piece(gram_context *g, struct there *at, const struct matrix *piece,
                                      const gram_tensor *alpha, struct matrix *part,
                                      struct failure *why)
{
    struct device_matrix x = {.bytes = 0}, sum = {.bytes = 0};
    enum exit_status status = device_matrix_send(g, piece, &x, why);

    if (status == CLI_OK)
        status = device_matrix_result(g, part, &sum, why);
    if (status == CLI_OK) {
        gram_tensor out = by_columns(&sum.t);
        gram_status done;

        interrupt_cancels(g);
        done = gram_kernel_matmul(g, &at->z.t, &x.t, &at->kernel.options, alpha, NULL, &out);
        done = interrupt_ends(done);
        status =
            done == GRAM_OK ? device_matrix_fetch(g, &sum, part, why) : fail_gram(why, done, g);
    }
    device_matrix_free(g, &sum);
    device_matrix_free(g, &x);
    return status;
}

static void add_matrix(const struct matrix *part, struct matrix *sum)
{
    for (int64_t i = 0; i < matrix_count(sum); i++)
        if (sum->t.dtype == GRAM_F64)
            ((double *)sum->t.data)[i] += ((const double *)part->t.data)[i];
        else
            ((float *)sum->t.data)[i] += ((const float *)part->t.data)[i];
}

/* Predictions by all rows of a file that is read in pieces. */
static enum exit_status predict_by_pieces(gram_context *g, struct krr_task *p, struct there *at,
                                          const gram_tensor *alpha, struct failure *why)
{
    const int64_t width = p->file.rows.columns;
    const size_t row = (size_t)(width > 0 ? width : 1) * gram_dtype_size(p->x.t.dtype);
    const int64_t most = (int64_t)(PREDICT_BYTES / row) + 1;
    enum exit_status status = CLI_OK;
    struct matrix part = {.memory = NULL};
    char message[GRAM_ROWS_MESSAGE] = "";

    memset(p->predictions.t.data, 0,
           (size_t)matrix_count(&p->predictions) * gram_dtype_size(p->x.t.dtype));
    TRY(matrix_allocate(&part, p->x.t.dtype, p->predictions.t.ndim, p->predictions.t.shape, why));
    for (int64_t first = 0; first < p->rows && status == CLI_OK; first += most) {
        const int64_t shape[2] = {p->rows - first < most ? p->rows - first : most, width};
        gram_tensor right = *alpha;
        struct matrix piece = {.memory = NULL};

        right.data =
            (char *)right.data + (size_t)(first * right.stride[0]) * gram_dtype_size(p->x.t.dtype);
        right.shape[0] = shape[0];
        status = matrix_allocate(&piece, p->x.t.dtype, 2, shape, why);
        if (status == CLI_OK &&
            p->file.rows.read(p->file.rows.user, first, shape[0], piece.t.data, message) != 0)
            status = fail(why, CLI_IO, "%s: %s", text_name(p->file.path), message);
        if (status == CLI_OK)
            status = predict_piece(g, at, &piece, &right, &part, why);
        if (status == CLI_OK)
            add_matrix(&part, &p->predictions);
        matrix_free(&piece);
    }
    matrix_free(&part);
    return status;
}

static enum exit_status predict(gram_context *g, struct krr_task *p, struct there *at,
                                struct failure *why)
{
    const int64_t shape[2] = {p->z.t.shape[0], p->y.t.ndim == 2 ? p->y.t.shape[1] : 1};
    const gram_tensor *alpha, *points = p->points.memory ? &at->points.t : &at->x.t;
    gram_kernel_matmul_options options = GRAM_KERNEL_MATMUL_OPTIONS_INIT;
    gram_tensor right, out;
    gram_status done;

    TRY(matrix_allocate(&p->predictions, p->x.t.dtype, p->y.t.ndim, shape, why));
    TRY(device_matrix_send(g, &p->z, &at->z, why));
    TRY(device_matrix_result(g, &p->predictions, &at->predictions, why));
    TRY(narrow(g, p, at, &alpha, why));
    right = by_columns(alpha), out = by_columns(&at->predictions.t);
    if (p->file.stream && !p->points.memory)
        return predict_by_pieces(g, p, at, &right, why);
    interrupt_cancels(g);
    options.communicator = p->ranks.c;
    done = p->ranks.c
               ? gram_kernel_matmul_multi(g, &at->z.t, points, &at->kernel.options, &right,
                                          &options, &out)
               : gram_kernel_matmul(g, &at->z.t, points, &at->kernel.options, &right, NULL, &out);
    done = interrupt_ends(done);
    if (done != GRAM_OK)
        return fail_gram(why, done, g);
    return device_matrix_fetch(g, &at->predictions, &p->predictions, why);
}

/* The rows that were drawn, as centres. */
static enum exit_status take_chosen(gram_context *g, struct krr_task *p, struct there *at,
                                    struct failure *why)
{
    const int64_t shape[2] = {p->chosen.t.shape[0], p->x.t.shape[1]}, *row = p->chosen.t.data;
    size_t bytes = (size_t)shape[1] * gram_dtype_size(p->x.t.dtype);

    TRY(device_matrix_fetch(g, &at->chosen, &p->chosen, why));
    TRY(matrix_allocate(&p->points, p->x.t.dtype, 2, shape, why));
    if (p->file.stream)
        TRY(npy_rows_read(&p->file, row, shape[0], p->points.memory, why));
    for (int64_t i = 0; i < shape[0] && !p->file.stream; i++)
        memcpy((char *)p->points.memory + (size_t)i * bytes,
               (const char *)p->x.t.data + (size_t)row[i] * bytes, bytes);
    return device_matrix_send(g, &p->points, &at->points, why);
}

static enum exit_status work(gram_context *g, const struct krr_settings *s, struct krr_task *p,
                             struct there *at, struct failure *why)
{
    TRY(device_matrix_send(g, &p->x, &at->x, why));
    TRY(device_matrix_send(g, &p->y, &at->y, why));
    if (p->weights.memory)
        TRY(device_matrix_send(g, &p->weights, &at->weights, why));
    TRY(device_matrix_result(g, &p->alpha, &at->alpha, why));
    TRY(device_matrix_send(g, &p->sample, &at->sample, why));
    TRY(kernel_take(g, &s->kernel, &s->input, s->mpi ? &at->sample.t : &at->x.t, &at->kernel, why));
    if (s->centre_points)
        TRY(device_matrix_send(g, &p->points, &at->points, why));
    if (s->centres > 0)
        TRY(device_matrix_result(g, &p->chosen, &at->chosen, why));
    TRY(solve(g, s, p, at, why));
    if (s->centres > 0)
        TRY(take_chosen(g, p, at, why));
    return s->predict && !isnan(p->report.residual) ? predict(g, p, at, why) : CLI_OK;
}

static enum exit_status compute(const struct krr_settings *s, struct krr_task *p,
                                struct failure *why)
{
    struct there at;
    enum exit_status status;
    gram_context *g;

    memset(&at, 0, sizeof at);
    p->report.size = sizeof p->report;
    if (s->mpi)
        g = p->ranks.g;
    else
        TRY(open_context(&s->common, &g, why));
    status = work(g, s, p, &at, why);
    kernel_taken_free(g, &at.kernel);
    device_matrix_free(g, &at.x);
    device_matrix_free(g, &at.y);
    device_matrix_free(g, &at.weights);
    device_matrix_free(g, &at.z);
    device_matrix_free(g, &at.points);
    device_matrix_free(g, &at.chosen);
    device_matrix_free(g, &at.alpha);
    device_matrix_free(g, &at.narrow);
    device_matrix_free(g, &at.predictions);
    device_matrix_free(g, &at.sample);
    if (!s->mpi)
        gram_context_destroy(g);
    return status;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static const char *const methods[] = {"auto", "cholesky", "cg", "centres", "blocks"};
static const char *const ends[] = {"reached", "rounding", "products", "time", "indefinite"};

static void write_json(struct output *out, const gram_krr_report *r)
{
    struct json j = json_to(out);

    json_object(&j, NULL);
    json_string(&j, "method", methods[r->method]);
    json_bool(&j, "reached", r->reached);
    json_string(&j, "end", ends[r->end]);
    json_integer(&j, "rank", r->rank);
    json_number(&j, "floor", r->floor);
    json_integer(&j, "products", r->products);
    json_number(&j, "residual", r->residual);
    json_number(&j, "residual_rms", r->residual_rms);
    json_number(&j, "prediction_rms", r->prediction_rms);
    json_number(&j, "prediction_sup", r->prediction_sup);
    json_number(&j, "seconds", r->seconds);
    json_end(&j);
}

static void write_text(struct output *out, const gram_krr_report *r)
{
    output_format(out, "method          %s", methods[r->method]);
    if (r->rank > 0)
        output_format(
            out, r->method == GRAM_KRR_CENTRES ? ", %lld of them" : ", preconditioner of rank %lld",
            (long long)r->rank);
    output_format(out, "\nproducts        %lld in %.3g s\n", (long long)r->products, r->seconds);
    output_format(out, "residual        %.3g of Y (%s)\n", r->residual,
                  r->reached ? "reached" : ends[r->end]);
    output_format(out, "predictions     change by at most %.3g (root mean square), %.3g anywhere\n",
                  r->prediction_rms, r->prediction_sup);
}

static enum exit_status write_report(const struct krr_settings *s, const struct krr_task *p,
                                     struct failure *why)
{
    struct output out;

    TRY(output_open(&out, "-", why));
    if (s->json)
        write_json(&out, &p->report);
    else
        write_text(&out, &p->report);
    return output_close(&out, why);
}

/* Row numbers, as the reals that matrix_save writes. */
static enum exit_status save_chosen(const struct krr_settings *s, const struct krr_task *p,
                                    struct failure *why)
{
    const struct output_settings output = krr_output_of(s->chosen);
    const int64_t *row = p->chosen.t.data;
    struct matrix reals = {.memory = NULL};
    enum exit_status status;

    TRY(matrix_allocate(&reals, GRAM_F64, 1, p->chosen.t.shape, why));
    for (int64_t i = 0; i < s->centres; i++)
        ((double *)reals.t.data)[i] = (double)row[i];
    status = matrix_save(&reals, &output, why);
    matrix_free(&reals);
    return status;
}

static enum exit_status save(const struct krr_settings *s, const struct krr_task *p,
                             struct failure *why)
{
    const struct output_settings alpha = krr_output_of(s->output),
                                 new = krr_output_of(s->predictions);

    if (isnan(p->report.residual))
        return CLI_OK; /* there is no answer */
    if (s->output)
        TRY(matrix_save(&p->alpha, &alpha, why));
    if (s->predictions)
        TRY(matrix_save(&p->predictions, &new, why));
    return s->chosen ? save_chosen(s, p, why) : CLI_OK;
}

/* The rows of all ranks come to the first. */
static enum exit_status collect(const struct krr_settings *s, struct krr_task *p,
                                struct failure *why)
{
    if (isnan(p->report.residual) || !s->mpi)
        return CLI_OK;
    TRY(ranks_collect(&p->ranks, &p->alpha, p->all, why));
    return s->predict ? ranks_collect(&p->ranks, &p->predictions, p->predicted, why) : CLI_OK;
}

static enum exit_status open_ranks(const struct krr_settings *s, char **operands,
                                   struct krr_task *p, struct failure *why)
{
    TRY(krr_check(s, why));
    if (!s->mpi)
        return CLI_OK;
    TRY(ranks_check(&s->common, 2, operands, why));
    return ranks_open(&s->common, &p->ranks, why);
}

/* Everything but the opening and the closing. */
static enum exit_status run_all(const struct krr_settings *s, char **operands, struct krr_task *p,
                                struct failure *why)
{
    struct failure later; /* of writing, which must not hide the message of the solve */
    enum exit_status status;

    TRY(krr_agree(p, krr_load(s, operands, p, why), why));
    TRY(krr_agree(p, compute(s, p, why), why));
    status = collect(s, p, &later);
    if (status == CLI_OK && krr_first(p))
        status = save(s, p, &later);
    if (status == CLI_OK && krr_first(p))
        status = write_report(s, p, &later);
    status = krr_agree(p, status, &later);
    if (status != CLI_OK)
        *why = later;
    else if (!krr_first(p)) /* the first one says it */
        why->text[0] = '\0';
    return status != CLI_OK ? status : p->later;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct krr_settings *s = settings;
    struct krr_task p = {.x.memory = NULL};
    enum exit_status status = open_ranks(s, operands, &p, why);

    (void)count;
    if (status == CLI_OK)
        status = run_all(s, operands, &p, why);
    npy_rows_close(&p.file);
    matrix_free(&p.x);
    matrix_free(&p.y);
    matrix_free(&p.weights);
    matrix_free(&p.z);
    matrix_free(&p.points);
    matrix_free(&p.chosen);
    matrix_free(&p.alpha);
    matrix_free(&p.predictions);
    matrix_free(&p.sample);
    if (s->mpi)
        ranks_close(&p.ranks);
    return status;
}

static enum exit_status files(const void *settings, int count, char **operands, struct files *files,
                              struct failure *why)
{
    const struct krr_settings *s = settings;

    (void)count, (void)operands, (void)why;
    if (s->row_weights)
        files_read(files, s->row_weights);
    if (s->predict)
        files_read(files, s->predict);
    if (s->centre_points)
        files_read(files, s->centre_points);
    return CLI_OK;
}

const struct command cmd_krr = {
    .name = "krr",
    .operands = "X Y",
    .summary = "kernel ridge regression, with a bound of its error",
    .details =
        "Solves (K + R I) A = Y with the kernel matrix K of the rows of X, and writes a report of "
        "how far: the norm of the residual over that of Y, computed afresh in f64, and bounds of "
        "what the exact solution would change in predictions. The coefficients A go to --output, "
        "and the predictions for the rows of another table, k(Z, X) A, to --predictions.\n\n"
        "The kernels are those of gram kernel. K must be positive definite with the ridge. Up to "
        "some thousand rows it is factorised; for more rows nothing of its size is stored. With "
        "--centres or --centre-points, A has a row for each centre c, and predictions are k(Z, C) "
        "A; it minimizes the squared errors plus R times the square of the norm of that "
        "function.\n\n"
        "X and Y are numeric tables in text or .npy arrays, with the same number of rows. Y may "
        "have several columns.\n\n"
        "A .npy file X may be larger than the memory, unless the method is cholesky: it is then "
        "read in pieces, with centres once for each two products, by cg about half as often as "
        "there are pieces for each one.\n\n"
        "A solve that may take long, or be ended by others, takes --checkpoint: the same command "
        "with --resume then goes on where it ended, however it did. A file of other data is "
        "refused.\n\n"
        "With --mpi, which is required under mpirun or srun, each process has some of the rows of "
        "X, Y and Z. It reads those of a .npy file X alone, and any other file whole. The first "
        "process writes what all have found. If one fails, they all stop, and one message is "
        "printed.\n\n"
        "The exit status is 1 if the tolerance is not reached. The best coefficients are written "
        "all the same, unless K with the ridge is not positive definite.",
    .examples =
        "  gram krr x.npy y.npy -k gaussian -L 3.8 --ridge 0.1 -o coefficients.npy\n"
        "  gram krr x.csv y.csv -r 1e-3 --predict new.csv --predictions out.csv\n"
        "  gram krr x.npy y.npy -r 1 --method cg --rank 5000 --device cuda --json\n"
        "  gram krr x.npy y.npy -r 1 --centres 2000 --chosen rows.csv -o a.npy\n"
        "  gram krr x.npy y.npy -r 1 --method cg --checkpoint a.gram --resume -o a.npy\n"
        "  srun -n 4 gram krr --mpi x.npy y.npy -r 1 --method cg -o a.npy",
    .least = 2,
    .most = 2,
    .settings_bytes = sizeof(struct krr_settings),
    .groups = groups,
    .reads = 1,
    .files = files,
    .run = run,
};
