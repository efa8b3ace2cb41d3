/* The bytes of a file of data, which may be compressed.  What lies plainly in a file is read when
 * it is wanted, so that files may be larger than memory; what is compressed is kept unpacked.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DATA_STORE_H
#define FF_DATA_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ff/error.h"

struct ff_store;

/* `path` as it is, or, if it begins as gzip's files do, what is packed in it. */
int ff_store_open(const char *path, struct ff_store **ret, struct ff_error *err);
/* A stretch of `path`, called `name` in errors: plain, or packed by deflate (RFC 1951) with its
 * CRC-32. */
struct ff_stretch {
	const char *path, *name;
	int64_t at, bytes; /* in the file */
	uint32_t crc;
	bool packed;
};
int ff_store_open_stretch(
		const struct ff_stretch *stretch, struct ff_store **ret, struct ff_error *err);
/* Accepts NULL. */
void ff_store_close(struct ff_store *s);
const char *ff_store_name(const struct ff_store *s);
/* The bytes of a plain file; of a packed one those that are unpacked so far. */
int64_t ff_store_bytes(const struct ff_store *s);
/* All that is unpacked, or NULL where the bytes are to be read. */
const uint8_t *ff_store_memory(const struct ff_store *s);
/* FF_E_INPUT unless the first `bytes` are there.  A packed file is unpacked so far: memory grows
 * with what is really there, as a header may claim anything. */
int ff_store_need(struct ff_store *s, int64_t bytes, struct ff_error *err);
/* Unpacks all that there is. */
int ff_store_whole(struct ff_store *s, struct ff_error *err);
/* FF_E_INPUT unless the store has just so many bytes, and a packed file ends well. */
int ff_store_end(struct ff_store *s, int64_t bytes, struct ff_error *err);
/* Bytes that are needed, or known to be there. */
int ff_store_read(const struct ff_store *s, int64_t at, size_t n, void *to, struct ff_error *err);

#endif
