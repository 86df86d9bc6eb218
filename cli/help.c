/*
 * help.c - `gram --help` and `gram COMMAND --help`, as wide as the terminal, or 79 columns
 *
 * SPDX-License-Identifier: MIT
 */
#include "help.h"
#include <string.h>

enum {
    USUAL_WIDTH = 79, /* of a file or a pipe */
    MOST_WIDTH = 100,
    INDENT = 26,
    NARROW = 60,
    NARROW_INDENT = 8,
    SUMMARY = 15, /* where the summary of a command begins */
    STATUS = 7,   /* where the meaning of an exit status does */
};

const struct exit_status_text exit_status_texts[] = {
    {         CLI_OK,                                                                     "success"},
    {    CLI_FAILURE, "the work failed: for example, a check did not pass, or a matrix is singular"},
    {      CLI_USAGE,             "wrong usage: for example, an unknown option, or a missing value"},
    {   CLI_BAD_DATA,             "an input holds data that cannot be used; the message says where"},
    {   CLI_NO_INPUT,                                              "an input file cannot be opened"},
    {CLI_UNSUPPORTED,                           "this build or device does not offer the operation"},
    {  CLI_NO_MEMORY,                                                               "out of memory"},
    {  CLI_NO_OUTPUT,                                            "an output file cannot be created"},
    {         CLI_IO,                       "reading or writing failed, for example on a full disk"},
    {CLI_INTERRUPTED,                                                       "interrupted by Ctrl-C"},
    { CLI_TERMINATED,                  "ended by SIGTERM; for other signals, 128 plus their number"},
    {         CLI_OK,                                                                          NULL},
};

/* Lines end before this column: as wide as the terminal, within what is comfortable to read. */
static int width(const struct output *out)
{
    if (out->columns == 0)
        return USUAL_WIDTH;
    return out->columns - 1 < MOST_WIDTH ? out->columns - 1 : MOST_WIDTH;
}

/* Where the explanation of an option begins. */
static int indent(const struct output *out)
{
    return width(out) < NARROW ? NARROW_INDENT : INDENT;
}

static void title(struct output *out, const char *text)
{
    output_style(out, STYLE_TITLE);
    output_format(out, "%s:", text);
    output_style(out, STYLE_PLAIN);
    output_text(out, "\n");
}

/* Paragraphs; lines that begin with a blank are kept as they are. */
static void paragraphs(struct output *out, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t size = end ? (size_t)(end - text) : strlen(text);
        char paragraph[2048];

        size = size < sizeof paragraph ? size : sizeof paragraph - 1;
        memcpy(paragraph, text, size);
        paragraph[size] = '\0';
        if (*text == ' ')
            output_format(out, "%s\n", paragraph);
        else
            output_wrapped(out, paragraph, 0, 0, width(out));
        text += size;
        if (*text) {
            output_text(out, "\n");
            text += 2;
        }
    }
}

/* "a|b|c" as "a, b, c". */
static void choice_list(const char *choices, char *text, size_t size)
{
    size_t used = 0;

    for (; *choices && used + 3 < size; choices++) {
        text[used++] = *choices == '|' ? ',' : *choices;
        if (*choices == '|')
            text[used++] = ' ';
    }
    text[used] = '\0';
}

void help_option_text(const struct option_row *row, char *text, size_t size)
{
    char list[256];

    if (row->choices) {
        choice_list(row->choices, list, sizeof list);
        snprintf(text, size, "%s (%s%s%s)", row->help, list, row->fallback ? "; default: " : "",
                 row->fallback ? row->fallback : "");
    } else if (row->fallback) {
        snprintf(text, size, "%s (default: %s)", row->help, row->fallback);
    } else {
        snprintf(text, size, "%s", row->help);
    }
}

static void option(struct output *out, const struct option_row *row)
{
    const int room = indent(out);
    char left[64];
    int used = row->letter ? snprintf(left, sizeof left, "  -%c, --%s", row->letter, row->name)
                           : snprintf(left, sizeof left, "      --%s", row->name);

    if (row->value)
        used += snprintf(left + used, sizeof left - (size_t)used, " %s", row->value);
    output_style(out, STYLE_NAME);
    output_text(out, left);
    output_style(out, STYLE_PLAIN);
    if (used + 2 > room)
        output_text(out, "\n");
    output_format(out, "%*s", used + 2 > room ? room : room - used, "");
    char text[640];
    help_option_text(row, text, sizeof text);
    output_wrapped(out, text, room, room, width(out));
}

void help_command(struct output *out, const struct command *command)
{
    char usage[256];

    snprintf(usage, sizeof usage, "usage: gram %s %s%s[OPTION]...", command->name,
             command->operands, command->operands[0] ? " " : "");
    output_wrapped(out, usage, 0, 11, width(out));
    output_text(out, "\n");
    paragraphs(out, command->details);
    for (const struct option_group *g = command->groups; g->title; g++) {
        if (g->title[0]) {
            output_text(out, "\n");
            title(out, g->title);
        }
        for (const struct option_row *row = g->rows; row->name; row++)
            option(out, row);
    }
    if (command->examples) {
        output_text(out, "\n");
        title(out, "Examples");
        output_format(out, "%s\n", command->examples);
    }
}

void help_program(struct output *out)
{
    output_wrapped(out, "usage: gram COMMAND [OPERAND]... [OPTION]...", 0, 7, width(out));
    output_text(out, "\n");
    output_wrapped(out, "Computes with Gram matrices, and learns from tables with kernel machines.",
                   0, 0, width(out));
    output_text(out, "\n");
    title(out, "Commands");
    for (int i = 0; commands[i]; i++) {
        output_style(out, STYLE_NAME);
        output_format(out, "  %-12s ", commands[i]->name);
        output_style(out, STYLE_PLAIN);
        output_wrapped(out, commands[i]->summary, SUMMARY, SUMMARY, width(out));
    }
    output_text(out, "\n");
    output_wrapped(out,
                   "`gram COMMAND --help` explains a command, `gram --version` prints the version.",
                   0, 0, width(out));
    output_text(out, "\n");
    title(out, "Exit status");
    for (const struct exit_status_text *s = exit_status_texts; s->text; s++) {
        output_format(out, "  %3d  ", (int)s->status);
        output_wrapped(out, s->text, STATUS, STATUS, width(out));
    }
}
