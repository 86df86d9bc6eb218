/*
 * machine_trials.c - the trials of a search as a leaderboard
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include <stdlib.h>

gram_status gram_machine_trials_add(gram_context *g, struct machine_trials *all,
                                    const struct machine_tried *one)
{
    if (all->count == all->room) {
        int64_t room = 2 * all->room + 64;
        struct machine_tried *more = realloc(all->at, (size_t)room * sizeof *more);

        if (!more)
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld trials", (long long)room);
        all->at = more;
        all->room = room;
    }
    all->at[all->count] = *one;
    all->at[all->count].number = all->count + 1;
    all->count++;
    return GRAM_OK;
}

void gram_machine_trials_destroy(struct machine_trials *all)
{
    for (int64_t i = 0; i < all->count; i++)
        free(all->at[i].outputs);
    free(all->at);
    *all = (struct machine_trials){0};
}

/* Later levels first, because their scores are those of more rows; then the least score. */
static int by_rank(const void *left, const void *right)
{
    const struct machine_tried *a = left, *b = right;

    if (a->level != b->level)
        return a->level > b->level ? -1 : 1;
    if (a->score != b->score)
        return a->score < b->score ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

void gram_machine_trials_sort(struct machine_trials *all)
{
    if (all->count > 0)
        qsort(all->at, (size_t)all->count, sizeof *all->at, by_rank);
}

int gram_machine_trials_level(const struct machine_trials *all)
{
    int level = 0;

    for (int64_t i = 0; i < all->count; i++)
        level = all->at[i].level > level ? all->at[i].level : level;
    return level;
}

void gram_machine_metric_json(struct gram_json_text *t, const struct machine_params *p)
{
    const char *form = p->ard ? "ard" : p->full ? "full" : "diagonal";

    gram_json_add_word(t, "metric", p->iterations == 0 ? "none" : form);
    if (p->iterations > 0 && !p->ard)
        gram_json_add_pair(t, "metric_power", p->power);
}

void gram_machine_params_json(struct gram_json_text *t, const struct machine_params *p)
{
    gram_json_add_pair(t, "p", p->p);
    gram_json_add_pair(t, "q", p->q);
    gram_json_add_pair(t, p->relative_bandwidth ? "bandwidth_in_medians" : "bandwidth",
                       p->bandwidth);
    gram_json_add_pair(t, "regularization", p->ridge);
    gram_json_add_pair(t, "iterations", p->iterations);
    gram_machine_metric_json(t, p);
    if (p->loss == GRAM_LOSS_LOGISTIC)
        gram_json_add_word(t, "loss", "logistic");
}

const char *gram_machine_transform_name(gram_transform transform)
{
    static const char *const names[] = {"auto", "none", "log", "sqrt"};

    return names[transform];
}

void gram_machine_trials_json(struct gram_json_text *t, const struct machine_trials *all,
                              int64_t most, bool timed)
{
    gram_json_add_name(t, "search");
    gram_json_add(t, "[");
    for (int64_t i = 0; i < gram_least(all->count, most); i++) {
        const struct machine_tried *c = &all->at[i];

        gram_json_add(t, i > 0 ? ", {" : "{");
        gram_json_add_pair(t, "rank", (double)(i + 1));
        gram_json_add_pair(t, "trial", (double)c->number);
        gram_json_add_pair(t, "level", c->level);
        gram_json_add_pair(t, "rows", (double)c->rows);
        if (c->centres > 0) {
            gram_json_add_pair(t, "centres", (double)c->centres);
            gram_json_add_pair(t, "held_out", (double)c->held);
        }
        gram_json_add_pair(t, "score", c->score);
        gram_json_add_pair(t, "spread", c->spread);
        gram_json_add_pair(t, "weight", c->weight);
        gram_machine_params_json(t, &c->params);
        if (c->transform != GRAM_TRANSFORM_AUTO)
            gram_json_add_word(t, "target_transform", gram_machine_transform_name(c->transform));
        if (timed)
            gram_json_add_pair(t, "seconds", c->seconds);
        gram_json_add(t, "}");
    }
    gram_json_add(t, "]");
}
