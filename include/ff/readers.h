/* Readers of a parameter: whether their gradients can be summed where they are made.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_READERS_H
#define FF_READERS_H

#include "ff/block.h"

/* How the readers of a parameter lie to each other. */
enum ff_readers {
	FF_READERS_ALIKE, /* all read the same parts on the same devices, by the same replicas */
	/* Those that do not read alike have no device in common, and cut it into the same cells, as
	 * stages of a pipeline do that share an embedding. */
	FF_READERS_APART,
	FF_READERS_MIXED, /* neither */
};
enum ff_readers ff_readers_find(const struct ff_block_graph *b, uint32_t param);

/* The groups of a parameter whose readers are alike or apart: those of the reader at `edge`; if
 * they are apart, each with all devices that have its elements (slot FF_NONE, no parts).  Memory
 * from `a`. */
int ff_readers_groups(const struct ff_block_graph *b, uint32_t edge, struct ff_arena *a,
		const struct ff_weight_group **ret, uint32_t *n, struct ff_error *err);
/* A parameter that has degrees `c` lies where its `n` groups do.  `list` has room for all. */
void ff_readers_follow(const struct ff_weight_group *group, uint32_t n, uint16_t *list,
		struct ff_config *c);

/* Of a group of a parameter, the devices and parts of the reader at `edge`. */
static inline const struct ff_weight_group *ff_reader_group(
		const struct ff_block_graph *b, uint32_t edge, const struct ff_weight_group *of)
{
	const struct ff_edge *e = &b->g->edges[edge];
	uint32_t n;

	return ff_node_block_groups(b->block[e->node], e->slot, &n) + of->cell * of->replicas +
	       of->replica;
}

/* Whether another reader has written a gradient on the same devices before backward comes to the
 * one at `edge`. */
bool ff_reader_adds(const struct ff_block_graph *b, uint32_t edge);

#endif
