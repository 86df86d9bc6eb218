/*
 * cusolver.c - opens cuSOLVER and cusolverMg, makes the handles of a context and of a group
 *
 * Functions that older versions of cuSOLVER lack are optional ('?'): whoever wants one finds NULL,
 * and says which version has it.  Handles belong to a context, because each is bound to one stream.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cusolver.h"
#include "arena.h"

/* Memory of the host that cuSOLVER works in.  A smaller block is kept until the handle is closed,
 * since calls that are still queued may use it. */
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

/* Noted once for the process, and never changed afterwards: contexts point to it. */
static struct cuda_cusolver functions;
static struct cuda_opened opened = {
    .name = "cuSOLVER",
    .files = {"libcusolver.so.12", "libcusolver.so.11"},
    .package = "nvidia-cusolver",
    .symbols = symbols,
    .into = &functions,
    .bytes = sizeof functions,
};

/* cuSOLVER has codes of its own for errors, and no texts for them. */
gram_status gram_cuda_solver_check(gram_context *g, int status, const char *what)
{
    if (status == CUSOLVER_SUCCESS)
        return GRAM_OK;
    return gram_fail(g, status == CUSOLVER_ALLOC_FAILED ? GRAM_OUT_OF_MEMORY : GRAM_DEVICE_FAILED,
                     "CUDA device %d: %s failed with status %d", (int)g->options.device.index, what,
                     status);
}

/* Making a handle takes memory, which a stream that is being captured forbids, unless the thread
 * says otherwise. */
static gram_status make_solver(gram_context *g, const struct cuda_device *device,
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

/* Made when it is first wanted: opening cuSOLVER takes about 50 ms and 160 MB.  A handle that could
 * not be made leaves nothing behind, so that the next call tries again. */
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
    status = make_solver(g, device, solver);
    if (status != GRAM_OK)
        gram_cuda_solver_close(g, device);
    *out = device->solver;
    return status;
}

/* The memory of the host goes last, after the handle that uses it. */
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

/* Calls on the stream use the block one after the other, so that one serves them all. */
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

/* ---- cusolverMg ------------------------------------------------------------------------------ */

/* Peers are made known by the driver's function, whose error 704 (they are already) leaves no
 * trace: the runtime's would keep it, and the next call of cusolverMg fail with it. */

#define AT_MG(member) offsetof(struct cuda_cusolver_mg, member)
static const struct cuda_symbol mg_symbols[] = {
    {           "cusolverMgCreate",         AT_MG(create)},
    {          "cusolverMgDestroy",        AT_MG(destroy)},
    {     "cusolverMgDeviceSelect",  AT_MG(device_select)},
    { "cusolverMgCreateDeviceGrid",    AT_MG(create_grid)},
    {      "cusolverMgDestroyGrid",   AT_MG(destroy_grid)},
    { "cusolverMgCreateMatrixDesc",  AT_MG(create_matrix)},
    {"cusolverMgDestroyMatrixDesc", AT_MG(destroy_matrix)},
    { "cusolverMgSyevd_bufferSize",     AT_MG(syevd_size)},
    {            "cusolverMgSyevd",          AT_MG(syevd)},
    {                         NULL,                     0},
};

/* The same for cusolverMg, which few processes need: it is opened apart. */
static struct cuda_cusolver_mg mg_functions;
static struct cuda_opened mg_opened = {
    .name = "cusolverMg",
    .files = {"libcusolverMg.so.12", "libcusolverMg.so.11"},
    .package = "nvidia-cusolver",
    .symbols = mg_symbols,
    .into = &mg_functions,
    .bytes = sizeof mg_functions,
};

/* It is said before cusolverMg is called, whose own error would not name the devices. */
static gram_status not_reached(gram_context *g, const struct cuda_device *from,
                               const struct cuda_device *to)
{
    return gram_fail(g, GRAM_UNSUPPORTED,
                     "CUDA device %d cannot reach the memory of CUDA device %d, which cusolverMg "
                     "needs",
                     from->index, to->index);
}

