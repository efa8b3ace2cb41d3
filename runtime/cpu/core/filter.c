/* Convolutions by oneDNN.  In bfloat16 the library sums in float32, and what it finds for the
 * weights' gradients stays float32.  Of volumes that are padded oneDNN 2.6 finds wrong ones with
 * AMX: of those images are widened first.  SPDX-License-Identifier: Apache-2.0 */
#include "filter.h"

#include "copy.h"
#include "real.h"

/* What the library needs to know. */
struct geometry {
	int rank, weight_rank;
	dnnl_dims_t in, out, weight, weight_stride, stride, dilate, pad_lo, pad_hi;
	dnnl_memory_desc_t in_desc, din_desc, out_desc, weight_desc, bias_desc, dweight_desc,
			dbias_desc;
	dnnl_memory_desc_t plain_desc, plain_dweight_desc; /* as shards of weights lie */
	const dnnl_memory_desc_t *bias_or_none, *dbias_or_none;
	dnnl_primitive_desc_t forward, data, gradient;
};

static void fill_spatial(const struct ff_windows *w, struct geometry *g)
{
	for (uint32_t i = w->first; i < FF_MAX_SPATIAL; i++) {
		uint32_t to = i - w->first;

		g->in[2 + to] = w->in[i];
		g->out[2 + to] = w->out[i];
		/* one window goes nowhere, but oneDNN 2.6 looks where it would, in bfloat16 */
		g->stride[to] = w->out[i] > 1 ? w->stride[i] : 1;
		/* 0 is dense in oneDNN 2; one tap has nothing to dilate */
		g->dilate[to] = w->kernel[i] > 1 ? w->dilation[i] - 1 : 0;
		g->pad_lo[to] = w->pad[0][i];
		g->pad_hi[to] = w->pad[1][i];
	}
	g->rank = (int)(2 + FF_MAX_SPATIAL - w->first);
}

static void fill_geometry(const struct ff_filter *f, struct geometry *g)
{
	int64_t *d = g->weight, *s = g->weight_stride, step = f->c;
	uint32_t axes;

	g->in[0] = g->out[0] = f->n;
	g->in[1] = f->groups * f->c;
	g->out[1] = f->groups * f->k;
	fill_spatial(&f->windows, g);
	if (f->groups > 1) {
		*s++ = f->k * f->c * ff_windows_taps(&f->windows);
		*d++ = f->groups;
	}
	*s++ = f->c * ff_windows_taps(&f->windows);
	*d++ = f->k;
	*s++ = 1;
	*d++ = f->c;
	axes = (uint32_t)g->rank - 2;
	for (uint32_t i = axes; i-- > 0;) {
		d[i] = f->windows.kernel[f->windows.first + i];
		s[i] = step;
		step *= d[i];
	}
	g->weight_rank = (int)(d - g->weight) + (int)axes;
	g->bias_or_none = f->bias ? &g->bias_desc : NULL;
	g->dbias_or_none = f->bias ? &g->dbias_desc : NULL;
}

/* Parameters or their gradients. */
static int describe_weights(const struct ff_kernel *k, struct geometry *g, enum ff_dtype type,
		dnnl_memory_desc_t *any, dnnl_memory_desc_t *plain, dnnl_memory_desc_t *bias,
		struct ff_error *err)
{
	int code = ff_dnnl_any(k, type, g->weight_rank, g->weight, any, err);

	if (code == FF_OK)
		code = ff_dnnl_strided(
				k, type, g->weight_rank, g->weight, g->weight_stride, plain, err);
	return code < 0 ? code : ff_dnnl_vector(k, type, g->out[1], bias, err);
}

static int describe_memory(const struct ff_kernel *k, const struct ff_filter *f, struct geometry *g,
		struct ff_error *err)
{
	int code = ff_dnnl_image(k, f->type, g->rank, g->in, &g->in_desc, err);

	if (code == FF_OK)
		code = ff_dnnl_image(k, f->image_type, g->rank, g->in, &g->din_desc, err);
	if (code == FF_OK)
		code = ff_dnnl_image(k, f->type, g->rank, g->out, &g->out_desc, err);
	if (code == FF_OK)
		code = describe_weights(
				k, g, f->type, &g->weight_desc, &g->plain_desc, &g->bias_desc, err);
	return code < 0 ? code
			: describe_weights(k, g, FF_F32, &g->dweight_desc, &g->plain_dweight_desc,
					  &g->dbias_desc, err);
}

