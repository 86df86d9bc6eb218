/*
 * cuda_matrix_power_choose.c - what powers are computed in on the device, and by which method
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_matrix_power.h"
#include "power_ridge.h"
#include <float.h>

enum {
    NEWTON_LEAST = 256,   /* the order from which on Newton is faster than eigenvectors */
    NEWTON_STEPS = 40,    /* more than it takes for most_condition */
    RIDGE_OF_ROUNDING = 8 /* times n eps: twice the largest negative eigenvalue of rounding */
};

static const double most_condition = 0x1p24; /* of AUTO's Newton */

static bool has_f64_tensor_cores(int arch)
{
    return arch == 80 || arch == 90 || arch == 100;
}

void cuda_power_precision(const struct cuda_device *device, struct power_job *job)
{
    gram_power_precision precision = job->op->precision;

    if (job->eigh || job->op->a.dtype == GRAM_F64)
        precision = GRAM_POWER_PRECISION_F64;
    if (precision == GRAM_POWER_PRECISION_AUTO)
        precision = has_f64_tensor_cores(device->arch) ? GRAM_POWER_PRECISION_F64
                                                       : GRAM_POWER_PRECISION_F32;
    job->work = precision == GRAM_POWER_PRECISION_F64 ? GRAM_F64 : GRAM_F32;
    job->compute = job->work == GRAM_F64                      ? CUBLAS_COMPUTE_F64
                   : precision == GRAM_POWER_PRECISION_TF32X3 ? CUBLAS_COMPUTE_TF32
                                                              : CUBLAS_COMPUTE_F32;
    job->split = precision == GRAM_POWER_PRECISION_TF32X3;
    job->rough = precision == GRAM_POWER_PRECISION_TF32;
}

/*
 * Of AUTO: Newton in f64 where a is of f32 and f64 is as fast, from the order on from which it is
 * faster than the eigendecomposition.  Its error, (2 kappa + 16 n) 2^-52, is that of rounding to
 * f32 while kappa is below 2^24, of which a condition has to be known, and negative eigenvalues,
 * which it does not take for 0, have to be made small by the ridge.
 */
gram_power_method cuda_power_method(const gram_context *g, const struct gram_matrix_power_op *op)
{
    const struct cuda_device *device = g->device;
    const double rounding = RIDGE_OF_ROUNDING * (double)op->a.rows * (double)FLT_EPSILON;
    const bool small = op->factor || op->condition > 0 || op->ridge.value >= rounding;
    struct power_job job = {.op = op, .work = GRAM_F64};

    if (op->method != GRAM_POWER_AUTO)
        return op->method;
    if (op->a.dtype == GRAM_F32 && op->precision <= GRAM_POWER_PRECISION_F64 &&
        has_f64_tensor_cores(device->arch) && op->a.rows >= NEWTON_LEAST && op->numerator < 0 &&
        op->iterations >= NEWTON_STEPS && small && cuda_power_condition(&job) <= most_condition)
        return GRAM_POWER_COUPLED_NEWTON;
    return GRAM_POWER_EIGH;
}

double cuda_matrix_power_least_ridge(const gram_context *g, const struct gram_matrix_power_op *op)
{
    struct power_job job = {.op = op, .eigh = cuda_power_method(g, op) == GRAM_POWER_EIGH};

    cuda_power_precision(g->device, &job);
    return gram_power_least_ridge(op, job.work);
}
