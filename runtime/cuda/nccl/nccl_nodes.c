/* Collectives by nodes, as links inside a node are faster than those between nodes: what is summed
 * is summed inside each node first, so that every device has a part of it, then among the devices
 * with the same place in their nodes; what is gathered goes the other way round.  Each byte crosses
 * the network as often as in a ring, but in fewer and all at once (Thakur, Rabenseifner, Gropp,
 * IJHPCA 2005, have the stages; "Horovod", Sergeev and Del Balso, 2018, the order).
 * SPDX-License-Identifier: Apache-2.0 */
#include "nccl_comm.h"

#include <stdio.h>
#include <stdlib.h>

bool ff_nccl_by_nodes(struct ff_nccl_post *p)
{
	const struct ff_collective *x = p->x;
	bool chunks = x->kind != FF_MOVE_ALL_REDUCE; /* which has one count, for all */
	bool regular = !chunks || (ff_nccl_is_even(x) && (x->kind != FF_MOVE_ALL_GATHER ||
									 ff_nccl_is_in_order(x)));
	struct ff_spread s;

	if (!p->m->node_of || !ff_spread_find(p->m->node_of, x->n_devices, x->device, &s) ||
			!ff_spread_has_stages(s, x->kind, x->reduce, x->count[0], regular))
		return false;
	p->nodes = (struct ff_nccl_nodes){.nodes = s.nodes,
			.each = s.each,
			.node = p->g->own / s.each,
			.local = p->g->own % s.each};
	return true;
}

/* ---- stages ---- */

static ncclDataType_t type_of(const struct ff_nccl_post *p)
{
	return ff_nccl_types[p->x->type];
}

static ncclRedOp_t operation_of(const struct ff_nccl_post *p)
{
	return ff_nccl_operations[p->x->reduce];
}

/* Elements: of an array, each device's of a node; of chunks, one. */
static int64_t part_of(const struct ff_nccl_post *p)
{
	int64_t n = p->x->count[0];

	return p->x->kind == FF_MOVE_ALL_REDUCE ? n / p->nodes.each : n;
}

/* The `i`th of such parts. */
static char *part(const struct ff_nccl_post *p, char *array, uint32_t i)
{
	return array + i * part_of(p) * p->size;
}

static const char *sent(const struct ff_nccl_post *p, uint32_t i)
{
	return p->send + i * part_of(p) * p->size;
}

static ncclResult_t reduce_inside(const struct ff_nccl_post *p)
{
	return ncclReduceScatter(p->send, part(p, p->recv, p->nodes.local), (size_t)part_of(p),
			type_of(p), operation_of(p), p->g->comm, p->queue);
}

static ncclResult_t reduce_across(const struct ff_nccl_post *p)
{
	char *own = part(p, p->recv, p->nodes.local);

	return ncclAllReduce(own, own, (size_t)part_of(p), type_of(p), operation_of(p), p->g->comm,
			p->queue);
}

static ncclResult_t bring_inside(const struct ff_nccl_post *p)
{
	return ncclAllGather(part(p, p->recv, p->nodes.local), p->recv, (size_t)part_of(p),
			type_of(p), p->g->comm, p->queue);
}

/* Less than one element a device of a node. */
static ncclResult_t reduce_rest(const struct ff_nccl_post *p)
{
	int64_t rest = p->x->count[0] % p->nodes.each;

	if (!rest)
		return ncclSuccess;
	return ncclAllReduce(sent(p, p->nodes.each), part(p, p->recv, p->nodes.each), (size_t)rest,
			type_of(p), operation_of(p), p->g->comm, p->queue);
}

/* Those of equal place, whose chunks lie a node's apart. */
static ncclResult_t gather_across(const struct ff_nccl_post *p)
{
	const struct ff_nccl_nodes *n = &p->nodes;
	ncclResult_t status = ncclSuccess;

	for (uint32_t i = 0; i < n->nodes && status == ncclSuccess; i++)
		status = ncclBroadcast(p->send, part(p, p->recv, i * n->each + n->local),
				(size_t)part_of(p), type_of(p), (int)i, p->g->comm, p->queue);
	return status;
}

