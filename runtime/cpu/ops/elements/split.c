/* Equal parts of an axis: copies of regions.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/copy.h"
#include "cpu/core/kernel.h"

struct split {
	enum ff_dtype type;
	uint32_t n_out;
	uint8_t order[FF_MAX_RANK];
	struct ff_region in, out[]; /* in the input's coordinates, some perhaps empty */
};

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct split *s = k->state;

	(void)err;
	for (uint32_t i = 0; i < s->n_out; i++) {
		struct ff_copy copy = {.source = io->in[0],
				.sink = io->out[i],
				.order = s->order,
				.source_region = s->in,
				.sink_region = s->out[i],
				.region = s->out[i],
				.type = s->type};

		ff_region_copy(&copy);
	}
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct split *s = k->state;

	(void)err;
	for (uint32_t i = 0; i < s->n_out; i++) {
		struct ff_copy copy = {.source = io->dout[i],
				.sink = io->din[0],
				.order = s->order,
				.source_region = s->out[i],
				.sink_region = s->in,
				.region = s->out[i],
				.type = s->type};

		ff_region_copy(&copy);
	}
	return FF_OK;
}

int ff_cpu_split_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_node *n = w->node;
	uint32_t axis = (uint32_t)n->attrs.split.axis;
	struct split *s = ff_kernel_state(k, sizeof(*s) + n->n_out * sizeof(s->out[0]), err);

	if (!s)
		return FF_E_NOMEM;
	s->type = ff_work_type(w);
	s->n_out = n->n_out;
	s->in = w->in[0];
	memcpy(s->order, n->in_map[0].order, sizeof(s->order));
	for (uint32_t i = 0; i < n->n_out; i++) {
		int32_t offset = (int32_t)i * n->out_map[i].shape[axis];

		s->out[i] = w->out[i];
		s->out[i].lo[axis] += offset;
		s->out[i].hi[axis] += offset;
	}
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
