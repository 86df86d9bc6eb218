/*
 * py_communicator.c - gram.Communicator, the processes or threads that share a call; gram.nccl_id
 *
 * A communicator that is not closed stays open for the life of the process, as with mpi4py.  All
 * ranks must destroy a communicator together, and a garbage collector cannot know of the others.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_communicator.h"
#include "py_functions.h"

static const char *const agree = "gram.Communicator.agree";

/* ---- Making one ----------------------------------------------------------------------------- */

/* A context that lives as long as the communicator. */
static int take_context(struct py_communicator *self)
{
    struct py_idle *at = &self->context;

    at->threads = self->state->threads;
    at->g = py_take_context(self->state, at->device, at->stream, false);
    return at->g ? 0 : -1;
}

static int over_mpi(struct py_communicator *self, PyObject *mpi)
{
    PyObject *handle = NULL;
    gram_status status;
    long number = 0;

    if (take_context(self))
        return -1;
    if (py_given(mpi)) {
        handle = PyObject_CallMethod(mpi, "py2f", NULL);
        if (!handle)
            return -1;
        number = PyLong_AsLong(handle);
        Py_DECREF(handle);
        if (PyErr_Occurred())
            return -1;
        PY_WORK(status,
                gram_communicator_create_mpi_fortran(self->context.g, (int)number, &self->c));
    } else {
        PY_WORK(status, gram_communicator_create_mpi_world(self->context.g, &self->c));
    }
    if (status != GRAM_OK)
        py_raise(self->state, self->context.g, status);
    return status == GRAM_OK ? 0 : -1;
}

static int over_nccl(struct py_communicator *self, PyObject *nccl, int rank, int size,
                     double timeout)
{
    gram_nccl_options options = {.size = sizeof options, .timeout = timeout};
    Py_ssize_t bytes;
    gram_status status;
    char *id;

    if (PyBytes_AsStringAndSize(nccl, &id, &bytes) || take_context(self))
        return -1;
    self->of_nccl = true;
    PY_WORK(status, gram_communicator_create_nccl(self->context.g, id, (size_t)bytes, rank, size,
                                                  &options, &self->c));
    if (status != GRAM_OK)
        py_raise(self->state, self->context.g, status);
    return status == GRAM_OK ? 0 : -1;
}

static PyObject *communicator_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"mpi",    "nccl",   "rank",    "size",
                                        "device", "stream", "timeout", NULL};
    PyObject *mpi = NULL, *nccl = NULL, *device = NULL, *stream = NULL;
    PyObject *owner = PyType_GetModule(type);
    struct py_communicator *self;
    int rank = -1, size = -1, failed;
    double timeout = 0;

    if (!owner ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "|O$OiiOOd:Communicator", (char **)names, &mpi,
                                     &nccl, &rank, &size, &device, &stream, &timeout))
        return NULL;
    if (py_given(mpi) && py_given(nccl)) {
        PyErr_SetString(PyExc_ValueError,
                        "gram.Communicator: mpi and nccl are given, expected only one of them");
        return NULL;
    }
    self = py_new(type);
    if (!self)
        return NULL;
    self->state = py_state_of(owner);
    self->owner = Py_NewRef(owner);
    if (py_given(nccl)) {
        self->context.device = (gram_device){GRAM_CUDA, 0};
        failed = py_given(device) && py_device("gram.Communicator", device, &self->context.device);
        if (!failed && py_given(stream)) {
            self->context.stream = PyLong_AsVoidPtr(stream);
            failed = PyErr_Occurred() != NULL;
        }
        failed = failed || over_nccl(self, nccl, rank, size, timeout);
    } else {
        failed = over_mpi(self, mpi);
    }
    if (!failed)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

/* ---- Made by what the ranks have already ---------------------------------------------------- */

/* A function of gram._communicators with the class before the arguments. */
static PyObject *made_by(const char *name, PyObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *module = PyImport_ImportModule("gram._communicators"), *function, *first, *all;
    PyObject *made = NULL;

    if (!module)
        return NULL;
    function = PyObject_GetAttrString(module, name);
    first = function ? PyTuple_Pack(1, type) : NULL;
    all = first ? PySequence_Concat(first, args) : NULL;
    if (all)
        made = PyObject_Call(function, all, kwargs);
    Py_XDECREF(all);
    Py_XDECREF(first);
    Py_XDECREF(function);
    Py_DECREF(module);
    return made;
}

static PyObject *from_torch(PyObject *type, PyObject *args, PyObject *kwargs)
{
    return made_by("from_torch", type, args, kwargs);
}

static PyObject *from_mpi4py(PyObject *type, PyObject *args, PyObject *kwargs)
{
    return made_by("from_mpi4py", type, args, kwargs);
}

