/* A range of one axis: what a part reads is what it writes, or every so many elements of it,
 * between which there is no gradient.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/copy.h"
#include "cpu/core/kernel.h"
#include "kernels/indices.h"

struct slice {
	enum ff_dtype type;
	struct ff_strided copy;
	int64_t gaps; /* bytes of a gradient that has some; or 0 */
};

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct slice *s = k->state;

	(void)err;
	ff_strided_copy(&s->copy, s->type, io->in[0], io->out[0]);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct slice *s = k->state;

	(void)err;
	if (s->gaps)
		memset(io->din[0], 0, (size_t)s->gaps);
	ff_strided_copy(&s->copy, s->type, io->dout[0], io->din[0]);
	return FF_OK;
}

int ff_cpu_slice_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct slice *s = ff_kernel_state(k, sizeof(*s), err);

	if (!s)
		return FF_E_NOMEM;
	s->type = ff_work_type(w);
	ff_strided_slice(w, &s->copy);
	if (ff_region_volume(&w->in[0]) > ff_region_volume(&w->out[0]))
		s->gaps = ff_region_volume(&w->in[0]) * ff_dtype_bytes(s->type);
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
