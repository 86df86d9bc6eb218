/*
 * cusolver_mg.c - opens cusolverMg, makes a group's handle, lets its devices reach each other
 *
 * Peers are made known by the driver's function, whose error 704 (they are already) leaves no
 * trace: the runtime's would keep it, and the next call of cusolverMg fail with it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cusolver_mg.h"
#include "library.h"

#define AT(member) offsetof(struct cuda_cusolver_mg, member)
static const struct cuda_symbol symbols[] = {
    {           "cusolverMgCreate",         AT(create)},
    {          "cusolverMgDestroy",        AT(destroy)},
    {     "cusolverMgDeviceSelect",  AT(device_select)},
    { "cusolverMgCreateDeviceGrid",    AT(create_grid)},
    {      "cusolverMgDestroyGrid",   AT(destroy_grid)},
    { "cusolverMgCreateMatrixDesc",  AT(create_matrix)},
    {"cusolverMgDestroyMatrixDesc", AT(destroy_matrix)},
    { "cusolverMgSyevd_bufferSize",     AT(syevd_size)},
    {            "cusolverMgSyevd",          AT(syevd)},
    {                         NULL,                  0},
};

static struct cuda_cusolver_mg functions;
static struct cuda_opened opened = {
    .name = "cusolverMg",
    .files = {"libcusolverMg.so.12", "libcusolverMg.so.11"},
    .package = "nvidia-cusolver",
    .symbols = symbols,
    .into = &functions,
    .bytes = sizeof functions,
};

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

static gram_status make_peers(gram_context *const *contexts, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            if (i != j)
                TRY(make_peer(contexts[0], contexts[i]->device, contexts[j]->device));
    return GRAM_OK;
}

static gram_status make(gram_context *g, struct cuda_multi *multi)
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

static bool is_for(const struct cuda_multi *multi, gram_context *const *contexts, int count)
{
    if (!multi || multi->count != count)
        return false;
    for (int i = 0; i < count; i++)
        if (multi->devices[i] != contexts[i]->options.device.index)
            return false;
    return true;
}

gram_status gram_cuda_multi(gram_context *const *contexts, int count, struct cuda_multi **out)
{
    gram_context *g = contexts[0];
    struct cuda_device *device = g->device;
    gram_status status;

    *out = device->multi;
    if (is_for(device->multi, contexts, count))
        return GRAM_OK;
    gram_cuda_multi_close(g, device);
    TRY(gram_cuda_open(g, &opened));
    TRY(make_peers(contexts, count));
    device->multi = gram_alloc(g, sizeof *device->multi);
    if (!device->multi)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof **out);
    *device->multi = (struct cuda_multi){.call = &functions, .count = count};
    for (int i = 0; i < count; i++)
        device->multi->devices[i] = contexts[i]->options.device.index;
    status = make(g, device->multi);
    if (status != GRAM_OK)
        gram_cuda_multi_close(g, device);
    *out = device->multi;
    return status;
}

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
