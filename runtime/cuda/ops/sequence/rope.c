/* Rotary position embedding; backward turns the other way.  SPDX-License-Identifier: Apache-2.0 */
#include "rope.h"

#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"

struct rope {
	enum ff_dtype type;
	struct ff_rope turn;
};

static int run(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct rope *r = k->state;
	bool back = r->turn.sign < 0;

	return ff_kernel_launched(
			ff_launch_rope(r->type, &r->turn, back ? io->dout[0] : io->in[0],
					back ? io->din[0] : io->out[0], ff_stream_queue(s)),
			k, err);
}

int ff_cuda_rope_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_rope_attrs *a = &w->node->attrs.rope;
	struct rope *r = ff_kernel_state(k, sizeof(*r), err);
	const struct ff_region *out = &w->out[0];

	if (!r)
		return FF_E_NOMEM;
	r->type = ff_work_type(w);
	r->turn = (struct ff_rope){.rows = (int64_t)ff_region_size(out, 0) * ff_region_size(out, 1),
			.positions = ff_region_size(out, 1),
			.first = out->lo[1],
			.heads = ff_region_size(out, 2) / a->head_dim,
			.half = a->head_dim / 2,
			.base = a->base,
			.sign = w->pass == FF_BACKWARD ? -1 : 1};
	k->run = w->pass == FF_BACKWARD && !w->need_din[0] ? ff_kernel_run_nothing : run;
	return FF_OK;
}
