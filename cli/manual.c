/*
 * manual.c - the manual page and shell completion, from the tables of options
 *
 * The page is troff with the man macros.  A line that begins with a point or an apostrophe would
 * be a request, a backslash an escape and a minus sign a hyphen: roff() deals with all of them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "help.h"
#include <string.h>

static void roff(struct output *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((text[i] == '.' || text[i] == '\'') && (i == 0 || text[i - 1] == '\n'))
            output_text(out, "\\&");
        if (text[i] == '\\')
            output_text(out, "\\e");
        else if (text[i] == '-')
            output_text(out, "\\-");
        else
            output_write(out, text + i, 1);
    }
}

static void roff_text(struct output *out, const char *text)
{
    roff(out, text, strlen(text));
}

static void roff_paragraphs(struct output *out, const char *text)
{
    for (;;) {
        const char *end = strstr(text, "\n\n");
        int literal = *text == ' ';
        output_text(out, literal ? ".PP\n.nf\n" : ".PP\n");
        roff(out, text, end ? (size_t)(end - text) : strlen(text));
        output_text(out, literal ? "\n.fi\n" : "\n");
        if (!end)
            return;
        text = end + 2;
    }
}

static void roff_option(struct output *out, const struct option_row *row)
{
    output_text(out, ".TP\n");
    if (row->letter)
        output_format(out, "\\fB\\-%c\\fR, ", row->letter);
    output_text(out, "\\fB\\-\\-");
    roff_text(out, row->name);
    output_text(out, "\\fR");
    if (row->value)
        output_format(out, " \\fI%s\\fR", row->value);
    output_text(out, "\n");
    char text[640];
    help_option_text(row, text, sizeof text);
    roff_text(out, text);
    output_text(out, "\n");
}

static void roff_command(struct output *out, const struct command *command)
{
    output_format(out, ".SS \"gram %s\"\n.B gram %s\n.I %s\n.RI [ OPTION ]...\n", command->name,
                  command->name, command->operands[0] ? command->operands : "\\&");
    roff_paragraphs(out, command->details);
    for (const struct option_group *g = command->groups; g->title; g++)
        for (const struct option_row *row = g->rows; row->name; row++)
            if (g->rows != common_options)
                roff_option(out, row);
    if (command->examples) {
        output_text(out, ".PP\n.nf\n");
        roff_text(out, command->examples);
        output_text(out, "\n.fi\n");
    }
}

void manual_page(struct output *out)
{
    output_format(out,
                  ".TH GRAM 1 \"\" \"gram %s\" \"User Commands\"\n.SH NAME\n"
                  "gram \\- Gram matrices and the kernel machines that live on them\n.SH SYNOPSIS\n"
                  ".B gram\n.I COMMAND\n.RI [ OPERAND ]...\n.RI [ OPTION ]...\n.SH DESCRIPTION\n",
                  GRAM_VERSION);
    output_text(
        out,
        "Tables are text (CSV or TSV, with quoted fields, LF or CRLF line ends and a "
        "header line) or NumPy\n.I .npy\nfiles; the contents decide. A hyphen is "
        "standard input or output. An empty field, NA, N/A, NaN, null or ? is a "
        "missing value. Output files are replaced as a whole or not at all, and a file that "
        "is an input of the same command is never written.\n"
        ".SH COMMANDS\n");
    for (int i = 0; commands[i]; i++)
        roff_command(out, commands[i]);
    output_text(out, ".SH \"OPTIONS OF EVERY COMMAND\"\n");
    for (const struct option_row *row = common_options; row->name; row++)
        roff_option(out, row);
    output_text(out, ".SH \"EXIT STATUS\"\n");
    for (const struct exit_status_text *s = exit_status_texts; s->text; s++) {
        output_format(out, ".TP\n.B %d\n", (int)s->status);
        roff_text(out, s->text);
        output_text(out, "\n");
    }
}
