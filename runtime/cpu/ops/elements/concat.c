/* Tensors one behind the other along an axis: copies of regions.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/copy.h"
#include "cpu/core/kernel.h"

struct concat {
	enum ff_dtype type;
	uint32_t n_in;
	uint8_t order[FF_MAX_RANK];
	struct ff_region out;
	struct {
		struct ff_region region; /* in the output's coordinates */
		bool need_din;
	} in[];
};

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct concat *c = k->state;

	(void)err;
	for (uint32_t i = 0; i < c->n_in; i++) {
		const struct ff_region *r = &c->in[i].region;
		struct ff_copy copy = {.source = io->in[i],
				.sink = io->out[0],
				.order = c->order,
				.source_region = *r,
				.sink_region = c->out,
				.region = *r,
				.type = c->type};

		ff_region_copy(&copy);
	}
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct concat *c = k->state;

	(void)err;
	for (uint32_t i = 0; i < c->n_in; i++) {
		const struct ff_region *r = &c->in[i].region;
		struct ff_copy copy = {.source = io->dout[0],
				.sink = io->din[i],
				.order = c->order,
				.source_region = c->out,
				.sink_region = *r,
				.region = *r,
				.type = c->type};

		if (c->in[i].need_din)
			ff_region_copy(&copy);
	}
	return FF_OK;
}

int ff_cpu_concat_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_node *n = w->node;
	uint32_t axis = (uint32_t)n->attrs.concat.axis;
	struct concat *c = ff_kernel_state(k, sizeof(*c) + n->n_in * sizeof(c->in[0]), err);
	int32_t offset = 0;

	if (!c)
		return FF_E_NOMEM;
	c->type = ff_work_type(w);
	c->n_in = n->n_in;
	c->out = w->out[0];
	memcpy(c->order, n->out_map[0].order, sizeof(c->order));
	for (uint32_t i = 0; i < n->n_in; i++) {
		c->in[i].region = w->in[i];
		c->in[i].region.lo[axis] += offset;
		c->in[i].region.hi[axis] += offset;
		c->in[i].need_din = w->need_din[i];
		offset += n->in_map[i].shape[axis];
	}
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return FF_OK;
}
