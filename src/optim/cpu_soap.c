/*
 * cpu_soap.c - SOAP's bases on the CPU: eigenvectors at first, then steps of power iteration, and
 * the moments in their coordinates
 *
 * Every vector of a basis belongs to one coordinate of the moments.  Power iteration keeps the
 * vectors in their order except that it sorts them by estimated eigenvalue.  The first moment is
 * brought from the old basis to the new one; the second moment, which has one number for each
 * coordinate, is sorted as the vectors are and otherwise stays as it is.  LAPACK is column-major:
 * the rows of a basis are its columns.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu_optimizer.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    EIGH_ORDER = 32000 /* up to this order syevd's workspace fits LAPACK's 32-bit integers */
};

/* Scratch, in doubles: a matrix, then LAPACK's work, which has room for two more matrices. */
struct basis_scratch {
    double *product, *work, *values;
    int32_t *iwork;
    int64_t lwork, liwork;
};

static void work_sizes(int64_t n, int64_t *lwork, int64_t *liwork)
{
    gram_blas_syevd_sizes(n, lwork, liwork);
    *lwork = gram_most(*lwork, 2 * n * n + n + gram_blas_qr_work(n));
    *liwork = gram_most(*liwork, n);
}

static void take_basis(int64_t n, struct gram_layout *l, struct basis_scratch *s)
{
    work_sizes(n, &s->lwork, &s->liwork);
    gram_take_many(l, &s->product, (size_t)(n * n), sizeof(double));
    gram_take_many(l, &s->work, (size_t)s->lwork, sizeof(double));
    gram_take_many(l, &s->values, (size_t)n, sizeof(double));
    gram_take_many(l, &s->iwork, (size_t)s->liwork, sizeof(int32_t));
}

static struct basis_scratch place_basis(int64_t n, void *memory)
{
    struct gram_layout l = {0};
    struct basis_scratch s;

    take_basis(n, &l, &s);
    gram_layout_place(&l, memory);
    return s;
}

size_t cpu_soap_basis_bytes(int64_t n)
{
    struct gram_layout l = {0};
    struct basis_scratch s;

    take_basis(n, &l, &s);
    return gram_layout_bytes(&l);
}

/* ---- The first basis ------------------------------------------------------------------------- */

/* Replaces a by its eigenvectors, that of the largest eigenvalue first; false: LAPACK failed. */
static bool eigenvectors(gram_dtype dtype, int64_t n, void *a, const struct basis_scratch *s)
{
    size_t column = (size_t)n * gram_dtype_size(dtype);

    if (gram_blas_syevd(dtype, GRAM_LOWER, n, a, n, s->values, s->work, s->lwork, s->iwork,
                        s->liwork))
        return false;
    for (int64_t j = 0; j < n / 2; j++) {
        char *left = (char *)a + (size_t)j * column,
             *right = (char *)a + (size_t)(n - 1 - j) * column;
        memcpy(s->work, left, column);
        memcpy(left, right, column);
        memcpy(right, s->work, column);
    }
    return cpu_optimizer_math(dtype)->finite(n * n, a);
}

bool cpu_soap_basis_first(gram_dtype dtype, int64_t n, const void *factor, void *q, void *scratch)
{
    const struct cpu_optimizer_math *math = cpu_optimizer_math(dtype);
    struct basis_scratch s = place_basis(n, scratch);

    if (!math->finite(n * n, factor))
        return false; /* with such numbers LAPACK may not return */
    memcpy(s.product, factor, (size_t)(n * n) * gram_dtype_size(dtype));
    if (eigenvectors(dtype, n, s.product, &s)) {
        memcpy(q, s.product, (size_t)(n * n) * gram_dtype_size(dtype));
        return true;
    }
    math->widen(n * n, factor, s.product);
    if (dtype == GRAM_F64 || !eigenvectors(GRAM_F64, n, s.product, &s))
        return false;
    math->narrow(n * n, s.product, q);
    return true;
}

/* ---- The next one ---------------------------------------------------------------------------- */

struct estimate {
    double value;
    int64_t column;
};

static int by_value_descending(const void *left, const void *right)
{
    const struct estimate *a = left, *b = right;

    if (a->value != b->value)
        return a->value > b->value ? -1 : 1;
    return a->column < b->column ? -1 : 1;
}

