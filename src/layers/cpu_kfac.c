/*
 * cpu_kfac.c - the passes of gram_kfac over numbers on the CPU: see enum kfac_pass_kind
 *
 * What is done with a number is done in double, whatever the dtype of the state.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu/cpu.h"
#include "kfac.h"
#include <math.h>
#include <string.h>

typedef struct gram_kfac_pass pass_type;

static const double pi_most = 1e4; /* how far apart the damping of A and B may be */

static double read_state(const pass_type *p, const void *numbers, int64_t i)
{
    return kfac_read(p->state, numbers, i);
}

/* ---- Averages ------------------------------------------------------------------------------- */

bool gram_kfac_finite(int64_t count, const void *numbers, gram_dtype dtype, gram_dtype state)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++) {
        const double number = kfac_read(dtype, numbers, i);
        sum += 0 * (state == GRAM_F32 ? (double)(float)number : number);
    }
    return sum == 0;
}

static void check_finite(const pass_type *p)
{
    if (!gram_kfac_finite(p->count, p->from, p->dtype, p->state))
        p->report->bad = 1;
}

static void move_average(const pass_type *p)
{
    const int64_t updates = p->counts[p->average.updates];
    const double keep = fmin(1 - 1 / (double)(updates + 1), p->average.decay);

    if (p->report->bad || (p->average.updates == KFAC_CORRECTIONS && !p->counts[KFAC_READY]))
        return;
    for (int64_t i = 0; i < p->count; i++) {
        const double now = kfac_read(p->dtype, p->from, i);
        const double was = keep == 0 ? 0 : keep * read_state(p, p->to, i);
        kfac_write(p->state, p->to, i, was + (1 - keep) * now);
    }
}

static void count_update(const pass_type *p)
{
    for (int i = KFAC_A_UPDATES; i <= KFAC_CORRECTIONS && !p->report->bad; i++)
        if (p->moved >> i & 1 && (i != KFAC_CORRECTIONS || p->counts[KFAC_READY]))
            p->counts[i]++;
    p->report->skipped += p->report->bad;
    p->report->bad = 0;
}

/* ---- Inverses ------------------------------------------------------------------------------- */

/* The mean of the diagonals of matrices of order n, one per group, or of vectors that are
 * diagonals. */
static double mean_diagonal(const pass_type *p, const void *a, int64_t n, bool diagonals)
{
    double sum = 0;

    for (int64_t i = 0; i < p->groups * n; i++)
        sum += read_state(p, a, diagonals ? i : i * n + i % n);
    return sum / (double)(p->groups * n);
}

static void split_damping(const pass_type *p)
{
    const double a = mean_diagonal(p, p->x, p->cols, p->damping.diagonal);
    const double b = mean_diagonal(p, p->y, p->rows, false);
    const int64_t a_order = p->damping.diagonal ? 0 : p->groups * p->cols;
    const double root = sqrt(p->damping.lambda), least = p->damping.least;
    double pi = 1, *shift = p->report->shift;

    if (a > 0 && b > 0)
        pi = fmin(fmax(sqrt(a / b), 1 / pi_most), pi_most);
    shift[0] = fmax(pi * root, least * a * (double)a_order);
    shift[1] = fmax(root / pi, least * b * (double)(p->groups * p->rows));
}

static void add_damping(const pass_type *p)
{
    const size_t bytes = (size_t)p->count * gram_dtype_size(p->state);
    const int64_t n = p->rows;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): takes away const
    void *identity = (void *)(uintptr_t)p->from; /* which this pass writes */

    memcpy(p->to, p->x, bytes);
    memset(identity, 0, bytes);
    for (int64_t i = 0; i < p->count / n; i++) {
        const int64_t at = i * n + i % n;
        kfac_write(p->state, p->to, at, read_state(p, p->x, at) + p->report->shift[p->side]);
        kfac_write(p->state, identity, at, 1);
    }
}

static bool has_succeeded(const pass_type *p)
{
    bool succeeded = !p->report->bad;

    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; p->info[side] && i < p->groups; i++)
            succeeded = succeeded && p->info[side][i] == 0;
    return succeeded;
}

/* The column of A that number i of M meets. */
static int64_t column_of(const pass_type *p, int64_t i)
{
    return i % p->cols + i / p->cols / p->rows * p->cols;
}

static double stored(const pass_type *p, int64_t i)
{
    const int64_t n = p->rows;

    switch (p->store) {
    case KFAC_STORE_SYMMETRIC:
        return (read_state(p, p->x, i) + read_state(p, p->x, i + (i % n - i / n % n) * (n - 1))) /
               2;
    case KFAC_STORE_VALUES:
        return fmax(read_state(p, p->x, i), 0);
    case KFAC_STORE_INVERSE:
        return 1 / (fmax(read_state(p, p->x, i), 0) + p->report->shift[0]);
    case KFAC_STORE_PRODUCTS:
        return read_state(p, p->y, i / p->cols) * read_state(p, p->x, column_of(p, i));
    default:
        return read_state(p, p->x, i);
    }
}

