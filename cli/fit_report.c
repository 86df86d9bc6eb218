/*
 * fit_report.c - the report of `gram fit`
 *
 * SPDX-License-Identifier: MIT
 */
#include "fit.h"
#include "json_member.h"
#include <string.h>

static const char *metric_name(const struct fit_result *r)
{
    return gram_machine_task(r->machine) == GRAM_CLASSIFICATION ? "accuracy" : "rmse";
}

static void seconds_json(struct json *j, const struct fit_seconds *s)
{
    json_number(j, "seconds", s->total);
    json_flat_object(j, "stages");
    json_number(j, "read", s->read);
    json_number(j, "fit", s->fit);
    json_number(j, "score", s->score);
    json_number(j, "save", s->save);
    json_end(j);
}

/* The hyperparameters on their own, then everything that the library says about the machine. */
static void machine_json(struct json *j, const char *description)
{
    size_t size;
    const char *chosen = json_member(description, "hyperparameters", &size);

    if (chosen)
        json_raw(j, "hyperparameters", chosen, size);
    json_raw(j, "machine", description, strlen(description));
}

/* The same hyperparameters for people: {"p": 2, "q": 1} becomes p: 2, q: 1. */
static void machine_text(struct output *out, const char *description)
{
    char text[1024];
    size_t size, used = 0;
    const char *chosen = json_member(description, "hyperparameters", &size);

    for (size_t i = 0; chosen && i < size && used + 1 < sizeof text; i++)
        if (!strchr("{}\"", chosen[i]))
            text[used++] = chosen[i];
    text[used] = '\0';
    output_text(out, "machine: ");
    output_wrapped(out, text, 9, 2, out->columns ? out->columns - 1 : 0);
}

/* Names the columns that had more categories than --max-categories. */
static void categories_text(struct output *out, const char *description)
{
    size_t size;
    const char *kept = json_member(description, "most_frequent_categories", &size);

    if (!kept)
        return;
    output_text(out, "the most frequent categories are kept apart; all others count as one: ");
    output_name(out, kept + 1, size - 2);
    output_text(out, "\n");
}

void fit_json(struct json *j, const struct fit_settings *s, const struct fit_result *r)
{
    json_object(j, NULL);
    json_string(j, "model", s->output);
    json_string(j, "target", gram_machine_target(r->machine));
    json_string(j, "task", task_name(gram_machine_task(r->machine)));
    json_integer(j, "rows", r->rows);
    json_integer(j, "features", r->feature_count);
    if (gram_machine_class_count(r->machine) > 0)
        json_integer(j, "classes", gram_machine_class_count(r->machine));
    if (r->score) {
        score_json(j, r->score);
    } else {
        json_string(j, "metric", metric_name(r));
        json_string(j, "score", NULL);
    }
    seconds_json(j, &r->seconds);
    machine_json(j, gram_machine_describe(r->machine));
    importance_json(j, r->features, r->feature_count);
    remarks_json(j, &r->remarks);
    json_end(j);
}

void fit_text(struct output *out, const struct fit_settings *s, const struct fit_result *r)
{
    const char *target = gram_machine_target(r->machine);

    output_format(out, "%s of ", task_name(gram_machine_task(r->machine)));
    output_name(out, target, strlen(target));
    output_format(out, " from %lld features, %lld rows", (long long)r->feature_count,
                  (long long)r->rows);
    if (gram_machine_class_count(r->machine) > 0)
        output_format(out, ", %lld classes", (long long)gram_machine_class_count(r->machine));
    output_format(out, "\nread in %.2f s, fitted in %.2f s", r->seconds.read, r->seconds.fit);
    if (r->score)
        output_format(out, ", scored in %.2f s", r->seconds.score);
    output_text(out, "\n");
    if (r->score) {
        output_text(out, "held out: ");
        score_text(out, r->score);
    }
    machine_text(out, gram_machine_describe(r->machine));
    categories_text(out, gram_machine_describe(r->machine));
    output_text(out, "features that matter most:\n");
    importance_text(out, r->features, r->feature_count, s->top);
    output_text(out, "model written to ");
    output_name(out, s->output, strlen(s->output));
    output_text(out, "\n");
}
