/*
 * machine_fit.h - what a fit works with, from the caller's table to the finished machine
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_FIT_H
#define GRAM_MACHINE_FIT_H
#include "json_text.h"
#include "machine.h"

/* Everything that is chosen before training. */
struct machine_recipe {
    enum gram_scaling scaling;
    gram_transform transform; /* regression; never AUTO */
    struct machine_params params;
};

struct machine_job {
    const gram_table *table;
    const gram_column *target;
    gram_machine_options o;
    struct machine_target kind; /* task and classes; its scale is set by gram_machine_encode */
    int64_t rows, *row;         /* that have a target, shuffled by the seed */
    int64_t leaf_rows;          /* most rows of one leaf within the memory limit */
    double started;             /* gram_machine_seconds() */
    double from, to;            /* of the whole work: the part that is being done */
    struct machine_report report;
    struct gram_json_text history; /* of the search: the inside of a JSON array */
};

/* Rows as features and targets, in memory of the context's allocator. */
struct machine_encoded {
    struct machine_data data;
    char *memory;
    size_t bytes;
};

/* Room for rows_width[0] rows of rows_width[1] features and their targets, undefined. */
gram_status gram_machine_encoded_create(gram_context *g, const struct machine_job *job,
                                        const int64_t rows_width[2], int64_t outputs,
                                        struct machine_encoded *out);

/*
 * Encodes rows of the job's table.  The encoder is fitted on them if *encoder is NULL (the caller
 * destroys it), as is the scale of the regression's target into job->kind; otherwise both are used
 * as they are.
 */
gram_status gram_machine_encode(gram_context *g, struct machine_job *job,
                                const struct machine_recipe *recipe, const int64_t *rows,
                                int64_t count, struct gram_encoder **encoder,
                                struct machine_encoded *out);
void gram_machine_encoded_destroy(gram_context *g, struct machine_encoded *e);

/* Whether a full metric may be learned of `width` features.  Their number is known only when they
 * are encoded, later than the recipe. */
bool gram_machine_full_metric(const struct machine_job *job, int64_t width);

/* The documented defaults, under what the options give. */
void gram_machine_default_recipe(const struct machine_job *job, struct machine_recipe *out);

/* Chooses what the options leave open by validation; recipe comes with the defaults. */
gram_status gram_machine_search(gram_context *g, struct machine_job *job,
                                struct machine_recipe *recipe);

/* Trains on all rows of the job. */
gram_status gram_machine_build(gram_context *g, struct machine_job *job,
                               const struct machine_recipe *recipe, gram_machine **out);

/* Tells the caller how far the fit is: `done`, from 0 to 1, of the present part. */
void gram_machine_progress(const struct machine_job *job, double done, const char *stage);
#endif
