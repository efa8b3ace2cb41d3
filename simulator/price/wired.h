/* How groups of devices are wired, and what their collectives and messages take by that.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_WIRED_H
#define FF_SIMULATOR_WIRED_H

#include "collective_model.h"
#include "mesh.h"

struct ff_wired {
	const struct ff_machine *machine; /* NULL: its file does not say how it is wired */
	struct ff_mesh_ways **ways;       /* by node; NULL: any two are joined alike */
	struct ff_card_tally {
		double out_bytes, in_bytes;
	} * card;       /* a node's from its first device's on; zero between moves */
	double *inside; /* by node: bytes on shared links; zero between moves */
};

/* Where `m` does not say how all of it is wired, nothing is, and that is FF_OK, too. */
int ff_wired_init(struct ff_wired *w, const struct ff_machine *m, struct ff_error *err);
void ff_wired_finish(struct ff_wired *w);

/* Of `bytes`, the whole array, among `device` (ascending). */
double ff_wired_collective_us(const struct ff_wired *w, enum ff_move_kind kind,
		enum ff_reduce reduce, uint32_t n, const uint16_t *device, double bytes);
/* Of `each` groups at once, with a device on each of the nodes of `device`, `each` on every one:
 * what one of them takes, which shares cards with the others. */
double ff_wired_across_us(const struct ff_wired *w, enum ff_move_kind kind, enum ff_reduce reduce,
		uint32_t n, uint32_t each, const uint16_t *device, double bytes);
double ff_wired_messages_us(const struct ff_wired *w, const struct ff_move *mv);

#endif
