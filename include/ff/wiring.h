/* Links of a node, to its devices and to other nodes, and how NCCL finds them wired.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_WIRING_H
#define FF_WIRING_H

#include "ff/interconnect.h"

/* One direction; a message of n bytes takes latency + n / bandwidth. */
struct ff_link {
	double latency_us;
	double bytes_per_us;
	bool shared; /* one at a time: all its users queue (a PCIe root, a NIC) */
};

/* Links of a node that stand one by one, so many between two devices; `otherwise` for the others.
 */
struct ff_mesh {
	uint32_t n_devices;
	uint8_t links[FF_MOST_PAIRED][FF_MOST_PAIRED];
	struct ff_link otherwise;
	const struct ff_interconnect *interconnect; /* its */
};

/* What prices as NCCL has them know of a node.  All zero: nothing. */
struct ff_wiring {
	const struct ff_interconnect *inside, *between; /* NULL: the file does not say */
	const struct ff_mesh *mesh;                     /* NULL: any two are joined alike */
	uint32_t cards;      /* that share the network's bandwidth; at most one a device counts */
	uint32_t devices;    /* that the node has, though of a part there are fewer */
	uint32_t first_card; /* of all nodes' cards that are lanes, its first */
	bool sums;           /* the network's switches add (SHARP) */
};

#endif
