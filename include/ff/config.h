/* Configs: how one operator is split and where its parts run.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CONFIG_H
#define FF_CONFIG_H

#include "ff/graph.h"

/* One operator's split: the iteration space is cut into a grid of cells, a degree
 * for each dim, and each cell is computed on `replicas` devices.  Cells are
 * numbered with the last dim fastest; part number replica * cells + cell.  The
 * devices follow from a view (start + sum over dims of coordinate * stride +
 * replica * replica_stride), or stand in a list, as a hand-written file may have
 * them.  No device has two parts of one operator.
 *
 * A config owns nothing and may be copied; a list must outlive it. */
struct ff_config {
	uint32_t n_parts;             /* cells * replicas.  0: an input, which has no config, or a
				       * parameter placed as its first reader is */
	uint16_t degree[FF_MAX_DIMS]; /* 1 .. extent, for n_dims dims */
	uint16_t replicas;            /* devices that compute the same cell; 1: no redundancy */
	uint16_t start, stride[FF_MAX_DIMS], replica_stride;
	const uint16_t *list; /* n_parts, all different; NULL: the view */
	/* A parameter with n_parts == 0: its bucket is updated flat (ff/bucket.h).  Each of the
	 * devices that hold it updates a run of the bucket's elements and keeps the optimizer
	 * states of that run only (ZeRO-1: Rajbhandari et al., SC 2020). */
	bool flat;
};

static inline uint32_t ff_config_cells(const struct ff_config *c)
{
	return c->n_parts / c->replicas;
}
/* Whether a parameter's own config cuts it. */
static inline bool ff_config_is_cut(const struct ff_config *c)
{
	return c->n_parts > 0 && ff_config_cells(c) > 1;
}
/* Device of every part, c->n_parts of them. */
void ff_config_devices(const struct ff_node *n, const struct ff_config *c, uint16_t *device);
uint16_t ff_config_device(const struct ff_node *n, const struct ff_config *c, uint32_t part);
/* Coordinates of `part` (one for each dim) and its iteration box. */
void ff_config_coords(
		const struct ff_node *n, const struct ff_config *c, uint32_t part, uint32_t *coord);
void ff_config_box(const struct ff_node *n, const struct ff_config *c, uint32_t part,
		struct ff_region *box);
/* first[cell]: the first cell with the same cost (ff/intervals.h).  Replicas of a cell cost the
 * same. `like` is scratch; both have room for all cells. */
void ff_config_alike(const struct ff_node *n, const struct ff_config *c, uint16_t *like,
		uint16_t *first);
/* Whether both have the same cells on the same devices; if both have no parts, equal `flat`. */
bool ff_config_equal(const struct ff_node *n, const struct ff_config *a, const struct ff_config *b);
/* Sentence and FF_E_INPUT if `c` is not legal for node `n` on `n_devices`. */
int ff_config_check(const struct ff_node *n, const struct ff_config *c, uint32_t n_devices,
		struct ff_error *err);

/* Walks all degree vectors of `n` whose product is at most `max_parts`: start
 * with c->n_parts = 0; false when there are no more.  Order is deterministic,
 * all ones first; one replica; the view is left alone. */
bool ff_config_next_degrees(const struct ff_node *n, uint32_t max_parts, struct ff_config *c);

/* The config of a parameter that follows its reader at `edge`: each shard lies on every device that
 * reads it.  `list` has room for reader->n_parts. */
void ff_config_follow(const struct ff_graph *g, uint32_t edge, const struct ff_config *reader,
		uint16_t *list, struct ff_config *ret);

#endif
