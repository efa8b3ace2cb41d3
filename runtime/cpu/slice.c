/* A range of one axis: what a part reads is what it writes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"
#include "kernel.h"

struct slice {
	enum ff_dtype type;
	int64_t volume;
};

static void copy(const struct slice *s, const void *source, void *sink)
{
	const struct ff_strided all = {.rank = 1, .n = {s->volume}, .source = {1}, .sink = {1}};

	ff_strided_copy(&all, s->type, source, sink);
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)err;
	copy(k->state, io->in[0], io->out[0]);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)err;
	copy(k->state, io->dout[0], io->din[0]);
	return FF_OK;
}

int ff_cpu_slice_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct slice *s = ff_kernel_state(k, sizeof(*s), err);

	if (!s)
		return FF_E_NOMEM;
	s->type = ff_work_type(w);
	s->volume = ff_region_volume(&w->out[0]);
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
