/* Cells of a side.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MOVE_CELLS_H
#define FF_MOVE_CELLS_H

#include "scene.h"

/* Walks the cells of one component, or all (`component` NULL) with a region
 * that is not empty.  Start with started = false. */
struct ff_cells {
	const struct ff_scene *s;
	int side;
	const uint32_t *component; /* by axis */
	struct ff_cell at;
	uint32_t next[FF_MAX_RANK]; /* by axis: where to look on */
	bool started;
};
bool ff_cells_next(struct ff_cells *w);
/* The part with a cell's region that is copy `c` and replica `r`. */
uint32_t ff_cell_part(const struct ff_scene *s, int side, const struct ff_cell *cell, uint32_t c,
		uint32_t r);
/* Of a source's replicas, the one that serves `sink`: on its own device, else
 * in its node, else any.  Sinks with successive turns take successive replicas. */
uint32_t ff_choose_replica(const struct ff_scene *s, uint32_t source, uint32_t sink, uint32_t turn);

#endif
