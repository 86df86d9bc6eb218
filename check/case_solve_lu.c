/*
 * case_solve_lu.c - gram_solve_lu on the rows of solve_rows.c
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_problem.h"

static void check(struct harness *h, int row)
{
    solve_row_check(h, &solve_rows[row], true);
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    return solve_prepare(h, args, out, true);
}

const struct case_op case_solve_lu = {
    .name = "solve_lu",
    .sizes = "N R",
    .params = "dtype=f32 layout=row rhs=row refine=0 rcond=0",
    .rows = SOLVE_ROWS,
    .label = solve_row_label,
    .check = check,
    .prepare = prepare,
};
