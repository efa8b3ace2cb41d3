/* The shapes of recurrences.  SPDX-License-Identifier: Apache-2.0 */
#include "recurrence.h"

#include "ff/work.h"

void ff_recurrence_fill(const struct ff_work *w, struct ff_recurrence *ret)
{
	const struct ff_node *n = w->node;
	const struct ff_recurrent_attrs *a = &n->attrs.recurrent;
	uint32_t saved = n->n_out - n->n_saved, inputs = ff_node_inputs(n);
	uint32_t left = ff_node_outputs(n), found = n->n_data - n->n_carried;
	bool given = inputs > 1 && ff_region_volume(&w->in[1]) > 0;
	bool was_carried = ff_region_volume(&w->in[found]) > 0;
	struct ff_recurrence r = {.samples = ff_region_size(&w->out[0], 0),
			.steps = ff_region_size(&w->out[0], 1),
			.hidden = ff_region_size(&w->out[0], 2),
			.halves = a->reset_first ? 2 : 1,
			.has_cell = n->op == FF_OP_LSTM,
			.has_bias = a->bias,
			.has_states = given || was_carried,
			.writes_cell = left > 1 && ff_region_volume(&w->out[1]) > 0,
			.reverse = a->reverse,
			.was_carried = was_carried,
			.carries = ff_region_volume(&w->out[left]) > 0,
			.states = saved,
			.keeps = saved + 1,
			.cells = saved + 2,
			.weight = n->n_data,
			.bias = n->n_data + 1,
			.first = was_carried ? found : 1,
			.left = left};
	int64_t stride[FF_MAX_RANK];

	r.gates = n->in_map[0].shape[2] / r.hidden;
	if (n->n_saved > 1)
		r.kept = ff_region_size(&w->out[r.keeps], 2) / r.hidden;
	ff_region_strides(n->in_map[0].order, &w->in[0], stride);
	r.x_sample = stride[0];
	r.x_step = stride[1];
	ff_region_strides(n->out_map[0].order, &w->out[0], stride);
	r.y_sample = stride[0];
	r.y_step = stride[1];
	*ret = r;
}
