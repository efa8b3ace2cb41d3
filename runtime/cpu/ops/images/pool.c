/* Pooling.  The largest keeps where it was for the way back; the library's passes over what is no
 * number, so where there is any it is ours (pool_max.c).  Means are the library's where all of a
 * window counts or only what is no padding; where some of the padding counts (the size was rounded
 * up) they are ours.
 *
 * In bfloat16 oneDNN 2.6 adds the gradients of windows that overlap where they are, with a
 * rounding each, and of windows whose positions take more than a byte it writes wrong ones.
 * Both go by way of float32 in the workspace.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/core/dnnl.h"
#include "pool_max.h"
#include "resample.h"

struct pool {
	struct ff_call *call;
	struct ff_call *widen, *narrow; /* NULL: nothing goes by way of float32 */
	int64_t source, sink;           /* workspace */
	struct ff_pool_max largest;
};

struct geometry {
	enum ff_dtype type;
	int rank;
	dnnl_dims_t in, out, kernel, stride, dilate, pad_lo, pad_hi;
	dnnl_memory_desc_t in_desc, out_desc;
	dnnl_alg_kind_t kind;
	dnnl_primitive_desc_t forward, backward;
};

static void part_geometry(const struct ff_work *w, struct geometry *g)
{
	const struct ff_pool_attrs *a = &w->node->attrs.pool;
	struct ff_windows s;

	ff_windows_fill(w, &s);
	g->type = ff_work_type(w);
	g->kind = a->mode == FF_POOL_MAX ? dnnl_pooling_max
		  : a->count_pad         ? dnnl_pooling_avg_include_padding
					 : dnnl_pooling_avg_exclude_padding;
	ff_image_planes(&w->node->in_map[0], &w->in[0], &g->in[0], &g->in[1]);
	g->out[0] = g->in[0];
	g->out[1] = g->in[1];
	g->rank = (int)(2 + FF_MAX_SPATIAL - s.first);
	for (uint32_t k = s.first; k < FF_MAX_SPATIAL; k++) {
		uint32_t to = k - s.first;

		g->in[2 + to] = s.in[k];
		g->out[2 + to] = s.out[k];
		g->kernel[to] = s.kernel[k];
		g->stride[to] = s.stride[k];
		g->pad_lo[to] = s.pad[0][k];
		g->pad_hi[to] = s.pad[1][k];
	}
}

static int describe(
		const struct ff_kernel *k, struct geometry *g, bool backward, struct ff_error *err)
{
	dnnl_pooling_v2_desc_t d;
	dnnl_status_t s;
	int code = ff_dnnl_image(k, g->type, g->rank, g->in, &g->in_desc, err);

	if (code == FF_OK)
		code = ff_dnnl_image(k, g->type, g->rank, g->out, &g->out_desc, err);
	if (code < 0)
		return code;
	s = dnnl_pooling_v2_forward_desc_init(&d, dnnl_forward_training, g->kind, &g->in_desc,
			&g->out_desc, g->stride, g->kernel, g->dilate, g->pad_lo, g->pad_hi);
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

/* out[1] is what is saved; the mean has none. */
static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pool *p = k->state;
	const void *memory[] = {io->in[0], io->out[0], io->out[1]};

	return ff_call_run(k, p->call, io, memory, err);
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pool *p = k->state;
	const void *memory[] = {io->dout[0], io->din[0], io->out[1]};

	return ff_call_run(k, p->call, io, memory, err);
}

/* What is read, by way of float32, and what is written. */
static int run_wide(const struct ff_kernel *k, const struct ff_kernel_io *io, const void *source,
		void *sink, struct ff_error *err)
{
	const struct pool *p = k->state;
	void *from = ff_kernel_at(io, p->source), *to = ff_kernel_at(io, p->sink);
	const void *widen[] = {source, from}, *narrow[] = {to, sink};
	const void *memory[] = {from, to, io->out[1]};
	int code = ff_call_run(k, p->widen, io, widen, err);

	if (code == FF_OK)
		code = ff_call_run(k, p->call, io, memory, err);
	return code < 0 ? code : ff_call_run(k, p->narrow, io, narrow, err);
}

static int run_forward_wide(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	return run_wide(k, io, io->in[0], io->out[0], err);
}

static int run_largest(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pool *p = k->state;

	if (!ff_pool_max_strays(&p->largest, io->in[0]))
		return p->widen ? run_forward_wide(k, io, err) : run_forward(k, io, err);
	ff_pool_max(&p->largest, io->in[0], io->out[0], io->out[1]);
	return FF_OK;
}

static int run_backward_wide(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	return run_wide(k, io, io->dout[0], io->din[0], err);
}

static bool is_wide(const struct ff_work *w, const struct geometry *g)
{
	const struct ff_node *n = w->node;
	bool overlap = false;

	for (int i = 0; i < g->rank - 2; i++)
		overlap = overlap || g->kernel[i] > g->stride[i];

	return g->type != FF_F32 && ((w->pass == FF_BACKWARD && overlap) ||
						    (n->n_saved && n->out_map[1].dtype == FF_I32));
}

