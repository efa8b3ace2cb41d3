/* The state of a redistribution, shared by its files.  redistribute.c splits the parts of both
 * sides into connected components and names the pattern of each; cells.c walks the cells of a side;
 * pairs.c finds pairs of parts that share elements; bulk.c counts them where there are many; move.c
 * builds the moves.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MOVE_SCENE_H
#define FF_MOVE_SCENE_H

#include "ff/redistribution.h"
#include "overlap.h"

#define FF_NO_PART UINT16_MAX

enum { FF_SOURCE, FF_SINK }; /* sides */

/* Bytes by kind, of one device in a move. */
struct ff_tally {
	int64_t send_stage, receive_stage, copied, added;
	struct ff_traffic traffic;
};

/* The intersection of a source cell with the current sink cell. */
struct ff_reach {
	int64_t bytes;        /* of the intersection */
	uint32_t part;        /* the source part, copy 0, replica 0 */
	uint8_t many, cut[2]; /* bits by axis, in memory order: it has more than one element; it has
			       * not all elements of the source, of the sink */
};

struct ff_bulk;
struct ff_scene {
	const struct ff_machine *m;
	struct ff_side side[2];      /* source, sink; sliced: `sink` is the slices */
	const struct ff_side *whole; /* sliced: the sink; else NULL */
	uint32_t each[FF_MAX_RANK];  /* sliced: by axis, slices of an interval; else 1 */
	bool first, pieces;
	enum ff_dtype type;           /* of both sides */
	const struct ff_codec *codec; /* of messages, or NULL */
	int64_t size;                 /* bytes of an element */
	uint32_t rank;
	struct ff_overlaps axis[FF_MAX_RANK];
	uint32_t n_cut, cut[FF_MAX_RANK]; /* the axes that either side cuts */
	/* Along all other axes every pair has the same intersection, `base`; it is empty (`apart`),
	 * or not all of the sink (`hole`). */
	struct ff_reach base;
	bool apart, hole;
	struct ff_arena *arena, *scratch; /* owns the result; rewound */
	/* The current component: its parts by device, FF_NO_PART elsewhere, and its devices,
	 * ascending once sorted. */
	uint16_t *at[2];
	uint64_t *member;
	uint32_t n_parts[2];
	uint32_t n_devices;
	uint16_t *device;
	struct ff_tally *tally;               /* by device; zero between components */
	bool *fill;                           /* by sink part: it must be zeroed */
	uint16_t *source_on;                  /* with replicas: by device, its source part */
	uint8_t depth[FF_MAX_RANK];           /* by axis: its place in memory, outermost 0 */
	struct ff_reach *reach;               /* room for all source cells */
	bool bulk;                            /* count many pairs at once (bulk.c) */
	struct ff_bulk *ways[2][FF_MAX_RANK]; /* by coordinate: its overlaps with the other side */
};

/* Coordinates of one cell of one side. */
struct ff_cell {
	uint32_t at[FF_MAX_RANK];
	uint32_t part; /* copy 0, replica 0 */
};

/* A source part and a sink part that share elements. */
struct ff_pair {
	uint16_t source, sink, from, to;
	bool whole_source, whole_sink; /* the piece is one run of that shard */
	bool all_sink;                 /* the piece is the whole sink shard */
	bool add;
	int64_t bytes;
	struct ff_region region;
};

/* Whether the intersection is one run of the shard on `side` (ff_region_is_run): outside the
 * innermost axis along which it is not whole, it has one element. */
static inline bool ff_reach_is_run(const struct ff_reach *r, int side)
{
	uint32_t innermost = r->cut[side] ? 31u - (uint32_t)__builtin_clz(r->cut[side]) : 0;

	return !(r->many & ((1u << innermost) - 1));
}

/* Adds an axis along which `size` elements intersect.  own_cut, other_cut: `side`, the other side,
 * has more elements along it. */
static inline void ff_reach_extend(const struct ff_scene *s, uint32_t axis, int side, int32_t size,
		bool own_cut, bool other_cut, struct ff_reach *r)
{
	uint8_t bit = (uint8_t)(1u << s->depth[axis]);

	r->bytes *= size;
	r->many |= size > 1 ? bit : 0;
	r->cut[side] |= own_cut ? bit : 0;
	r->cut[!side] |= other_cut ? bit : 0;
}

/* Adds a part to the current component. */
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
