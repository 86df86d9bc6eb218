/*
 * cusolver.c - opens cuSOLVER, makes a context's handle
 *
 * SPDX-License-Identifier: MIT
 */
#include "cusolver.h"
#include "background.h"
#include "library.h"

struct cuda_host_block {
    struct cuda_host_block *former;
    size_t bytes;
};

#define AT(member) offsetof(struct cuda_cusolver, member)
static const struct cuda_symbol symbols[] = {
    {                  "cusolverDnCreate",             AT(create)},
    {                 "cusolverDnDestroy",            AT(destroy)},
    {               "cusolverDnSetStream",         AT(set_stream)},
    {            "cusolverDnCreateParams",      AT(create_params)},
    {           "cusolverDnDestroyParams",     AT(destroy_params)},
    {       "cusolverDnXpotrf_bufferSize",        AT(potrf_bytes)},
    {                  "cusolverDnXpotrf",              AT(potrf)},
    {                  "cusolverDnXpotrs",              AT(potrs)},
    {       "cusolverDnXgetrf_bufferSize",        AT(getrf_bytes)},
    {                  "cusolverDnXgetrf",              AT(getrf)},
    {                  "cusolverDnXgetrs",              AT(getrs)},
    {      "?cusolverDnXsyevd_bufferSize",        AT(syevd_bytes)},
    {                 "?cusolverDnXsyevd",              AT(syevd)},
    {     "?cusolverDnXsyevdx_bufferSize",       AT(syevdx_bytes)},
    {                "?cusolverDnXsyevdx",             AT(syevdx)},
    {"?cusolverDnXsyevBatched_bufferSize", AT(syev_batched_bytes)},
    {           "?cusolverDnXsyevBatched",       AT(syev_batched)},
    {                                NULL,                      0},
};

static struct cuda_cusolver functions;
static struct cuda_opened opened = {
    .name = "cuSOLVER",
    .files = {"libcusolver.so.12", "libcusolver.so.11"},
    .package = "nvidia-cusolver",
    .symbols = symbols,
    .into = &functions,
    .bytes = sizeof functions,
};

gram_status gram_cuda_solver_check(gram_context *g, int status, const char *what)
{
    if (status == CUSOLVER_SUCCESS)
        return GRAM_OK;
    return gram_fail(g, status == CUSOLVER_ALLOC_FAILED ? GRAM_OUT_OF_MEMORY : GRAM_DEVICE_FAILED,
                     "CUDA device %d: %s gives status %d", (int)g->options.device.index, what,
                     status);
}

/* Making a handle takes memory, which a stream that is being captured forbids, unless the thread
 * says otherwise. */
static gram_status make(gram_context *g, const struct cuda_device *device,
                        struct cuda_solver *solver)
{
    const struct cuda_cusolver *call = solver->call;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    int status;

    (void)device->driver->capture_mode(&mode);
    status = call->create(&solver->handle);
    if (status == CUSOLVER_SUCCESS)
        status = call->create_params(&solver->params);
    (void)device->driver->capture_mode(&mode);
    TRY(gram_cuda_solver_check(g, status, "cusolverDnCreate"));
    return gram_cuda_solver_check(g, call->set_stream(solver->handle, device->stream),
                                  "cusolverDnSetStream");
}

gram_status gram_cuda_solver(gram_context *g, struct cuda_solver **out)
{
    struct cuda_device *device = g->device;
    struct cuda_solver *solver = device->solver;
    gram_status status;

    gram_cuda_join(g);
    *out = solver;
    if (solver)
        return GRAM_OK;
    TRY(gram_cuda_open(g, &opened));
    solver = gram_alloc(g, sizeof *solver);
    if (!solver)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *solver);
    *solver = (struct cuda_solver){.call = &functions};
    device->solver = solver;
    status = make(g, device, solver);
    if (status != GRAM_OK)
        gram_cuda_solver_close(g, device);
    *out = device->solver;
    return status;
}

void gram_cuda_solver_close(gram_context *g, struct cuda_device *device)
{
    struct cuda_solver *solver = device->solver;
    bool entered;

    if (!solver)
        return;
    entered = gram_cuda_enter(device);
    if (solver->params)
        (void)solver->call->destroy_params(solver->params);
    if (solver->handle)
        (void)solver->call->destroy(solver->handle);
    gram_cuda_leave(device, entered);
    for (struct cuda_host_block *block = solver->host, *former; block; block = former) {
        former = block->former;
        gram_free(g, block, block->bytes);
    }
    gram_free(g, solver, sizeof *solver);
    device->solver = NULL;
}

gram_status gram_cuda_solver_host(gram_context *g, struct cuda_solver *solver, size_t bytes,
                                  void **out)
{
    size_t all = gram_round64(sizeof *solver->host) + bytes;

    *out = NULL;
    if (bytes == 0)
        return GRAM_OK;
    if (!solver->host || solver->host->bytes < all) {
        struct cuda_host_block *block = gram_alloc(g, all);
        if (!block)
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes for cuSOLVER", all);
        *block = (struct cuda_host_block){solver->host, all};
        solver->host = block;
    }
    *out = (char *)solver->host + gram_round64(sizeof *solver->host);
    return GRAM_OK;
}
