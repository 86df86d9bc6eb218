/*
 * completion.c - shell completion, from the tables of options
 *
 * SPDX-License-Identifier: MIT
 */
#include "help.h"
#include <string.h>

/* "a|b|c" as "a b c", or with every word followed by `after`. */
static void words(struct output *out, const char *choices)
{
    for (; *choices; choices++)
        output_write(out, *choices == '|' ? " " : choices, 1);
}

static void bash_option_names(struct output *out, const struct command *command)
{
    for (const struct option_group *g = command->groups; g->title; g++)
        for (const struct option_row *row = g->rows; row->name; row++) {
            if (row->letter)
                output_format(out, " -%c", row->letter);
            output_format(out, " --%s", row->name);
        }
}

/* Writes the patterns of a case: the words after which a value of this option is expected. */
static void bash_value(struct output *out, const struct command *command,
                       const struct option_row *row)
{
    output_format(out, "    %s:--%s", command->name, row->name);
    if (row->letter)
        output_format(out, "|%s:-%c", command->name, row->letter);
    if (row->kind == OPTION_CHOICE) {
        output_text(out, ") COMPREPLY=($(compgen -W '");
        words(out, row->choices);
        output_text(out, "' -- \"$word\")); return ;;\n");
    } else {
        output_format(out, ") %s ;;\n",
                      row->kind == OPTION_FILE      ? "_gram_files; return"
                      : row->kind == OPTION_COLUMN  ? "_gram_columns; return"
                      : row->kind == OPTION_COLUMNS ? "_gram_columns ,; return"
                                                    : "return");
    }
}

void completion_bash(struct output *out)
{
    output_text(out,
                "# bash completion for gram; made by `gram help --completion bash`\n"
                "_gram_files()\n{\n    compopt -o filenames 2>/dev/null\n"
                "    COMPREPLY=($(compgen -f -- \"$word\"))\n}\n"
                "# $1 separates names; the first operand that is a file is the table.\n"
                "_gram_columns()\n{\n    local file name before=\n"
                "    [ -n \"$1\" ] && before=${word%\"${word##*$1}\"}\n"
                "    for file in \"${COMP_WORDS[@]:2}\"; do\n"
                "        [ -f \"$file\" ] && [ -r \"$file\" ] || continue\n"
                "        while IFS= read -r name; do\n"
                "            [[ $before$name == \"$word\"* ]] &&\n"
                "                COMPREPLY+=(\"$before$(printf %q \"$name\")\")\n"
                "        done < <(head -n 1 -- \"$file\" | gram help --columns - 2>/dev/null)\n"
                "        return\n    done\n}\n"
                "_gram()\n{\n    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n"
                "    local before=${COMP_WORDS[COMP_CWORD-1]}\n    COMPREPLY=()\n"
                "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '");
    for (int i = 0; commands[i]; i++)
        output_format(out, "%s ", commands[i]->name);
    output_text(out,
                "--help --version' -- \"$word\"))\n        return\n    fi\n"
                "    case \"$command:$before\" in\n");
    for (int i = 0; commands[i]; i++)
        for (const struct option_group *g = commands[i]->groups; g->title; g++)
            for (const struct option_row *row = g->rows; row->name; row++)
                if (row->kind != OPTION_FLAG)
                    bash_value(out, commands[i], row);
    output_text(out, "    esac\n    if [[ $word == -* ]]; then\n        case \"$command\" in\n");
    for (int i = 0; commands[i]; i++) {
        output_format(out, "        %s) COMPREPLY=($(compgen -W '", commands[i]->name);
        bash_option_names(out, commands[i]);
        output_text(out, "' -- \"$word\")) ;;\n");
    }
    output_text(out,
                "        esac\n        return\n    fi\n    case \"$command:$COMP_CWORD\" in\n");
    for (int i = 0; commands[i]; i++) {
        if (!commands[i]->operand)
            continue;
        output_format(out, "    %s:2) COMPREPLY=($(compgen -W '", commands[i]->name);
        for (int k = 0; commands[i]->operand(k); k++)
            output_format(out, "%s ", commands[i]->operand(k));
        output_text(out, "' -- \"$word\")); return ;;\n");
    }
    output_text(out, "    esac\n    _gram_files\n}\ncomplete -F _gram gram\n");
}

/* Escapes text inside '...[...]' of a specification, where quotes, brackets, colons and backslashes
 * are special. */
static void zsh_text(struct output *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            output_text(out, "'\\''");
        else if (strchr("[]:\\", *text))
            output_format(out, "\\%c", *text);
        else
            output_write(out, text, 1);
    }
}

static void zsh_action(struct output *out, const struct option_row *row)
{
    if (row->kind == OPTION_FLAG)
        return;
    output_format(out, ":%s:", row->value);
    if (row->kind == OPTION_CHOICE) {
        output_text(out, "(");
        words(out, row->choices);
        output_text(out, ")");
    } else if (row->kind == OPTION_FILE) {
        output_text(out, "_files");
    } else if (row->kind == OPTION_COLUMN || row->kind == OPTION_COLUMNS) {
        output_text(out, "_gram_columns");
    }
}

