/*
 * tickets.c - trains a machine on a table with a category, saves it, loads it and predicts
 *
 * The price of a ticket depends on the distance and on the class, not on the weekday; the learned
 * importance of the features says so.
 *
 *   cc tickets.c $(pkg-config --cflags --libs gram) -lm -o tickets
 *
 * SPDX-License-Identifier: MIT
 */
#include <gram/gram.h>
#include <math.h>
#include <stdio.h>

enum {
    ROWS = 400
};

static const char *const classes[] = {"first", "second"};

/* The same table every time: a quadratic residue sequence in place of random numbers. */
static void make_table(double *distance, double *weekday, const char **seat, double *price)
{
    for (int i = 0; i < ROWS; i++) {
        distance[i] = 100 + (i * i * 7 + i * 13) % 900;
        weekday[i] = i % 7;
        seat[i] = classes[i % 3 != 0];
        price[i] = (10 + 5 * sqrt(distance[i])) * (i % 3 != 0 ? 1 : 1.6);
    }
}

static gram_status run(gram_context *g, const char *path)
{
    static double distance[ROWS], weekday[ROWS], price[ROWS];
    static const char *seat[ROWS];
    gram_column columns[] = {
        {.name = "distance", .numbers = distance},
        { .name = "weekday",  .numbers = weekday},
        {   .name = "class",      .labels = seat},
    };
    gram_table train = {ROWS - 50, 3, columns}, all = {ROWS, 3, columns};
    gram_column target = {.name = "price", .numbers = price};
    gram_machine_options options = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine_score score = {.size = sizeof score};
    gram_machine *machine;
    gram_status status;

    make_table(distance, weekday, seat, price);
    if ((status = gram_machine_fit(g, &train, &target, &options, &machine)) != GRAM_OK)
        return status;
    status = gram_machine_save(g, machine, path);
    gram_machine_destroy(machine);
    if (status != GRAM_OK || (status = gram_machine_load(g, path, &machine)) != GRAM_OK)
        return status;

    status = gram_machine_evaluate(g, machine, &all, &target, &score);
    if (status == GRAM_OK)
        printf("%s %.2f, R2 %.4f\n", score.metric, score.score, score.r2);
    for (int64_t i = 0; status == GRAM_OK && i < gram_machine_feature_count(machine); i++) {
        gram_machine_feature feature = {.size = sizeof feature};
        status = gram_machine_feature_at(g, machine, i, &feature);
        if (status == GRAM_OK)
            printf("%-10s %5.1f %%\n", feature.name, 100 * feature.importance);
    }
    gram_machine_destroy(machine);
    return status;
}

int main(int argc, char **argv)
{
    gram_context *g;
    gram_status status = gram_context_create(NULL, &g);

    if (status == GRAM_OK)
        status = run(g, argc > 1 ? argv[1] : "tickets.gram");
    if (status != GRAM_OK)
        fprintf(stderr, "%s\n", gram_message(g));
    gram_context_destroy(g);
    return status != GRAM_OK;
}
