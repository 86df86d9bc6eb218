/*
 * machine_limits.c - how many rows a leaf may have, by memory and by time
 *
 * A leaf is exact: it solves with the kernel matrix of all of its rows.  Its rows are those whose
 * matrix there is memory for.  A table of many rows that would have to be split for that may be one
 * leaf all the same, by conjugate gradients whose products compute the elements anew: that takes
 * memory for the points, the vectors and a preconditioner alone.  Once the kernel is chosen, the
 * time of one product says how long the solves of such a leaf will take; if that is too long, the
 * table is split after all.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/view.h"
#include "machine.h"
#ifdef __GLIBC__
#  include <malloc.h>
#endif
#include <math.h>
#include <stdio.h>

enum {
    LEAST_ROWS = 10,
    PRODUCT_ROWS = 25000, /* of fewer rows every leaf's matrix is stored */
    HOST_ROWS = 80000,    /* of more there are centres, on a CPU (machine_large.c) */
    DEVICE_ROWS = 1000000,
    HOST_TRIAL = 6000, /* rows of the product whose time is taken */
    DEVICE_TRIAL = 32768,
    /* A solve with a preconditioner of rank 1000 takes 10 to 40 iterations to the default
     * tolerances, and a leaf is solved at some ridges (machine_refit.c). */
    ITERATIONS = 25,
    SOLVES = 5
};

static const double most_seconds = 240; /* of all solves of such a leaf */

static bool on_host(const gram_context *g)
{
    return gram_context_device(g).type == GRAM_CPU;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Bytes of the device that a fit may take, no more than given (0: any). */
static double device_limit(gram_context *g, double given)
{
    gram_info info = {.size = sizeof info};
    double room = given;

    if (gram_context_info(g, &info) == GRAM_OK)
        room = 0.8 * (double)info.device_memory_available;
    return given > 0 && given < room ? given : room;
}

static void take_memory(gram_context *g, struct machine_job *job)
{
    gram_info info = {.size = sizeof info};

    job->memory = (double)job->o.memory_limit;
    if (!on_host(g))
        job->memory = device_limit(g, job->memory);
    else if (job->memory == 0 && gram_context_info(g, &info) == GRAM_OK)
        job->memory = 0.8 * (double)info.memory_available;
    g->call = "gram_machine_fit";
}

/* Most rows of a leaf whose kernel matrix there is memory for. */
static int64_t rows_that_are_stored(gram_context *g, const struct machine_job *job)
{
    const int64_t outputs = gram_machine_target_outputs(&job->kind);
    int64_t low = LEAST_ROWS, high = job->rows;

    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        double need =
            (double)gram_machine_solve_bytes(g, middle, outputs, job->o.dtype, job->o.solver);
        if (need <= 0.9 * job->memory)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* What one leaf of all rows takes without its matrix: beside what a solve has, the points in the
 * metric, and the leaf's own. */
static double bytes_of_products(const gram_context *g, const struct machine_job *job, int64_t width)
{
    const size_t points = (size_t)(2 * job->rows * width) * gram_dtype_size(job->o.dtype);

    return (double)points + (double)gram_krr_products_bytes(g, job->rows,
                                                            gram_machine_target_outputs(&job->kind),
                                                            job->o.dtype);
}

static bool products_fit(const gram_context *g, const struct machine_job *job, int64_t width)
{
    return bytes_of_products(g, job, width) <= 0.9 * job->memory;
}

void gram_machine_limits(gram_context *g, struct machine_job *job)
{
    take_memory(g, job);
    job->leaf_rows = job->stored_rows = rows_that_are_stored(g, job);
    if (job->o.leaf_rows)
        job->leaf_rows = job->o.leaf_rows;
    else if (job->leaf_rows < job->rows && job->rows >= PRODUCT_ROWS &&
             job->rows <= (on_host(g) ? HOST_ROWS : DEVICE_ROWS) &&
             job->o.solver != GRAM_SOLVER_CHOLESKY && products_fit(g, job, job->table->columns))
        job->leaf_rows = job->rows;
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* Seconds of one product with the kernel of params and some rows of data, as they are. */
static gram_status product_seconds(gram_context *g, const struct machine_params *params,
                                   const struct machine_data *data, double *seconds)
{
    const int64_t rows = gram_least(on_host(g) ? HOST_TRIAL : DEVICE_TRIAL, data->rows);
    const gram_kernel_options kernel = gram_machine_kernel(params->p, params->q, 1);
    const size_t size = gram_dtype_size(data->dtype);
    const size_t points = (size_t)(rows * data->width) * size;
    const size_t vectors = (size_t)(rows * data->outputs) * size;
    struct krr_array x = {0}, v = {0}, out = {0};
    gram_status status = gram_krr_send(g, data->x, points, &x);

    if (status == GRAM_OK)
        status = gram_krr_send(g, data->y, vectors, &v);
    if (status == GRAM_OK)
        status = gram_krr_allocate(g, vectors, &out);
    *seconds = INFINITY;
    for (int pass = 0; pass < 2 && status == GRAM_OK; pass++) { /* the first may compile a kernel */
        const double start = gram_seconds();
        const gram_tensor of = gram_krr_matrix(g, x.data, rows, data->width, data->dtype);
        const gram_tensor from = gram_krr_matrix(g, v.data, rows, data->outputs, data->dtype);
        gram_tensor to = gram_krr_matrix(g, out.data, rows, data->outputs, data->dtype);

        status = gram_kernel_matmul(g, &of, NULL, &kernel, &from, NULL, &to);
        if (status == GRAM_OK)
            status = gram_context_synchronize(g);
        *seconds = fmin(*seconds, gram_seconds() - start);
    }
    gram_krr_free(g, &out);
    gram_krr_free(g, &v);
    gram_krr_free(g, &x);
    *seconds *= pow((double)data->rows / (double)rows, 2);
    return status;
}

gram_status gram_machine_look_at_time(gram_context *g, struct machine_job *job,
                                      const struct machine_recipe *recipe,
                                      const struct machine_data *data)
{
    double seconds = 0;

    if (job->o.leaf_rows > 0 || job->leaf_rows <= job->stored_rows)
        return GRAM_OK;
    for (int m = 0; m < recipe->members; m++) {
        double one;

        TRY(product_seconds(g, &recipe->member[m].params, data, &one));
        seconds += SOLVES * ITERATIONS * one;
    }
    if (seconds <= most_seconds && products_fit(g, job, data->width)) {
        snprintf(job->about, sizeof job->about,
                 "training on all %lld rows at once, about %.0f s and %.2g GiB",
                 (long long)data->rows, ceil(seconds),
                 bytes_of_products(g, job, data->width) / 0x1p30);
        return GRAM_OK;
    }
    job->leaf_rows = job->stored_rows;
    return GRAM_OK;
}

void gram_machine_give_back(void)
{
#ifdef __GLIBC__ /* which keeps up to 64 MiB of what was freed at the end of its heap */
    (void)malloc_trim(0);
#endif
}