static void zsh_option(struct output *out, const struct option_row *row)
{
    if (row->letter)
        output_format(out, " \\\n        '(-%c --%s)'{-%c,--%s}'[", row->letter, row->name,
                      row->letter, row->name);
    else
        output_format(out, " \\\n        '--%s[", row->name);
    zsh_text(out, row->help);
    output_text(out, "]");
    zsh_action(out, row);
    output_text(out, "'");
}

void completion_zsh(struct output *out)
{
    output_text(out,
                "#compdef gram\n# zsh completion for gram; made by `gram help --completion "
                "zsh`\n# The first operand that is a file is the table.\n"
                "_gram_columns()\n{\n    local file\n    local -a names\n"
                "    for file in $words[2,-1]; do\n        [[ -r ${(Q)file} && -f ${(Q)file} ]] || "
                "continue\n"
                "        names=(\"${(@f)$(head -n 1 -- ${(Q)file} | gram help --columns - "
                "2>/dev/null)}\")\n"
                "        compset -P '*,'\n        compadd -a names\n        return\n    done\n}\n"
                "_gram()\n{\n    local -a commands=(\n");
    for (int i = 0; commands[i]; i++) {
        output_format(out, "        '%s:", commands[i]->name);
        zsh_text(out, commands[i]->summary);
        output_text(out, "'\n");
    }
    output_text(out,
                "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n"
                "        return\n    fi\n    local command=$words[2]\n    shift words\n"
                "    (( CURRENT-- ))\n    case $command in\n");
    for (int i = 0; commands[i]; i++) {
        output_format(out, "    %s) _arguments -s", commands[i]->name);
        for (const struct option_group *g = commands[i]->groups; g->title; g++)
            for (const struct option_row *row = g->rows; row->name; row++)
                zsh_option(out, row);
        if (commands[i]->operand) {
            output_text(out, " \\\n        '1: :(");
            for (int k = 0; commands[i]->operand(k); k++)
                output_format(out, "%s ", commands[i]->operand(k));
            output_text(out, ")'");
        }
        output_text(out, " \\\n        '*:file:_files' ;;\n");
    }
    output_text(out, "    esac\n}\n_gram \"$@\"\n");
}

/* Escapes text inside '...', where only quotes and backslashes are special. */
static void fish_text(struct output *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            output_text(out, "\\");
        output_write(out, text, 1);
    }
}

static void fish_option(struct output *out, const struct command *command,
                        const struct option_row *row)
{
    output_format(out, "complete -c gram -n '__gram_is %s' -l %s", command->name, row->name);
    if (row->letter)
        output_format(out, " -s %c", row->letter);
    if (row->kind == OPTION_FILE)
        output_text(out, " -r -F");
    else if (row->kind != OPTION_FLAG)
        output_text(out, " -x");
    if (row->kind == OPTION_COLUMN || row->kind == OPTION_COLUMNS)
        output_text(out, " -a '(__gram_columns)'");
    if (row->kind == OPTION_CHOICE) {
        output_text(out, " -a '");
        words(out, row->choices);
        output_text(out, "'");
    }
    output_text(out, " -d '");
    fish_text(out, row->help);
    output_text(out, "'\n");
}

static void fish_command(struct output *out, const struct command *command)
{
    output_format(out, "complete -c gram -n __gram_none -f -a %s -d '", command->name);
    fish_text(out, command->summary);
    output_text(out, "'\n");
    for (const struct option_group *g = command->groups; g->title; g++)
        for (const struct option_row *row = g->rows; row->name; row++)
            fish_option(out, command, row);
    if (!command->operand)
        return;
    output_format(out, "complete -c gram -n '__gram_begins %s' -f -a '", command->name);
    for (int k = 0; command->operand(k); k++)
        output_format(out, "%s%s", k ? " " : "", command->operand(k));
    output_text(out, "'\n");
}

void completion_fish(struct output *out)
{
    /* The words before the one that is completed; the first is gram. */
    output_text(out,
                "# fish completion for gram; made by `gram help --completion fish`\n"
                "function __gram_none\n    test (count (commandline -opc)) -eq 1\nend\n"
                "function __gram_is\n    set -l words (commandline -opc)\n"
                "    test (count $words) -gt 1; and test \"$words[2]\" = $argv[1]\nend\n"
                "function __gram_begins\n    set -l words (commandline -opc)\n"
                "    test (count $words) -eq 2; and test $words[2] = $argv[1]\nend\n"
                "# The first operand that is a file is the table.\n"
                "function __gram_columns\n    for file in (commandline -opc)[3..-1]\n"
                "        if test -f $file -a -r $file\n"
                "            head -n 1 -- $file | gram help --columns - 2>/dev/null\n"
                "            return\n        end\n    end\nend\n"
                "complete -c gram -n __gram_none -f -s h -l help -d 'list the commands'\n"
                "complete -c gram -n __gram_none -f -s V -l version -d 'show the version'\n");
    for (int i = 0; commands[i]; i++)
        fish_command(out, commands[i]);
}