static int describe_forward(const struct ff_kernel *k, struct geometry *g, struct ff_error *err)
{
	dnnl_convolution_desc_t d;
	dnnl_status_t s = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training,
			dnnl_convolution_direct, &g->in_desc, &g->weight_desc, g->bias_or_none,
			&g->out_desc, g->stride, g->dilate, g->pad_lo, g->pad_hi);
	int code = ff_dnnl_check(s, k, "describe a convolution", err);

	return code < 0 ? code : ff_dnnl_describe(k, &d, NULL, &g->forward, err);
}

static int describe_weight(const struct ff_kernel *k, struct geometry *g, struct ff_error *err)
{
	dnnl_convolution_desc_t d;
	dnnl_status_t s = dnnl_dilated_convolution_backward_weights_desc_init(&d,
			dnnl_convolution_direct, &g->in_desc, &g->dweight_desc, g->dbias_or_none,
			&g->out_desc, g->stride, g->dilate, g->pad_lo, g->pad_hi);
	int code = ff_dnnl_check(s, k, "describe a convolution's weight gradient", err);

	return code < 0 ? code : ff_dnnl_describe(k, &d, g->forward, &g->gradient, err);
}

static int describe_data(const struct ff_kernel *k, struct geometry *g, struct ff_error *err)
{
	dnnl_convolution_desc_t d;
	dnnl_status_t s = dnnl_dilated_convolution_backward_data_desc_init(&d,
			dnnl_convolution_direct, &g->din_desc, &g->weight_desc, &g->out_desc,
			g->stride, g->dilate, g->pad_lo, g->pad_hi);
	int code = ff_dnnl_check(s, k, "describe a convolution's input gradient", err);

	return code < 0 ? code : ff_dnnl_describe(k, &d, g->forward, &g->data, err);
}

/* Whether some blocks are not full. */
static bool is_padded(const dnnl_memory_desc_t *d)
{
	bool ret = false;

	for (int i = 0; i < d->ndims; i++)
		ret = ret || d->dims[i] != d->padded_dims[i];
	return ret;
}

/* The loops from a plain layout, of which `stride` are the strides, to one of blocks without
 * padding: those inside the blocks, innermost first, then those over them.  oneDNN 2.6 takes
 * several times as long for filters whose channels are innermost. */
static bool find_loops(const dnnl_memory_desc_t *blocked, const dnnl_dims_t stride, bool back,
		struct ff_strided *ret)
{
	const dnnl_blocking_desc_t *b = &blocked->format_desc.blocking;
	int64_t inside = 1, block[DNNL_MAX_NDIMS], source, sink;
	uint32_t rank = (uint32_t)(blocked->ndims + b->inner_nblks);

	if (blocked->format_kind != dnnl_blocked || rank > FF_COPY_RANK || blocked->offset0 ||
			is_padded(blocked))
		return false;
	*ret = (struct ff_strided){.rank = rank};
	for (int i = 0; i < blocked->ndims; i++)
		block[i] = 1;
	for (int i = b->inner_nblks; i-- > 0 && rank > 0;) {
		int64_t dim = b->inner_idxs[i];

		source = block[dim] * stride[dim];
		ret->n[--rank] = b->inner_blks[i];
		ret->source[rank] = back ? inside : source;
		ret->sink[rank] = back ? source : inside;
		inside *= b->inner_blks[i];
		block[dim] *= b->inner_blks[i];
	}
	for (int i = blocked->ndims; i-- > 0 && rank > 0;) {
		source = block[i] * stride[i];
		sink = b->strides[i];
		ret->n[--rank] = blocked->dims[i] / block[i];
		ret->source[rank] = back ? sink : source;
		ret->sink[rank] = back ? source : sink;
	}
	return true;
}

/* Weights in the layout that is wanted, or gradients back: loops or a reorder, and room for the
 * result. */
static int order_weight(struct ff_kernel *k, struct ff_filter_calls *f, const struct geometry *g,
		const dnnl_memory_desc_t *wanted, bool gradient, struct ff_call **ret,
		struct ff_error *err)
{
	const dnnl_memory_desc_t *plain = gradient ? &g->plain_dweight_desc : &g->plain_desc;

	if (ff_dnnl_same(wanted, plain))
		return FF_OK;
	if (ff_dnnl_bytes(wanted) > f->order_bytes)
		f->order_bytes = ff_dnnl_bytes(wanted);
	if (gradient) {
		f->plain_loops = find_loops(wanted, g->weight_stride, true, &f->plaining);
		return f->plain_loops ? FF_OK : ff_call_reorder(k, wanted, plain, ret, err);
	}
	f->order_loops = find_loops(wanted, g->weight_stride, false, &f->ordering);
	return f->order_loops ? FF_OK : ff_call_reorder(k, plain, wanted, ret, err);
}

