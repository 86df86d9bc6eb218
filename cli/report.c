/*
 * report.c - scores and importances as text, JSON and pictures
 *
 * SPDX-License-Identifier: MIT
 */
#include "chart.h"
#include "json_member.h"
#include "model.h"
#include "text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_CELLS = 40, /* of the longest bar */
    SHARE = 12,      /* columns of a line beside the name and the bar */
    LEAST_NAME = 8,
};

const char *task_name(gram_task task)
{
    return task == GRAM_CLASSIFICATION ? "classification" : "regression";
}

void class_weight_json(struct json *j, const char *description)
{
    size_t size;
    const char *weights = json_member(description, "class_weight", &size);

    if (weights)
        json_raw(j, "class_weight", weights, size);
}

void member_text(struct output *out, const char *description, const char *name, const char *heading)
{
    size_t size;
    const char *members = json_member(description, name, &size);

    if (!members)
        return;
    output_text(out, heading);
    output_name(out, members + 1, size - 2);
    output_text(out, "\n");
}

void category_statistics_text(struct output *out, const char *description)
{
    member_text(out, description, "category_statistics",
                "the mean of the target by level is a feature, too, with so many levels: ");
}

void class_weight_text(struct output *out, const char *description)
{
    member_text(out, description, "class_weight", "weights of the classes: ");
}

void importance_json(struct json *j, const gram_machine_feature *features, int64_t count)
{
    json_object(j, "importance");
    for (int64_t i = 0; i < count; i++)
        json_number(j, features[i].name, features[i].importance);
    json_end(j);
}

/* Writes a name in a column of `room` characters; a longer one ends with two points. */
static void name_column(struct output *out, const char *name, int room)
{
    const int size = text_characters(name);

    if (size <= room) {
        output_name(out, name, strlen(name));
        output_format(out, "%*s", room - size, "");
    } else {
        output_name(out, name, text_bytes(name, room - 2));
        output_text(out, "..");
    }
}

void importance_text(struct output *out, const gram_machine_feature *features, int64_t count,
                     int64_t most)
{
    int64_t shown = count < most ? count : most;
    int longest = 0, cells = MOST_CELLS;

    for (int64_t i = 0; i < shown; i++) {
        int size = text_characters(features[i].name);
        longest = size > longest ? size : longest;
    }
    if (out->columns > 0) { /* the bars become shorter before the names do */
        const int room = out->columns - 1 - SHARE;
        longest = longest < room ? longest : room > LEAST_NAME ? room : LEAST_NAME;
        cells = room - longest < cells ? room - longest : cells;
    }
    for (int64_t i = 0; i < shown; i++) {
        double share = features[i].importance;
        int filled = features[0].importance > 0 ? (int)(share / features[0].importance * cells) : 0;
        output_text(out, "  ");
        name_column(out, features[i].name, longest);
        output_format(out, " %5.1f %%  ", share * 100);
        output_style(out, STYLE_BAR);
        for (int k = 0; k < filled; k++)
            output_text(out, "#");
        output_style(out, STYLE_PLAIN);
        output_text(out, "\n");
    }
    if (shown < count)
        output_format(out, "  and %lld more\n", (long long)(count - shown));
}

enum exit_status importance_chart(const char *path, const char *about,
                                  const gram_machine_feature *features, int64_t count, int64_t most,
                                  struct failure *why)
{
    int64_t shown = count < most ? count : most;
    struct chart_bar *bars = malloc((size_t)(shown + !shown) * sizeof *bars);
    struct chart chart = {"Feature importance", about, bars, (int)shown};
    struct output out;
    enum exit_status status;

    if (!bars)
        return fail_memory(why, "the picture");
    for (int64_t i = 0; i < shown; i++)
        bars[i] = (struct chart_bar){features[i].name, features[i].importance};
    status = output_open(&out, path, why);
    if (status == CLI_OK) {
        chart_write(&out, &chart);
        status = output_close(&out, why);
    }
    free(bars);
    return status;
}

static void optional_number(struct json *j, const char *key, double value)
{
    if (!isnan(value))
        json_number(j, key, value);
}

void score_json(struct json *j, const gram_machine_score *score)
{
    json_string(j, "metric", score->metric);
    json_number(j, "score", score->score);
    json_integer(j, "rows_scored", score->rows);
    optional_number(j, "mae", score->mae);
    optional_number(j, "r2", score->r2);
    optional_number(j, "log_loss", score->log_loss);
}

void score_text(struct output *out, const gram_machine_score *score)
{
    output_format(out, "%s %.6g", score->metric, score->score);
    if (!isnan(score->mae))
        output_format(out, ", mae %.6g", score->mae);
    if (!isnan(score->r2))
        output_format(out, ", r2 %.4f", score->r2);
    if (!isnan(score->log_loss))
        output_format(out, ", log loss %.4f", score->log_loss);
    output_format(out, " on %lld row%s\n", (long long)score->rows, score->rows == 1 ? "" : "s");
}

void ensemble_text(struct output *out, const char *description)
{
    size_t size, part;
    const char *all = json_member(description, "ensemble", &size), *weight;
    int count = 0;

    for (const char *one = all ? json_element(all, NULL, &size) : NULL; one;
         one = json_element(all, one, &size)) {
        weight = json_member(one, "weight", &part);
        output_format(out, "%s%.3g", count++ ? ", " : "mean of machines with the weights ",
                      weight ? strtod(weight, NULL) : 0);
    }
    output_text(out, count ? "; of the first one:\n" : "");
}