/* Sets order to the vectors by their estimated eigenvalues q . product, the largest first. */
static void sort_columns(gram_dtype dtype, int64_t n, const void *q, const struct basis_scratch *s,
                         int32_t *order)
{
    struct estimate *estimates = (struct estimate *)(void *)s->work;
    int64_t column = n * (int64_t)gram_dtype_size(dtype);

    for (int64_t j = 0; j < n; j++)
        estimates[j] = (struct estimate){
            .value = cpu_optimizer_math(dtype)->dot(n, (const char *)q + j * column,
                                                    (const char *)s->product + j * column),
            .column = j,
        };
    qsort(estimates, (size_t)n, sizeof *estimates, by_value_descending);
    for (int64_t j = 0; j < n; j++)
        order[j] = (int32_t)estimates[j].column;
}

/* A factor and its basis, in dtype; the next basis is made in s.work. */
struct iteration {
    gram_dtype dtype;
    int64_t n;
    const void *factor, *q;
    double skip;
    struct basis_scratch s;
    int32_t *order;
    enum soap_outcome outcome;
};

static gram_status multiply(void *of)
{
    struct iteration *w = of;
    struct gram_blas_matrix left = {.data = w->factor, .ld = w->n},
                            right = {.data = w->q, .ld = w->n};

    gram_blas_gemm(w->dtype, (int64_t[]){w->n, w->n, w->n}, 1, left, right, 0, w->s.product, w->n);
    return GRAM_OK;
}

static gram_status rotate(void *of)
{
    struct iteration *w = of;
    struct gram_blas_matrix left = {.data = w->q, .ld = w->n, .transposed = true};
    struct gram_blas_matrix right = {.data = w->s.product, .ld = w->n};

    gram_blas_gemm(w->dtype, (int64_t[]){w->n, w->n, w->n}, 1, left, right, 0, w->s.work, w->n);
    return GRAM_OK;
}

static gram_status check_finite(void *of)
{
    struct iteration *w = of;

    if (!cpu_optimizer_math(w->dtype)->finite(w->n * w->n, w->s.product))
        w->outcome = SOAP_FAILED;
    return GRAM_OK;
}

static gram_status judge(void *of)
{
    struct iteration *w = of;
    const struct cpu_optimizer_math *math = cpu_optimizer_math(w->dtype);

    if (w->outcome == SOAP_REFRESHED &&
        math->off_diagonal(w->n, w->s.work) <=
            w->skip * w->skip * math->dot(w->n * w->n, w->s.work, w->s.work))
        w->outcome = SOAP_KEPT;
    return GRAM_OK;
}

static gram_status sort(void *of)
{
    struct iteration *w = of;
    struct cpu_mode columns = {.before = 1, .n = w->n, .after = w->n};

    if (w->outcome != SOAP_REFRESHED)
        return GRAM_OK;
    sort_columns(w->dtype, w->n, w->q, &w->s, w->order);
    cpu_optimizer_math(w->dtype)->permute(&columns, w->order, w->s.product, w->s.work);
    return GRAM_OK;
}

static gram_status orthonormalise(void *of)
{
    struct iteration *w = of;

    if (w->outcome != SOAP_REFRESHED)
        return GRAM_OK;
    gram_blas_qr(w->dtype, w->n, w->s.work, w->s.values, w->s.work + w->n * w->n);
    if (!cpu_optimizer_math(w->dtype)->finite(w->n * w->n, w->s.work))
        w->outcome = SOAP_FAILED;
    return GRAM_OK;
}

static void iterate(struct iteration *w)
{
    static const struct gram_soap_basis_ops ops = {multiply, rotate, check_finite,
                                                   judge,    sort,   orthonormalise};

    w->outcome = SOAP_REFRESHED;
    (void)gram_soap_iterate(&ops, w, w->skip); /* nothing of it can fail */
}

// NOLINTBEGIN(readability-non-const-parameter): the iteration writes order
enum soap_outcome cpu_soap_basis_next(gram_dtype dtype, int64_t n, const struct soap_factor *from,
                                      void *next, int32_t *order, void *scratch)
// NOLINTEND(readability-non-const-parameter)
{
    const struct cpu_optimizer_math *math = cpu_optimizer_math(dtype);
    struct iteration w = {.dtype = dtype,
                          .n = n,
                          .factor = from->factor,
                          .q = from->q,
                          .skip = from->skip,
                          .s = place_basis(n, scratch),
                          .order = order};
    double *factor = w.s.work, *q = w.s.work + n * n;

    iterate(&w);
    if (w.outcome == SOAP_REFRESHED)
        memcpy(next, w.s.work, (size_t)(n * n) * gram_dtype_size(dtype));
    if (w.outcome != SOAP_FAILED || dtype == GRAM_F64)
        return w.outcome;
    math->widen(n * n, from->factor, factor);
    math->widen(n * n, from->q, q);
    w.dtype = GRAM_F64;
    w.factor = factor;
    w.q = q;
    w.skip = 0;
    iterate(&w);
    if (w.outcome == SOAP_REFRESHED)
        math->narrow(n * n, w.s.work, next);
    return w.outcome;
}

