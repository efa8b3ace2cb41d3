/* The links of a machine file's nodes.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DEVICE_MACHINE_LINKS_H
#define FF_DEVICE_MACHINE_LINKS_H

#include "ff/arena.h"
#include "ff/json.h"
#include "ff/machine_node.h"

#define FF_MOST_RATE 1e21 /* FLOP/s, B/s: beyond any machine, far from overflow */

/* Both links of a group of nodes, whose `count` is known.  One that no message can use may be left
 * out; it then repeats the other, so that no rate is ever zero.  `single`: there is no other node.
 */
int ff_machine_links_read(const struct ff_json *node, bool single, struct ff_arena *a,
		struct ff_machine_node *n, struct ff_error *err);
bool ff_machine_links_equal(const struct ff_machine_node *a, const struct ff_machine_node *b);
void ff_machine_links_write(const struct ff_machine_node *n, struct ff_out *o);

#endif
