/*
 * cuda_kron_tune.c - gram_tune_kron: measures groups of factors and tiles, and keeps the fastest
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/database.h"
#include "cuda_kron.h"

static const double least_gain = 0.98; /* times the model's time: a smaller gain is noise */

static uint64_t mix(uint64_t h, int64_t number)
{
    return (h ^ (uint64_t)number) * 0x100000001b3u;
}

/* The class of problems with the same chip, dtype, factors and layouts, whose sizes are the same to
 * the next power of two.  The numbers of these classes are above those of gram_tune and below those
 * of gram_tune_eigh. */
static uint64_t class_of(const struct cuda_device *device, const struct gram_kron_matmul_op *op)
{
    uint64_t h = mix(0xcbf29ce484222325u, device->arch);

    h = mix(h, op->x.dtype);
    for (int i = 0; i < op->count; i++)
        h = mix(mix(h, op->factor[i].rows), op->factor[i].cols);
    h = mix(mix(h, gram_octave(op->x.rows)), gram_octave(op->batch.count));
    h = mix(mix(h, op->x.col_stride == 1), op->y.col_stride == 1);
    return h >> 2 | 1ull << 62;
}

int cuda_kron_tuned(const gram_context *g, const struct gram_kron_matmul_op *op)
{
    int64_t choice;

    if (op->after > 1 || !gram_tuned_any(g))
        return 0;
    choice = gram_tuned_get(g, class_of(g->device, op));
    return choice > 0 && choice <= CUDA_KRON_CHOICES ? (int)choice : 0;
}

/* True if two plans launch the same kernels on the same tiles. */
static bool same_passes(const struct cuda_kron_plan *a, const struct cuda_kron_plan *b)
{
    bool same = a->passes == b->passes;

    for (int i = 0; i < a->passes && same; i++) {
        const struct cuda_kron_pass *p = &a->pass[i], *q = &b->pass[i];
        same = p->span.first == q->span.first && p->span.count == q->span.count &&
               p->solver == q->solver && p->units == q->units && p->columns == q->columns &&
               p->threads == q->threads;
    }
    return same;
}

/* True if a choice makes the same passes as one before it, or as the model. */
static bool is_known(const gram_context *g, const struct gram_kron_matmul_op *op, int choice,
                     const struct cuda_kron_plan *plan)
{
    struct cuda_kron_plan other;

    for (int i = 0; i < choice; i++) {
        cuda_kron_plan(g->device, op, i, &other);
        if (same_passes(plan, &other))
            return true;
    }
    return false;
}

struct attempt {
    const struct gram_kron_matmul_op *op;
    int choice;
};

static gram_status run(gram_context *g, const void *attempt)
{
    const struct attempt *a = attempt;

    return cuda_kron_matmul_chosen(g, a->op, a->choice);
}

gram_status cuda_tune_kron(gram_context *g, const struct gram_kron_matmul_op *op,
                           gram_kron_tuning *result)
{
    struct cuda_kron_plan plan;
    int best = 0;

    for (int choice = 0; choice <= CUDA_KRON_CHOICES; choice++) {
        const struct attempt attempt = {op, choice};
        double ms;
        cuda_kron_plan(g->device, op, choice, &plan);
        if (is_known(g, op, choice, &plan))
            continue;
        TRY(cuda_tune_time(g, run, &attempt, &ms));
        gram_log(g, "choice %d, %d launches: %.4f ms", choice, plan.passes, ms);
        result->candidates++;
        if (choice == 0) {
            result->table_ms = result->ms = ms;
            result->table_launches = result->launches = plan.passes;
        } else if (ms < result->ms && ms < least_gain * result->table_ms) {
            result->ms = ms;
            result->launches = plan.passes;
            best = choice;
        }
    }
    result->kept = gram_tuned_put(g, class_of(g->device, op), best);
    return GRAM_OK;
}
