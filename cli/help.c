/*
 * help.c - `gram --help` and `gram COMMAND --help`, as text of 79 columns
 *
 * SPDX-License-Identifier: MIT
 */
#include "help.h"
#include <string.h>

enum {
    WIDTH = 79,
    INDENT = 26, /* where the explanation of an option begins */
};

const struct exit_status_text exit_status_texts[] = {
    {         CLI_OK,                                                                 "success"},
    {    CLI_FAILURE,   "the work failed: a check did not pass, a matrix could not be factored"},
    {      CLI_USAGE, "wrong usage: an unknown command or option, a missing or malformed value"},
    {   CLI_BAD_DATA,    "an input holds something that cannot be used; the message says where"},
    {   CLI_NO_INPUT,                                          "an input file cannot be opened"},
    {CLI_UNSUPPORTED,                  "this build or device does not offer what was asked for"},
    {  CLI_NO_MEMORY,                                                           "out of memory"},
    {  CLI_NO_OUTPUT,                                        "an output file cannot be created"},
    {         CLI_IO,          "reading or writing failed half-way, for example on a full disk"},
    {CLI_INTERRUPTED,                                                   "interrupted by Ctrl-C"},
    { CLI_TERMINATED,                 "ended by SIGTERM; by another signal, 128 and its number"},
    {         CLI_OK,                                                                      NULL},
};

/* Writes words from column `at` on, breaking lines before WIDTH; new lines begin at `indent`. */
static void wrap(struct output *out, const char *text, size_t at, size_t indent)
{
    int first = 1;

    while (*text) {
        size_t word = strcspn(text, " \n");
        if (!first && at + 1 + word > WIDTH) {
            output_format(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            output_text(out, " ");
            at++;
        }
        output_write(out, text, word);
        at += word;
        text += word + (text[word] != '\0');
        first = 0;
    }
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
            wrap(out, paragraph, 0, 0);
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
    char left[64];
    int used = row->letter ? snprintf(left, sizeof left, "  -%c, --%s", row->letter, row->name)
                           : snprintf(left, sizeof left, "      --%s", row->name);

    if (row->value)
        used += snprintf(left + used, sizeof left - (size_t)used, " %s", row->value);
    output_text(out, left);
    if (used + 2 > INDENT)
        output_text(out, "\n");
    output_format(out, "%*s", used + 2 > INDENT ? INDENT : INDENT - used, "");
    char text[640];
    help_option_text(row, text, sizeof text);
    wrap(out, text, INDENT, INDENT);
}

void help_command(struct output *out, const struct command *command)
{
    char usage[256];

    snprintf(usage, sizeof usage, "usage: gram %s %s%s[OPTION]...", command->name,
             command->operands, command->operands[0] ? " " : "");
    wrap(out, usage, 0, 11);
    output_text(out, "\n");
    paragraphs(out, command->details);
    for (const struct option_group *g = command->groups; g->title; g++) {
        if (g->title[0])
            output_format(out, "\n%s:\n", g->title);
        for (const struct option_row *row = g->rows; row->name; row++)
            option(out, row);
    }
    if (command->examples)
        output_format(out, "\nExamples:\n%s\n", command->examples);
}

void help_program(struct output *out)
{
    output_text(out,
                "usage: gram COMMAND [OPERAND]... [OPTION]...\n\n"
                "Gram matrices and the kernel machines that live on them.\n\nCommands:\n");
    for (int i = 0; commands[i]; i++)
        output_format(out, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    output_text(out,
                "\n`gram COMMAND --help` explains a command, `gram --version` prints the "
                "version.\n\nExit status:\n");
    for (const struct exit_status_text *s = exit_status_texts; s->text; s++)
        output_format(out, "  %3d  %s\n", (int)s->status, s->text);
}
