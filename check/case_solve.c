/*
 * case_solve.c - gram_solve_cholesky and gram_solve_lu on the rows of solve_rows.c
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_problem.h"

static void check_cholesky(struct harness *h, int row)
{
    solve_row_check(h, &solve_rows[row], false);
}

static void check_lu(struct harness *h, int row)
{
    solve_row_check(h, &solve_rows[row], true);
}

static bool prepare_cholesky(struct harness *h, const struct case_args *args,
                             struct case_problem *out)
{
    return solve_prepare(h, args, out, false);
}

static bool prepare_lu(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    return solve_prepare(h, args, out, true);
}

const struct case_op case_solve_cholesky = {
    .name = "solve_cholesky",
    .sizes = "N R",
    .params = "dtype=f32 layout=row rhs=row uplo=lower refine=0 jitter=0 rcond=0",
    .rows = SOLVE_ROWS,
    .label = solve_row_label,
    .check = check_cholesky,
    .prepare = prepare_cholesky,
};

const struct case_op case_solve_lu = {
    .name = "solve_lu",
    .sizes = "N R",
    .params = "dtype=f32 layout=row rhs=row refine=0 rcond=0",
    .rows = SOLVE_ROWS,
    .label = solve_row_label,
    .check = check_lu,
    .prepare = prepare_lu,
};
