/* Axes in another order: one strided copy.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/core/copy.h"
#include "cpu/core/kernel.h"

struct transpose {
	enum ff_dtype type;
	struct ff_strided copy;
};

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct transpose *t = k->state;

	(void)err;
	ff_strided_copy(&t->copy, t->type, io->in[0], io->out[0]);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct transpose *t = k->state;

	(void)err;
	ff_strided_copy(&t->copy, t->type, io->dout[0], io->din[0]);
	return FF_OK;
}

int ff_cpu_transpose_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_node *n = w->node;
	const struct ff_transpose_attrs *a = &n->attrs.transpose;
	struct transpose *t = ff_kernel_state(k, sizeof(*t), err);
	struct ff_strided *s;
	int64_t in[FF_MAX_RANK], out[FF_MAX_RANK];
	bool back = w->pass == FF_BACKWARD;

	if (!t)
		return FF_E_NOMEM;
	t->type = ff_work_type(w);
	s = &t->copy;
	ff_region_strides(n->in_map[0].order, &w->in[0], in);
	ff_region_strides(n->out_map[0].order, &w->out[0], out);
	s->rank = w->out[0].rank;
	for (uint32_t i = 0; i < s->rank; i++) {
		s->n[i] = ff_region_size(&w->out[0], i);
		s->source[i] = back ? out[i] : in[a->perm[i]];
		s->sink[i] = back ? in[a->perm[i]] : out[i];
	}
	if (back)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
