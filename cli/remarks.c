/*
 * remarks.c - what a command noticed about a table, and says without failing
 *
 * SPDX-License-Identifier: MIT
 */
#include "remarks.h"
#include "terminal.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum exit_status remarks_add(struct remarks *r, const struct table *t, int64_t column, int64_t row,
                             const char *code, struct failure *why, const char *format, ...)
{
    const char *name = t->columns[column].name;
    struct remark *added;
    va_list args;

    if (r->count == r->room) {
        const int64_t room = 2 * r->room + 8;
        struct remark *larger = realloc(r->at, (size_t)room * sizeof *larger);
        if (!larger)
            return fail_memory(why, "the remarks on the table");
        r->at = larger;
        r->room = room;
    }
    added = &r->at[r->count];
    *added = (struct remark){.code = code, .column = malloc(strlen(name) + 1)};
    if (!added->column)
        return fail_memory(why, "the remarks on the table");
    memcpy(added->column, name, strlen(name) + 1);
    if (t->lines && row >= 0)
        added->line = t->lines[row];
    va_start(args, format);
    vsnprintf(added->text, sizeof added->text, format, args);
    va_end(args);
    r->count++;
    return CLI_OK;
}

static int64_t count_before(const struct remarks *r, int64_t index)
{
    int64_t count = 0;

    for (int64_t i = 0; i < index && count < REMARKS_OF_A_CODE; i++)
        count += strcmp(r->at[i].code, r->at[index].code) == 0;
    return count;
}

/* In one piece, because several processes may write at once. */
static void print_note(const char *command, const char *text)
{
    const bool colours = terminal_colours(STDERR_FILENO);

    fprintf(stderr, "%sgram %s: note:%s %s\n", colours ? "\033[1;33m" : "", command,
            colours ? "\033[0m" : "", text);
}

enum exit_status remarks_print(const struct remarks *r, const char *command, const char *path,
                               int strict, struct failure *why)
{
    int64_t hidden = 0;
    char text[REMARK_TEXT + 700], line[32];

    for (int64_t i = 0; i < r->count; i++) {
        const struct remark *one = &r->at[i];
        if (count_before(r, i) >= REMARKS_OF_A_CODE) {
            hidden++;
            continue;
        }
        line[0] = '\0';
        if (one->line > 0)
            snprintf(line, sizeof line, ":%lld", (long long)one->line);
        snprintf(text, sizeof text, "%.400s%s: column \"%.200s\": %s", text_name(path), line,
                 one->column, one->text);
        text_mask(text);
        print_note(command, text);
    }
    if (hidden > 0) {
        snprintf(text, sizeof text, "%.400s: %lld more remark%s of these kinds", text_name(path),
                 (long long)hidden, hidden == 1 ? "" : "s");
        text_mask(text);
        print_note(command, text);
    }
    if (strict && r->count > 0)
        return fail(why, CLI_BAD_DATA, "%.400s: %lld remark%s on the table, which --strict refuses",
                    text_name(path), (long long)r->count, r->count == 1 ? "" : "s");
    return CLI_OK;
}

void remarks_json(struct json *j, const struct remarks *r)
{
    json_array(j, "remarks");
    for (int64_t i = 0; i < r->count; i++) {
        json_flat_object(j, NULL);
        json_string(j, "code", r->at[i].code);
        json_string(j, "column", r->at[i].column);
        if (r->at[i].line > 0)
            json_integer(j, "line", r->at[i].line);
        else
            json_string(j, "line", NULL);
        json_string(j, "text", r->at[i].text);
        json_end(j);
    }
    json_end(j);
}

void remarks_free(struct remarks *r)
{
    for (int64_t i = 0; i < r->count; i++)
        free(r->at[i].column);
    free(r->at);
    *r = (struct remarks){0};
}
