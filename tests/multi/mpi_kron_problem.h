/*
 * mpi_kron_problem.h - kron_parts.h on the ranks of MPI
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MPI_KRON_PROBLEM_H
#define GRAM_MPI_KRON_PROBLEM_H
#include "mpi_ranks.h"
#ifdef GRAM_TEST_MPI
#  include "kron_parts.h"
#  include <string.h>

static void take_part(struct harness *h, struct kron_parts *p, gram_kron_split split)
{
    kron_parts_take(h, p, mpi_ranks(h), split);
}

static void set(struct harness *h, struct kron_parts *p, gram_kron_split split)
{
    harness_seed(h, "mpi_kron", 100);
    kron_parts_make(h, p, &kron_parts_square);
    take_part(h, p, split);
    kron_parts_spoil(p);
}

static gram_status multiply(struct harness *h, struct kron_parts *p)
{
    return gram_kron_matmul_multi(h->g, &p->my_x, p->factors, p->count, &p->options, &p->my_y);
}

#endif
#endif
