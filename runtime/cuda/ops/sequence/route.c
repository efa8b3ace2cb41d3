/* Which places go to which experts.  SPDX-License-Identifier: Apache-2.0 */
#include "route.h"

#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"

struct route {
	enum ff_dtype type;
	struct ff_route r;
	int64_t choice; /* in the workspace */
};

static int run(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct route *state = k->state;

	return ff_kernel_launched(
			ff_launch_route(state->type, &state->r, io->in[0],
					ff_kernel_at(io, state->choice), io->out[0],
					state->r.index ? io->out[1] : NULL, ff_stream_queue(s)),
			k, err);
}

int ff_cuda_route_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct route *state = ff_kernel_state(k, sizeof(*state), err);
	const struct ff_route *r;

	if (!state)
		return FF_E_NOMEM;
	state->type = ff_work_type(w);
	ff_route_fill(w, &state->r);
	r = &state->r;
	state->choice = ff_kernel_reserve(
			k, r->samples * r->places * r->choices * (int64_t)sizeof(int32_t));
	k->run = w->pass == FF_FORWARD ? run : ff_kernel_run_nothing;
	return FF_OK;
}
