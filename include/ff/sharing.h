/* Sharing: regions that several operators read alike are moved once.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_SHARING_H
#define FF_SHARING_H

#include "ff/block.h"
#include "ff/program.h"

/* ret[edge], for each use of `value`: the edge whose moves, in forward and recomputation, also
 * serve this one; FF_NONE: it has its own moves.  Uses are alike if they read the same elements in
 * the same parts on the same devices; the one that is issued first serves them all.
 *
 * A recomputed value is moved again only to uses that backward reads.  These share among
 * themselves, and so do the others.  Parameters that are gathered again are not shared: they are to
 * be freed between their readers. */
void ff_sharing_find(const struct ff_block_graph *b, const struct ff_program *p, uint32_t value,
		uint32_t *ret);

/* By edge: how the gradients of an activation's readers are summed. */
struct ff_sums {
	uint32_t *sent;  /* the edge whose backward moves also carry this gradient; FF_NONE: its own
			    do */
	uint32_t *added; /* the edge whose gradient this one is added to on the device; FF_NONE:
			    none */
	bool *first;     /* its moves are the first of the value's gradient in backward */
};

/* The gradient of one use: the placements of both ends and their nodes' blocks. */
struct ff_gradient_way {
	const struct ff_placement *in, *out;
	const struct ff_node_block *reader, *producer;
};
/* Whether at least half of the gradient leaves the devices that compute it.  The result may be
 * memoised (struct ff_leaving). */
bool ff_gradient_leaves(const struct ff_gradient_way *w);
struct ff_leaving {
	bool (*leaves)(void *ctx, uint32_t edge);
	void *ctx;
};

/* Fills `ret` for all uses of `value`, and finds its first use in backward (FF_NONE: none has a
 * gradient).
 *
 * Uses that read alike (ff_sharing_find) are summed on the device: the first in backward holds the
 * sum, the others add to it, and the moves of the last one send it.  Exceptions: more than half of
 * the gradient stays on its devices, since the addition takes their time; or a prelude computes it
 * in place.  `known` may be NULL. */
void ff_sums_find(const struct ff_block_graph *b, const struct ff_leaving *known, uint32_t value,
		const struct ff_sums *ret, uint32_t *first_edge);

#endif
