/*
 * command.h - what a command of gram is: its options, its help, its function
 *
 * Each cmd_<name>.c defines one `const struct command cmd_<name>`; commands.c lists them.  The
 * table of options is the only place where an option is described: parsing, --help, the manual
 * page and shell completion all read it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_COMMAND_H
#define GRAM_CLI_COMMAND_H
#include "failure.h"
#include "files.h"

/* What the value of an option is; the type of the member of the settings that it is stored in. */
enum option_kind {
    OPTION_FLAG,      /* int: 1 if the option is there */
    OPTION_TEXT,      /* const char * */
    OPTION_FILE,      /* const char *, a file that is written; completed as a path */
    OPTION_COLUMN,    /* const char *, a column of the table that the first operand names */
    OPTION_COLUMNS,   /* const char *, several of them, separated by commas */
    OPTION_INTEGER,   /* int64_t >= 0, between low and high; -1: not given */
    OPTION_NUMBER,    /* double, between low and high; "inf" is a number */
    OPTION_CHOICE,    /* int: the place in choices; -1: not given */
    OPTION_CHARACTER, /* char: one byte, or "tab" */
    OPTION_TEXTS,     /* struct option_texts: one more each time that it is given */
};

enum {
    OPTION_MOST_TEXTS = 8
};

struct option_texts {
    int count;
    const char *text[OPTION_MOST_TEXTS];
};

struct option_row {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* '\0': none */
    enum option_kind kind;
    const char *value; /* how help calls the value; NULL for a flag */
    size_t offset;     /* of the member in the settings */
    const char *help;
    const char *fallback; /* the value if the option is not given; NULL: 0, -1, NaN, NULL */
    const char *choices;  /* OPTION_CHOICE: "auto|never" */
    double low, high;     /* both 0: no bounds */
};

/* Rows of the table, by kind; a NULL fallback is no default. */
/* clang-format off */
#define FLAG(name, letter, at, help) \
    {name, letter, OPTION_FLAG, NULL, at, help, NULL, NULL, 0, 0}
#define TEXT(name, letter, value, at, fallback, help) \
    {name, letter, OPTION_TEXT, value, at, help, fallback, NULL, 0, 0}
#define TEXTS(name, letter, value, at, help) \
    {name, letter, OPTION_TEXTS, value, at, help, NULL, NULL, 0, 0}
#define COLUMN_NAME(name, letter, value, at, help) \
    {name, letter, OPTION_COLUMN, value, at, help, NULL, NULL, 0, 0}
#define COLUMN_NAMES(name, letter, value, at, help) \
    {name, letter, OPTION_COLUMNS, value, at, help, NULL, NULL, 0, 0}
#define FILE_NAME(name, letter, value, at, fallback, help) \
    {name, letter, OPTION_FILE, value, at, help, fallback, NULL, 0, 0}
#define CHARACTER(name, letter, value, at, help) \
    {name, letter, OPTION_CHARACTER, value, at, help, NULL, NULL, 0, 0}
#define CHOICE(name, letter, value, at, fallback, choices, help) \
    {name, letter, OPTION_CHOICE, value, at, help, fallback, choices, 0, 0}
#define INTEGER(name, letter, value, at, fallback, low, high, help) \
    {name, letter, OPTION_INTEGER, value, at, help, fallback, NULL, low, high}
#define NUMBER(name, letter, value, at, fallback, low, high, help) \
    {name, letter, OPTION_NUMBER, value, at, help, fallback, NULL, low, high}
/* Rows of commands on arrays: the choices are an enum dtype_choice; lower and upper are 0 and 1. */
#define DTYPE(at, help) CHOICE("dtype", 0, "TYPE", at, "auto", "auto|f32|f64", help)
#define UPLO(at, help)  CHOICE("uplo", 0, "PART", at, "lower", "lower|upper", help)
#define OPTION_END {.name = NULL}
#define GROUP(title, rows, base) {title, rows, base}
#define GROUP_END {.title = NULL}
/* clang-format on */

/* Tables are shared between commands: `offset` in them counts from `base` in the settings. */
struct option_group {
    const char *title; /* as in help; "" goes on with the group above; NULL ends the list */
    const struct option_row *rows;
    size_t base;
};

struct command {
    const char *name;
    const char *operands; /* as in help: "MODEL DATA" */
    const char *summary;  /* one line without a full stop */
    const char *details;  /* paragraphs, separated by "\n\n"; lines beginning with blanks stay */
    const char *examples; /* command lines, one per line */
    int least, most;      /* number of operands */
    size_t settings_bytes;
    const struct option_group *groups;
    const char *(*operand)(int i); /* words that the first operand can be, for completion */
    int reads;                     /* its operands are files that it reads */
    /* Files that neither its operands nor its OPTION_FILEs name; NULL: none. */
    enum exit_status (*files)(const void *settings, int count, char **operands, struct files *files,
                              struct failure *why);
    /* Operands end with a NULL. */
    enum exit_status (*run)(const void *settings, int count, char **operands, struct failure *why);
};

/* All commands, in the order of help; NULL at the end. */
extern const struct command *const commands[];
const struct command *command_find(const char *name);
/* Fails: there is no command of that name; says which one it may have been. */
enum exit_status command_unknown(const char *name, struct failure *why);

/* ---- Options that several commands share -------------------------------------------------- */

enum progress_choice {
    PROGRESS_AUTO,
    PROGRESS_NEVER
};

struct common_settings {
    int help;
    int64_t threads;
    int progress;
    const char *device; /* of commands that have it (device.h); NULL: the CPU */
};

enum decimal_choice {
    DECIMAL_POINT,
    DECIMAL_COMMA
};

struct input_settings {
    char delimiter;
    int decimal; /* enum decimal_choice */
    int no_header;
};

enum dtype_choice {
    DTYPE_AUTO,
    DTYPE_F32,
    DTYPE_F64
};

extern const struct option_row common_options[];  /* of every command */
extern const struct option_row threads_options[]; /* of those that compute; base as common's */
extern const struct option_row input_options[];
extern const struct option_row json_options[]; /* their base is an int: 1 with --json */

/* ---- Parsing and printing ----------------------------------------------------------------- */

/*
 * Fills settings (command->settings_bytes of zeros) from the command line after the command's
 * name, and moves the operands to the front of argv.  Returns their number in *count.
 */
enum exit_status options_parse(const struct command *command, int argc, char **argv, void *settings,
                               int *count, struct failure *why);

/* A context as the common settings ask for it. */
enum exit_status open_context(const struct common_settings *common, gram_context **g,
                              struct failure *why);
#endif
