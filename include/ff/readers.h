/* Readers of a parameter, and whether their gradients can be summed in place.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_READERS_H
#define FF_READERS_H

#include "ff/block.h"

enum ff_readers {
	FF_READERS_ALIKE, /* all read the same cells on the same devices, by the same replicas */
	/* Readers that are not alike have no device in common but cut the parameter into the same
	 * cells, as pipeline stages do that share an embedding. */
	FF_READERS_APART,
	FF_READERS_MIXED, /* neither */
};
enum ff_readers ff_readers_find(const struct ff_block_graph *b, uint32_t param);

/* The groups of a parameter whose readers are alike or apart.  Alike: those of the reader at
 * `edge`. Apart: each has the devices of all readers (slot FF_NONE, no parts).  Memory from `a`. */
int ff_readers_groups(const struct ff_block_graph *b, uint32_t edge, struct ff_arena *a,
		const struct ff_weight_group **ret, uint32_t *n, struct ff_error *err);
/* Completes the config `c` of a parameter, whose degrees are set, with the devices of its `n`
 * groups. `list` has room for all devices. */
void ff_readers_follow(const struct ff_weight_group *group, uint32_t n, uint16_t *list,
		struct ff_config *c);

/* The group of the reader at `edge` that matches group `of`. */
static inline const struct ff_weight_group *ff_reader_group(
		const struct ff_block_graph *b, uint32_t edge, const struct ff_weight_group *of)
{
	const struct ff_edge *e = &b->g->edges[edge];
	uint32_t n;

	return ff_node_block_groups(b->block[e->node], e->slot, &n) + of->cell * of->replicas +
	       of->replica;
}

/* Whether the reader at `edge` adds to a gradient: backward has visited another reader on the same
 * devices before. */
bool ff_reader_adds(const struct ff_block_graph *b, uint32_t edge);

#endif
