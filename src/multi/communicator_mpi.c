/*
 * communicator_mpi.c - communicators over MPI: of the caller's, and of the world that mpirun
 * started
 *
 * A rank that cannot open libgram_mpi.so would leave the others waiting.  It knows none of the
 * constants of this process's MPI, whose values differ between kinds of MPI; but MPI_Comm_split
 * takes none beside the communicator, and it is by MPI_Comm_split that the others make their copy:
 * the rank joins them in it, with a colour of its own, and they see that they are not all.
 *
 * SPDX-License-Identifier: MIT
 */
#include "communicator.h"
#include "core/backend.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_PATH = 4096
};

static const struct gram_plugin mpi = {
    .file = "libgram_mpi.so", .table = "gram_mpi_transport", .what = "the MPI transport"};

/* ---- A rank without the library -------------------------------------------------------------- */

/* An MPI_Comm is a number (MPICH) or a pointer (Open MPI), and tells which by its size. */
typedef int split_number(int comm, int colour, int key, int *out);
typedef int free_number(int *comm);
typedef int split_pointer(void *comm, int colour, int key, void **out);
typedef int free_pointer(void **comm);
typedef void *from_fortran(int comm);

/* A Python module loads libmpi for itself alone: finds the name that it was loaded by. */
static int find_mpi(struct dl_phdr_info *info, size_t bytes, void *path)
{
    const char *slash = strrchr(info->dlpi_name, '/');

    (void)bytes;
    if (!slash ||
        (strncmp(slash, "/libmpi.so", 10) != 0 && strncmp(slash, "/libmpich.so", 12) != 0))
        return 0;
    snprintf(path, MOST_PATH, "%s", info->dlpi_name);
    return 1;
}

/* The handle of this process's MPI, to be closed unless it is RTLD_DEFAULT. */
static void *open_mpi(void)
{
    char path[MOST_PATH] = "";
    void *library = NULL;

    if (dl_iterate_phdr(find_mpi, path))
        library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    return library ? library : RTLD_DEFAULT;
}

static void join_as_pointer(void *library, const struct gram_mpi_ranks *ranks)
{
    split_pointer *split = (split_pointer *)dlsym(library, "MPI_Comm_split");
    free_pointer *release = (free_pointer *)dlsym(library, "MPI_Comm_free");
    from_fortran *convert = (from_fortran *)dlsym(library, "MPI_Comm_f2c");
    void *comm, *out = NULL;

    if (ranks->kind == GRAM_MPI_FORTRAN)
        comm = convert ? convert(ranks->fortran) : NULL;
    else
        memcpy(&comm, ranks->comm, sizeof comm);
    if (comm && split && split(comm, GRAM_MPI_ABSENT, 0, &out) == 0 && release)
        (void)release(&out);
}

static void join_as_number(void *library, const struct gram_mpi_ranks *ranks)
{
    split_number *split = (split_number *)dlsym(library, "MPI_Comm_split");
    free_number *release = (free_number *)dlsym(library, "MPI_Comm_free");
    int comm = ranks->fortran, out = 0;

    if (ranks->kind == GRAM_MPI_COMM)
        memcpy(&comm, ranks->comm, sizeof comm);
    if (split && split(comm, GRAM_MPI_ABSENT, 0, &out) == 0 && release)
        (void)release(&out);
}

/* Tells the others that this rank is not with them, where that can be done. */
static void join_absent(const struct gram_mpi_ranks *ranks)
{
    void *library;

    if (ranks->kind == GRAM_MPI_WORLD) /* which nobody here knows */
        return;
    library = open_mpi();
    /* Open MPI alone has the conversion as a function, and its handles are pointers. */
    if (ranks->kind == GRAM_MPI_FORTRAN ? dlsym(library, "MPI_Comm_f2c") != NULL
                                        : ranks->bytes == sizeof(void *))
        join_as_pointer(library, ranks);
    else if (ranks->kind == GRAM_MPI_FORTRAN || ranks->bytes == sizeof(int))
        join_as_number(library, ranks);
    if (library != RTLD_DEFAULT)
        dlclose(library);
}

/* ---- The calls ------------------------------------------------------------------------------- */

static gram_status create(gram_context *g, const struct gram_mpi_ranks *ranks,
                          gram_communicator **out)
{
    char why[384];
    void *plugin;

    if (gram_plugin_open(g, &mpi, &plugin, why, sizeof why)) {
        dlclose(plugin); /* that it can be opened is enough: a handle of its own follows */
        return gram_communicator_open(g, &mpi, ranks, sizeof *ranks, out);
    }
    join_absent(ranks);
    return gram_fail(g, GRAM_UNSUPPORTED, "%s", why);
}

gram_status gram_communicator_create_mpi(gram_context *g, const void *mpi_comm, size_t bytes,
                                         gram_communicator **out)
{
    const struct gram_mpi_ranks ranks = {.kind = GRAM_MPI_COMM, .comm = mpi_comm, .bytes = bytes};

    TRY(gram_begin(g, __func__));
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!mpi_comm)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "mpi_comm is NULL, expected an MPI_Comm");
    return create(g, &ranks, out);
}

gram_status gram_communicator_create_mpi_fortran(gram_context *g, int mpi_comm,
                                                 gram_communicator **out)
{
    const struct gram_mpi_ranks ranks = {.kind = GRAM_MPI_FORTRAN, .fortran = mpi_comm};

    TRY(gram_begin(g, __func__));
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    return create(g, &ranks, out);
}

gram_status gram_communicator_create_mpi_world(gram_context *g, gram_communicator **out)
{
    const struct gram_mpi_ranks ranks = {.kind = GRAM_MPI_WORLD};

    TRY(gram_begin(g, __func__));
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    return create(g, &ranks, out);
}
