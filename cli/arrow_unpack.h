/*
 * arrow_unpack.h - unpacks buffers of Arrow files that LZ4 or Zstandard has compressed
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_ARROW_UNPACK_H
#define GRAM_CLI_ARROW_UNPACK_H
#include "arrow_ipc.h"

/* The libraries, which are opened when a buffer needs them.  Zeros to begin with. */
struct arrow_unpacker {
    void *lz4, *zstd;
    void *context; /* of LZ4 */
};

void arrow_unpacker_close(struct arrow_unpacker *u);

/*
 * Unpacks a buffer into memory of its own; one that is not compressed stays where it is.  Fails:
 * there is no such library, or the bytes are broken or do not give the size that was stated.
 */
enum exit_status arrow_unpack(struct arrow_unpacker *u, const struct arrow_input *in,
                              struct arrow_piece *p, struct failure *why);
#endif
