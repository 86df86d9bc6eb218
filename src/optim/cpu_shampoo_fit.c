/*
 * cpu_shampoo_fit.c - does a root that was taken earlier still fit its factor? (options.skip)
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/random.h"
#include "cpu_shampoo.h"
#include "linalg/matrix_power.h"
#include <math.h>
#include <string.h>

enum {
    LARGEST_STEPS = 32 /* power iterations for the largest eigenvalue, which the ridge needs */
};

void cpu_shampoo_load_factor(const struct cpu_shampoo_run *run, const struct cpu_shampoo_item *item,
                             void *to)
{
    const gram_optimizer *o = run->s->o;
    const struct gram_optimizer_block *b = &o->block[item->block];
    double by = cpu_shampoo_correction(o, o->options.beta2, o->steps[b->parameter] + 1);

    cpu_optimizer_load(o, &b->factor[item->k], run->work, true, to);
    cpu_optimizer_math(run->work)->scale(run->n * run->n, 1 / by, to);
}

static void multiply(const struct cpu_shampoo_run *run, const void *a, const void *b, void *c)
{
    int64_t n = run->n;

    gram_blas_gemm(run->work, (int64_t[]){n, n, n}, 1, (struct gram_blas_matrix){a, n, false},
                   (struct gram_blas_matrix){b, n, false}, 0, c, n);
}

static void shift(const struct cpu_shampoo_run *run, double by, void *matrix)
{
    for (int64_t i = 0; i < run->n; i++)
        if (run->work == GRAM_F64)
            ((double *)matrix)[i * run->n + i] += by;
        else
            ((float *)matrix)[i * run->n + i] += (float)by;
}

static void set_random(const struct cpu_shampoo_run *run, void *vector)
{
    uint64_t state = 1;

    for (int64_t i = 0; i < run->n; i++)
        if (run->work == GRAM_F64)
            ((double *)vector)[i] = gram_random_unit(&state);
        else
            ((float *)vector)[i] = (float)gram_random_unit(&state);
}

/* About the largest eigenvalue, from below; x and y have room for a vector. */
static double largest(const struct cpu_shampoo_run *run, const void *a, void *x, void *y)
{
    const struct cpu_optimizer_math *math = cpu_optimizer_math(run->work);
    int64_t n = run->n;
    double norm = 0;

    set_random(run, x);
    for (int i = 0; i < LARGEST_STEPS; i++) {
        double old = sqrt(math->squares(n, x));
        void *other = x;
        if (!(old > 0) || old == INFINITY)
            return 0;
        math->scale(n, 1 / old, x);
        gram_blas_gemm(run->work, (int64_t[]){n, 1, n}, 1, (struct gram_blas_matrix){a, n, false},
                       (struct gram_blas_matrix){x, n, false}, 0, y, n);
        norm = sqrt(math->squares(n, y));
        x = y;
        y = other;
    }
    return norm;
}

static double least_ridge(const struct cpu_shampoo_run *run, const struct gram_optimizer_block *b)
{
    struct gram_matrix_power_op op = gram_optimizer_power(run->s->o, b, run->n, run->work, 1);

    return gram_power_least_ridge(&op, gram_matrix_power_cpu_dtype(&op));
}

bool cpu_shampoo_fits(const struct cpu_shampoo_run *run, const struct cpu_shampoo_item *item,
                      char *memory)
{
    const gram_optimizer *o = run->s->o;
    const struct gram_optimizer_block *b = &o->block[item->block];
    void *factor = memory, *root = memory + run->matrix, *y = memory + 2 * run->matrix,
         *z = memory + 3 * run->matrix, *other;
    double most;

    cpu_shampoo_load_factor(run, item, factor);
    most = largest(run, factor, y, z);
    shift(run, gram_optimizer_ridge(&o->options, least_ridge(run, b), most), factor);
    cpu_optimizer_load(o, &b->root[item->k], run->work, true, root);
    memcpy(y, factor, (size_t)(run->n * run->n) * gram_dtype_size(run->work));
    for (int i = 1; i < b->numerator; i++, other = y, y = z, z = other)
        multiply(run, factor, y, z);
    for (int i = 0; i < b->denominator; i++, other = y, y = z, z = other)
        multiply(run, i % 2 ? y : root, i % 2 ? root : y, z);
    shift(run, -1, y);
    return sqrt(cpu_optimizer_math(run->work)->squares(run->n * run->n, y)) <=
           o->options.skip * sqrt((double)run->n);
}
