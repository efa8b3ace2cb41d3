/* The lanes that a move occupies.  Tasks that share a lane run one after another.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MOVE_LANES_H
#define FF_MOVE_LANES_H

#include "ff/graph.h"
#include "ff/machine_lanes.h"
#include "ff/redistribution.h"

/* The lanes of a collective among `device` (ascending): the devices' communication lanes, shared
 * links inside nodes, and the network cards if it crosses nodes.  `lane` has room for 3 *
 * n_devices. Returns how many. */
uint32_t ff_transfer_lanes(const struct ff_machine *m, uint32_t n_devices, const uint16_t *device,
		uint32_t *lane);
/* Concurrent collectives of a flat bucket: in groups of `runs` neighbours each, or (`across`)
 * between the groups, among devices of equal place in their group. */
struct ff_shard_groups {
	uint32_t n, runs;
	const uint16_t *device; /* n, ascending */
	bool across;
};
/* Whether collectives in groups and across them use different links: each group lies in one node,
 * and no node has two devices of equal place. */
bool ff_shard_groups_are_apart(const struct ff_machine *m, const struct ff_shard_groups *x);
/* Their lanes, as above.  Across groups that are apart: the lanes of messages. */
uint32_t ff_shard_groups_lanes(
		const struct ff_machine *m, const struct ff_shard_groups *x, uint32_t *lane);
/* Whether a move runs on the compute lane of its only device: a copy or an addition of activations.
 * There it need not queue behind transfers that wait for other devices. */
static inline bool ff_move_is_own(const struct ff_graph *g, uint32_t edge, const struct ff_move *mv)
{
	return mv->kind == FF_MOVE_COPY &&
	       g->values[g->edges[edge].value].kind == FF_VALUE_ACTIVATION;
}
/* Whether it is a message between pipeline stages: an activation or its gradient goes from some
 * devices to others, and no device is on both sides.  A gather that joins the slices of one counts
 * too. */
static inline bool ff_move_is_message(
		const struct ff_graph *g, uint32_t edge, const struct ff_move *mv)
{
	bool apart = mv->kind == FF_MOVE_POINT_TO_POINT &&
		     mv->n_sources + mv->n_sinks == mv->n_devices;

	return (apart || mv->joins) && g->values[g->edges[edge].value].kind == FF_VALUE_ACTIVATION;
}
/* The class of its devices' lanes that a move occupies, of `edge` or of a bucket. */
static inline enum ff_lane_class ff_move_lane(
		const struct ff_graph *g, uint32_t edge, const struct ff_move *mv)
{
	if (ff_move_is_own(g, edge, mv))
		return FF_LANE_COMPUTE;
	return mv->among.beside || ff_move_is_message(g, edge, mv) ? FF_LANE_MESSAGE : FF_LANE_COMM;
}
/* All lanes that it occupies; `lane` has room as above. */
uint32_t ff_move_lanes(const struct ff_graph *g, const struct ff_machine *m, uint32_t edge,
		const struct ff_move *mv, uint32_t *lane);

#endif
