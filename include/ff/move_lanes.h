/* Lanes that moves hold: what else holds one of them waits.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MOVE_LANES_H
#define FF_MOVE_LANES_H

#include "ff/graph.h"
#include "ff/machine_lanes.h"
#include "ff/redistribution.h"

/* Lanes that a collective among `device` (ascending) holds: their communication
 * lanes, shared links inside nodes, and when it crosses nodes the cards beside them.
 * `lane` has room for 3 * n_devices.  Returns how many. */
uint32_t ff_transfer_lanes(const struct ff_machine *m, uint32_t n_devices, const uint16_t *device,
		uint32_t *lane);
/* Devices that have collectives side by side, groups of `runs` neighbours each, or (`across`) of
 * those of equal places in these. */
struct ff_shard_groups {
	uint32_t n, runs;
	const uint16_t *device; /* n, ascending */
	bool across;
};
/* Whether groups are within nodes, and no node has two devices of equal places: what goes on in
 * groups, and what across them, then uses different links. */
bool ff_shard_groups_are_apart(const struct ff_machine *m, const struct ff_shard_groups *x);
/* Lanes as above; across groups that are apart those of messages. */
uint32_t ff_shard_groups_lanes(
		const struct ff_machine *m, const struct ff_shard_groups *x, uint32_t *lane);
/* Whether a move, of `edge` or of a bucket, has its place among what its only device computes,
 * where no transfer that waits for others holds it up: a copy, also one that adds. */
static inline bool ff_move_is_own(const struct ff_graph *g, uint32_t edge, const struct ff_move *mv)
{
	return mv->kind == FF_MOVE_COPY &&
	       g->values[g->edges[edge].value].kind == FF_VALUE_ACTIVATION;
}
/* Whether it is a message: of an activation, or of its gradient, from some devices to others, none
 * of which both has a source and a sink; also what joins the slices of such a one. */
static inline bool ff_move_is_message(
		const struct ff_graph *g, uint32_t edge, const struct ff_move *mv)
{
	bool apart = mv->kind == FF_MOVE_POINT_TO_POINT &&
		     mv->n_sources + mv->n_sinks == mv->n_devices;

	return (apart || mv->joins) && g->values[g->edges[edge].value].kind == FF_VALUE_ACTIVATION;
}
/* Which lane of its devices a move holds, of `edge` or of a bucket. */
static inline enum ff_lane_class ff_move_lane(
		const struct ff_graph *g, uint32_t edge, const struct ff_move *mv)
{
	if (ff_move_is_own(g, edge, mv))
		return FF_LANE_COMPUTE;
	return mv->among.beside || ff_move_is_message(g, edge, mv) ? FF_LANE_MESSAGE : FF_LANE_COMM;
}
/* All that it holds; `lane` has room as above. */
uint32_t ff_move_lanes(const struct ff_graph *g, const struct ff_machine *m, uint32_t edge,
		const struct ff_move *mv, uint32_t *lane);

#endif
