/* Links of a node, inside it and to other nodes, and how they are wired.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_WIRING_H
#define FF_WIRING_H

#include "ff/interconnect.h"

/* One direction; a message of n bytes takes latency + n / bandwidth. */
struct ff_link {
	double latency_us;
	double bytes_per_us;
	bool shared; /* its users queue: one transfer at a time (a PCIe root, a network card) */
};

/* A node whose devices are joined pair by pair, each pair by a number of links; 0: by `otherwise`.
 */
struct ff_mesh {
	uint32_t n_devices;
	uint8_t links[FF_MOST_PAIRED][FF_MOST_PAIRED];
	struct ff_link otherwise;
	const struct ff_interconnect *interconnect; /* of `otherwise` */
};

/* What NCCL prices need of a node.  All zero: unknown. */
struct ff_wiring {
	const struct ff_interconnect *inside, *between; /* NULL: not stated */
	const struct ff_mesh *mesh;                     /* NULL: all pairs are joined alike */
	uint32_t cards;      /* network cards, which share the network's bandwidth */
	uint32_t devices;    /* of the whole node, even if the machine has only some of them */
	uint32_t first_card; /* its first card among all cards that are lanes */
	bool sums;           /* the network's switches reduce (SHARP) */
};

#endif
