/* Prints what collectives take: "KIND NODES EACH BYTES US" for groups of the first devices of each
 * node.  usage: collectives MACHINE.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "../../simulator/price/links.h"

static void show(const struct ff_wired *w, enum ff_move_kind kind, const char *name, uint32_t each)
{
	const struct ff_machine *m = w->machine;
	uint16_t device[FF_MAX_DEVICES];
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n_devices; i++)
		if (i - m->nodes[m->node_of[i]].first < each)
			device[n++] = (uint16_t)i;
	for (double bytes = 512; n > 1 && bytes < 5e9; bytes *= 3)
		printf("%s %u %u %.17g %.17g\n", name, m->n_nodes, each, bytes,
				ff_wired_collective_us(w, kind, FF_REDUCE_SUM, n, device, bytes));
}

int main(int argc, char **argv)
{
	struct ff_error err = {0};
	struct ff_arena a;
	struct ff_machine m;
	struct ff_wired w;

	ff_arena_init(&a);
	if (argc != 2 || ff_machine_load(argv[1], &a, &m, &err) < 0 ||
			ff_wired_init(&w, &m, &err) < 0) {
		fprintf(stderr, "collectives: %s\n", *err.text ? err.text : "expected MACHINE");
		return 2;
	}
	for (uint32_t each = 1; each <= m.nodes[0].count; each *= 2) {
		show(&w, FF_MOVE_ALL_REDUCE, "all-reduce", each);
		show(&w, FF_MOVE_ALL_GATHER, "all-gather", each);
		show(&w, FF_MOVE_REDUCE_SCATTER, "reduce-scatter", each);
	}
	ff_wired_finish(&w);
	ff_arena_finish(&a);
	return 0;
}
