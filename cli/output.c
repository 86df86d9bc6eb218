/*
 * output.c - output files that appear completely or not at all
 *
 * SPDX-License-Identifier: MIT
 */
#include "output.h"
#include "interrupt.h"
#include "terminal.h"
#include "text.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum exit_status cannot_create(const char *path, int error, struct failure *why)
{
    return fail(why, CLI_NO_OUTPUT, "cannot create %s: %s", path, strerror(error));
}

/* The mode that creating the path in the usual way would give it, or the mode it already has. */
static mode_t wanted_mode(const char *target)
{
    struct stat about;
    mode_t mask;

    if (stat(target, &about) == 0)
        return about.st_mode & 07777;
    mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* DIRECTORY/.gram-XXXXXX, beside the target, so that rename() stays within a file system. */
static char *temporary_name(const char *target)
{
    static const char pattern[] = ".gram-XXXXXX";
    const char *slash = strrchr(target, '/');
    size_t directory = slash ? (size_t)(slash - target) + 1 : 0;
    char *name = malloc(directory + sizeof pattern);

    if (name) {
        memcpy(name, target, directory);
        memcpy(name + directory, pattern, sizeof pattern);
    }
    return name;
}

/*
 * What the path leads to, through its links: the file that is there, or the one that will be made.
 *
 * What is there is opened, and not changed.  So the system decides for the effective user, and has
 * a say in links that others have planted in a folder such as /tmp (fs.protected_symlinks), as it
 * has with every program that writes there.  A link to nothing is refused: to replace it would not
 * be what opening it does, and to follow it would make a file where somebody else says.
 */
static enum exit_status find_target(struct output *out, struct failure *why)
{
    int descriptor = open(out->path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error;
    struct stat link;

    if (descriptor < 0 && errno != ENOENT)
        return cannot_create(out->path, errno, why);
    if (descriptor < 0 && lstat(out->path, &link) == 0)
        return fail(why, CLI_NO_OUTPUT,
                    "cannot create %s: it is a link to a file that does not exist", out->path);
    if (descriptor < 0) {
        out->target = strdup(out->path);
        error = errno;
    } else {
        out->target = realpath(out->path, NULL);
        error = errno;
        close(descriptor);
    }
    if (out->target)
        return CLI_OK;
    return error == ENOMEM ? fail_memory(why, "the name of an output file")
                           : cannot_create(out->path, error, why);
}

static enum exit_status open_temporary(struct output *out, struct failure *why)
{
    int descriptor, error;

    TRY(find_target(out, why));
    out->temporary = temporary_name(out->target);
    if (!out->temporary)
        return fail_memory(why, "the name of an output file");
    interrupt_hold();
    descriptor = mkstemp(out->temporary);
    error = errno;
    if (descriptor >= 0)
        out->slot = interrupt_add(out->temporary);
    interrupt_release();
    if (descriptor < 0) {
        free(out->temporary);
        out->temporary = NULL; /* nothing to remove */
        return cannot_create(out->path, error, why);
    }
    if (fchmod(descriptor, wanted_mode(out->target)) != 0 ||
        !(out->stream = fdopen(descriptor, "wb"))) {
        error = errno;
        close(descriptor);
        return cannot_create(out->path, error, why);
    }
    return CLI_OK;
}

enum exit_status output_open(struct output *out, const char *path, struct failure *why)
{
    struct stat about;

    *out = (struct output){.path = path, .slot = -1};
    if (strcmp(path, "-") == 0) {
        out->path = "standard output";
        out->stream = stdout;
        out->columns = terminal_columns(STDOUT_FILENO);
        out->colours = terminal_colours(STDOUT_FILENO);
        return CLI_OK;
    }
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return cannot_create(path, EISDIR, why);
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        out->stream = fopen(path, "wb");
        return out->stream ? CLI_OK : cannot_create(path, errno, why);
    }
    enum exit_status status = open_temporary(out, why);
    if (status != CLI_OK)
        output_discard(out);
    return status;
}

void output_write(struct output *out, const void *data, size_t size)
{
    if (!out->error && size && fwrite(data, 1, size, out->stream) != size)
        out->error = errno;
}

void output_text(struct output *out, const char *text)
{
    output_write(out, text, strlen(text));
}

void output_name(struct output *out, const char *name, size_t size)
{
    char *masked = strndup(name, size);

    if (masked) {
        text_mask(masked);
        output_text(out, masked);
    } else if (!out->error) {
        out->error = ENOMEM;
    }
    free(masked);
}

void output_format(struct output *out, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!out->error && vfprintf(out->stream, format, args) < 0)
        out->error = errno;
    va_end(args);
}

void output_style(struct output *out, enum output_style style)
{
    static const char *const escapes[] = {
        [STYLE_PLAIN] = "\033[0m",
        [STYLE_TITLE] = "\033[1m",
        [STYLE_NAME] = "\033[36m",
        [STYLE_BAR] = "\033[34m",
    };

    if (out->colours)
        output_text(out, escapes[style]);
}

void output_wrapped(struct output *out, const char *text, int at, int indent, int width)
{
    int first = 1;

    while (*text) {
        size_t size = strcspn(text, " \n");
        int word = (int)size;
        if (!first && width > 0 && at + 1 + word > width) {
            output_format(out, "\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            output_text(out, " ");
            at++;
        }
        output_write(out, text, size);
        at += word;
        text += size + (text[size] != '\0');
        first = 0;
    }
    output_text(out, "\n");
}

/* The name of a new file reaches the disk with its directory, which some file systems cannot
 * sync. */
static void sync_directory(char *path)
{
    int descriptor = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (descriptor >= 0) {
        fsync(descriptor);
        close(descriptor);
    }
}

enum exit_status output_close(struct output *out, struct failure *why)
{
    if (!out->error && fflush(out->stream) != 0)
        out->error = errno;
    if (!out->error && out->temporary && fsync(fileno(out->stream)) != 0)
        out->error = errno;
    if (out->stream != stdout && fclose(out->stream) != 0 && !out->error)
        out->error = errno;
    out->stream = NULL;
    if (!out->error && out->temporary) {
        if (rename(out->temporary, out->target) != 0) {
            out->error = errno;
        } else {
            interrupt_remove(out->slot);
            free(out->temporary);
            out->temporary = NULL;
            sync_directory(out->target);
        }
    }
    if (out->error)
        failure_write(why, "cannot write %s: %s", out->path, strerror(out->error));
    output_discard(out);
    return out->error ? CLI_IO : CLI_OK;
}

void output_discard(struct output *out)
{
    if (out->stream && out->stream != stdout)
        fclose(out->stream);
    if (out->temporary) {
        unlink(out->temporary);
        interrupt_remove(out->slot);
    }
    free(out->temporary);
    free(out->target);
    out->stream = NULL;
    out->temporary = out->target = NULL;
}