/* From here on `g` is what the library pools in float32. */
static int widen(struct ff_kernel *k, struct pool *p, struct geometry *g, bool backward,
		struct ff_error *err)
{
	const int64_t *source = backward ? g->out : g->in, *sink = backward ? g->in : g->out;
	dnnl_memory_desc_t from, to, wide_from, wide_to;
	int code = ff_dnnl_image(k, g->type, g->rank, source, &from, err);

	if (code == FF_OK)
		code = ff_dnnl_image(k, g->type, g->rank, sink, &to, err);
	g->type = FF_F32;
	if (code == FF_OK)
		code = ff_dnnl_image(k, g->type, g->rank, source, &wide_from, err);
	if (code == FF_OK)
		code = ff_dnnl_image(k, g->type, g->rank, sink, &wide_to, err);
	if (code == FF_OK)
		code = ff_call_reorder(k, &from, &wide_from, &p->widen, err);
	if (code == FF_OK)
		code = ff_call_reorder(k, &wide_to, &to, &p->narrow, err);
	if (code < 0)
		return code;
	p->source = ff_kernel_reserve(k, ff_dnnl_bytes(&wide_from));
	p->sink = ff_kernel_reserve(k, ff_dnnl_bytes(&wide_to));
	return FF_OK;
}

/* The library's positions have the element type and the layout that the row says. */
static int check_saved(const struct ff_kernel *k, const struct ff_work *w,
		const dnnl_memory_desc_t *saved, struct ff_error *err)
{
	int64_t want = ff_region_volume(&w->out[1]) * ff_dtype_bytes(w->node->out_map[1].dtype);

	if (ff_dnnl_bytes(saved) == want)
		return FF_OK;
	return ff_fail(err, FF_E_RUN, "%s: oneDNN saves %lld bytes, expected %lld", k->name,
			(long long)ff_dnnl_bytes(saved), (long long)want);
}

static int prepare_calls(struct ff_kernel *k, const struct ff_work *w, struct pool *p,
		struct geometry *g, bool backward, struct ff_error *err)
{
	const dnnl_memory_desc_t *saved =
			dnnl_primitive_desc_query_md(g->forward, dnnl_query_workspace_md, 0);
	const struct ff_call_arg forward_arg[] = {{DNNL_ARG_SRC, &g->in_desc},
			{DNNL_ARG_DST, &g->out_desc}, {DNNL_ARG_WORKSPACE, saved}};
	const struct ff_call_arg backward_arg[] = {{DNNL_ARG_DIFF_DST, &g->out_desc},
			{DNNL_ARG_DIFF_SRC, &g->in_desc}, {DNNL_ARG_WORKSPACE, saved}};
	uint32_t n = w->node->n_saved ? 3 : 2;
	int code = n == 3 ? check_saved(k, w, saved, err) : FF_OK;

	if (code < 0)
		return code;
	if (p->widen)
		k->run = backward ? run_backward_wide : run_forward_wide;
	else
		k->run = backward ? run_backward : run_forward;
	if (!backward && w->node->attrs.pool.mode == FF_POOL_MAX) {
		ff_pool_max_fill(w, &p->largest);
		k->run = run_largest;
	}
	return backward ? ff_call_create(k, g->backward, backward_arg, n, &p->call, err)
			: ff_call_create(k, g->forward, forward_arg, n, &p->call, err);
}

/* Whether a window of the part has more behind the last element than padding that counts. */
static bool is_clipped(const struct ff_work *w, struct ff_resample *r)
{
	const struct ff_pool_attrs *a = &w->node->attrs.pool;
	bool clipped = false;

	ff_resample_pool(w, r);
	for (int i = 0; i < 3; i++) {
		const struct ff_resample_axis *x = &r->axis[i];

		clipped = clipped ||
			  (x->out_lo + x->out_n - 1) * x->stride - x->pad + x->kernel > x->count_hi;
	}
	return clipped && a->mode == FF_POOL_AVG && a->count_pad;
}

static int prepare_library(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct pool *p = ff_kernel_state(k, sizeof(*p), err);
	bool backward = w->pass == FF_BACKWARD;
	struct geometry g = {0};
	int code;

	if (!p)
		return FF_E_NOMEM;
	part_geometry(w, &g);
	code = is_wide(w, &g) ? widen(k, p, &g, backward, err) : FF_OK;
	if (code == FF_OK)
		code = describe(k, &g, backward, err);
	if (code == FF_OK)
		code = prepare_calls(k, w, p, &g, backward, err);
	dnnl_primitive_desc_destroy(g.backward);
	dnnl_primitive_desc_destroy(g.forward);
	return code;
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct ff_resample r;

	if (w->pass == FF_BACKWARD && !w->need_din[0]) {
		k->run = ff_kernel_run_nothing;
		return FF_OK;
	}
	return is_clipped(w, &r) ? ff_cpu_resample(k, w, &r, err) : prepare_library(k, w, err);
}

#define PREPARE(e, row)                                                                            \
	int ff_cpu_##row##_prepare(                                                                \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare(k, w, err);                                                         \
	}
FF_POOL_OPS(PREPARE)
#undef PREPARE
