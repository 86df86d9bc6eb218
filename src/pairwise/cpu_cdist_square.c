/*
 * cpu_cdist_square.c - p = 2 by norms and products: when, and what it needs besides the panels
 *
 * A step by differences is a subtraction and a fused multiply-add, by products the latter alone.
 * Where both wait for the same execution units, as on Intel's processors, products take half of the
 * time; AMD's since Zen subtract on units of their own, so differences cost nothing there.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_cdist.h"
#include <math.h>
#include <string.h>

enum {
    SHORTEST = 32,     /* columns from which the norms and checks of a tile are worth their time */
    CENTRE_PANELS = 8, /* of y that the centre is the mean of: any centre is right */
    TASK_PANELS = 16
};

static bool subtracts_aside(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("amd") != 0;
#else
    return false;
#endif
}

bool cpu_cdist_expands(const struct cdist_plan *plan)
{
    const struct gram_cdist_op *op = &plan->op;

    if (op->inner != GRAM_DIFFERENCE || op->p.tensor.data || op->p.value != 2 || op->x.cols == 0)
        return false;
    if (plan->g->cdist_form != GRAM_FORM_AUTO)
        return plan->g->cdist_form == GRAM_FORM_EXPANSION;
    return op->x.cols >= SHORTEST && !subtracts_aside();
}

static char *centre_of(const struct cdist_plan *plan, int64_t item)
{
    return plan->centre + item * plan->depth * plan->element;
}

/* Of `rows` rows the panel counts those that exist. */
static double column_sum(const struct cdist_plan *plan, const char *panel, int64_t k, int64_t rows)
{
    double sum = 0;

    for (int64_t r = 0; r < rows; r++)
        sum += plan->dtype == GRAM_F32 ? (double)((const float *)panel)[k * plan->nr + r]
                                       : ((const double *)panel)[k * plan->nr + r];
    return sum;
}

/* The mean of some rows of y; 0 where it is no number. */
static void centre_task(void *arg, int64_t item, int thread)
{
    const struct cdist_round *round = arg;
    const struct cdist_plan *plan = round->plan;
    int64_t step = gram_ceil_div(round->y_panels, CENTRE_PANELS);

    (void)thread;
    for (int64_t k = 0; k < round->depth; k++) {
        double sum = 0, mean;
        int64_t rows = 0;
        for (int64_t q = 0; q < round->y_panels; q += step) {
            int64_t count = gram_least(plan->nr, round->cols - q * plan->nr);
            sum += column_sum(plan, plan->y_panels + cpu_cdist_y_panel(plan, item, q), k, count);
            rows += count;
        }
        mean = isfinite(sum) ? sum / (double)rows : 0;
        if (plan->dtype == GRAM_F32)
            ((float *)centre_of(plan, item))[k] = (float)mean;
        else
            ((double *)centre_of(plan, item))[k] = mean;
    }
}

static char *x_norms(const struct cdist_plan *plan, int64_t item, int64_t panel)
{
    return plan->x_norms + (item * plan->x_rows + panel * plan->mr) * plan->element;
}

static char *y_norms(const struct cdist_plan *plan, int64_t item, int64_t panel)
{
    return plan->y_norms + (item * plan->y_rows + panel * plan->nr) * plan->element;
}

static void shift_task(void *arg, int64_t index, int thread)
{
    const struct cdist_round *round = arg;
    const struct cdist_plan *plan = round->plan;
    int64_t panels = round->x_panels + round->y_panels, tasks = gram_ceil_div(panels, TASK_PANELS);
    int64_t item = index / tasks, first = index % tasks * TASK_PANELS;
    struct gram_centre t = {.depth = round->depth, .centre = centre_of(plan, item)};

    (void)thread;
    for (int64_t q = first; q < gram_least(first + TASK_PANELS, panels); q++) {
        bool of_x = q < round->x_panels;
        int64_t panel = of_x ? q : q - round->x_panels;
        size_t at =
            of_x ? cpu_cdist_x_panel(plan, item, panel) : cpu_cdist_y_panel(plan, item, panel);
        t.width = of_x ? plan->mr : plan->nr;
        t.count = gram_least(t.width, (of_x ? round->rows : round->cols) - panel * t.width);
        t.panel = (of_x ? plan->x_panels : plan->y_panels) + at;
        t.centred = (of_x ? plan->x_centred : plan->y_centred) + at;
        t.norms = of_x ? x_norms(plan, item, panel) : y_norms(plan, item, panel);
        plan->kernels->cdist[plan->dtype].centre(&t);
    }
}

void cpu_cdist_centre(struct cdist_round *round)
{
    int64_t panels = round->x_panels + round->y_panels;

    cpu_cdist_loop(round, round->items, centre_task);
    cpu_cdist_loop(round, round->items * gram_ceil_div(panels, TASK_PANELS), shift_task);
}

void cpu_cdist_square(const struct cdist_round *round, int64_t item, const int64_t panel[2],
                      const struct gram_tile *direct)
{
    const struct cdist_plan *plan = round->plan;
    const struct gram_square_tile t = {
        .direct = *direct,
        .x = plan->x_centred + cpu_cdist_x_panel(plan, item, panel[0]),
        .y = plan->y_centred + cpu_cdist_y_panel(plan, item, panel[1]),
        .x_norms = x_norms(plan, item, panel[0]),
        .y_norms = y_norms(plan, item, panel[1]),
    };

    plan->kernels->cdist[plan->dtype].square(&t);
}
