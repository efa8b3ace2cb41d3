/* Redistribution, inside: what redistribute.c finds and move.c builds.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TASK_REDISTRIBUTE_H
#define FF_TASK_REDISTRIBUTE_H

#include "ff/block.h"
#include "overlap.h"

#define FF_NO_PART UINT16_MAX

struct ff_scene {
	const struct ff_machine *m;
	struct ff_side side[2]; /* source, sink */
	bool first, pieces;
	enum ff_dtype type; /* of both sides */
	int64_t size;       /* bytes of an element */
	uint32_t rank;
	struct ff_overlaps axis[FF_MAX_RANK];
	uint32_t n_cut, cut[FF_MAX_RANK]; /* the axes that either side cuts */
	struct ff_arena *arena, *scratch; /* for what stays, for what does not */
	/* One component at a time: its parts by device, FF_NO_PART elsewhere, and
	 * its devices, ascending once sorted. */
	uint16_t *at[2];
	uint64_t *member;
	uint32_t n_parts[2];
	uint32_t n_devices;
	uint16_t *device;
};

/* Coordinates of one cell of one side. */
struct ff_cell {
	uint32_t at[FF_MAX_RANK];
	uint32_t part; /* without copies and replicas */
};

/* A source part and a sink part that share elements. */
struct ff_pair {
	uint16_t source, sink, from, to;
	bool whole_source, whole_sink; /* the piece is one run of the shard, there */
	bool add;
	bool home; /* more than half of the sink, on its own device */
	int64_t bytes;
	struct ff_region region;
};

static inline int64_t ff_cell_volume(const struct ff_scene *s, int side, const struct ff_cell *c)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < s->rank; i++)
		n *= s->axis[i].side[side]->hi[c->at[i]] - s->axis[i].side[side]->lo[c->at[i]];
	return n;
}
void ff_cell_region(
		const struct ff_scene *s, int side, const struct ff_cell *c, struct ff_region *ret);

/* move.c: the parts at hand as messages, or as the collective `kind`.  `pair`
 * are all of the component. */
int ff_move_messages(struct ff_scene *s, uint32_t n, struct ff_pair *pair, const uint8_t *fill,
		struct ff_move *ret, struct ff_error *err);
int ff_move_collective(struct ff_scene *s, enum ff_move_kind kind, const struct ff_region *whole,
		struct ff_move *ret, struct ff_error *err);

#endif
