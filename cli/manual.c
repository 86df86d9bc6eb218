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

/* A list of names and what they are. */
static void roff_list(struct output *out, const char *title, const char *const rows[][2])
{
    output_format(out, ".SH %s\n", title);
    for (; (*rows)[0]; rows++) {
        output_text(out, ".TP\n.B ");
        roff_text(out, (*rows)[0]);
        output_text(out, "\n");
        roff_text(out, (*rows)[1]);
        output_text(out, "\n");
    }
}

static const char *const environment[][2] = {
    { "GRAM_NUM_THREADS",                        "the number of threads, where --threads is not given"},
    {     "GRAM_CPU_ISA",    "base, avx2 or avx512: the instruction set, instead of the best there is"},
    {  "GRAM_CDIST_FORM",   "direct or expansion: the form in which distances with p = 2 are computed"},
    {         "GRAM_LOG", "debug: what the library does is written to standard error; off: nothing is"},
    {   "GRAM_CACHE_DIR",             "the folder of compiled kernels and of what gram tune has found"},
    {   "GRAM_CACHE_MIB",                 "how much code is kept there at most, in MiB (default: 256)"},
    {         "GRAM_JIT", "off: no kernel for a GPU is compiled; only those that are kept can be used"},
    {   "GRAM_JIT_DEBUG",               "1: kernels for GPUs are compiled for debuggers and profilers"},
    {  "GRAM_PLUGIN_DIR",     "the folder of libgram_cuda.so and libgram_mpi.so, instead of libgram's"},
    {"GRAM_CUDA_LIB_DIR",                  "the folder of NVIDIA's libraries, instead of the system's"},
    {   "XDG_CACHE_HOME",                  "where GRAM_CACHE_DIR is not set, its folder gram is taken"},
    {             "HOME",        "where that is not set either, the folder .cache/gram in it is taken"},
    {               NULL,                                                                         NULL},
};

static const char *const files[][2] = {
    {"~/.cache/gram/kernels-1.db",
     "kernels that were compiled for GPUs, and what gram tune has measured: a SQLite database that "
     "may be deleted at any time"      },
    {              ".gram-XXXXXX",
     "a temporary file beside an output, which is renamed when it is complete; what kill -9 leaves "
     "of it may be deleted"            },
    {                        NULL, NULL},
};

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
    roff_list(out, "ENVIRONMENT", environment);
    roff_list(out, "FILES", files);
    output_text(out, ".SH \"SEE ALSO\"\n");
    roff_text(out,
              "The guide (docs/guide/tables.md), what GPUs need (docs/guide/gpu.md), the Python "
              "package (docs/guide/python.md) and the C library (gram/gram.h) are in libgram's "
              "source.");
    output_text(out, "\n");
}
