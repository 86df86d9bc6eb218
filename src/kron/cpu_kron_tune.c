/*
 * cpu_kron_tune.c - gram_tune_kron on the CPU: tiles of what size are fastest
 *
 * A choice changes the size of tiles and, where that leaves the order of the sums as it is, how
 * many factors are applied to a tile: y has the same bits with every choice.  The processor is
 * often shared, so that choices are measured in turn, several times, and the least time of each
 * counts.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/database.h"
#include "cpu/cpu.h"
#include "cpu_kron_matmul.h"
#include <math.h>

enum {
    ROUNDS = 5,
    MOST_CALLS = 1 << 14
};

static const double least_ms = 5, /* a measured round of one choice */
    most_ms = 3000,               /* no further round after so long */
    least_gain = 0.98;            /* of the time of the library's choice: less is noise */

static uint64_t mix(uint64_t h, int64_t number)
{
    return (h ^ (uint64_t)number) * 0x100000001b3u;
}

/* The number by which a choice is kept.  Problems share it that have one kind of machine, dtype,
 * factors and layouts, and whose sizes are the same to the next power of two.  It is in the range
 * of cuda_kron_matmul.c, where a number from 80 on, the chip, stands in place of the negative one.
 */
static uint64_t class_of(const gram_context *g, const struct gram_kron_matmul_op *op)
{
    uint64_t h = mix(0xcbf29ce484222325u, -1 - (int64_t)g->backend->machine(g));

    h = mix(h, op->x.dtype);
    for (int i = 0; i < op->count; i++)
        h = mix(mix(h, op->factor[i].rows), op->factor[i].cols);
    h = mix(mix(h, gram_octave(op->x.rows)), gram_octave(op->batch.count));
    h = mix(mix(h, op->x.col_stride == 1), op->y.col_stride == 1);
    h = mix(mix(h, op->x.row_stride == 1), op->y.row_stride == 1);
    return h >> 2 | 1ull << 62;
}

int cpu_kron_tuned(const gram_context *g, const struct gram_kron_matmul_op *op)
{
    int64_t choice;

    if (!gram_tuned_any(g))
        return 0;
    choice = gram_tuned_get(g, class_of(g, op));
    return choice > 0 && choice <= CPU_KRON_CHOICES ? (int)choice : 0;
}

/* ---- Measuring ------------------------------------------------------------------------------ */

struct measured {
    int choice, groups, calls; /* calls: of a round */
    double ms;                 /* the least of a call */
};

static bool same_plan(const struct kron_plan *a, const struct kron_plan *b)
{
    bool same = a->groups == b->groups && a->rows == b->rows;

    for (int i = 0; i < a->groups && same; i++) {
        const struct kron_group *p = &a->group[i], *q = &b->group[i];
        same = p->span.first == q->span.first && p->span.count == q->span.count &&
               p->blocks == q->blocks && p->width == q->width;
    }
    return same;
}

/* The choices of which no two come to one plan, the library's own first. */
static int list_choices(const gram_context *g, const struct gram_kron_matmul_op *op,
                        struct measured *list)
{
    struct kron_plan plan, other;
    int count = 0;

    for (int choice = 0; choice <= CPU_KRON_CHOICES; choice++) {
        bool known = false;
        cpu_kron_matmul_plan(g, op, choice, &plan);
        for (int i = 0; i < count && !known; i++) {
            cpu_kron_matmul_plan(g, op, list[i].choice, &other);
            known = same_plan(&plan, &other);
        }
        if (!known)
            list[count++] = (struct measured){
                .choice = choice, .groups = plan.groups, .calls = 1, .ms = INFINITY};
    }
    return count;
}

static gram_status time_round(gram_context *g, const struct gram_kron_matmul_op *op,
                              struct measured *m, double *total)
{
    const int64_t start = gram_nanoseconds();

    for (int i = 0; i < m->calls; i++)
        TRY(cpu_kron_matmul_chosen(g, op, m->choice));
    *total = gram_milliseconds_since(start);
    m->ms = fmin(m->ms, *total / m->calls);
    return GRAM_OK;
}

/* The first call warms up; then as many calls as make a round of least_ms. */
static gram_status choose_calls(gram_context *g, const struct gram_kron_matmul_op *op,
                                struct measured *m)
{
    double total;

    TRY(cpu_kron_matmul_chosen(g, op, m->choice));
    for (;; m->calls *= 2) {
        TRY(time_round(g, op, m, &total));
        if (total >= least_ms || m->calls >= MOST_CALLS)
            return GRAM_OK;
    }
}

static gram_status measure(gram_context *g, const struct gram_kron_matmul_op *op,
                           struct measured *list, int count)
{
    const int64_t start = gram_nanoseconds();
    double total;

    for (int i = 0; i < count; i++)
        TRY(choose_calls(g, op, &list[i]));
    for (int round = 1; round < ROUNDS && gram_milliseconds_since(start) < most_ms; round++)
        for (int i = 0; i < count; i++)
            TRY(time_round(g, op, &list[i], &total));
    return GRAM_OK;
}

gram_status cpu_tune_kron(gram_context *g, const struct gram_kron_matmul_op *op,
                          gram_kron_tuning *result)
{
    struct measured list[CPU_KRON_CHOICES + 1];
    const int count = list_choices(g, op, list);
    const struct measured *best = &list[0];

    TRY(measure(g, op, list, count));
    for (int i = 0; i < count; i++) {
        gram_log(g, "choice %d, %d groups: %.4f ms", list[i].choice, list[i].groups, list[i].ms);
        if (list[i].ms < best->ms && list[i].ms < least_gain * list[0].ms)
            best = &list[i];
    }
    result->candidates = count;
    result->table_launches = list[0].groups;
    result->table_ms = list[0].ms;
    result->launches = best->groups;
    result->ms = best->ms;
    result->kept = gram_tuned_put(g, class_of(g, op), best->choice);
    return GRAM_OK;
}