static PyObject *from_dask(PyObject *type, PyObject *args, PyObject *kwargs)
{
    return made_by("from_dask", type, args, kwargs);
}

static PyObject *from_ray(PyObject *type, PyObject *args, PyObject *kwargs)
{
    return made_by("from_ray", type, args, kwargs);
}

static const char from_torch_doc[] =
    "from_torch(group=None, *, device=None, stream=None, timeout=0.0)\n--\n\n"
    "The ranks of a process group of torch.distributed (None: the default one), all of which\n"
    "make this call.  The group broadcasts the id of NCCL.  device is the GPU of this rank (None:\n"
    "PyTorch's current one, for a group of the backend nccl).  Raises NotImplementedError for a\n"
    "group of CPUs without device: mpirun starts ranks for those.\n\n"
    ">>> import gram\n"
    ">>> try:  # python -m torch.distributed.run starts the processes\n"
    "...     ranks = gram.Communicator.from_torch()\n"
    "... except (ImportError, RuntimeError):\n"
    "...     print(\"there is no group\")\n"
    "there is no group\n";

static const char from_mpi4py_doc[] =
    "from_mpi4py(comm, *, device=None, stream=None, timeout=0.0)\n--\n\n"
    "The ranks of a communicator of mpi4py, all of which make this call: over MPI, or, with the\n"
    "GPU of this rank as device, over NCCL, whose id is broadcast by MPI.\n\n"
    ">>> import gram\n"
    ">>> def ranks_of(comm, local_rank):\n"
    "...     return gram.Communicator.from_mpi4py(comm, device=f\"cuda:{local_rank}\")\n";

static const char from_dask_doc[] =
    "from_dask(client, workers=None, *, device=\"cuda\", timeout=0.0)\n--\n\n"
    "Ranks over NCCL in the workers of a dask.distributed.Client (None: all), one for each.\n"
    "device is the name of a GPU for all, as with CUDA_VISIBLE_DEVICES, or a list.  Returns a\n"
    "list of futures by rank, each of a Communicator that stays on its worker: give it to a\n"
    "task there, client.submit(work, futures[i], workers=[workers[i]]).  Raises what a worker\n"
    "raises.\n\n"
    ">>> import gram\n"
    ">>> def call_all(client, work):\n"
    "...     workers = list(client.nthreads())\n"
    "...     ranks = gram.Communicator.from_dask(client, workers)\n"
    "...     return [client.submit(work, r, workers=[w]) for r, w in zip(ranks, workers)]\n";

static const char from_ray_doc[] =
    "from_ray(actors, *, attribute=\"communicator\", device=\"cuda\", timeout=0.0)\n--\n\n"
    "Ranks over NCCL in actors of Ray, in their order: each actor then has a Communicator as\n"
    "this attribute, for its own methods.  device is as in from_dask; with num_gpus=1 each actor\n"
    "has one GPU, and sees no other.  Returns None.  Raises what an actor raises.\n\n"
    ">>> import gram\n"
    ">>> def connect(actors):\n"
    "...     gram.Communicator.from_ray(actors)  # self.communicator of each\n";

/* ---- Its end -------------------------------------------------------------------------------- */

static void close_it(struct py_communicator *self)
{
    gram_communicator *c = self->c;

    self->c = NULL;
    Py_BEGIN_ALLOW_THREADS gram_communicator_destroy(c);
    Py_END_ALLOW_THREADS
}

static void communicator_dealloc(PyObject *object)
{
    struct py_communicator *self = (struct py_communicator *)object;

    if (self->c && gram_communicator_size(self->c) == 1)
        close_it(self);
    if (self->context.g && !self->c)
        py_give_context(self->state, &self->context);
    py_delete(object, self->owner);
}

/* ---- What it does --------------------------------------------------------------------------- */

struct py_communicator *py_communicator_take(struct py_state *state, const char *function,
                                             PyObject *object)
{
    struct py_communicator *self = (struct py_communicator *)object;

    if (!PyObject_TypeCheck(object, state->communicator_type)) {
        PyErr_Format(PyExc_TypeError, "%s: communicator is %R, expected a gram.Communicator",
                     function, object);
        return NULL;
    }
    if (!self->c) {
        PyErr_Format(PyExc_ValueError, "%s: the communicator has been closed", function);
        return NULL;
    }
    return py_take(&self->busy, function, "communicator") ? NULL : self;
}

void py_communicator_fail(struct py_communicator *self)
{
    PyObject *type, *value, *traceback;
    gram_status status;

    PyErr_Fetch(&type, &value, &traceback);
    PY_WORK(status, gram_communicator_agree(self->context.g, self->c,
                                            PyErr_GivenExceptionMatches(type, PyExc_MemoryError)
                                                ? GRAM_OUT_OF_MEMORY
                                                : GRAM_INVALID_ARGUMENT));
    (void)status; /* a failure it is */
    PyErr_Restore(type, value, traceback);
}

