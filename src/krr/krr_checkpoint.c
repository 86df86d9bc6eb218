/*
 * krr_checkpoint.c - a solve of gram_krr_solve on the disk, from where another call goes on
 *
 * A safetensors file, little-endian, written whole or not at all.  Texts of its header:
 *   format     gram.krr_checkpoint.3
 *   version    of the library
 *   method     cg, centres or blocks
 *   refine     1 or 0, as options.refine
 *   x, y, weights, kernel, centres      hashes of what was given, 16 hexadecimal digits
 *   checksum   the sum of the hashes of all arrays and of all other texts
 * Arrays, by columns (m unknowns, c columns, of which w are at work):
 *   counters   i64: see enum counter; ridge: f64, options.ridge
 *   history    f64, after each iteration: the largest residual over that of y, as the iteration
 *              carries it along
 *   pivots, steps   i64: rows of the preconditioner, and how many of them each step took
 *   seed       i64, options.seed, of which further pivots are drawn
 *   coefficients    f64: r . P^-1 r and d . A d of one column in each iteration since the last
 *              beginning, by which krr_rank.c decides whether there will be any
 *   alpha      f64, c by m: the answer at the end of the last round
 *   best       f64, c by m: the one before, where alpha was not looked at yet
 *   residual   f64, c by m; norms: f64, 1 by c, or 4 by c.  What the next round, or this one,
 *              begins with
 *   cg.x       c by m, cg.r, cg.d: w by m, of the dtype of the iteration; cg.numbers: f64, 5 by c;
 *              cg.which, cg.left: i64, c.  See struct krr_cg_state
 *   blocks.momentum   f64, c by m; blocks.order: i64, m, the order in which the pass takes rows;
 *              blocks.squares: f64, 2 by c; blocks.rate: f64; blocks.counters: i64, rows of a
 *              block, those that the pass has taken, and the state of the generator.  See struct
 *              krr_passes_state
 * The method blocks has its arrays in the place of those of cg, and a history of blocks: the
 * residual of its rows that each has found.
 *
 * Nothing in it depends on the device or on the number of threads or ranks, of which the first one
 * writes it and all read it.  A file is believed only after everything in it was checked.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_ranks.h"
#include "krr_solve.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FORMAT "gram.krr_checkpoint.3"

enum counter {
    ROWS,
    WIDTH,
    COLUMNS,
    UNKNOWNS,
    PRODUCTS,
    ROUND,
    SHIFTED,
    PRECONDITIONED,
    STAGE,
    CG_PHASE,
    CG_ITERATIONS,
    CG_ROUND,
    CG_STEP,
    WORKING,
    WAITING,
    GROWS,
    LOOKED_AT, /* the column of the coefficients */
    WIDE,
    LEAST_STEP,
    RENEWED_STEP,
    COUNTERS
};

enum {
    TEXT = 32,
    LEAST_ROOM = 256,
    MOST_PIVOTS = 100 /* of a step */
};

static const double seconds_between = 60;
static const int64_t most_count = INT64_C(1) << 53; /* of a file: none comes near the overflow */

static bool has_centres(const struct krr_problem *p)
{
    return p->options.method == GRAM_KRR_CENTRES;
}

static bool has_blocks(const struct krr_problem *p)
{
    return p->options.method == GRAM_KRR_BLOCKS;
}

