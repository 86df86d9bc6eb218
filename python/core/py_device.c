/*
 * py_device.c - functions about this machine: devices, memory, threads, versions
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_xla.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char py_devices_doc[] =
    "devices()\n--\n\n"
    "The devices that can be used: \"cpu\", \"cuda:0\" and so on.\n\n"
    ">>> import gram\n"
    ">>> gram.devices()[0]\n"
    "'cpu'\n";

static gram_status read_info(gram_context *g, gram_info *info)
{
    *info = (gram_info){.size = sizeof *info};
    return gram_context_info(g, info);
}

PyObject *py_devices(PyObject *module, PyObject *unused)
{
    struct py_call call;
    PyObject *list = NULL, *text;
    gram_info info;
    gram_status status;

    (void)unused;
    if (py_open(&call, py_state_of(module), "gram.devices"))
        return NULL;
    PY_WORK(status, read_info(call.g, &info));
    if (status != GRAM_OK)
        return py_end(&call, status);
    list = PyList_New(0);
    for (int i = -1; list && i < info.cuda_devices; i++) {
        text = py_device_text((gram_device){i < 0 ? GRAM_CPU : GRAM_CUDA, i < 0 ? 0 : i});
        if (!text || PyList_Append(list, text))
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    py_close(&call);
    return list;
}

const char py_best_device_doc[] =
    "best_device()\n--\n\n"
    "The recommended device: a GPU that works, or else \"cpu\".\n\n"
    ">>> import gram\n"
    ">>> gram.best_device() in gram.devices()\n"
    "True\n";

PyObject *py_best_device(PyObject *module, PyObject *unused)
{
    gram_device device;

    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS device = gram_best_device();
    Py_END_ALLOW_THREADS return py_device_text(device);
}

/* The resident memory of this process in bytes; -1 if the system does not report it. */
static long long resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    char line[128], *end = line;
    long long pages = -1;

    if (!file)
        return -1;
    if (fgets(line, sizeof line, file)) {
        strtoll(line, &end, 10); /* its whole address space comes first */
        pages = strtoll(end, NULL, 10);
    }
    fclose(file);
    return pages > 0 ? pages * sysconf(_SC_PAGESIZE) : -1;
}

const char py_memory_info_doc[] =
    "memory_info(device=\"cpu\")\n--\n\n"
    "The memory of a device, in bytes, as a dict: total; free, for this process; used, by\n"
    "this process (None if the driver does not tell it); other, which is used by everything\n"
    "else.\n\n"
    "Raises NotImplementedError if there is no such device.\n\n"
    ">>> import gram\n"
    ">>> info = gram.memory_info(\"cpu\")\n"
    ">>> 0 < info[\"used\"] < info[\"total\"]\n"
    "True\n";

PyObject *py_memory_info(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames)
{
    static const unsigned char words[] = {PY_device};
    static const struct py_signature signature = {"gram.memory_info", words, 1, 1, 0};
    struct py_state *state = py_state_of(module);
    long long total, available, used = -1, other;
    struct py_idle idle = {.threads = state->threads};
    PyObject *v[1], *by_process;
    gram_status status;
    gram_info info;

    if (py_parse(state, &signature, args, nargs, kwnames, v) ||
        py_device(signature.name, v[0], &idle.device))
        return NULL;
    idle.g = py_take_context(state, idle.device, NULL, false);
    if (!idle.g)
        return NULL;
    PY_WORK(status, read_info(idle.g, &info));
    if (status != GRAM_OK)
        py_raise(state, idle.g, status);
    py_give_context(state, &idle);
    if (status != GRAM_OK)
        return NULL;
    if (idle.device.type == GRAM_CPU) {
        total = info.memory_total;
        available = info.memory_available;
        used = resident_bytes();
    } else {
        total = info.device_memory_total;
        available = info.device_memory_available;
    }
    other = total - available - (used > 0 ? used : 0);
    by_process = used < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(used);
    return Py_BuildValue("{s:L,s:L,s:N,s:L}", "total", total, "free", available, "used", by_process,
                         "other", other > 0 ? other : 0);
}

const char py_set_threads_doc[] =
    "set_threads(count)\n--\n\n"
    "Sets the number of threads that later calls use.  0 means GRAM_NUM_THREADS if it is set.\n"
    "Otherwise it means the least of the number of processors that this process may run on,\n"
    "the quota of its cgroup, and those of OMP_NUM_THREADS, OPENBLAS_NUM_THREADS,\n"
    "MKL_NUM_THREADS, LOKY_MAX_CPU_COUNT and PYTHON_CPU_COUNT that are set.\n\n"
    "Distances, kernels, products with them, Kronecker products and batches of small matrices\n"
    "have the same bits for every number of threads.  Sums of BLAS and LAPACK agree up to\n"
    "rounding.\n\n"
    "Raises ValueError for a number below 0 or above 1024, and TypeError for an argument that\n"
    "is not a number.\n\n"
    ">>> import gram\n"
    ">>> gram.set_threads(1)\n"
    ">>> gram.get_threads()\n"
    "1\n"
    ">>> gram.set_threads(0)\n";

PyObject *py_set_threads(PyObject *module, PyObject *count)
{
    struct py_state *state = py_state_of(module);
    int before = state->threads;
    struct py_call call;
    int64_t threads;

    if (py_int64("gram.set_threads", "count", count, &threads))
        return NULL;
    if (threads < 0 || threads > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "gram.set_threads: count is %lld, expected 0 or more",
                     (long long)threads);
        return NULL;
    }
    state->threads = (int)threads;
    py_drop_contexts(state);
    if (py_open(&call, state, "gram.set_threads")) { /* more than the library takes */
        state->threads = before;
        return NULL;
    }
    py_close(&call);
    py_xla_set_threads(state->threads);
    Py_RETURN_NONE;
}

const char py_get_threads_doc[] =
    "get_threads()\n--\n\n"
    "The number of threads that a call may use.\n\n"
    ">>> import gram\n"
    ">>> gram.get_threads() >= 1\n"
    "True\n";

const char py_info_doc[] =
    "info()\n--\n\n"
    "A description of the library and this machine, as a dict: version, cpu_isa, cpu_isas,\n"
    "blas, threads, cuda_devices.\n\n"
    ">>> import gram\n"
    ">>> gram.info()[\"version\"] == gram.__version__\n"
    "True\n";

static PyObject *describe(PyObject *module, bool threads_only)
{
    struct py_call call;
    PyObject *result;
    gram_info info;
    gram_status status;

    if (py_open(&call, py_state_of(module), "gram.info"))
        return NULL;
    PY_WORK(status, read_info(call.g, &info));
    if (status != GRAM_OK)
        return py_end(&call, status);
    if (threads_only)
        result = PyLong_FromLong(info.threads);
    else
        result = Py_BuildValue("{s:s,s:s,s:s,s:s,s:i,s:i}", "version", info.version, "cpu_isa",
                               info.cpu_isa, "cpu_isas", info.cpu_isas, "blas", info.blas,
                               "threads", info.threads, "cuda_devices", info.cuda_devices);
    py_close(&call);
    return result;
}

PyObject *py_get_threads(PyObject *module, PyObject *unused)
{
    (void)unused;
    return describe(module, true);
}

PyObject *py_info(PyObject *module, PyObject *unused)
{
    (void)unused;
    return describe(module, false);
}