/* ---- Bases and moments of blocks ------------------------------------------------------------- */

/* The scratch of a block. */
struct refresh_room {
    char *factor, *q, *next, *moment, *second, *spare, *basis;
    int32_t *order;
};

static int64_t largest_side(const struct gram_optimizer_block *b)
{
    int64_t n = 0;

    for (int k = 0; k < b->order; k++)
        n = gram_most(n, b->factor[k].n);
    return n;
}

/* Room for the moments, where they are loaded, and for a matrix of the largest side. */
static void take(const gram_optimizer *o, const struct gram_optimizer_block *b,
                 struct gram_layout *l, struct cpu_optimizer_unit *u)
{
    const gram_dtype work = o->parameter[b->parameter].work;
    const size_t n = (size_t)largest_side(b);

    gram_take(l, &u->moment, cpu_optimizer_loaded_bytes(&b->moment, work));
    gram_take(l, &u->second, cpu_optimizer_loaded_bytes(&b->second, work));
    gram_take_many(l, &u->matrix, n, n * gram_dtype_size(work));
}

static void take_room(const struct gram_optimizer_block *b, gram_dtype work, struct gram_layout *l,
                      struct refresh_room *room)
{
    const size_t size = gram_dtype_size(work), n = (size_t)largest_side(b);

    gram_take_many(l, &room->factor, n * n, size);
    gram_take_many(l, &room->q, n * n, size);
    gram_take_many(l, &room->next, n * n, size);
    gram_take_many(l, &room->moment, (size_t)b->count, size);
    gram_take_many(l, &room->second, (size_t)b->count, size);
    gram_take_many(l, &room->spare, (size_t)b->count, size);
    gram_take_many(l, &room->order, n, sizeof(int32_t));
    gram_take(l, &room->basis, cpu_soap_basis_bytes((int64_t)n));
}

static gram_status check_sides(gram_context *g, const struct gram_optimizer_block *b)
{
    for (int k = 0; k < b->order; k++) {
        struct cpu_mode mode = cpu_mode_of(b->size, b->order, k);
        if (b->factor[k].n > EIGH_ORDER)
            return gram_fail(g, GRAM_UNSUPPORTED,
                             "parameters[%lld] has a side of %lld, but a basis takes at most %d; "
                             "with a smaller options.block, longer sides have no basis",
                             (long long)b->parameter, (long long)b->factor[k].n, EIGH_ORDER);
        if (b->factor[k].dtype && !gram_blas_fits(mode.before, mode.n, mode.after))
            return gram_fail(g, GRAM_UNSUPPORTED,
                             "parameters[%lld] has %lld elements, but BLAS counts at most %d",
                             (long long)b->parameter, (long long)b->count, INT_MAX);
    }
    return GRAM_OK;
}

static gram_status refresh_bytes(gram_context *g, const gram_optimizer *o, size_t *bytes)
{
    *bytes = 0;
    for (int64_t i = 0; i < o->blocks; i++) {
        const struct gram_optimizer_block *b = &o->block[i];
        struct gram_layout layout = {0};
        struct refresh_room room;
        if (!gram_optimizer_owns(o, b) || largest_side(b) == 0)
            continue;
        TRY(check_sides(g, b));
        take_room(b, o->parameter[b->parameter].work, &layout, &room);
        *bytes = gram_most_bytes(*bytes, gram_layout_bytes(&layout));
    }
    return GRAM_OK;
}

/* A block, and the dimension k whose basis is refreshed. */
struct refresh {
    gram_optimizer *o;
    const struct gram_optimizer_block *b;
    gram_dtype work;
    struct refresh_room room;
    int k;
    void *q, *moment, *second; /* in the state, or loaded */
    enum soap_outcome outcome;
};

static gram_status load(void *of)
{
    struct refresh *t = of;

    t->q = cpu_optimizer_open(t->o, &t->b->root[t->k], t->work, t->room.q);
    cpu_optimizer_load(t->o, &t->b->factor[t->k], t->work, true, t->room.factor);
    return GRAM_OK;
}

