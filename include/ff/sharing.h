/* Sharing: what several operators read alike is moved once.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SHARING_H
#define FF_SHARING_H

#include "ff/block.h"
#include "ff/program.h"

/* Into `ret`, by edge, for each use of `value`: the edge whose moves forward, and in recomputation,
 * bring what is read there, too: of all uses that read, part by part, the same elements on the same
 * devices the one that is issued first.  FF_NONE: it has its own moves.
 *
 * A value that is made again for backward is moved again only to those who read it there; they
 * share among themselves, as do those who do not.  Parameters that are gathered again are not
 * shared: who marks one wants it gone between its readers. */
void ff_sharing_find(const struct ff_block_graph *b, const struct ff_program *p, uint32_t value,
		uint32_t *ret);

/* What becomes of the gradients that readers of an activation make, by edge. */
struct ff_sums {
	uint32_t *sent;  /* the edge whose moves backward take its own, too; FF_NONE: it has its own
			  */
	uint32_t *added; /* that where backward adds its own once it is made; FF_NONE: it is there
			  */
	bool *first;     /* no other moves of the value's gradient are before it in backward */
};

/* One use's gradient between who made it and who made the value. */
struct ff_gradient_way {
	const struct ff_placement *in, *out;
	const struct ff_node_block *reader, *producer;
};
/* Whether at least as much of a gradient leaves the devices where it is made as stays there; who
 * has found that before may know it. */
bool ff_gradient_leaves(const struct ff_gradient_way *w);
struct ff_leaving {
	bool (*leaves)(void *ctx, uint32_t edge);
	void *ctx;
};

/* Fills in `ret` for all uses of `value`, and finds its first use in backward (FF_NONE: none has a
 * gradient).  Uses that read alike (ff_sharing_find) are summed on the device: the one that
 * backward comes to first has the sum, the others add to it, and the moves of the last take it
 * away.  They are not where more of the gradient stays on the devices than leaves them, as adding
 * takes their time, nor where a prelude makes it in the place of another gradient.  `known` may be
 * NULL. */
void ff_sums_find(const struct ff_block_graph *b, const struct ff_leaving *known, uint32_t value,
		const struct ff_sums *ret, uint32_t *first_edge);

#endif
