/* A number around a tensor, or less of it: what a part reads is in what it writes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "copy.h"
#include "kernel.h"
#include "real.h"

struct pad {
	enum ff_dtype type;
	float value;
	int64_t fill; /* elements, where some are outside the input; or 0 */
	uint8_t order[FF_MAX_RANK];
	struct ff_region in, out; /* in the output's coordinates */
};

FF_REAL_LOOP void fill(enum ff_dtype type, float value, void *to, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		ff_real_put(type, to, i, value);
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pad *p = k->state;
	const struct ff_copy copy = {.source = io->in[0],
			.sink = io->out[0],
			.order = p->order,
			.source_region = p->in,
			.sink_region = p->out,
			.region = p->in,
			.type = p->type};

	(void)err;
	if (p->fill)
		FF_REAL_CALL(p->type, fill, p->value, io->out[0], p->fill);
	if (ff_region_volume(&p->in))
		ff_region_copy(&copy);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pad *p = k->state;
	const struct ff_copy copy = {.source = io->dout[0],
			.sink = io->din[0],
			.order = p->order,
			.source_region = p->out,
			.sink_region = p->in,
			.region = p->in,
			.type = p->type};

	(void)err;
	if (ff_region_volume(&p->in))
		ff_region_copy(&copy);
	return FF_OK;
}

int ff_cpu_pad_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_pad_attrs *a = &w->node->attrs.pad;
	struct pad *p = ff_kernel_state(k, sizeof(*p), err);
	int64_t out = ff_region_volume(&w->out[0]);

	if (!p)
		return FF_E_NOMEM;
	p->type = ff_work_type(w);
	p->value = (float)a->value;
	memcpy(p->order, w->node->out_map[0].order, sizeof(p->order));
	p->in = w->in[0];
	p->out = w->out[0];
	for (uint32_t i = 0; i < p->in.rank; i++) {
		p->in.lo[i] += a->before[i];
		p->in.hi[i] += a->before[i];
	}
	p->fill = ff_region_volume(&p->in) < out ? out : 0;
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