int py_communicator_context(struct py_call *call, const struct py_communicator *ranks,
                            gram_context **g)
{
    gram_device at = ranks->context.device, is = call->device;
    gram_status status = GRAM_OK;

    *g = call->g;
    if (!ranks->of_nccl)
        return 0;
    if (at.type != is.type || at.index != is.index) {
        PyErr_Format(PyExc_ValueError,
                     "%s: x is not on CUDA device %d, of which the communicator is", call->function,
                     (int)at.index);
        return -1;
    }
    if (call->stream != ranks->context.stream)
        PY_WORK(status, gram_context_synchronize(call->g));
    if (status != GRAM_OK)
        py_raise(call->state, call->g, status);
    *g = ranks->context.g;
    return status == GRAM_OK ? 0 : -1;
}

gram_status py_communicator_done(const struct py_call *call, const struct py_communicator *ranks,
                                 gram_context *g, gram_status status)
{
    if (status == GRAM_OK && g != call->g && call->stream != ranks->context.stream)
        status = gram_context_synchronize(g);
    return status;
}

bool py_communicator_ended(struct py_call *call, gram_context *g, bool ready, gram_status status)
{
    if (status == GRAM_OK || g == call->g)
        return ready;
    py_raise(call->state, g, status); /* its message is there */
    return false;
}

bool py_communicator_run(struct py_call *call, struct py_communicator *ranks, bool ready,
                         py_ranks_work *work, void *user, gram_status *status)
{
    gram_context *g = NULL;

    *status = GRAM_OK;
    ready = ready && py_communicator_context(call, ranks, &g) == 0;
    if (ready)
        PY_WORK(*status, py_communicator_done(call, ranks, g, work(call, user, g)));
    else
        py_communicator_fail(ranks);
    ranks->busy = false;
    return py_communicator_ended(call, g, ready, *status);
}

static PyObject *communicator_agree(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"ok", NULL};
    struct py_communicator *self = (struct py_communicator *)object;
    gram_status status;
    int ok = 1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:agree", (char **)names, &ok) ||
        !py_communicator_take(self->state, agree, object))
        return NULL;
    PY_WORK(status,
            gram_communicator_agree(self->context.g, self->c, ok ? GRAM_OK : GRAM_BAD_DATA));
    self->busy = false;
    if (status == GRAM_OK)
        Py_RETURN_NONE;
    if (ok)
        py_raise(self->state, self->context.g, status);
    else
        PyErr_Format(PyExc_ValueError, "%s: ok is false on this rank", agree);
    return NULL;
}

static PyObject *communicator_close(PyObject *object, PyObject *unused)
{
    struct py_communicator *self = (struct py_communicator *)object;

    (void)unused;
    if (!self->c)
        Py_RETURN_NONE;
    if (!py_communicator_take(self->state, "gram.Communicator.close", object))
        return NULL;
    close_it(self);
    self->busy = false;
    Py_RETURN_NONE;
}

static PyObject *communicator_enter(PyObject *object, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(object);
}

/* After an exception, other ranks may still wait for this one, so the communicator stays open. */
static PyObject *communicator_exit(PyObject *object, PyObject *args)
{
    PyObject *type, *value, *traceback;

    if (!PyArg_ParseTuple(args, "OOO:__exit__", &type, &value, &traceback))
        return NULL;
    if (type == Py_None)
        return communicator_close(object, NULL);
    Py_RETURN_NONE;
}

static PyObject *communicator_rank(PyObject *object, void *unused)
{
    const struct py_communicator *self = (struct py_communicator *)object;

    (void)unused;
    return PyLong_FromLong(self->c ? gram_communicator_rank(self->c) : -1);
}

static PyObject *communicator_size(PyObject *object, void *unused)
{
    const struct py_communicator *self = (struct py_communicator *)object;

    (void)unused;
    return PyLong_FromLong(self->c ? gram_communicator_size(self->c) : 0);
}

