/* Broadcasts to a shape, and sums over where each element went.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/core/kernel.h"
#include "cpu/core/loops.h"

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_X] = io->in[0]};

	(void)err;
	ff_cpu_loops(k->state, read, io->out[0]);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_Z] = io->dout[0]};

	(void)err;
	ff_cpu_loops(k->state, read, io->din[0]);
	return FF_OK;
}

int ff_cpu_expand_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	bool backward = w->pass == FF_BACKWARD;
	struct ff_cpu_loops *l = ff_kernel_state(k, sizeof(*l), err);

	if (!l)
		return FF_E_NOMEM;
	l->type = ff_work_type(w);
	l->sink = backward ? (enum ff_dtype)w->node->in_map[0].gradient : l->type;
	l->run = ff_cpu_binary(FF_BINARY_first, backward ? FF_BINARY_DX : FF_BINARY_Z);
	l->scale = 1;
	ff_loops_expand(w, backward, &l->loops);
	k->run = !backward ? run_forward : w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	return FF_OK;
}
