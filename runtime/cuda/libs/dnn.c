/* Convolutions by cuDNN's graph interface: a graph of one convolution, its bias, an epilogue.
 * SPDX-License-Identifier: Apache-2.0 */
#include "dnn.h"

#include <cudnn.h>

#include "plan.h"

#define ALIGNMENT 64 /* of images */

enum { IMAGE = 1, WEIGHT, BIAS, OUT, SUM, BIASED }; /* ids of tensors in a graph */

static const struct ff_conv_shape *shape_of(const struct ff_parts *p)
{
	return p->shape;
}

/* Axes that cuDNN is told of: two or three spatial ones. */
static uint32_t axes_of(const struct ff_parts *p)
{
	return FF_MAX_SPATIAL - shape_of(p)->filter.windows.first;
}

/* N, C and three spatial extents, as cuDNN counts them, stored channels last; of the spatial ones
 * those that it is told of. */
static cudnnBackendDescriptor_t tensor(struct ff_parts *p, int64_t id, enum ff_dtype type,
		const int64_t *extent, int64_t alignment, bool is_virtual)
{
	cudnnBackendDescriptor_t d = ff_parts_make(p, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	uint32_t axes = axes_of(p), first = FF_MAX_SPATIAL - axes;
	int64_t n[2 + FF_MAX_SPATIAL] = {extent[0], extent[1]};
	int64_t stride[2 + FF_MAX_SPATIAL] = {0, 1}, step = extent[1];
	const cudnnDataType_t t = ff_parts_type(type);

	for (uint32_t i = 2 + axes; i-- > 2; step *= n[i]) {
		n[i] = extent[first + i];
		stride[i] = step;
	}
	stride[0] = step;
	ff_parts_set(p, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t);
	ff_parts_set(p, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 2 + axes, n);
	ff_parts_set(p, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 2 + axes, stride);
	ff_parts_set(p, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
	ff_parts_set(p, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
	if (is_virtual)
		ff_parts_set(p, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
				&is_virtual);
	ff_parts_finish(p, d);
	return d;
}

static cudnnBackendDescriptor_t convolution(struct ff_parts *p)
{
	const struct ff_windows *w = &shape_of(p)->filter.windows;
	cudnnBackendDescriptor_t d = ff_parts_make(p, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	int64_t dilation[FF_MAX_SPATIAL] = {0}, stride[FF_MAX_SPATIAL] = {0}, dims = axes_of(p);
	const int64_t *lo = w->pad[0] + w->first, *hi = w->pad[1] + w->first;
	const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
	const cudnnDataType_t type = CUDNN_DATA_FLOAT;

	for (uint32_t i = w->first; i < FF_MAX_SPATIAL; i++) {
		dilation[i - w->first] = w->dilation[i];
		stride[i - w->first] = w->stride[i];
	}
	ff_parts_set(p, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
	ff_parts_set(p, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
	ff_parts_set(p, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
	ff_parts_set(p, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, dims, lo);
	ff_parts_set(p, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, dims, hi);
	ff_parts_set(p, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, dims, dilation);
	ff_parts_set(p, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, dims, stride);
	ff_parts_finish(p, d);
	return d;
}

/* How each pass calls its parts. */
static const struct {
	cudnnBackendDescriptorType_t type;
	cudnnBackendAttributeName_t conv, image, weight, out, alpha, beta;
} passes[] = {
		[FF_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
				CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
				CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
				CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
				CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
				CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
				CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
		[FF_CONV_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
		[FF_CONV_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

/* to = from `mode` other, which is NULL where that takes one alone. */
static cudnnBackendDescriptor_t pointwise(struct ff_parts *p, cudnnPointwiseMode_t mode,
		cudnnBackendDescriptor_t from, cudnnBackendDescriptor_t other,
		cudnnBackendDescriptor_t to)
{
	cudnnBackendDescriptor_t what = ff_parts_make(p, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), d;
	const cudnnDataType_t type = CUDNN_DATA_FLOAT;

	ff_parts_set(p, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
	ff_parts_set(p, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
	ff_parts_finish(p, what);
	d = ff_parts_make(p, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	ff_parts_set_part(p, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
	ff_parts_set_part(p, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
	if (other)
		ff_parts_set_part(p, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, other);
	ff_parts_set_part(p, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
	ff_parts_finish(p, d);
	return d;
}

static cudnnBackendDescriptor_t bias_of(struct ff_parts *p)
{
	const int64_t extent[] = {1, shape_of(p)->filter.groups * shape_of(p)->filter.k, 1, 1, 1};

	return tensor(p, BIAS, shape_of(p)->type, extent, shape_of(p)->bias_align, false);
}

static const cudnnPointwiseMode_t epilogues[FF_EPILOGUE_COUNT] = {
		[FF_EPILOGUE_RELU] = CUDNN_POINTWISE_RELU_FWD,
};

/* What is done to `from`, the convolution's result, on its way to `to`; the number of operations.
 */
static int64_t follow(struct ff_parts *p, const int64_t *extent, cudnnBackendDescriptor_t from,
		cudnnBackendDescriptor_t to, cudnnBackendDescriptor_t *ops)
{
	const struct ff_conv_shape *s = shape_of(p);
	bool more = s->epilogue != FF_EPILOGUE_NONE;
	int64_t n = 0;

	if (s->has_bias) {
		cudnnBackendDescriptor_t sum =
				more ? tensor(p, BIASED, FF_F32, extent, ALIGNMENT, true) : to;

		ops[n++] = pointwise(p, CUDNN_POINTWISE_ADD, from, bias_of(p), sum);
		from = sum;
	}
	if (more)
		ops[n++] = pointwise(p, epilogues[s->epilogue], from, NULL, to);
	return n;
}

/* What something follows on stays float32 on its way. */
static int64_t describe(struct ff_parts *p, cudnnBackendDescriptor_t *ops)
{
	const struct ff_conv_shape *s = shape_of(p);
	const struct ff_filter *f = &s->filter;
	const struct ff_windows *v = &f->windows;
	const int64_t image[] = {f->n, f->groups * f->c, v->in[0], v->in[1], v->in[2]};
	const int64_t weight[] = {f->groups * f->k, f->c, v->kernel[0], v->kernel[1], v->kernel[2]};
	const int64_t out[] = {f->n, f->groups * f->k, v->out[0], v->out[1], v->out[2]};
	const enum ff_dtype types[] = {
			s->pass == FF_CONV_DATA ? s->sink : s->type,
			s->pass == FF_CONV_WEIGHT ? s->sink : s->type,
			s->pass == FF_CONV_FORWARD ? s->sink : s->type,
	};
	cudnnBackendDescriptor_t conv = convolution(p);
	cudnnBackendDescriptor_t x = tensor(p, IMAGE, types[0], image, ALIGNMENT, false);
	cudnnBackendDescriptor_t w = tensor(p, WEIGHT, types[1], weight, s->weight_align, false);
	cudnnBackendDescriptor_t y = tensor(p, OUT, types[2], out, ALIGNMENT, false);
	bool followed = s->has_bias || s->epilogue != FF_EPILOGUE_NONE;
	cudnnBackendDescriptor_t sum = followed ? tensor(p, SUM, FF_F32, out, ALIGNMENT, true) : y;
	const float one = 1, there = s->adds ? 1 : 0;

	ops[0] = ff_parts_make(p, passes[s->pass].type);
	ff_parts_set_part(p, ops[0], passes[s->pass].conv, conv);
	ff_parts_set_part(p, ops[0], passes[s->pass].image, x);
	ff_parts_set_part(p, ops[0], passes[s->pass].weight, w);
	ff_parts_set_part(p, ops[0], passes[s->pass].out, sum);
	ff_parts_set(p, ops[0], passes[s->pass].alpha, CUDNN_TYPE_FLOAT, 1, &one);
	ff_parts_set(p, ops[0], passes[s->pass].beta, CUDNN_TYPE_FLOAT, 1, &there);
	ff_parts_finish(p, ops[0]);
	return 1 + follow(p, out, sum, y, ops + 1);
}

static int64_t volume(const int64_t *spatial)
{
	return spatial[0] * spatial[1] * spatial[2];
}

static int64_t tensors(const void *shape, int64_t *id, int64_t *bytes)
{
	const struct ff_conv_shape *s = shape;
	const struct ff_filter *f = &s->filter;
	const struct ff_windows *v = &f->windows;
	const int64_t size = ff_dtype_bytes(s->type), to = ff_dtype_bytes(s->sink);
	const int64_t elements[] = {f->n * f->groups * f->c * volume(v->in),
			f->groups * f->k * f->c * ff_windows_taps(v),
			f->n * f->groups * f->k * volume(v->out), f->groups * f->k};
	const enum ff_conv_pass writes[] = {FF_CONV_DATA, FF_CONV_WEIGHT, FF_CONV_FORWARD};
	const int64_t ids[] = {IMAGE, WEIGHT, OUT, BIAS}, n = s->has_bias ? 4 : 3;

	for (int64_t i = 0; i < n; i++) {
		id[i] = ids[i];
		bytes[i] = elements[i] * (i < 3 && writes[i] == s->pass ? to : size);
	}
	return n;
}

/* Shapes are zeroed before they are filled. */
int ff_conv_find(struct ff_kernel *k, const struct ff_conv_shape *shape,
		const struct ff_dnn_plan **ret, struct ff_error *err)
{
	const struct ff_dnn_plan_problem q = {.what = "convolution",
			.verb = "describe a convolution",
			.shape = shape,
			.bytes = sizeof(*shape),
			.exact = shape->type == FF_F32 && !shape->tf32,
			.describe = describe,
			.tensors = tensors};

	return ff_dnn_plan_find(k, &q, ret, err);
}

int ff_conv_run(const struct ff_kernel *k, const struct ff_dnn_plan *plan, cudaStream_t queue,
		const void *image, const void *weight, const void *bias, const void *out,
		void *scratch, struct ff_error *err)
{
	const int64_t id[] = {IMAGE, WEIGHT, OUT, BIAS};
	const void *pointer[] = {image, weight, out, bias};

	return ff_dnn_plan_run(k, plan, queue, bias ? 4 : 3, id, pointer, scratch, err);
}
