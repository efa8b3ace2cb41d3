/* What devices hold in all steps: weights, gradients and states, what is kept, and the scratch of
 * the largest kernel.  SPDX-License-Identifier: Apache-2.0 */
#include "pinned.h"

#include <string.h>

#include "ff/clones.h"

/* Scratch of a part's backward: the kernel's, and of gradients to be added. */
static int64_t backward_scratch(const struct ff_trial *e, uint32_t node, uint32_t p)
{
	const struct ff_node *n = &e->g->nodes[node];
	const struct ff_memo_node *mn = e->placed.node[node];
	int64_t bytes = mn->rest->shape->workspace[FF_BACKWARD][p];

	for (uint32_t i = n->n_data; i < n->n_in; i++)
		if (ff_trial_adds(e, n->in + i, e->order.program.micro_batches - 1))
			bytes += mn->rest->shape->din_bytes[i][p];
	return bytes;
}

static int64_t part_scratch(const struct ff_trial *e, uint32_t node, uint32_t p)
{
	int64_t forward = e->placed.node[node]->rest->shape->workspace[FF_FORWARD][p];
	int64_t backward = backward_scratch(e, node, p);

	return forward > backward ? forward : backward;
}

/* So much on each of some neighbours, at least. */
FF_CLONES static void raise_row(uint32_t n, int64_t bytes, int64_t *most)
{
	for (uint32_t i = 0; i < n; i++)
		most[i] = most[i] > bytes ? most[i] : bytes;
}

/* What its parts keep from step to step, maybe of every micro-batch. */
static void count_kept(struct ff_trial *e, uint32_t node)
{
	const struct ff_node *n = &e->g->nodes[node];
	const struct ff_memo_node *mn = e->placed.node[node];
	int64_t times = n->kept_apart ? e->order.program.micro_batches : 1;

	for (uint32_t k = n->n_out - n->n_kept; k < n->n_out; k++)
		for (uint32_t p = 0; p < mn->block->n_parts; p++)
			e->tally.pinned[mn->block->device[p]] +=
					times * mn->rest->shape->out_bytes[k][p];
}

/* Most operators have no parameters, and most kernels need no scratch. */
static bool may_have_scratch(const struct ff_trial *e, uint32_t node)
{
	const struct ff_node *n = &e->g->nodes[node];

	return e->memo->has_workspace || n->n_in > n->n_data;
}

void ff_pinned_count(struct ff_trial *e)
{
	memset(e->tally.pinned, 0, e->m->n_devices * sizeof(*e->tally.pinned));
	for (uint32_t i = 0; i < e->g->n_nodes &&
			     (e->tally.has_scratch || e->order.program.micro_batches > 1 ||
					     e->memo->has_workspace);
			i++) {
		const struct ff_memo_node *mn = may_have_scratch(e, i) ? e->placed.node[i] : NULL;

		if (mn && mn->is_row && mn->rest->shape->even)
			raise_row(mn->n_parts, part_scratch(e, i, 0), e->tally.pinned + mn->first);
		else
			for (uint32_t p = 0; mn && p < mn->n_parts; p++)
				raise_row(1, part_scratch(e, i, p),
						e->tally.pinned + mn->device[p]);
	}
	ff_updates_scratch(e, e->tally.pinned);
	for (uint32_t i = 0; i < e->g->n_nodes && e->tally.has_kept; i++)
		count_kept(e, i);
	ff_updates_count(e, e->tally.pinned);
}