static int prepare_forward(struct ff_kernel *k, struct ff_filter_calls *f, struct geometry *g,
		struct ff_error *err)
{
	const dnnl_memory_desc_t *wanted =
			dnnl_primitive_desc_query_md(g->forward, dnnl_query_weights_md, 0);
	const struct ff_call_arg arg[] = {{DNNL_ARG_SRC, &g->in_desc}, {DNNL_ARG_WEIGHTS, wanted},
			{DNNL_ARG_DST, &g->out_desc}, {DNNL_ARG_BIAS, &g->bias_desc}};
	int code = order_weight(k, f, g, wanted, false, &f->order_weight, err);

	return code < 0 ? code
			: ff_call_create(k, g->forward, arg, g->bias_or_none ? 4 : 3, &f->forward,
					  err);
}

/* Whether some tap of the filter meets nothing but padding.  For its gradient, zero, oneDNN
 * 2.6 multiplies by what lies in its scratchpad when that is bfloat16. */
static bool has_idle_tap(const struct ff_windows *w)
{
	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++)
		for (int64_t tap = 0; tap < w->kernel[i]; tap++) {
			int64_t at = tap * w->dilation[i] - w->pad[0][i];
			bool meets = false;

			for (int64_t o = 0; o < w->out[i] && !meets; o++, at += w->stride[i])
				meets = at >= 0 && at < w->in[i];
			if (!meets)
				return true;
		}
	return false;
}

static bool is_wide(const struct ff_filter *f)
{
	return f->type != FF_F32 && !f->windows.first;
}

/* From here on `g` is of float32 images. */
static int widen(struct ff_kernel *k, struct ff_filter_calls *calls, struct geometry *g,
		struct ff_error *err)
{
	dnnl_memory_desc_t image = g->in_desc, result = g->out_desc;
	int code = ff_dnnl_image(k, FF_F32, g->rank, g->in, &g->in_desc, err);

	if (code == FF_OK)
		code = ff_dnnl_image(k, FF_F32, g->rank, g->out, &g->out_desc, err);
	if (code == FF_OK)
		code = describe_weights(
				k, g, FF_F32, &g->weight_desc, &g->plain_desc, &g->bias_desc, err);
	if (code == FF_OK)
		code = ff_call_reorder(k, &image, &g->in_desc, &calls->widen_image, err);
	if (code == FF_OK)
		code = ff_call_reorder(k, &result, &g->out_desc, &calls->widen_result, err);
	if (code < 0)
		return code;
	calls->image_bytes = (ff_dnnl_bytes(&g->in_desc) + 63) / 64 * 64;
	calls->result_bytes = ff_dnnl_bytes(&g->out_desc);
	dnnl_primitive_desc_destroy(g->forward);
	g->forward = NULL;
	return describe_forward(k, g, err);
}

static int prepare_weight(struct ff_kernel *k, const struct ff_filter *f,
		struct ff_filter_calls *calls, struct geometry *g, struct ff_error *err)
{
	struct ff_call_arg arg[] = {{DNNL_ARG_SRC, &g->in_desc}, {DNNL_ARG_DIFF_DST, &g->out_desc},
			{DNNL_ARG_DIFF_WEIGHTS, NULL}, {DNNL_ARG_DIFF_BIAS, &g->dbias_desc}};
	int code = is_wide(f) ? widen(k, calls, g, err) : FF_OK;

	if (code == FF_OK)
		code = describe_weight(k, g, err);
	if (code < 0)
		return code;
	arg[2].desc = dnnl_primitive_desc_query_md(g->gradient, dnnl_query_diff_weights_md, 0);
	calls->by_channel = ff_filter_is_by_channel(f) && is_padded(arg[2].desc);
	if (calls->by_channel) {
		ff_filter_channels_fill(f, &calls->channels);
		return FF_OK;
	}
	code = order_weight(k, calls, g, arg[2].desc, true, &calls->plain_weight, err);
	if (code == FF_OK)
		code = ff_call_create(k, g->gradient, arg, f->bias ? 4 : 3, &calls->weight, err);
	if (code == FF_OK && f->type != FF_F32 && has_idle_tap(&f->windows))
		ff_call_clear(calls->weight);
	return code;
}