/* Lets one device reach another's memory, and that of its pool, where scratch comes from. */
static gram_status make_peer(gram_context *g, const struct cuda_device *from,
                             const struct cuda_device *to)
{
    const struct cuda_driver *driver = from->driver;
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = from->index},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    CUmemoryPool pool;
    CUdevice mine, other;
    CUresult result;
    int possible = 0;
    bool entered;

    TRY(gram_cuda_check(g, driver, driver->device_get(&mine, from->index), "cuDeviceGet"));
    TRY(gram_cuda_check(g, driver, driver->device_get(&other, to->index), "cuDeviceGet"));
    TRY(gram_cuda_check(g, driver, driver->peer_possible(&possible, mine, other),
                        "cuDeviceCanAccessPeer"));
    if (!possible)
        return not_reached(g, from, to);
    entered = gram_cuda_enter(from);
    result = driver->peer_enable(to->context, 0);
    gram_cuda_leave(from, entered);
    if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        TRY(gram_cuda_check(g, driver, result, "cuCtxEnablePeerAccess"));
    TRY(gram_cuda_check(g, driver, driver->device_pool(&pool, other), "cuDeviceGetMemPool"));
    return gram_cuda_check(g, driver, driver->pool_access(pool, &access, 1), "cuMemPoolSetAccess");
}

/* Every device of the group must reach every other one: cusolverMg copies between all pairs. */
static gram_status make_peers(gram_context *const *contexts, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            if (i != j)
                TRY(make_peer(contexts[0], contexts[i]->device, contexts[j]->device));
    return GRAM_OK;
}

/* The devices of the group in one row of a grid: matrices are distributed by blocks of columns. */
static gram_status make_multi(gram_context *g, struct cuda_multi *multi)
{
    const struct cuda_cusolver_mg *call = multi->call;
    const struct cuda_device *device = g->device;
    int devices[GRAM_MULTI_DEVICES], status;
    const char *what = "cusolverMgCreate";

    for (int i = 0; i < multi->count; i++)
        devices[i] = multi->devices[i];
    /* It makes other devices current: on a context of this function's own. */
    TRY(gram_cuda_check(g, device->driver, device->driver->context_push(device->context),
                        "cuCtxPushCurrent"));
    status = call->create(&multi->handle);
    if (status == CUSOLVER_SUCCESS) {
        what = "cusolverMgDeviceSelect";
        status = call->device_select(multi->handle, multi->count, devices);
    }
    if (status == CUSOLVER_SUCCESS) {
        what = "cusolverMgCreateDeviceGrid";
        status = call->create_grid(&multi->grid, 1, multi->count, multi->devices,
                                   CUSOLVER_MG_GRID_BY_COLUMNS);
    }
    gram_cuda_leave(device, true);
    return gram_cuda_solver_check(g, status, what);
}

/* True if the handle is of these devices in this order. */
static bool is_for(const struct cuda_multi *multi, gram_context *const *contexts, int count)
{
    if (!multi || multi->count != count)
        return false;
    for (int i = 0; i < count; i++)
        if (multi->devices[i] != contexts[i]->options.device.index)
            return false;
    return true;
}

/* A context keeps the handle of the last group that it was the first member of. */
gram_status gram_cuda_multi(gram_context *const *contexts, int count, struct cuda_multi **out)
{
    gram_context *g = contexts[0];
    struct cuda_device *device = g->device;
    gram_status status;

    *out = device->multi;
    if (is_for(device->multi, contexts, count))
        return GRAM_OK;
    gram_cuda_multi_close(g, device);
    TRY(gram_cuda_open(g, &mg_opened));
    TRY(make_peers(contexts, count));
    device->multi = gram_alloc(g, sizeof *device->multi);
    if (!device->multi)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof **out);
    *device->multi = (struct cuda_multi){.call = &mg_functions, .count = count};
    for (int i = 0; i < count; i++)
        device->multi->devices[i] = contexts[i]->options.device.index;
    status = make_multi(g, device->multi);
    if (status != GRAM_OK)
        gram_cuda_multi_close(g, device);
    *out = device->multi;
    return status;
}

/* cusolverMg makes other devices current while it frees what it has on them. */
void gram_cuda_multi_close(gram_context *g, struct cuda_device *device)
{
    struct cuda_multi *multi = device->multi;

    if (!multi)
        return;
    if (device->driver->context_push(device->context) == CUDA_SUCCESS) {
        if (multi->grid)
            (void)multi->call->destroy_grid(multi->grid);
        if (multi->handle)
            (void)multi->call->destroy(multi->handle);
        gram_cuda_leave(device, true);
    }
    gram_free(g, multi, sizeof *multi);
    device->multi = NULL;
}
