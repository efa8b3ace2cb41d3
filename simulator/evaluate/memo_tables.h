/* Entries of a memo's tables, inside.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_MEMO_TABLES_H
#define FF_SIMULATOR_MEMO_TABLES_H

#include "memo.h"

enum { FF_MEMO_SHAPES, FF_MEMO_NODES, FF_MEMO_EDGES };

static inline int ff_memo_put(struct ff_table *table, uint64_t hash, struct ff_error *err)
{
	return ff_table_put(table, hash, table->n) < 0 ? ff_fail_memory(err) : FF_OK;
}

/* Entries do not move once they are there, so they stand in rows. */
static inline void *ff_memo_new_row(struct ff_memo *t, size_t size)
{
	char *row = ff_arena_array(&t->arena, FF_MEMO_ROW + 1, size);

	return row ? row + -(uintptr_t)row % FF_MEMO_LINE : NULL;
}

#endif
