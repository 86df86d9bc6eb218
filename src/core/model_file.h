/*
 * model_file.h - safetensors files: named arrays and named texts, written whole or not at all
 *
 * 8 bytes little-endian length, a JSON header of that length, raw little-endian data.  Header:
 *   {"__metadata__": {"key": "text", ...}, "name": {"dtype": "F32", "shape": [2, 3],
 *    "data_offsets": [begin, end]}, ...}
 * Array names and keys are ours (plain ASCII); what users named - columns, categories, classes -
 * goes into arrays of bytes (gram_model_put_strings), so that any bytes survive.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MODEL_FILE_H
#define GRAM_MODEL_FILE_H
#include "context.h"
#include <sys/types.h>

enum {
    GRAM_MODEL_BYTES = 0, /* the type of an array of bytes; other types are those of gram_dtype */
    GRAM_MODEL_DIMS = 4   /* most dimensions of an array */
};

/* An array.  data is aligned to its elements. */
struct gram_model_array {
    const char *name;
    int type; /* GRAM_MODEL_BYTES or a gram_dtype */
    int ndim;
    int64_t shape[GRAM_MODEL_DIMS];
    const void *data;
};

/* ---- Writing ------------------------------------------------------------------------------ */

struct gram_model_writer;

/* NULL if there is no memory: the functions below take that, and commit reports it. */
struct gram_model_writer *gram_model_writer_create(void);
void gram_model_writer_destroy(struct gram_model_writer *w);

/* Adds an array, whose data are borrowed until commit.  name is copied.  What goes wrong in these
 * is reported by commit. */
void gram_model_put(struct gram_model_writer *w, const char *name, int type, int ndim,
                    const int64_t *shape, const void *data);
/* The same with a copy of the data, a vector of count. */
void gram_model_put_copy(struct gram_model_writer *w, const char *name, int type, int64_t count,
                         const void *data);
/* count texts, each with its terminating NUL, one after the other, as an array of bytes. */
void gram_model_put_strings(struct gram_model_writer *w, const char *name, int64_t count,
                            char *const *strings);
/* A text of the header; bytes that are not UTF-8 become U+FFFD. */
void gram_model_put_text(struct gram_model_writer *w, const char *key, const char *text);
/* For a caller who had no memory to put something: commit then reports it. */
void gram_model_put_failed(struct gram_model_writer *w);

/* Writes a temporary file beside path, flushes it to the disk, renames it.  On an error path is
 * what it was and the temporary file is gone. */
gram_status gram_model_commit(gram_context *g, struct gram_model_writer *w, const char *path);

/* ---- Reading ------------------------------------------------------------------------------ */

struct gram_model_text {
    char *key, *value;
};

struct gram_model_placed {
    struct gram_model_array array;
    int64_t begin, end; /* of its data, from the end of the header */
};

/* A file in memory, checked: every array lies within it, none overlaps another. */
struct gram_model_file {
    char *name;  /* for messages */
    char *bytes; /* the whole file; names and texts are in its header, decoded where they stood */
    size_t size;
    struct gram_model_text *text;     /* sorted by key */
    struct gram_model_placed *placed; /* sorted by name */
    size_t texts, arrays, text_room, array_room;
};

gram_status gram_model_read(gram_context *g, const char *path, struct gram_model_file **out);
/* The same from memory, which is copied; name stands in messages. */
gram_status gram_model_parse(gram_context *g, const char *name, const void *bytes, size_t size,
                             struct gram_model_file **out);
void gram_model_file_destroy(struct gram_model_file *file);

/* NULL if there is none. */
const struct gram_model_array *gram_model_find(const struct gram_model_file *file,
                                               const char *name);
const char *gram_model_text(const struct gram_model_file *file, const char *key);

/* The array of that name, type and shape, -1 standing for any size, or GRAM_BAD_DATA with a message
 * that names file and array. */
gram_status gram_model_need(gram_context *g, const struct gram_model_file *file, const char *name,
                            int type, int ndim, const int64_t *shape,
                            const struct gram_model_array **out);
/* A vector of count numbers (-1: any), count returned if wanted. */
gram_status gram_model_need_vector(gram_context *g, const struct gram_model_file *file,
                                   const char *name, int type, int64_t count, const void **data,
                                   int64_t *found);
/* Exactly count texts (-1: any, the number then to *found), as one allocation to free(). */
gram_status gram_model_need_strings(gram_context *g, const struct gram_model_file *file,
                                    const char *name, int64_t count, int64_t *found, char ***out);
/* Refuses what only a damaged file can hold: "model.gram: <what>". */
__attribute__((cold, format(printf, 3, 4))) gram_status
gram_model_bad(gram_context *g, const struct gram_model_file *file, const char *format, ...);

/* ---- whole_file.c: an output file that is there whole or not at all -------------------------- */

/* In the making; paths are owned. */
struct gram_whole_file {
    char *path;      /* what is replaced: links are followed */
    char *temporary; /* beside it */
    size_t folder;   /* of both paths: characters, the slash included */
    mode_t mode;     /* of a new file; the system takes away what umask says */
    int descriptor;
    bool named; /* temporary is there; without O_TMPFILE from the beginning, else in the end */
};

/* Opens a file to write to, in f->descriptor, that path will be.  On an error there is nothing to
 * close. */
gram_status gram_whole_file_open(gram_context *g, const char *path, struct gram_whole_file *f);
/* Puts it in the place of path; or removes it, where error is not 0 or becomes it, and says what
 * error it was.  path is then what it was before. */
gram_status gram_whole_file_close(gram_context *g, const char *path, struct gram_whole_file *f,
                                  int error);
#endif
