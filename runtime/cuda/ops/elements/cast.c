/* Whole numbers as real ones.  SPDX-License-Identifier: Apache-2.0 */
#include "cast.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"

struct cast {
	enum ff_dtype type;
	int64_t n;
};

static int run(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct cast *c = k->state;

	return ff_kernel_launched(
			ff_launch_cast(io->in[0], c->type, io->out[0], c->n, ff_stream_queue(s)), k,
			err);
}

int ff_cuda_cast_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct cast *c = ff_kernel_state(k, sizeof(*c), err);

	if (!c)
		return FF_E_NOMEM;
	*c = (struct cast){w->node->out_map[0].dtype, ff_region_volume(&w->out[0])};
	k->run = w->pass == FF_FORWARD ? run : ff_kernel_run_nothing;
	return FF_OK;
}
