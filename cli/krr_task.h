/*
 * krr_task.h - what `gram krr` is asked for, what it reads, and what it finds
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_KRR_TASK_H
#define GRAM_CLI_KRR_TASK_H
#include "kernel_options.h"
#include "npy_rows.h"
#include "ranks.h"
#include <stdbool.h>

struct krr_settings {
    struct common_settings common;
    struct input_settings input;
    struct kernel_settings kernel;
    const char *row_weights, *centre_points, *predict, *output, *predictions, *chosen, *checkpoint;
    double ridge, tolerance, held_out_rmse, time_limit, checkpoint_seconds, memory;
    int64_t rank, products, centres, checkpoint_iterations;
    int method, refine, dtype, json, resume, mpi;
};

/* What is read and what is found; memory NULL: not wanted. */
struct krr_task {
    struct matrix x, y, weights, z, points, chosen, alpha, predictions;
    struct matrix sample;   /* of ranks, each of which has some rows of the rest: for a median */
    struct ranks ranks;     /* with --mpi */
    int64_t all, predicted; /* rows of X and of Z, of all ranks */
    struct npy_rows file; /* of x where it is read in pieces: x then has some rows, for a median */
    int64_t rows;         /* of X */
    gram_krr_report report;
    gram_status status;     /* of the solve */
    enum exit_status later; /* of it, where there is an answer all the same */
};

/* Whether this process is alone, or the first of several. */
bool krr_first(const struct krr_task *p);
/* What all processes know of each other's success. */
enum exit_status krr_agree(struct krr_task *p, enum exit_status status, struct failure *why);

/* Where an array goes that has a file of its own. */
struct output_settings krr_output_of(const char *path);
/* Checks that are possible before a file is read. */
enum exit_status krr_check(const struct krr_settings *s, struct failure *why);
/* Reads everything: of ranks, each has its rows.  paths: X and Y. */
enum exit_status krr_load(const struct krr_settings *s, char *const *paths, struct krr_task *p,
                          struct failure *why);
#endif