static gram_status find_basis(void *of, bool first)
{
    struct refresh *t = of;
    const int64_t n = t->b->factor[t->k].n;
    const struct soap_factor from = {t->room.factor, t->q, t->o->options.skip};

    if (!first)
        t->outcome =
            cpu_soap_basis_next(t->work, n, &from, t->room.next, t->room.order, t->room.basis);
    else if (cpu_soap_basis_first(t->work, n, t->room.factor, t->room.next, t->room.basis))
        t->outcome = SOAP_REFRESHED;
    else
        t->outcome = SOAP_FAILED;
    return GRAM_OK;
}

static gram_status load_moments(void *of)
{
    struct refresh *t = of;
    struct cpu_mode mode = cpu_mode_of(t->b->size, t->b->order, t->k);

    if (t->outcome != SOAP_REFRESHED)
        return GRAM_OK;
    t->moment = cpu_optimizer_open(t->o, &t->b->moment, t->work, t->room.moment);
    t->second = cpu_optimizer_open(t->o, &t->b->second, t->work, t->room.second);
    memcpy(t->room.spare, t->second, (size_t)t->b->count * gram_dtype_size(t->work));
    cpu_optimizer_math(t->work)->permute(&mode, t->room.order, t->room.spare, t->second);
    return GRAM_OK;
}

static gram_status leave_basis(void *of)
{
    struct refresh *t = of;
    struct cpu_mode mode = cpu_mode_of(t->b->size, t->b->order, t->k);

    if (t->outcome == SOAP_REFRESHED)
        cpu_mode_product(t->work, &mode, t->moment, t->q, true, t->room.spare);
    return GRAM_OK;
}

static gram_status enter_basis(void *of)
{
    struct refresh *t = of;
    struct cpu_mode mode = cpu_mode_of(t->b->size, t->b->order, t->k);

    if (t->outcome == SOAP_REFRESHED)
        cpu_mode_product(t->work, &mode, t->room.spare, t->room.next, false, t->moment);
    return GRAM_OK;
}

static gram_status store_moments(void *of)
{
    struct refresh *t = of;

    if (t->outcome != SOAP_REFRESHED)
        return GRAM_OK;
    cpu_optimizer_close(t->o, &t->b->moment, t->work, t->moment);
    cpu_optimizer_close(t->o, &t->b->second, t->work, t->second);
    return GRAM_OK;
}

static gram_status store(void *of)
{
    struct refresh *t = of;

    if (t->outcome == SOAP_REFRESHED)
        cpu_optimizer_store(t->o, &t->b->root[t->k], t->work, t->room.next);
    return GRAM_OK;
}

static void refresh_block(const struct cpu_optimizer_step *s, int64_t index, bool first)
{
    static const struct gram_soap_refresh_ops ops = {
        .load = load,
        .find_basis = find_basis,
        .load_moments = load_moments,
        .leave_basis = leave_basis,
        .enter_basis = enter_basis,
        .store_moments = store_moments,
        .store = store,
    };
    const struct gram_optimizer_block *b = &s->job->o->block[index];
    gram_dtype work = s->job->o->parameter[b->parameter].work;
    struct refresh t = {.o = s->job->o, .b = b, .work = work};
    struct gram_layout layout = {0};
    int64_t count[3] = {0};

    take_room(b, work, &layout, &t.room);
    gram_layout_place(&layout, s->scratch);
    for (t.k = 0; t.k < b->order; t.k++)
        if (b->factor[t.k].dtype) {
            (void)gram_soap_refresh(&ops, &t, first); /* nothing of it can fail */
            count[t.outcome]++;
        }
    s->job->op->report->refreshed += count[SOAP_REFRESHED];
    s->job->op->report->kept += count[SOAP_KEPT];
    s->job->op->report->failed += count[SOAP_FAILED];
    if (count[SOAP_FAILED] && s->job->op->report->first_failed < 0)
        s->job->op->report->first_failed = b->parameter;
    s->job->o->failures[index] = count[SOAP_FAILED] ? s->job->o->failures[index] + 1 : 0;
}

void cpu_soap_refresh(const struct cpu_optimizer_step *s)
{
    gram_blas_threads(s->job->g);
    for (int64_t i = 0; i < s->job->o->blocks; i++) {
        const struct gram_optimizer_block *b = &s->job->o->block[i];
        if (!gram_optimizer_owns(s->job->o, b) || s->rests[b->parameter] || largest_side(b) == 0)
            continue;
        if (gram_soap_due(s->job, b))
            refresh_block(s, i, s->job->o->steps[b->parameter] == 0);
    }
}

const struct cpu_optimizer_method cpu_soap = {
    .take = take,
    .refresh_bytes = refresh_bytes,
};