static const char *method_of(const struct krr_problem *p)
{
    return has_centres(p) ? "centres" : has_blocks(p) ? "blocks" : "cg";
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* A file in the making, and the sum of the hashes of what is in it. */
struct made {
    struct gram_model_writer *w;
    uint64_t sum;
};

static void put_text(struct made *m, const char *key, const char *text)
{
    gram_model_put_text(m->w, key, text);
    m->sum += gram_krr_hash_of_text(key, text);
}

static void put_hash(struct made *m, const char *key, uint64_t hash)
{
    char text[TEXT];

    (void)snprintf(text, sizeof text, "%016" PRIx64, hash);
    put_text(m, key, text);
}

/* A matrix, or with rows < 0 a vector; the data are borrowed. */
static void put(struct made *m, const char *name, int type, int64_t rows, int64_t columns,
                const void *data)
{
    struct gram_model_array a = {
        .name = name, .type = type, .ndim = rows < 0 ? 1 : 2, .data = data};

    a.shape[0] = rows < 0 ? columns : rows;
    a.shape[1] = rows < 0 ? 0 : columns;
    gram_model_put(m->w, name, type, a.ndim, a.shape, data);
    m->sum += gram_krr_hash_of_array(&a);
}

/* The dtype of the iteration. */
static gram_dtype dtype_of(const struct krr_problem *p, bool wide)
{
    return wide || has_centres(p) ? GRAM_F64 : p->dtype;
}

static void put_state(struct made *m, const struct krr_problem *p, const struct krr_cg_state *s)
{
    const int type = (int)dtype_of(p, p->keep.wide);
    const bool inside = s->phase != KRR_CG_BETWEEN;

    put(m, "cg.x", type, p->columns, p->unknowns, s->x);
    put(m, "cg.r", type, inside ? s->working : 0, p->unknowns, s->r);
    put(m, "cg.d", type, inside ? s->working : 0, p->unknowns, s->d);
    put(m, "cg.numbers", GRAM_F64, 5, p->columns, s->numbers);
    put(m, "cg.which", GRAM_I64, -1, p->columns, s->which);
    put(m, "cg.left", GRAM_I64, -1, p->columns, s->left);
}

static void put_passes(struct made *m, const struct krr_problem *p, int64_t counters[3])
{
    const struct krr_passes_state *s = &p->keep.passes;

    counters[0] = s->rows, counters[1] = s->done;
    memcpy(&counters[2], &s->random, sizeof s->random);
    put(m, "blocks.momentum", GRAM_F64, p->columns, p->unknowns, s->momentum);
    put(m, "blocks.order", GRAM_I64, -1, p->unknowns, s->order);
    put(m, "blocks.squares", GRAM_F64, 2, p->columns, s->squares);
    put(m, "blocks.rate", GRAM_F64, -1, 1, &s->rate);
    put(m, "blocks.counters", GRAM_I64, -1, 3, counters);
}

static void put_all(struct made *m, const struct krr_problem *p, enum krr_stage stage,
                    const struct krr_cg_state *s, int64_t counters[COUNTERS + 3])
{
    const struct krr_checkpoint *c = &p->keep;

    counters[ROWS] = p->n, counters[WIDTH] = p->width;
    counters[COLUMNS] = p->columns, counters[UNKNOWNS] = p->unknowns;
    counters[PRODUCTS] = p->products, counters[ROUND] = c->round;
    counters[SHIFTED] = c->shifted, counters[PRECONDITIONED] = c->preconditioned;
    counters[STAGE] = (int64_t)stage;
    counters[GROWS] = c->growth.on, counters[LOOKED_AT] = c->growth.column;
    counters[WIDE] = c->wide;
    if (s) {
        counters[CG_PHASE] = (int64_t)s->phase, counters[CG_ITERATIONS] = s->iterations;
        counters[CG_ROUND] = s->round, counters[CG_STEP] = s->step;
        counters[WORKING] = s->working, counters[WAITING] = s->waiting;
        counters[LEAST_STEP] = s->least_step, counters[RENEWED_STEP] = s->renewed_step;
    }
    put_text(m, "format", FORMAT);
    put_text(m, "version", gram_version());
    put_text(m, "method", method_of(p));
    put_text(m, "refine", p->options.refine ? "1" : "0");
    put_hash(m, "x", c->x);
    put_hash(m, "y", c->y);
    put_hash(m, "weights", c->weights);
    put_hash(m, "kernel", c->kernel);
    put_hash(m, "centres", c->centres);
    put(m, "counters", GRAM_I64, -1, COUNTERS, counters);
    put(m, "ridge", GRAM_F64, -1, 1, &p->options.ridge);
    put(m, "history", GRAM_F64, -1, c->iterations, c->history);
    put(m, "pivots", GRAM_I64, -1, c->preconditioned ? c->pivots.rows : 0, c->pivots.row);
    put(m, "steps", GRAM_I64, -1, c->preconditioned ? c->pivots.steps : 0, c->pivots.step);
    put(m, "seed", GRAM_I64, -1, 1, &p->options.seed);
    put(m, "coefficients", GRAM_F64, -1, 2 * c->growth.steps, c->growth.coefficients);
    put(m, "alpha", GRAM_F64, p->columns, p->unknowns, p->alpha);
    if (stage == KRR_TO_LOOK_AT)
        put(m, "best", GRAM_F64, p->columns, p->unknowns, p->best);
    put(m, "residual", GRAM_F64, p->columns, p->unknowns, c->residual);
    put(m, "norms", GRAM_F64, c->norm_rows, p->columns, c->norms);
    if (s)
        put_state(m, p, s);
    if (has_blocks(p))
        put_passes(m, p, counters + COUNTERS);
}

static void write_file(gram_context *g, struct krr_problem *p, enum krr_stage stage,
                       const struct krr_cg_state *s)
{
    struct krr_checkpoint *c = &p->keep;
    struct made m = {.w = gram_model_writer_create()};
    int64_t counters[COUNTERS + 3] = {0}; /* and those of blocks */
    char sum[TEXT];

    put_all(&m, p, stage, s, counters);
    (void)snprintf(sum, sizeof sum, "%016" PRIx64, m.sum);
    gram_model_put_text(m.w, "checksum", sum);
    g->call = p->call;
    if (gram_krr_ranks_is_first(p->ranks))
        c->failed = gram_model_commit(g, m.w, c->path);
    gram_model_writer_destroy(m.w);
    c->since = 0;
    c->last = gram_seconds();
    c->kept = false;
    if (c->failed == GRAM_OK)
        c->written = true;
    else
        (void)snprintf(c->message, sizeof c->message, "%s", gram_message(g));
}

void gram_krr_checkpoint_write(gram_context *g, struct krr_problem *p, enum krr_stage stage)
{
    if (p->keep.path && !p->keep.kept)
        write_file(g, p, stage, NULL);
}

/* ---- What the iteration tells ---------------------------------------------------------------- */

static void grow(gram_context *g, struct krr_checkpoint *c)
{
    const int64_t room = 2 * c->room + LEAST_ROOM;
    double *history = gram_alloc(g, (size_t)room * sizeof *history);

    if (!history)
        return;
    if (c->iterations > 0)
        memcpy(history, c->history, (size_t)c->iterations * sizeof *history);
    gram_free(g, c->history, (size_t)c->room * sizeof *history);
    c->history = history;
    c->room = room;
}

static bool told(gram_context *g, void *user, double residual)
{
    struct krr_checkpoint *c = &((struct krr_problem *)user)->keep;

    if (c->iterations == c->room)
        grow(g, c);
    if (c->iterations < c->room) /* without memory for more the history ends here */
        c->history[c->iterations++] = residual * c->scale;
    c->since++;
    return (c->every > 0 && c->since >= c->every) ||
           (c->seconds > 0 && gram_seconds() - c->last >= c->seconds);
}

static gram_status take_state(gram_context *g, void *user, const struct krr_cg_state *s,
                              bool limits)
{
    struct krr_problem *p = user;

    write_file(g, p, KRR_ITERATING, s);
    p->keep.kept = limits && s->iterations < p->keep.part && p->keep.failed == GRAM_OK;
    return GRAM_OK;
}

struct krr_cg_keeper gram_krr_checkpoint_keeper(struct krr_problem *p, bool resumed)
{
    return (struct krr_cg_keeper){
        .told = told, .take = take_state, .user = p, .from = resumed ? &p->keep.state : NULL};
}

gram_status gram_krr_checkpoint_verdict(gram_context *g, struct krr_problem *p, gram_status status)
{
    const struct krr_checkpoint *c = &p->keep;
    struct stat about;
    char before[sizeof c->message] = "";
    const char *file;

    if (!c->path || (status != GRAM_OK && status != GRAM_NUMERICAL && status != GRAM_CANCELLED))
        return status;
    g->call = p->call;
    if (c->failed == GRAM_OK && status == GRAM_CANCELLED && c->written)
        return gram_fail(g, status, "cancelled; options.resume goes on from %s", c->path);
    if (c->failed == GRAM_OK)
        return status;
    file = stat(c->path, &about) == 0 ? "the former checkpoint is as it was"
                                      : "there is no checkpoint";
    if (status == GRAM_OK)
        return gram_fail(g, c->failed, "%s; %s; alpha is written", c->message, file);
    (void)snprintf(before, sizeof before, "%s", gram_message(g));
    return gram_fail(g, status, "%s; %s; %s", before, c->message, file);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static gram_status check_sum(gram_context *g, const struct gram_model_file *file)
{
    const char *text = gram_model_text(file, "checksum");
    uint64_t sum = 0;
    char found[TEXT];

    for (size_t i = 0; i < file->arrays; i++)
        sum += gram_krr_hash_of_array(&file->placed[i].array);
    for (size_t i = 0; i < file->texts; i++)
        if (strcmp(file->text[i].key, "checksum") != 0)
            sum += gram_krr_hash_of_text(file->text[i].key, file->text[i].value);
    (void)snprintf(found, sizeof found, "%016" PRIx64, sum);
    if (text && strcmp(text, found) == 0)
        return GRAM_OK;
    return gram_model_bad(g, file, "it is damaged: its checksum is %s, and that of its contents %s",
                          text ? text : "missing", found);
}

/* One text of the file is that of this problem. */
static gram_status check_text(gram_context *g, const struct gram_model_file *file, const char *key,
                              const char *what, const char *expected)
{
    const char *text = gram_model_text(file, key);

    if (!text)
        return gram_model_bad(g, file, "it has no text \"%s\"", key);
    if (strcmp(text, expected) == 0)
        return GRAM_OK;
    return gram_fail(g, GRAM_BAD_DATA,
                     "%s: it is the checkpoint of another solve: %s is %s, expected %s", file->name,
                     what, text, expected);
}

static gram_status check_hash(gram_context *g, const struct gram_model_file *file, const char *key,
                              const char *what, uint64_t hash)
{
    const char *text = gram_model_text(file, key);
    char expected[TEXT];

    (void)snprintf(expected, sizeof expected, "%016" PRIx64, hash);
    if (!text)
        return gram_model_bad(g, file, "it has no text \"%s\"", key);
    if (strcmp(text, expected) == 0)
        return GRAM_OK;
    return gram_fail(
        g, GRAM_BAD_DATA,
        "%s: it is the checkpoint of another solve: it was given %s (hash %s, expected "
        "%s)",
        file->name, what, text, expected);
}

static gram_status check_format(gram_context *g, const struct gram_model_file *file)
{
    const char *format = gram_model_text(file, "format");

    if (!format || strcmp(format, FORMAT) != 0)
        return gram_model_bad(g, file, "its format is %s, expected %s", format ? format : "missing",
                              FORMAT);
    return check_sum(g, file);
}

static gram_status check_identity(gram_context *g, const struct krr_problem *p,
                                  const struct gram_model_file *file)
{
    const struct krr_checkpoint *c = &p->keep;
    const void *ridge;

    TRY(check_text(g, file, "method", "the method", method_of(p)));
    TRY(gram_model_need_vector(g, file, "ridge", GRAM_F64, 1, &ridge, NULL));
    if (krr_element(GRAM_F64, ridge, 0) != p->options.ridge)
        return gram_fail(g, GRAM_BAD_DATA,
                         "%s: it is the checkpoint of another solve: options.ridge is %.15g, "
                         "expected %.15g",
                         file->name, krr_element(GRAM_F64, ridge, 0), p->options.ridge);
    TRY(check_text(g, file, "refine", "options.refine", p->options.refine ? "1" : "0"));
    TRY(check_hash(g, file, "x", "another x", c->x));
    TRY(check_hash(g, file, "y", "another y", c->y));
    TRY(check_hash(g, file, "kernel", "another kernel", c->kernel));
    TRY(check_hash(g, file, "weights", "other weights", c->weights));
    return check_hash(g, file, "centres", "other centres", c->centres);
}

/* Finite numbers of that shape; rows < 0: a vector. */
static gram_status need(gram_context *g, const struct gram_model_file *file, const char *name,
                        gram_dtype dtype, int64_t rows, int64_t columns, const void **data)
{
    const int64_t shape[2] = {rows < 0 ? columns : rows, columns};
    const struct gram_model_array *a;

    TRY(gram_model_need(g, file, name, (int)dtype, rows < 0 ? 1 : 2, shape, &a));
    *data = a->data;
    for (int64_t i = 0; i < (rows < 0 ? a->shape[0] : a->shape[0] * a->shape[1]); i++)
        if (!isfinite(krr_element(dtype, a->data, i)))
            return gram_model_bad(g, file, "array \"%s\" has a number that is not finite", name);
    return GRAM_OK;
}

/* The first `count` of the numbers are different, from 0 to below. */
static bool are_different(gram_context *g, const int64_t *number, int64_t count, int64_t below)
{
    const size_t bytes = (size_t)below;
    char *seen = gram_alloc(g, bytes ? bytes : 1);
    bool good = seen != NULL;

    if (seen)
        memset(seen, 0, bytes);
    for (int64_t i = 0; i < count && good; i++) {
        good = number[i] >= 0 && number[i] < below && !seen[number[i]];
        if (good)
            seen[number[i]] = 1;
    }
    gram_free(g, seen, bytes ? bytes : 1);
    return good;
}

static gram_status check_counters(gram_context *g, const struct krr_problem *p,
                                  const struct gram_model_file *file, const int64_t *counter)
{
    const int64_t most[COUNTERS] = {[ROWS] = p->n,
                                    [WIDTH] = p->width,
                                    [COLUMNS] = p->columns,
                                    [UNKNOWNS] = p->unknowns,
                                    [PRODUCTS] = most_count,
                                    [ROUND] = most_count,
                                    [SHIFTED] = 1,
                                    [PRECONDITIONED] = 1,
                                    [STAGE] = KRR_STAGES - 1,
                                    [CG_PHASE] = KRR_CG_TURNED,
                                    [CG_ITERATIONS] = most_count,
                                    [CG_ROUND] = most_count,
                                    [CG_STEP] = most_count,
                                    [WORKING] = p->columns,
                                    [WAITING] = p->columns,
                                    [GROWS] = 1,
                                    [LOOKED_AT] = p->columns - 1,
                                    [WIDE] = 1,
                                    [LEAST_STEP] = most_count,
                                    [RENEWED_STEP] = most_count};

    for (int i = 0; i < COUNTERS; i++)
        if (counter[i] < (i <= UNKNOWNS ? most[i] : 0) || counter[i] > most[i])
            return gram_model_bad(g, file, "counter %d is %lld, which cannot be", i,
                                  (long long)counter[i]);
    if (has_blocks(p) && (counter[STAGE] == KRR_ITERATING || counter[PRECONDITIONED]))
        return gram_model_bad(g, file, "its stage is one of conjugate gradients");
    if (counter[CG_PHASE] == KRR_CG_BETWEEN && counter[STAGE] == KRR_ITERATING &&
        counter[CG_ROUND] < 1)
        return gram_model_bad(g, file, "its iteration has not begun");
    return GRAM_OK;
}

/* Pivots of the preconditioner, with room for no further ones. */
static gram_status take_pivots(gram_context *g, const struct krr_problem *p,
                               const struct gram_model_file *file, struct krr_checkpoint *c)
{
    const void *row, *step;
    int64_t sum = 0;
    bool good;

    TRY(gram_model_need_vector(g, file, "pivots", GRAM_I64, -1, &row, &c->pivots.rows));
    TRY(gram_model_need_vector(g, file, "steps", GRAM_I64, -1, &step, &c->pivots.steps));
    c->pivots.row = (int64_t *)row;
    c->pivots.step = (int64_t *)step;
    good = c->pivots.rows <= p->n && c->pivots.steps <= c->pivots.rows &&
           (c->pivots.rows > 0) == c->preconditioned;
    for (int64_t i = 0; i < c->pivots.steps && good; i++) {
        good = c->pivots.step[i] > 0 && c->pivots.step[i] <= MOST_PIVOTS;
        sum += good ? c->pivots.step[i] : 0;
    }
    if (good && sum == c->pivots.rows && are_different(g, c->pivots.row, sum, p->n))
        return GRAM_OK;
    return gram_model_bad(g, file, "its pivots cannot be those of %lld rows", (long long)p->n);
}

/* What decides whether there will be more pivots. */
static gram_status take_growth(gram_context *g, const struct gram_model_file *file,
                               const int64_t *counter, struct krr_growth *w)
{
    const void *data;
    int64_t count;

    TRY(gram_model_need_vector(g, file, "coefficients", GRAM_F64, -1, &data, &count));
    if (count % 2 != 0 || count > 2 * KRR_GROWTH_STEPS)
        return gram_model_bad(g, file,
                              "it has %lld coefficients, expected pairs, at most %d of them",
                              (long long)count, KRR_GROWTH_STEPS);
    for (int64_t i = 0; i < count; i++) {
        w->coefficients[i] = krr_element(GRAM_F64, data, i);
        if (!(w->coefficients[i] > 0 && w->coefficients[i] < INFINITY))
            return gram_model_bad(g, file, "coefficient %lld is %g, expected a number above 0",
                                  (long long)i, w->coefficients[i]);
    }
    w->on = counter[GROWS];
    w->column = counter[LOOKED_AT];
    w->steps = count / 2;
    return GRAM_OK;
}

static gram_status take_iteration(gram_context *g, const struct krr_problem *p,
                                  const struct gram_model_file *file, const int64_t *counter,
                                  struct krr_cg_state *s)
{
    const gram_dtype dtype = dtype_of(p, counter[WIDE] != 0);
    const void *numbers, *which, *left;

    *s = (struct krr_cg_state){.phase = (enum krr_cg_phase)counter[CG_PHASE],
                               .iterations = counter[CG_ITERATIONS],
                               .round = counter[CG_ROUND],
                               .step = counter[CG_STEP],
                               .least_step = counter[LEAST_STEP],
                               .renewed_step = counter[RENEWED_STEP],
                               .working = counter[WORKING],
                               .waiting = counter[WAITING]};
    TRY(need(g, file, "cg.x", dtype, p->columns, p->unknowns, &s->x));
    TRY(need(g, file, "cg.r", dtype, s->working, p->unknowns, &s->r));
    TRY(need(g, file, "cg.d", dtype, s->working, p->unknowns, &s->d));
    TRY(need(g, file, "cg.numbers", GRAM_F64, 5, p->columns, &numbers));
    TRY(gram_model_need_vector(g, file, "cg.which", GRAM_I64, p->columns, &which, NULL));
    TRY(gram_model_need_vector(g, file, "cg.left", GRAM_I64, p->columns, &left, NULL));
    s->numbers = numbers, s->which = which, s->left = left;
    if (are_different(g, s->which, s->working, p->columns) &&
        are_different(g, s->left, s->waiting, p->columns) && s->working <= s->waiting)
        return GRAM_OK;
    return gram_model_bad(g, file, "its columns cannot be");
}

/* Numbers of 0 or more. */
static bool are_positive(const double *number, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (number[i] < 0)
            return false;
    return true;
}

static gram_status take_passes(gram_context *g, const struct krr_problem *p,
                               const struct gram_model_file *file, struct krr_passes_state *s)
{
    const void *momentum, *order, *squares, *rate, *data;
    const int64_t *counter;

    TRY(need(g, file, "blocks.momentum", GRAM_F64, p->columns, p->unknowns, &momentum));
    TRY(need(g, file, "blocks.squares", GRAM_F64, 2, p->columns, &squares));
    TRY(need(g, file, "blocks.rate", GRAM_F64, -1, 1, &rate));
    TRY(gram_model_need_vector(g, file, "blocks.order", GRAM_I64, p->unknowns, &order, NULL));
    TRY(gram_model_need_vector(g, file, "blocks.counters", GRAM_I64, 3, &data, NULL));
    counter = data;
    *s = (struct krr_passes_state){.rows = counter[0],
                                   .done = counter[1],
                                   .rate = krr_element(GRAM_F64, rate, 0),
                                   .momentum = momentum,
                                   .squares = squares,
                                   .order = order};
    memcpy(&s->random, &counter[2], sizeof s->random);
    if (s->rows < 1 || s->rows > p->n || s->done < 0 || s->done > p->n ||
        (s->done < p->n && s->done % s->rows != 0))
        return gram_model_bad(g, file, "%lld rows that are done of blocks of %lld cannot be",
                              (long long)s->done, (long long)s->rows);
    if (!(s->rate > 0 && s->rate <= 1) || !are_positive(s->squares, 2 * p->columns))
        return gram_model_bad(g, file, "its rate of %g or its squares cannot be", s->rate);
    if (are_different(g, s->order, p->n, p->n))
        return GRAM_OK;
    return gram_model_bad(g, file, "its order is not one of %lld rows", (long long)p->n);
}

/* Checks everything, and points to it. */
static gram_status check_file(gram_context *g, const struct krr_problem *p,
                              const struct gram_model_file *file, struct krr_checkpoint *c,
                              const void *out[3])
{
    const int64_t *counter = NULL;
    const void *data;

    TRY(gram_model_need_vector(g, file, "counters", GRAM_I64, COUNTERS, &data, NULL));
    counter = data;
    TRY(check_counters(g, p, file, counter));
    c->stage = (int)counter[STAGE], c->round = counter[ROUND];
    c->shifted = counter[SHIFTED], c->wide = counter[WIDE];
    c->preconditioned = counter[PRECONDITIONED];
    TRY(gram_model_need_vector(g, file, "history", GRAM_F64, -1, &out[1], &c->iterations));
    TRY(take_pivots(g, p, file, c));
    TRY(take_growth(g, file, counter, &c->growth));
    TRY(gram_model_need_vector(g, file, "seed", GRAM_I64, 1, &data, NULL));
    TRY(need(g, file, "alpha", GRAM_F64, p->columns, p->unknowns, &out[0]));
    if (c->stage == KRR_TO_LOOK_AT)
        TRY(need(g, file, "best", GRAM_F64, p->columns, p->unknowns, &out[2]));
    TRY(need(g, file, "residual", GRAM_F64, p->columns, p->unknowns, &data));
    c->residual_before = data;
    TRY(need(g, file, "norms", GRAM_F64, has_centres(p) ? 4 : 1, p->columns, &data));
    c->norms_before = data;
    if (has_blocks(p))
        return take_passes(g, p, file, &c->passes);
    return c->stage == KRR_ITERATING ? take_iteration(g, p, file, counter, &c->state) : GRAM_OK;
}

gram_status gram_krr_checkpoint_take(gram_context *g, struct krr_problem *p,
                                     struct gram_model_file *file)
{
    struct krr_checkpoint c = p->keep;
    const size_t bytes = (size_t)(p->columns * p->unknowns) * sizeof *p->alpha;
    const void *from[3] = {NULL, NULL, NULL};
    const int64_t *counter;

    TRY(check_file(g, p, file, &c, from));
    counter = gram_model_find(file, "counters")->data;
    c.room = c.iterations + LEAST_ROOM;
    c.history = gram_alloc(g, (size_t)c.room * sizeof *c.history);
    if (!c.history)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes",
                         (size_t)c.room * sizeof *c.history);
    if (c.iterations > 0)
        memcpy(c.history, from[1], (size_t)c.iterations * sizeof *c.history);
    memcpy(p->alpha, from[0], bytes);
    memcpy(p->best, from[2] ? from[2] : from[0], bytes);
    p->products = counter[PRODUCTS];
    memcpy(&p->options.seed, gram_model_find(file, "seed")->data, sizeof p->options.seed);
    c.file = file;
    p->keep = c;
    return GRAM_OK;
}

static gram_status resume(gram_context *g, struct krr_problem *p)
{
    struct gram_model_file *file;
    struct stat about;
    gram_status status;
    bool there = !(stat(p->keep.path, &about) != 0 && errno == ENOENT);

    TRY(gram_krr_ranks_flag(g, p->ranks, &there));
    if (!there)
        return GRAM_OK; /* from the beginning */
    TRY(gram_model_read(g, p->keep.path, &file));
    status = check_format(g, file);
    if (status == GRAM_OK)
        status = check_identity(g, p, file);
    if (status == GRAM_OK)
        status = gram_krr_checkpoint_take(g, p, file);
    if (status != GRAM_OK) {
        gram_model_file_destroy(file);
        return status;
    }
    return gram_krr_ranks_same(g, p->ranks, p->products, p->keep.path);
}

void gram_krr_checkpoint_drop_pivots(gram_context *g, struct krr_checkpoint *c)
{
    if (c->rank > 0) /* else they are the file's */
        gram_free(g, c->pivots.row, (size_t)c->rank * 2 * sizeof *c->pivots.row);
    c->rank = 0;
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

/* A path that cannot be written is found before hours of work. */
static gram_status try_path(gram_context *g, const char *path)
{
    struct gram_whole_file f;

    TRY(gram_whole_file_open(g, path, &f));
    (void)gram_whole_file_close(g, path, &f, ECANCELED);
    return GRAM_OK;
}

gram_status gram_krr_checkpoint_open(gram_context *g, struct krr_problem *p)
{
    struct krr_checkpoint *c = &p->keep;
    const gram_krr_options *o = &p->options;

    if (!o->checkpoint)
        return GRAM_OK;
    c->path = o->checkpoint;
    c->every = o->checkpoint_iterations, c->seconds = o->checkpoint_seconds;
    if (c->every == 0 && c->seconds == 0)
        c->seconds = seconds_between;
    c->last = gram_seconds();
    if (gram_krr_ranks_is_first(p->ranks))
        TRY(try_path(g, c->path));
    TRY(gram_krr_identify(g, p));
    return o->resume ? resume(g, p) : GRAM_OK;
}

void gram_krr_checkpoint_close(gram_context *g, struct krr_problem *p)
{
    struct krr_checkpoint *c = &p->keep;

    gram_free(g, c->history, (size_t)c->room * sizeof *c->history);
    gram_krr_checkpoint_drop_pivots(g, c);
    gram_model_file_destroy(c->file);
    *c = (struct krr_checkpoint){0};
}
