/* Places of the grid of strategies by hand: its axes, which places exist, and their names.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_PLACES_H
#define FF_PLANNER_PLACES_H

#include "ff/space.h"
#include "ff/strategy.h"

#define FF_GRID_NAME 112

/* The axes.  Degrees of pipeline and tensor parallelism are divisors of the number of devices,
 * which need not be a power of two: three nodes suggest three stages.  Numbers of micro-batches are
 * those of the space, or powers of two. */
enum {
	FF_PLACE_STAGES,
	FF_PLACE_TENSOR,
	FF_PLACE_CONTEXT,
	FF_PLACE_SPLIT,
	FF_PLACE_UPDATES,
	FF_PLACE_OVER,
	FF_PLACE_AGAIN,
	FF_PLACE_MICRO,
	FF_PLACE_ORDER,
	FF_PLACE_AXES
};
enum { FF_PLACE_TOGETHER, FF_PLACE_INSIDE }; /* CONTEXT: none; over the devices of a node */
enum { FF_PLACE_PLAIN, FF_PLACE_ZERO_1, FF_PLACE_ZERO_2, FF_PLACE_ZERO_3 }; /* UPDATES */
enum { FF_PLACE_ALL, FF_PLACE_NODE };                      /* OVER: devices that shards are on */
enum { FF_PLACE_NOTHING, FF_PLACE_LIGHT, FF_PLACE_WHOLE }; /* AGAIN: recomputation */
/* ORDER: zero-bubble orders on one side of 1F1B, interleaved ones behind it, by number of chunks.
 */
enum { FF_PLACE_ZB_V, FF_PLACE_ZB_H1, FF_PLACE_1F1B };

struct ff_place {
	uint8_t at[FF_PLACE_AXES];
};

#define FF_PLACE_DIVISORS 16
#define FF_PLACE_CHUNKS 3 /* numbers of stages in turn, for each number of stages */
struct ff_places {
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	const struct ff_space *space;
	bool samples; /* only samples are split */
	uint32_t n_blocks;
	int32_t sequence; /* length of the sequence that all layers share; 0: there is none */
	uint32_t divisor[2][FF_PLACE_DIVISORS]; /* of STAGES and TENSOR, ascending from 1 */
	uint32_t chunks[FF_PLACE_DIVISORS][FF_PLACE_CHUNKS]; /* by place of STAGES, ascending */
	uint8_t sizes[FF_PLACE_AXES];
};

/* Fills the last three members.  The caller has set the others; n_blocks 0: no block is repeated.
 */
void ff_places_init(struct ff_places *x);
uint32_t ff_places_count(const struct ff_places *x);
uint32_t ff_place_number(const struct ff_places *x, const struct ff_place *p);
struct ff_place ff_place_at(const struct ff_places *x, uint32_t number);
/* Whether the grid has that place: its degrees divide the devices, samples divide as far as
 * possible, and an axis that would have no effect is at its first value. */
bool ff_place_is_there(const struct ff_places *x, const struct ff_place *p);
/* Whether the grid has so many micro-batches for `data` shares of the samples. */
bool ff_places_have_micro(const struct ff_places *x, uint32_t m, uint32_t data);
/* Moves one step along an axis; SPLIT has two flags, of which `up` toggles one and down the other.
 * False: there is none. */
bool ff_place_step(const struct ff_places *x, struct ff_place *p, uint32_t axis, bool up);
uint32_t ff_place_stages(const struct ff_places *x, const struct ff_place *p);
/* Stages a device. */
uint32_t ff_place_chunks(const struct ff_places *x, const struct ff_place *p);
uint32_t ff_place_micro(const struct ff_places *x, const struct ff_place *p);
uint32_t ff_place_tensor(const struct ff_places *x, const struct ff_place *p);
/* Degrees of context and of data parallelism. */
uint32_t ff_place_context(const struct ff_places *x, const struct ff_place *p);
uint32_t ff_place_data(const struct ff_places *x, const struct ff_place *p);
/* Gives a place, of which stages, shared products and splits are set, micro-batches enough to fill
 * the stages, or as many as there may be; ZeRO-1 and 1F1B. */
void ff_place_fill_stages(const struct ff_places *x, struct ff_place *p);
/* Its name for --simulate. */
void ff_place_name(const struct ff_places *x, const struct ff_place *p, char name[FF_GRID_NAME]);

#endif
