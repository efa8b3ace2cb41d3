/* Activations: relu, tanh, sigmoid.  Backward reads the output only.
 * SPDX-License-Identifier: Apache-2.0 */
#include "dnnl.h"

struct elementwise {
	struct ff_call *call;
};

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct elementwise *e = k->state;
	const void *memory[] = {io->in[0], io->out[0]};

	return ff_call_run(k, e->call, io, memory, err);
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct elementwise *e = k->state;
	const void *memory[] = {io->out[0], io->dout[0], io->din[0]};

	return ff_call_run(k, e->call, io, memory, err);
}

static int prepare_call(struct ff_kernel *k, const dnnl_memory_desc_t *desc, dnnl_alg_kind_t kind,
		bool backward, struct elementwise *e, struct ff_error *err)
{
	const struct ff_call_arg forward_arg[] = {{DNNL_ARG_SRC, desc}, {DNNL_ARG_DST, desc}};
	const struct ff_call_arg backward_arg[] = {
			{DNNL_ARG_DST, desc}, {DNNL_ARG_DIFF_DST, desc}, {DNNL_ARG_DIFF_SRC, desc}};
	dnnl_primitive_desc_t forward = NULL, pd = NULL;
	dnnl_eltwise_desc_t d;
	dnnl_status_t s =
			dnnl_eltwise_forward_desc_init(&d, dnnl_forward_training, kind, desc, 0, 0);
	int code = ff_dnnl_check(s, k, "describe an activation", err);

	if (code == FF_OK)
		code = ff_dnnl_describe(k, &d, NULL, &forward, err);
	if (code == FF_OK && backward) {
		s = dnnl_eltwise_backward_desc_init(&d, kind, desc, desc, 0, 0);
		code = ff_dnnl_check(s, k, "describe an activation's gradient", err);
		if (code == FF_OK)
			code = ff_dnnl_describe(k, &d, forward, &pd, err);
	}
	if (code == FF_OK)
		code = backward ? ff_call_create(k, pd, backward_arg, 3, &e->call, err)
				: ff_call_create(k, forward, forward_arg, 2, &e->call, err);
	dnnl_primitive_desc_destroy(pd);
	dnnl_primitive_desc_destroy(forward);
	return code;
}

/* Shards are dense on both sides and lie alike, so one axis describes them. */
static int prepare(struct ff_kernel *k, const struct ff_work *w, dnnl_alg_kind_t kind,
		struct ff_error *err)
{
	struct elementwise *e = ff_kernel_state(k, sizeof(*e), err);
	bool backward = w->pass == FF_BACKWARD;
	dnnl_memory_desc_t desc;
	int code;

	if (!e)
		return FF_E_NOMEM;
	if (backward && !w->need_din[0]) {
		k->run = ff_kernel_run_nothing;
		return FF_OK;
	}
	k->run = backward ? run_backward : run_forward;
	code = ff_dnnl_vector(k, ff_work_type(w), ff_region_volume(&w->out[0]), &desc, err);
	return code < 0 ? code : prepare_call(k, &desc, kind, backward, e, err);
}

int ff_cpu_relu_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, dnnl_eltwise_relu_use_dst_for_bwd, err);
}

int ff_cpu_tanh_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, dnnl_eltwise_tanh_use_dst_for_bwd, err);
}

int ff_cpu_sigmoid_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, dnnl_eltwise_logistic_use_dst_for_bwd, err);
}
