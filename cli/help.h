/*
 * help.h - everything that is printed from the tables of options
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_HELP_H
#define GRAM_CLI_HELP_H
#include "command.h"
#include "output.h"

/* `gram --help` and `gram COMMAND --help`. */
void help_program(struct output *out);
void help_command(struct output *out, const struct command *command);

/* The explanation of an option with its choices and its default. */
void help_option_text(const struct option_row *row, char *text, size_t size);

/* The manual page gram(1), as troff. */
void manual_page(struct output *out);

/* Completion scripts, to be sourced by the shell. */
void completion_bash(struct output *out);
void completion_zsh(struct output *out);
void completion_fish(struct output *out);

/* What the exit statuses mean: one line each, NULL at the end. */
extern const struct exit_status_text {
    enum exit_status status;
    const char *text;
} exit_status_texts[];
#endif