static int prepare_data(struct ff_kernel *k, struct ff_filter_calls *calls, struct geometry *g,
		struct ff_error *err)
{
	struct ff_call_arg arg[] = {{DNNL_ARG_DIFF_DST, &g->out_desc}, {DNNL_ARG_WEIGHTS, NULL},
			{DNNL_ARG_DIFF_SRC, &g->din_desc}};
	int code = describe_data(k, g, err);

	if (code < 0)
		return code;
	arg[1].desc = dnnl_primitive_desc_query_md(g->data, dnnl_query_weights_md, 0);
	code = order_weight(k, calls, g, arg[1].desc, false, &calls->order_weight, err);
	return code < 0 ? code : ff_call_create(k, g->data, arg, 3, &calls->data, err);
}

/* Whether the image's gradient may be a convolution of the result's, with filters turned about:
 * oneDNN's forward is faster than its backward but where images are so small that the latter gains
 * by leaving padding out. */
static bool is_turned(const struct ff_filter *f)
{
	const struct ff_windows *w = &f->windows;
	bool ret = f->type == FF_F32 && f->image_type == FF_F32 && f->groups == 1 &&
		   ff_windows_taps(w) > 1;

	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++)
		ret = ret && w->stride[i] == 1 && w->dilation[i] == 1 &&
		      w->pad[0][i] < w->kernel[i] && w->pad[1][i] < w->kernel[i] &&
		      (w->kernel[i] == 1 || w->in[i] >= (int64_t)2 * w->kernel[i]);
	return ret;
}

static int describe_turned(const struct ff_kernel *k, const struct ff_filter *f, struct geometry *g,
		struct ff_error *err)
{
	dnnl_convolution_desc_t d;
	dnnl_status_t s;
	int code;

	g->weight[0] = f->c;
	g->weight[1] = f->k;
	for (int i = 0; i < g->rank - 2; i++) {
		g->pad_lo[i] = g->weight[2 + i] - 1 - g->pad_lo[i];
		g->pad_hi[i] = g->weight[2 + i] - 1 - g->pad_hi[i];
	}
	code = ff_dnnl_any(k, FF_F32, g->weight_rank, g->weight, &g->weight_desc, err);
	if (code < 0)
		return code;
	s = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training,
			dnnl_convolution_direct, &g->out_desc, &g->weight_desc, NULL, &g->din_desc,
			g->stride, g->dilate, g->pad_lo, g->pad_hi);
	code = ff_dnnl_check(s, k, "describe a convolution", err);
	return code < 0 ? code : ff_dnnl_describe(k, &d, NULL, &g->data, err);
}

/* Filters are turned on their way to the library's layout; calls->data stays NULL where that is not
 * one of whole blocks. */
static int prepare_turned(struct ff_kernel *k, const struct ff_filter *f,
		struct ff_filter_calls *calls, struct ff_error *err)
{
	struct geometry g = {0};
	const dnnl_memory_desc_t *wanted;
	int code;

	fill_geometry(f, &g);
	code = describe_memory(k, f, &g, err);
	if (code == FF_OK)
		code = describe_turned(k, f, &g, err);
	if (code < 0)
		return code;
	wanted = dnnl_primitive_desc_query_md(g.data, dnnl_query_weights_md, 0);
	g.weight_stride[1] = g.weight_stride[0];
	g.weight_stride[0] = 1;
	for (int i = 2; i < g.weight_rank; i++)
		g.weight_stride[i] = -g.weight_stride[i];
	if (find_loops(wanted, g.weight_stride, false, &calls->ordering)) {
		const struct ff_call_arg arg[] = {{DNNL_ARG_SRC, &g.out_desc},
				{DNNL_ARG_WEIGHTS, wanted}, {DNNL_ARG_DST, &g.din_desc}};

		calls->order_loops = true;
		calls->order_from = (ff_windows_taps(&f->windows) - 1) * f->c;
		calls->order_bytes = ff_dnnl_bytes(wanted);
		code = ff_call_create(k, g.data, arg, 3, &calls->data, err);
	}
	dnnl_primitive_desc_destroy(g.data);
	return code;
}

static int prepare_convolutions(struct ff_kernel *k, const struct ff_filter *f, int passes,
		struct ff_filter_calls *ret, struct ff_error *err)
{
	struct geometry g = {0};
	int code;

