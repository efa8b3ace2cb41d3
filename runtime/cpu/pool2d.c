/* Pooling.  Backward of the largest runs forward again, for the positions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "dnnl.h"

struct pool2d {
	struct ff_call *forward, *backward;
	bool largest;
	int64_t positions, out; /* workspace of a backward by positions */
};

struct geometry {
	dnnl_dims_t in, out, kernel, stride, dilate, pad_lo, pad_hi;
	dnnl_memory_desc_t in_desc, out_desc;
	dnnl_alg_kind_t kind;
	dnnl_primitive_desc_t forward, backward;
};

static void part_geometry(const struct ff_work *w, struct geometry *g)
{
	const struct ff_pool2d_attrs *a = &w->node->attrs.pool2d;

	g->kind = a->mode == FF_POOL_MAX ? dnnl_pooling_max : dnnl_pooling_avg_include_padding;
	for (uint32_t i = 0; i < 4; i++) {
		g->in[i] = ff_region_size(&w->in[0], i);
		g->out[i] = ff_region_size(&w->out, i);
	}
	for (uint32_t i = 0; i < 2; i++) {
		int64_t lo = (int64_t)w->out.lo[2 + i] * a->stride[i] - a->pad[i];
		int64_t hi = (int64_t)(w->out.hi[2 + i] - 1) * a->stride[i] - a->pad[i] +
			     a->kernel[i];

		g->kernel[i] = a->kernel[i];
		g->stride[i] = a->stride[i];
		g->pad_lo[i] = w->in[0].lo[2 + i] - lo;
		g->pad_hi[i] = hi - w->in[0].hi[2 + i];
	}
}

/* `positions`: forward also writes where each window's largest element was. */
static int describe(const struct ff_kernel *k, struct geometry *g, bool positions, bool backward,
		struct ff_error *err)
{
	dnnl_pooling_v2_desc_t d;
	dnnl_status_t s;
	int code = ff_dnnl_image(k, g->in, &g->in_desc, err);

	if (code == FF_OK)
		code = ff_dnnl_image(k, g->out, &g->out_desc, err);
	if (code < 0)
		return code;
	s = dnnl_pooling_v2_forward_desc_init(&d,
			positions ? dnnl_forward_training : dnnl_forward_inference, g->kind,
			&g->in_desc, &g->out_desc, g->stride, g->kernel, g->dilate, g->pad_lo,
			g->pad_hi);
	code = ff_dnnl_check(s, k, "describe a pooling", err);
	if (code == FF_OK)
		code = ff_dnnl_describe(k, &d, NULL, &g->forward, err);
	if (code < 0 || !backward)
		return code;
	s = dnnl_pooling_v2_backward_desc_init(&d, g->kind, &g->in_desc, &g->out_desc, g->stride,
			g->kernel, g->dilate, g->pad_lo, g->pad_hi);
	code = ff_dnnl_check(s, k, "describe a pooling's gradient", err);
	return code < 0 ? code : ff_dnnl_describe(k, &d, g->forward, &g->backward, err);
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pool2d *p = k->state;
	const void *memory[] = {io->in[0], io->out};

	return ff_call_run(k, p->forward, io, memory, err);
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pool2d *p = k->state;
	void *positions = ff_kernel_at(io, p->positions);
	const void *memory[] = {io->dout, io->din[0], positions};

	if (p->largest) {
		const void *forward[] = {io->in[0], ff_kernel_at(io, p->out), positions};
		int code = ff_call_run(k, p->forward, io, forward, err);

		if (code < 0)
			return code;
	}
	return ff_call_run(k, p->backward, io, memory, err);
}

static int prepare_backward(
		struct ff_kernel *k, struct pool2d *p, struct geometry *g, struct ff_error *err)
{
	const dnnl_memory_desc_t *positions =
			dnnl_primitive_desc_query_md(g->forward, dnnl_query_workspace_md, 0);
	const struct ff_call_arg forward[] = {{DNNL_ARG_SRC, &g->in_desc},
			{DNNL_ARG_DST, &g->out_desc}, {DNNL_ARG_WORKSPACE, positions}};
	const struct ff_call_arg backward[] = {{DNNL_ARG_DIFF_DST, &g->out_desc},
			{DNNL_ARG_DIFF_SRC, &g->in_desc}, {DNNL_ARG_WORKSPACE, positions}};
	int code;

	k->run = run_backward;
	if (!p->largest)
		return ff_call_create(k, g->backward, backward, 2, &p->backward, err);
	p->positions = ff_kernel_reserve(k, ff_dnnl_bytes(positions));
	p->out = ff_kernel_reserve(k, ff_dnnl_bytes(&g->out_desc));
	code = ff_call_create(k, g->forward, forward, 3, &p->forward, err);
	return code < 0 ? code : ff_call_create(k, g->backward, backward, 3, &p->backward, err);
}

int ff_cpu_pool2d_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct pool2d *p = ff_kernel_state(k, sizeof(*p), err);
	bool backward = w->pass == FF_BACKWARD;
	struct geometry g = {0};
	int code;

	if (!p)
		return FF_E_NOMEM;
	if (backward && !w->need_din[0]) {
		k->run = ff_kernel_run_nothing;
		return FF_OK;
	}
	part_geometry(w, &g);
	p->largest = g.kind == dnnl_pooling_max;
	code = describe(k, &g, backward && p->largest, backward, err);
	if (code == FF_OK && backward) {
		code = prepare_backward(k, p, &g, err);
	} else if (code == FF_OK) {
		const struct ff_call_arg arg[] = {
				{DNNL_ARG_SRC, &g.in_desc}, {DNNL_ARG_DST, &g.out_desc}};

		k->run = run_forward;
		code = ff_call_create(k, g.forward, arg, 2, &p->forward, err);
	}
	dnnl_primitive_desc_destroy(g.backward);
	dnnl_primitive_desc_destroy(g.forward);
	return code;
}
