/* Sparse gradients of tables, and the lists of their rows (docs/schedule.md).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SPARSE_H
#define FF_SPARSE_H

#include "ff/dtype.h"
#include "ff/region.h"

/* What tables with sparse gradients have in a bucket: of a gradient that no other device adds to,
 * only rows that were looked up differ from zero.  Backward lists them for the update, and for
 * itself to make them zero in the next step. */
struct ff_sparse {
	int64_t list_bytes;   /* of the lists, int32 */
	int64_t unread_bytes; /* float32 weights that no step reads, at least */
};
/* Numbers that a list of at most so many rows has room for: a power of two, so that it may be a
 * hash table. */
static inline int64_t ff_sparse_room(int64_t rows)
{
	int64_t room = 16;

	while (room < 2 * rows)
		room *= 2;
	return rows ? room : 0;
}
static inline int64_t ff_sparse_list_bytes(int64_t rows)
{
	return ff_sparse_room(rows) * (int64_t)sizeof(int32_t);
}
/* A table of `bytes` in a bucket, of whose `region` at most `rows` are looked up. */
static inline void ff_sparse_add(
		struct ff_sparse *s, int64_t bytes, const struct ff_region *region, int64_t rows)
{
	s->list_bytes += ff_sparse_list_bytes(rows);
	s->unread_bytes += bytes - rows * ff_region_size(region, 1) * FF_F32_BYTES;
}

#endif