static ncclResult_t gather_inside(const struct ff_nccl_post *p)
{
	const struct ff_nccl_nodes *n = &p->nodes;
	ncclResult_t status = ncclSuccess;

	for (uint32_t i = 0; i < n->nodes && status == ncclSuccess; i++)
		status = ncclAllGather(part(p, p->recv, i * n->each + n->local),
				part(p, p->recv, i * n->each), (size_t)part_of(p), type_of(p),
				p->g->comm, p->queue);
	return status;
}

/* Of every node's chunks that of this place, one behind the other. */
static ncclResult_t scatter_inside(const struct ff_nccl_post *p)
{
	const struct ff_nccl_nodes *n = &p->nodes;
	ncclResult_t status = ncclSuccess;

	for (uint32_t i = 0; i < n->nodes && status == ncclSuccess; i++)
		status = ncclReduceScatter(sent(p, i * n->each), part(p, p->scratch, i),
				(size_t)part_of(p), type_of(p), operation_of(p), p->g->comm,
				p->queue);
	return status;
}

static ncclResult_t scatter_across(const struct ff_nccl_post *p)
{
	return ncclReduceScatter(p->scratch, p->recv, (size_t)part_of(p), type_of(p),
			operation_of(p), p->g->comm, p->queue);
}

/* ---- posting ---- */

enum among { INSIDE, ACROSS, ALL, AMONG_COUNT };

static const struct stage {
	ncclResult_t (*call)(const struct ff_nccl_post *p);
	enum among among;
} stages[][4] = {
		[FF_MOVE_ALL_GATHER] = {{gather_across, ACROSS}, {gather_inside, INSIDE}},
		[FF_MOVE_REDUCE_SCATTER] = {{scatter_inside, INSIDE}, {scatter_across, ACROSS}},
		[FF_MOVE_ALL_REDUCE] = {{reduce_inside, INSIDE}, {reduce_across, ACROSS},
				{bring_inside, INSIDE}, {reduce_rest, ALL}},
};

/* All members of the group come here with the same collective, so those of the two parts meet in
 * the order of what they post, too. */
static int find_groups(struct ff_nccl_post *p, struct ff_nccl_group **ret, struct ff_error *err)
{
	const struct ff_nccl_nodes *n = &p->nodes;
	const uint16_t *device = p->x->device;
	uint16_t *across = malloc(n->nodes * sizeof(*across));
	int code;

	if (!across)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n->nodes; i++)
		across[i] = device[i * n->each + n->local];
	ret[ALL] = p->g;
	code = ff_nccl_group_find(
			p->m, n->each, device + (size_t)n->node * n->each, &ret[INSIDE], err);
	if (code == FF_OK)
		code = ff_nccl_group_find(p->m, n->nodes, across, &ret[ACROSS], err);
	free(across);
	return code;
}

int ff_nccl_post_by_nodes(struct ff_nccl_post *p, struct ff_error *err)
{
	const struct stage *stage = stages[p->x->kind];
	struct ff_nccl_group *group[AMONG_COUNT];
	int code = find_groups(p, group, err);

	if (code == FF_OK && p->x->kind == FF_MOVE_REDUCE_SCATTER)
		code = ff_nccl_scratch(p->m, (size_t)(p->nodes.nodes * part_of(p) * p->size),
				&p->scratch, err);
	for (int i = 0; i < 4 && stage[i].call && code == FF_OK; i++) {
		p->g = group[stage[i].among];
		if (p->g != group[ALL])
			snprintf(p->g->call, sizeof(p->g->call), "%.40s, by nodes",
					group[ALL]->call);
		code = ff_nccl_together(p, stage[i].call, err);
	}
	return code;
}
