/*
 * manual.c - the manual page and shell completion, from the tables of options
 *
 * The page is troff with the man macros.  There, a line that begins with a point or an apostrophe
 * is a request, a backslash begins an escape, and a minus sign is a hyphen; roff() takes care of
 * them.
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
    {  "GRAM_NUM_THREADS","the number of threads, if --threads is not given"                          },
    {   "OMP_NUM_THREADS",
     "the most threads, if GRAM_NUM_THREADS is not set; OPENBLAS_NUM_THREADS, MKL_NUM_THREADS, "
     "LOKY_MAX_CPU_COUNT and PYTHON_CPU_COUNT count in the same way, and the least of them is "
     "used"                                                                                          },
    {      "GRAM_CPU_ISA",            "the instruction set: base, avx2 or avx512 (default: the best)"},
    {   "GRAM_CDIST_FORM",                "the formula for distances with p = 2: direct or expansion"},
    {"GRAM_KERNEL_MATMUL",
     "how a GPU multiplies by a kernel matrix: panels, fused or tensor; blocks and tensor-blocks "
     "are the latter two with little scratch"                                                        },
    {          "GRAM_LOG",     "debug: the library logs its work to standard error; off: it does not"},
    {    "GRAM_CACHE_DIR",           "the folder of compiled kernels and of the results of gram tune"},
    {    "GRAM_CACHE_MIB",                  "the most code that is kept there, in MiB (default: 256)"},
    {          "GRAM_JIT",         "off: no kernel for a GPU is compiled; only kept kernels are used"},
    {    "GRAM_JIT_DEBUG",             "1: kernels for GPUs are compiled for debuggers and profilers"},
    {   "GRAM_PLUGIN_DIR",
     "the folder of libgram_cuda.so and libgram_mpi.so (default: that of libgram)"                   },
    {       "GRAM_DUCKDB", "the library of DuckDB, which reads Parquet files (default: libduckdb.so)"},
    { "GRAM_CUDA_LIB_DIR",          "the folder of NVIDIA's libraries (default: those of the system)"},
    {    "XDG_CACHE_HOME",              "if GRAM_CACHE_DIR is not set, the folder gram in it is used"},
    {              "HOME",          "if that is not set either, the folder .cache/gram in it is used"},
    {          "NO_COLOR",                                      "set: no colours, also on a terminal"},
    {              "TERM",                                    "dumb: no colours, and no progress bar"},
    {                NULL,                                                                       NULL},
};

static const char *const files[][2] = {
    {"~/.cache/gram/kernels-1.db",
     "compiled kernels for GPUs, and the measurements of gram tune, in a SQLite database that may "
     "be deleted at any time"          },
    {              ".gram-XXXXXX",
     "a temporary file beside an output, which is renamed when it is complete; one that kill -9 "
     "has left behind may be deleted"  },
    {                        NULL, NULL},
};

void manual_page(struct output *out)
{
    output_format(out,
                  ".TH GRAM 1 \"\" \"gram %s\" \"User Commands\"\n.SH NAME\n"
                  "gram \\- compute with Gram matrices, and learn from tables\n.SH SYNOPSIS\n"
                  ".B gram\n.I COMMAND\n.RI [ OPERAND ]...\n.RI [ OPTION ]...\n.SH DESCRIPTION\n",
                  GRAM_VERSION);
    output_text(
        out,
        "Tables are text (CSV or TSV, with quoted fields, LF or CRLF line ends and a "
        "header line), NumPy\n.I .npy\nfiles, Parquet files, or Arrow files and streams "
        "(Feather); the contents decide. A hyphen is standard "
        "input or output. An empty field, NA, N/A, NaN, null or ? is a "
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
    roff_text(
        out,
        "The documentation in libgram's source: docs/guide/tables.md and docs/guide/command.md "
        "(this command), docs/guide/gpu.md (GPUs), docs/guide/python.md (the Python package) and "
        "gram/gram.h (the C library).");
    output_text(out, "\n");
}