static const char communicator_doc[] =
    "Communicator(mpi=None, *, nccl=None, rank=-1, size=-1, device=\"cuda\", stream=None,\n"
    "             timeout=0.0)\n--\n\n"
    "The ranks that share a call of kron_matmul_multi.  Each rank creates one.\n\n"
    "Over MPI, for arrays on CPUs: the ranks are those of a communicator of mpi4py, or all\n"
    "processes that mpirun has started.  mpi4py is not required.  If MPI is not initialised,\n"
    "it is initialised here, and ended when Python exits; it is ended by MPI_Abort if Python\n"
    "exits with a failure, so that no rank waits for one that has raised an exception.\n"
    "Without mpirun there is one rank.\n\n"
    "Over NCCL, for arrays on GPUs: nccl is an id of gram.nccl_id, which must be sent to all\n"
    "ranks by any means (torch.distributed.broadcast_object_list, bcast of mpi4py).  Each\n"
    "rank is a process or a thread with its own device.  Calls are queued on stream (a\n"
    "number; None: the default stream), and also wait for the streams that work on the\n"
    "arrays.  If a rank does not call within timeout seconds (0: 600), the others get an\n"
    "error.\n\n"
    "from_torch, from_mpi4py, from_dask and from_ray make one of what the ranks have already.\n\n"
    "rank and size are attributes.  agree(ok=True) raises ValueError on all ranks if ok is\n"
    "false on one of them.  close() ends the communicator, and all ranks must call it; a with\n"
    "statement calls it, unless there is an exception.  A communicator that is not closed is\n"
    "kept until Python exits.\n\n"
    "Raises NotImplementedError if libgram_mpi.so or NCCL cannot be loaded (with a\n"
    "communicator of mpi4py, on all ranks), and ValueError for bad arguments.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> try:\n"
    "...     ranks = gram.Communicator()  # without mpirun: one rank\n"
    "...     ranks.agree(True)\n"
    "...     print(ranks.rank, ranks.size)\n"
    "...     ranks.close()\n"
    "... except NotImplementedError:  # built without MPI\n"
    "...     print(0, 1)\n"
    "0 1\n";

#define CALL(function)  (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS
#define MAKER(function) CALL(function) | METH_CLASS

static const char agree_doc[] =
    "agree(ok=True)\n--\n\nWaits for all ranks; raises ValueError where ok is false on one.";
static const char close_doc[] = "close()\n--\n\nEnds the communicator, on every rank.";

/* clang-format off */
static PyMethodDef methods[] = {
    {"agree",       CALL(communicator_agree),         agree_doc},
    {"close",       communicator_close, METH_NOARGS,  close_doc},
    {"from_torch",  MAKER(from_torch),                from_torch_doc},
    {"from_mpi4py", MAKER(from_mpi4py),               from_mpi4py_doc},
    {"from_dask",   MAKER(from_dask),                 from_dask_doc},
    {"from_ray",    MAKER(from_ray),                  from_ray_doc},
    {"__enter__",   communicator_enter, METH_NOARGS,  NULL},
    {"__exit__",    communicator_exit,  METH_VARARGS, NULL},
    {NULL,          NULL,               0,            NULL},
};
/* clang-format on */

static PyGetSetDef members[] = {
    {"rank", communicator_rank, NULL, "Of this process or thread, from 0 on.", NULL},
    {"size", communicator_size, NULL,                   "How many there are.", NULL},
    {  NULL,              NULL, NULL,                                    NULL, NULL},
};

static PyType_Slot slots[] = {
    {    Py_tp_new,     (void *)communicator_new},
    {Py_tp_dealloc, (void *)communicator_dealloc},
    {Py_tp_methods,              (void *)methods},
    { Py_tp_getset,              (void *)members},
    {    Py_tp_doc,     (void *)communicator_doc},
    {            0,                         NULL},
};

PyType_Spec py_communicator_spec = {
    .name = "gram.Communicator",
    .basicsize = sizeof(struct py_communicator),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

/* ---- gram.nccl_id ---------------------------------------------------------------------------- */

static const unsigned char words[] = {PY_device};
static const struct py_signature signature = {"gram.nccl_id", words, 1, 1, 0};

const char py_nccl_id_doc[] =
    "nccl_id(device=\"cuda\")\n--\n\n"
    "A new id for gram.Communicator(nccl=id, ...), as bytes.  One rank creates it and sends\n"
    "it to all others.\n\n"
    "Raises NotImplementedError if there is no GPU, or if NCCL (libnccl.so.2) cannot be\n"
    "loaded.\n\n"
    ">>> import gram\n"
    ">>> if len(gram.devices()) > 2:\n"
    "...     assert len(gram.nccl_id()) == 128\n";

PY_FUNCTION(py_nccl_id)
{
    struct py_state *state = py_state_of(module);
    struct py_idle idle = {
        .threads = state->threads, .device = {GRAM_CUDA, 0}
    };
    char id[GRAM_NCCL_ID_BYTES];
    gram_status status;
    PyObject *value;

    if (py_parse(state, &signature, args, nargs, kwnames, &value) ||
        (py_given(value) && py_device(signature.name, value, &idle.device)))
        return NULL;
    idle.g = py_take_context(state, idle.device, NULL, false);
    if (!idle.g)
        return NULL;
    PY_WORK(status, gram_nccl_id(idle.g, id, sizeof id));
    if (status != GRAM_OK)
        py_raise(state, idle.g, status);
    py_give_context(state, &idle);
    return status == GRAM_OK ? PyBytes_FromStringAndSize(id, sizeof id) : NULL;
}