static void store(const pass_type *p)
{
    if (has_succeeded(p))
        for (int64_t i = 0; i < p->count; i++)
            kfac_write(p->state, p->to, i, stored(p, i));
}

static void commit(const pass_type *p)
{
    if (has_succeeded(p))
        p->counts[KFAC_READY] = 1, p->counts[KFAC_CORRECTIONS] = 0;
    else
        p->report->failed++;
    p->report->bad = 0;
}

/* ---- Tensors -------------------------------------------------------------------------------- */

static void move(const pass_type *p, bool to_tensor)
{
    const struct kfac_move *m = p->move;
    const gram_tensor *t = m->tensor;
    int64_t count = 1, index[GRAM_MAX_DIMS] = {0}, offset = 0;

    for (int i = 0; i < t->ndim; i++)
        count *= t->shape[i];
    for (int64_t e = 0; e < count; e++) {
        const int64_t at = e / m->inner * m->outer_step + e % m->inner * m->inner_step;
        if (to_tensor)
            kfac_write(t->dtype, t->data, offset,
                       p->report->nu * kfac_read(m->state, m->numbers, at));
        else
            kfac_write(m->state, m->numbers, at, kfac_read(t->dtype, t->data, offset));
        for (int i = t->ndim - 1; i >= 0; i--) { /* the next index */
            offset += t->stride[i];
            if (++index[i] < t->shape[i])
                break;
            offset -= index[i] * t->stride[i];
            index[i] = 0;
        }
    }
}

static void gather(const pass_type *p)
{
    move(p, false);
}

static void scatter(const pass_type *p)
{
    move(p, true);
}

/* ---- Directions ----------------------------------------------------------------------------- */

static void scale(const pass_type *p)
{
    const double lambda = p->scale.lambda;

    for (int64_t i = 0; i < p->count; i++) {
        const double number = read_state(p, p->to, i);
        const double x =
            read_state(p, p->x, p->scale.by == KFAC_SCALE_VALUES ? i : column_of(p, i));
        if (p->scale.by == KFAC_SCALE_COLUMNS)
            kfac_write(p->state, p->to, i, number * x);
        else if (p->scale.by == KFAC_SCALE_FACTORS)
            kfac_write(p->state, p->to, i,
                       number / (read_state(p, p->y, i / p->cols) * x + lambda));
        else
            kfac_write(p->state, p->to, i, number / (x + lambda));
    }
}

static void square(const pass_type *p)
{
    for (int64_t group = 0; group < p->groups; group++)
        for (int64_t i = 0; i < p->count; i++) {
            const double x = read_state(p, p->x, group * p->count + i);
            const double sum = p->squares.adds || group > 0 ? read_state(p, p->to, i) : 0;
            kfac_write(p->state, p->to, i, sum + p->squares.factor * x * x);
        }
}

static void take_direction(const pass_type *p)
{
    const void *direction = p->counts[KFAC_READY] ? p->x : p->to;
    double sum = p->report->sum;

    for (int64_t i = 0; i < p->count; i++) {
        const double v = read_state(p, direction, i);
        sum += v * read_state(p, p->to, i);
        kfac_write(p->state, p->to, i, v);
    }
    p->report->sum = sum;
}

/* The CPU adds to sum at once: see take_direction. */
static void add_parts(const pass_type *p)
{
    (void)p;
}

static void clip(const pass_type *p)
{
    struct kfac_report *r = p->report;
    const double sum = fabs(r->sum * p->clip.rate * p->clip.rate);

    r->nu = r->bad ? 0 : p->clip.most > 0 && sum > p->clip.most ? sqrt(p->clip.most / sum) : 1;
    r->skipped += r->bad;
    r->bad = 0;
    r->sum = 0;
}

gram_status cpu_kfac_pass(gram_context *g, const struct gram_kfac_pass *pass)
{
    static void (*const passes[])(const pass_type *p) = {
        [KFAC_CHECK_FINITE] = check_finite,
        [KFAC_MOVE_AVERAGE] = move_average,
        [KFAC_COUNT_UPDATE] = count_update,
        [KFAC_SPLIT_DAMPING] = split_damping,
        [KFAC_ADD_DAMPING] = add_damping,
        [KFAC_STORE] = store,
        [KFAC_COMMIT] = commit,
        [KFAC_GATHER] = gather,
        [KFAC_SCATTER] = scatter,
        [KFAC_SCALE] = scale,
        [KFAC_SQUARES] = square,
        [KFAC_TAKE_DIRECTION] = take_direction,
        [KFAC_ADD_PARTS] = add_parts,
        [KFAC_CLIP] = clip,
    };

    (void)g;
    passes[pass->kind](pass);
    return GRAM_OK;
}
