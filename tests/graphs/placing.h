/* Random operands of random nodes: how a tensor may lie.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TESTS_PLACING_H
#define FF_TESTS_PLACING_H

#include "check_main.h"
#include "ff/block.h"
#include "ff/philox.h"

#define PLACING_DEVICES 8

/* One end: a node with one operand, its config, and what follows from them. */
struct placing {
	struct ff_node node;
	struct ff_operand operand;
	struct ff_config config;
	struct ff_placement place;
	uint16_t device[PLACING_DEVICES];
	uint32_t n_parts, cells;
	struct ff_region region[PLACING_DEVICES]; /* by part, by its definition */
};

static inline int32_t placing_draw(struct ff_random *r, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(r, (uint32_t)(hi - lo + 1));
}

static inline int32_t placing_dim(struct placing *p, enum ff_label label, int32_t extent)
{
	p->node.dim[p->node.n_dims] = (struct ff_dim){label, "dim", extent};
	return (int32_t)p->node.n_dims++;
}

/* One axis: whole, plain, windows with halos, blocks, or groups of one dim within
 * those of another. */
static inline void placing_axis(struct ff_random *r, struct placing *p, uint32_t axis, int32_t size)
{
	struct ff_axis_map *m = &p->operand.axis[axis];
	int32_t kind = placing_draw(r, 0, 7), div, step, inner;

	*m = (struct ff_axis_map){.n_terms = 1, .window = 1};
	m->term[0] = (struct ff_term){0, 1, 1};
	if (kind == 0) {
		*m = (struct ff_axis_map){.window = size};
	} else if (kind == 1) { /* as convolutions and pools read */
		m->term[0].step = placing_draw(r, 1, 2);
		m->window = placing_draw(r, 1, 3);
		m->offset = -placing_draw(r, 0, m->window - 1);
		m->term[0].dim = placing_dim(p, FF_DIM_ATTRIBUTE, 1 + (size - 1) / m->term[0].step);
	} else if (kind == 2) { /* as reshapes do */
		div = placing_draw(r, 1, 3);
		step = placing_draw(r, 1, 3);
		m->window = step;
		m->term[0] = (struct ff_term){
				placing_dim(p, FF_DIM_ATTRIBUTE, div * ((size + step - 1) / step)),
				div, step};
	} else if (kind == 3 && size > 1) { /* as groups of channels are */
		inner = placing_draw(r, 1, size);
		div = placing_draw(r, 1, 2);
		m->n_terms = 2;
		m->term[0] = (struct ff_term){placing_dim(p, FF_DIM_PARAMETER,
							      div * ((size + inner - 1) / inner)),
				div, inner};
		m->term[1] = (struct ff_term){placing_dim(p, FF_DIM_REDUCTION, inner), 1, 1};
	} else if (kind == 4) { /* as joined tensors are */
		m->offset = -placing_draw(r, 0, 3);
		m->term[0].dim = placing_dim(
				p, FF_DIM_ATTRIBUTE, size - m->offset + placing_draw(r, 0, 3));
	} else {
		m->term[0].dim = placing_dim(p, FF_DIM_PARAMETER, size);
	}
}

static inline uint16_t *placing_devices(struct ff_random *r, struct ff_arena *a)
{
	uint16_t *list = ff_arena_array(a, PLACING_DEVICES, sizeof(*list));
	bool ordered = ff_random_below(r, 2);

	for (uint32_t i = 0; i < PLACING_DEVICES; i++) {
		uint32_t k = ordered ? i : ff_random_below(r, i + 1);

		list[i] = list[k];
		list[k] = (uint16_t)i;
	}
	return list;
}

/* Degrees that need not divide, replicas, and a dense view in any order of the
 * dims, or a list. */
static inline void placing_config(struct ff_random *r, struct placing *p, struct ff_arena *a)
{
	uint32_t most = 1 + ff_random_below(r, PLACING_DEVICES), have = 1, n = p->node.n_dims;
	struct ff_config *c = &p->config;

	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c->degree[d] = 1;
	c->replicas = (uint16_t)(ff_random_below(r, 3) ? 1 : placing_draw(r, 2, 3));
	if (c->replicas > most)
		c->replicas = 1;
	most /= c->replicas;
	for (uint32_t tries = ff_random_below(r, 7); n && tries; tries--) {
		uint32_t d = ff_random_below(r, n), now;

		have /= c->degree[d];
		now = 1 + ff_random_below(r, most / have);
		if (now > (uint32_t)p->node.dim[d].extent)
			now = (uint32_t)p->node.dim[d].extent;
		c->degree[d] = (uint16_t)now;
		have *= now;
	}
	c->n_parts = have * c->replicas;
	if (ff_random_below(r, 2)) {
		c->list = placing_devices(r, a);
		return;
	}
	for (uint32_t k = 0, step = c->replicas, from = ff_random_below(r, n + 1); k < n; k++) {
		uint32_t d = (from + k) % n;

		c->stride[d] = (uint16_t)step;
		step *= c->degree[d];
	}
	c->replica_stride = 1;
	c->start = (uint16_t)ff_random_below(r, PLACING_DEVICES - c->n_parts + 1);
}

/* How the operand lies under its config. */
static inline void placing_settle(struct placing *p, struct ff_arena *a)
{
	struct ff_error err = {0};
	struct ff_region box;

	ck_assert_msg(ff_config_check(&p->node, &p->config, PLACING_DEVICES, &err) == FF_OK, "%s",
			err.text);
	ck_assert_int_eq(ff_placement_build(&p->node, &p->operand, &p->config, a, &p->place, &err),
			FF_OK);
	ff_config_devices(&p->node, &p->config, p->device);
	p->n_parts = p->config.n_parts;
	p->cells = ff_config_cells(&p->config);
	for (uint32_t k = 0; k < p->n_parts; k++) {
		ff_config_box(&p->node, &p->config, k, &box);
		ff_operand_region(&p->node, &p->operand, &box, &p->region[k]);
	}
}

static inline void placing_place(struct placing *p, struct ff_random *r, struct ff_arena *a)
{
	placing_config(r, p, a);
	placing_settle(p, a);
}

/* Draws one end of `shape`, laid out in `order`. */
static inline void placing_init(struct placing *p, struct ff_random *r, uint32_t rank,
		const int32_t *shape, const uint8_t *order, struct ff_arena *a)
{
	*p = (struct placing){.node = {.name = "node"}};
	p->operand.rank = rank;
	for (uint32_t i = 0; i < rank; i++) {
		p->operand.shape[i] = shape[i];
		p->operand.order[i] = order[i];
		placing_axis(r, p, i, shape[i]);
	}
	/* dims that cut no axis make copies, of which reductions have none here and
	 * there */
	for (uint32_t n = ff_random_below(r, 3); n && p->node.n_dims < FF_MAX_DIMS; n--)
		placing_dim(p, ff_random_below(r, 2) ? FF_DIM_REDUCTION : FF_DIM_SAMPLE,
				placing_draw(r, 1, 8));
	p->operand.lead_only = ff_random_below(r, 5) == 0;
	for (uint32_t i = 0; i < rank; i++)
		if (p->operand.axis[i].n_terms == 2)
			p->operand.lead_only = 0; /* its axis is cut by a reduction */
	placing_place(p, r, a);
}

/* The same operand under another config. */
static inline void placing_again(struct placing *p, const struct placing *other,
		struct ff_random *r, struct ff_arena *a)
{
	*p = (struct placing){.node = other->node, .operand = other->operand};
	placing_place(p, r, a);
}

#endif
