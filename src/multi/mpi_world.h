/*
 * mpi_world.h - what the files of the transport over MPI share
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef MPI_WORLD_H
#define MPI_WORLD_H
#include "communicator.h"
#include <mpi.h>

/* A failure of MPI as a status; what is the function that gave error. */
gram_status gram_mpi_check(gram_context *g, int error, const char *what);

/* The communicator of a handle, where MPI runs; for the world MPI is initialised. */
gram_status gram_mpi_find(gram_context *g, const struct gram_mpi_ranks *ranks, MPI_Comm *out);

/* One more communicator that is open, or one less. */
void gram_mpi_count(int change);

#endif
