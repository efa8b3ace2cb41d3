/* Numbers that are known: one sample is kept, and copied for each.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/kernel.h"
#include "kernels/indices.h"

struct constant {
	int64_t samples;
	size_t bytes; /* of one */
	_Alignas(float) char sample[];
};

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct constant *c = k->state;

	(void)err;
	for (int64_t i = 0; i < c->samples; i++)
		memcpy((char *)io->out[0] + (size_t)i * c->bytes, c->sample, c->bytes);
	return FF_OK;
}

int ff_cpu_constant_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	size_t bytes = (size_t)(ff_constant_sample(w) * ff_dtype_bytes(ff_work_type(w)));
	struct constant *c = ff_kernel_state(k, sizeof(*c) + bytes, err);

	if (!c)
		return FF_E_NOMEM;
	c->samples = ff_constant_each(w) ? 1 : ff_region_size(&w->out[0], 0);
	c->bytes = bytes;
	ff_constant_fill(w, c->sample);
	k->run = w->pass == FF_FORWARD ? run_forward : ff_kernel_run_nothing;
	return FF_OK;
}
