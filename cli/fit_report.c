/*
 * fit_report.c - the report of `gram fit`
 *
 * SPDX-License-Identifier: MIT
 */
#include "fit.h"
#include "json_member.h"
#include <math.h>
#include <stdlib.h>
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
    member_text(out, description, "most_frequent_categories",
                "the most frequent categories are kept apart; all others count as one: ");
    category_statistics_text(out, description);
}

/* The score where nothing was held out; null where the library has none either. */
static void leave_one_out_json(struct json *j, const struct fit_result *r)
{
    size_t size, part;
    const char *name = "leave_one_out";
    const char *all = json_member(gram_machine_describe(r->machine), name, &size);

    if (!all) {
        name = "held_out";
        all = json_member(gram_machine_describe(r->machine), name, &size);
    }
    const char *score = all ? json_member(all, "score", &part) : NULL;

    json_string(j, "metric", metric_name(r));
    if (!score) {
        json_string(j, "score", NULL);
        return;
    }
    json_raw(j, "score", score, part);
    json_raw(j, name, all, size);
}

/* A number of an object, or NaN. */
static double number_of(const char *object, const char *name)
{
    size_t size;
    const char *text = object ? json_member(object, name, &size) : NULL;

    return text && *text != 'n' ? strtod(text, NULL) : NAN;
}

/* How well rows were predicted that were left out, and whether feature learning helped. */
static void leave_one_out_text(struct output *out, const struct fit_result *r)
{
    const char *described = gram_machine_describe(r->machine);
    size_t size;
    const char *all = json_member(described, "leave_one_out", &size), *name = "leave-one-out";
    const char *chosen = json_member(described, "hyperparameters", &size);
    double with = number_of(described, "score_with_metric");
    double without = number_of(described, "score_without_metric");

    if (!all) {
        all = json_member(described, "held_out", &size);
        name = "rows held out";
    }
    if (all) {
        output_format(out, "%s%s: %s %.4g +- %.2g", name,
                      gram_machine_target_count(r->machine) > 1 ? ", means" : "", metric_name(r),
                      number_of(all, "score"), number_of(all, "spread"));
        if (gram_machine_task(r->machine) == GRAM_CLASSIFICATION)
            output_format(out, ", log loss %.4g", number_of(all, "log_loss"));
        else
            output_format(out, ", r2 %.4g", number_of(all, "r2"));
        output_format(out, " (%.0f rows)\n", number_of(all, "rows"));
    }
    if (isfinite(with) && isfinite(without))
        output_format(out, "feature learning %s: loss %.4g with it, %.4g without\n",
                      number_of(chosen, "iterations") > 0 ? "helped" : "did not help", with,
                      without);
}

void fit_json(struct json *j, const struct fit_settings *s, const struct fit_result *r)
{
    json_object(j, NULL);
    json_string(j, "model", s->output);
    json_string(j, "target", gram_machine_target(r->machine));
    targets_json(j, r->machine);
    json_string(j, "task", task_name(gram_machine_task(r->machine)));
    json_integer(j, "rows", r->rows);
    json_integer(j, "features", r->feature_count);
    if (gram_machine_class_count(r->machine) > 0)
        json_integer(j, "classes", gram_machine_class_count(r->machine));
    if (r->score)
        score_json(j, r->score);
    else
        leave_one_out_json(j, r);
    if (r->judged)
        judgements_json(j, r->machine, r->judged);
    seconds_json(j, &r->seconds);
    class_weight_json(j, gram_machine_describe(r->machine));
    machine_json(j, gram_machine_describe(r->machine));
    importance_json(j, r->features, r->feature_count);
    remarks_json(j, &r->remarks);
    json_end(j);
}

void fit_text(struct output *out, const struct fit_settings *s, const struct fit_result *r)
{
    output_format(out, "%s of ", task_name(gram_machine_task(r->machine)));
    targets_text(out, r->machine);
    output_format(out, " from %lld features, %lld rows", (long long)r->feature_count,
                  (long long)r->rows);
    if (gram_machine_class_count(r->machine) > 0)
        output_format(out, ", %lld classes", (long long)gram_machine_class_count(r->machine));
    output_format(out, "\nread in %.2f s, fitted in %.2f s", r->seconds.read, r->seconds.fit);
    if (r->score)
        output_format(out, ", scored in %.2f s", r->seconds.score);
    output_text(out, "\n");
    if (r->score) {
        output_text(out, r->judged ? "held out, means: " : "held out: ");
        score_text(out, r->score);
    }
    for (int64_t i = 0; r->judged && i < r->judged->count; i++) {
        const char *name = gram_machine_target_name(r->machine, i);
        output_text(out, "  ");
        output_name(out, name, strlen(name));
        output_text(out, ": ");
        score_text(out, &r->judged->of[i].score);
    }
    leave_one_out_text(out, r);
    ensemble_text(out, gram_machine_describe(r->machine));
    machine_text(out, gram_machine_describe(r->machine));
    class_weight_text(out, gram_machine_describe(r->machine));
    categories_text(out, gram_machine_describe(r->machine));
    output_text(out, "features that matter most:\n");
    importance_text(out, r->features, r->feature_count, s->top);
    output_text(out, "model written to ");
    output_name(out, s->output, strlen(s->output));
    output_text(out, "\n");
}
