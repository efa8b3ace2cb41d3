/* Lanes of a machine: resources that run one task at a time, in order.  SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef FF_MACHINE_LANES_H
#define FF_MACHINE_LANES_H

#include "ff/machine.h"

/* The first FF_DEVICE_LANES are a device's. */
enum ff_lane_class {
	FF_LANE_COMPUTE,
	FF_LANE_COMM,
	FF_LANE_MESSAGE,
	FF_LANE_INSIDE,
	FF_LANE_NETWORK,
	FF_DEVICE_LANES = FF_LANE_INSIDE
};
/* Numbers of lanes, dense: compute lanes of all devices, their communication lanes, their message
 * lanes, the nodes' inside links, network cards node by node.  If the machine's `overlap` is false,
 * communication uses the compute lanes; if its `message_lane` is false, messages use the
 * communication lanes. */
static inline uint32_t ff_lane_links(const struct ff_machine *m)
{
	return (m->message_lane ? 3 : 2) * m->n_devices;
}
static inline uint32_t ff_lane(const struct ff_machine *m, enum ff_lane_class c, uint32_t i)
{
	switch (c) {
	case FF_LANE_COMPUTE:
		return i;
	case FF_LANE_COMM:
		return m->overlap ? m->n_devices + i : i;
	case FF_LANE_MESSAGE:
		return m->message_lane ? 2 * m->n_devices + i : ff_lane(m, FF_LANE_COMM, i);
	case FF_LANE_INSIDE:
		return ff_lane_links(m) + i;
	default:
		return ff_lane_links(m) + m->n_nodes + i;
	}
}
static inline uint32_t ff_lane_count(const struct ff_machine *m)
{
	return ff_lane_links(m) + m->n_nodes + m->n_card_lanes;
}
static inline uint32_t ff_lane_card(const struct ff_machine *m, uint32_t node, uint32_t card)
{
	return ff_lane(m, FF_LANE_NETWORK, m->nodes[node].wiring.first_card + card);
}

#endif