	fill_geometry(f, &g);
	code = describe_memory(k, f, &g, err);
	if (code == FF_OK)
		code = describe_forward(k, &g, err);
	if (code == FF_OK && passes & FF_FILTER_FORWARD)
		code = prepare_forward(k, ret, &g, err);
	if (code == FF_OK && passes & FF_FILTER_DATA)
		code = prepare_data(k, ret, &g, err);
	if (code == FF_OK && passes & FF_FILTER_WEIGHT)
		code = prepare_weight(k, f, ret, &g, err);
	dnnl_primitive_desc_destroy(g.data);
	dnnl_primitive_desc_destroy(g.gradient);
	dnnl_primitive_desc_destroy(g.forward);
	return code;
}

int ff_filter_prepare(struct ff_kernel *k, const struct ff_filter *f, int passes,
		struct ff_filter_calls *ret, struct ff_error *err)
{
	int code = FF_OK;

	ret->type = f->type;
	ret->products = ff_filter_product_passes(f, passes);
	if (ret->products)
		code = ff_filter_product_prepare(k, f, ret->products, &ret->product, err);
	passes &= ~ret->products;
	if (code == FF_OK && passes & FF_FILTER_DATA && is_turned(f))
		code = prepare_turned(k, f, ret, err);
	if (ret->data)
		passes &= ~FF_FILTER_DATA;
	if (code == FF_OK && passes)
		code = prepare_convolutions(k, f, passes, ret, err);
	if (ret->product.columns_bytes > ret->order_bytes)
		ret->order_bytes = ret->product.columns_bytes;
	return code;
}

static int ordered(const struct ff_kernel *k, const struct ff_filter_calls *f,
		const struct ff_kernel_io *io, const void *plain, void *order, const void **ret,
		struct ff_error *err)
{
	const void *memory[] = {plain, order};

	*ret = f->order_weight || f->order_loops ? order : plain;
	if (f->order_loops)
		ff_strided_copy(&f->ordering, f->type, ff_real_in(f->type, plain, f->order_from),
				order);
	return f->order_weight ? ff_call_run(k, f->order_weight, io, memory, err) : FF_OK;
}

int ff_filter_forward(const struct ff_kernel *k, const struct ff_filter_calls *f,
		const struct ff_kernel_io *io, const void *image, const void *weight,
		const void *bias, void *result, void *order, struct ff_error *err)
{
	const void *memory[] = {image, NULL, result, bias};
	int code;

	if (f->products & FF_FILTER_FORWARD)
		return ff_filter_product_forward(
				k, &f->product, io, image, weight, bias, result, order, err);
	code = ordered(k, f, io, weight, order, &memory[1], err);
	return code < 0 ? code : ff_call_run(k, f->forward, io, memory, err);
}

int ff_filter_data(const struct ff_kernel *k, const struct ff_filter_calls *f,
		const struct ff_kernel_io *io, const void *dresult, const void *weight,
		void *dimage, void *order, struct ff_error *err)
{
	const void *memory[] = {dresult, NULL, dimage};
	int code;

	if (f->products & FF_FILTER_DATA)
		return ff_filter_product_data(
				k, &f->product, io, dresult, weight, dimage, order, err);
	code = ordered(k, f, io, weight, order, &memory[1], err);
	return code < 0 ? code : ff_call_run(k, f->data, io, memory, err);
}

int ff_filter_weight(const struct ff_kernel *k, const struct ff_filter_calls *f,
		const struct ff_kernel_io *io, const struct ff_filter_gradient *g,
		struct ff_error *err)
{
	float *dweight = f->plain_weight || f->plain_loops ? g->order : g->dweight;
	const void *memory[] = {g->image, g->dresult, dweight, g->dbias};
	const void *both[] = {g->order, g->dweight};
	int code = FF_OK;

	if (f->products & FF_FILTER_WEIGHT)
		return ff_filter_product_weight(k, &f->product, io, g->image, g->dresult,
				g->dweight, g->dbias, g->order, err);
	if (f->by_channel) {
		ff_filter_channels_weight(&f->channels, g->image, g->dresult, g->dweight, g->dbias);
		return FF_OK;
	}
	if (f->widen_image) {
		const void *image[] = {g->image, g->wide};
		const void *result[] = {g->dresult, (char *)g->wide + f->image_bytes};

		code = ff_call_run(k, f->widen_image, io, image, err);
		if (code == FF_OK)
			code = ff_call_run(k, f->widen_result, io, result, err);
		memory[0] = image[1];
		memory[1] = result[1];
	}
	if (code == FF_OK)
		code = ff_call_run(k, f->weight, io, memory, err);
	if (code == FF_OK && f->plain_loops)
		ff_strided_copy(&f->plaining, FF_F32, dweight, g->dweight);
	if (code < 0 || !f->plain_weight)
		return code;
	return ff_call_run(k, f->plain_weight, io, both, err);
}
