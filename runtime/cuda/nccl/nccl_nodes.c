/* Collectives of NCCL in stages, by nodes.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "nccl_comm.h"

static ncclResult_t call_stages(const struct ff_nccl_post *p)
{
	ncclResult_t status = ncclSuccess;

	for (uint32_t i = p->first; i < p->end && status == ncclSuccess; i++) {
		struct ff_nccl_post stage = *p;

		stage.x = ff_stages_tell(p->stages, i, p->scratch);
		stage.send = stage.x->send[p->g->own];
		stage.recv = stage.x->recv[p->g->own];
		status = ff_nccl_call(&stage);
	}
	return status;
}

/* Those that may go at once do.  All members of the group come here with the same collective, so
 * those of its parts meet in the order of what they post, too. */
static int post_stages(struct ff_nccl_post *p, struct ff_error *err)
{
	const struct ff_nccl_group *all = p->g;
	struct ff_stages *s = p->stages;
	int code = FF_OK;

	for (p->first = 0; p->first < s->n && code == FF_OK; p->first = p->end) {
		const struct ff_collective *x = ff_stages_tell(s, p->first, p->scratch);

		p->end = p->first + 1;
		while (p->end < s->n && s->stage[p->end].among == s->stage[p->first].among)
			p->end++;
		code = ff_nccl_group_find(p->m, p->messages, x->n_devices, x->device, &p->g, err);
		if (code == FF_OK && p->g != all)
			snprintf(p->g->call, sizeof(p->g->call), "%.40s, by nodes", all->call);
		if (code == FF_OK)
			code = ff_nccl_together(p, call_stages, err);
	}
	return code;
}

int ff_nccl_post_by_nodes(struct ff_nccl_post *p, struct ff_spread spread, struct ff_error *err)
{
	struct ff_stages s;
	int code = ff_stages_init(&s, p->x, p->g->own, spread, err);

	p->stages = &s;
	if (code == FF_OK && s.sums)
		code = ff_nccl_scratch(p, s.sums * p->size, err);
	if (code == FF_OK)
		code = post_stages(p, err);
	ff_stages_finish(&s);
	return code;
}
