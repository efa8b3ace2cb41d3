/* Redistribution, inside: the scene that its files share.  cells.c walks the cells of a side,
 * pairs.c finds which parts share elements, bulk.c counts where they are many, move.c builds
 * a move of them; redistribute.c says which parts hang together and what that looks like.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MOVE_SCENE_H
#define FF_MOVE_SCENE_H

#include "ff/redistribution.h"
#include "overlap.h"

#define FF_NO_PART UINT16_MAX

enum { FF_SOURCE, FF_SINK }; /* sides */

/* What one device does in a move. */
struct ff_tally {
	int64_t send_stage, receive_stage, copied, added;
	struct ff_traffic traffic;
};

/* A source cell that meets the sink at hand. */
struct ff_reach {
	int64_t bytes;        /* that they share */
	uint32_t part;        /* without copies and replicas */
	uint8_t many, cut[2]; /* bits of axes: more than one element; not all that
			       * the source has, the sink */
};

struct ff_bulk;
struct ff_scene {
	const struct ff_machine *m;
	struct ff_side side[2];      /* source, sink; where sinks get slices, these */
	const struct ff_side *whole; /* then, the sink; else NULL */
	uint32_t each[FF_MAX_RANK];  /* and by axis, slices of an interval; else 1 */
	bool first, pieces;
	enum ff_dtype type;           /* of both sides */
	const struct ff_codec *codec; /* of messages, or NULL */
	int64_t size;                 /* bytes of an element */
	uint32_t rank;
	struct ff_overlaps axis[FF_MAX_RANK];
	uint32_t n_cut, cut[FF_MAX_RANK]; /* the axes that either side cuts */
	/* what all pairs share along the others: nothing at all, not all of the sink */
	struct ff_reach base;
	bool apart, hole;
	struct ff_arena *arena, *scratch; /* for what stays, for what does not */
	/* One component at a time: its parts by device, FF_NO_PART elsewhere, and
	 * its devices, ascending once sorted. */
	uint16_t *at[2];
	uint64_t *member;
	uint32_t n_parts[2];
	uint32_t n_devices;
	uint16_t *device;
	struct ff_tally *tally;     /* by device; zero between components */
	bool *fill;                 /* by sink part: it is to be zeroed */
	uint16_t *source_on;        /* by device: its source part, where there are replicas */
	uint8_t depth[FF_MAX_RANK]; /* by axis: its place in memory, outermost 0 */
	struct ff_reach *reach;     /* room for all source cells */
	bool bulk;                  /* where many meet many they are counted together */
	struct ff_bulk *ways[2][FF_MAX_RANK]; /* by coordinate: how it meets others */
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
	bool all_sink;                 /* and all of it, there */
	bool add;
	int64_t bytes;
	struct ff_region region;
};

/* Whether what is shared is one run of the shard on `side`: the innermost axis along
 * which it is not all is the last along which it may be more than one
 * (ff_region_is_run). */
static inline bool ff_reach_is_run(const struct ff_reach *r, int side)
{
	uint32_t innermost = r->cut[side] ? 31u - (uint32_t)__builtin_clz(r->cut[side]) : 0;

	return !(r->many & ((1u << innermost) - 1));
}

/* One more axis, along which so many elements are shared, and `side` or the other has more. */
static inline void ff_reach_extend(const struct ff_scene *s, uint32_t axis, int side, int32_t size,
		bool own_cut, bool other_cut, struct ff_reach *r)
{
	uint8_t bit = (uint8_t)(1u << s->depth[axis]);

	r->bytes *= size;
	r->many |= size > 1 ? bit : 0;
	r->cut[side] |= own_cut ? bit : 0;
	r->cut[!side] |= other_cut ? bit : 0;
}

/* A part takes part in the component at hand. */
static inline void ff_component_enter(struct ff_scene *s, int side, uint32_t part)
{
	uint32_t device = s->side[side].device[part];

	if (s->at[side][device] != FF_NO_PART)
		return;
	s->at[side][device] = (uint16_t)part;
	s->member[device / 64] |= UINT64_C(1) << (device % 64);
	s->n_parts[side]++;
}

#endif
