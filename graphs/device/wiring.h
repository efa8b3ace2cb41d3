/* The links of a machine file's nodes.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DEVICE_WIRING_H
#define FF_DEVICE_WIRING_H

#include "ff/wiring.h"

#define FF_MOST_RATE 1e21 /* FLOP/s, B/s: beyond any machine, far from overflow */

struct ff_wires {
	uint32_t devices;
	struct ff_link inside, network;
	struct ff_wiring wiring;
};

/* Both links of a group of nodes, whose `devices` are known.  One that no message can use may be
 * left out; it then repeats the other, so that no rate is ever zero.  `single`: there is no other
 * node. */
int ff_wires_read(const struct ff_json *node, bool single, struct ff_arena *a, struct ff_wires *n,
		struct ff_error *err);
bool ff_wires_equal(const struct ff_wires *a, const struct ff_wires *b);
void ff_wires_write(const struct ff_wires *n, struct ff_out *o);

#endif
