/* ONNX Resize: images of another size, where PyTorch's interpolation says the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include "resize.h"

#include <inttypes.h>
#include <math.h>

#include "import/emit.h"
#include "import/inputs.h"
#include "import/values.h"

/* Sizes behind the channels: as they are given, or as scales make them. */
static int read_size(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		struct ff_resize_attrs *a)
{
	size_t from = ff_onnx_in(im, n, 3) ? 3 : 2;
	const struct ff_constant *c;
	int code = ff_onnx_in_constant(im, n, from, &c);

	if (code < 0)
		return code;
	if (c->n != (int64_t)in->rank || c->whole != (from == 3))
		return ff_import_fail(
				im, n, "expected a size or a scale for each of %u axes", in->rank);
	a->axes = (int32_t)in->rank - 2;
	for (uint32_t k = 0; k < in->rank; k++) {
		double size = from == 3 ? (double)c->i[k] : (double)c->f[k] * in->shape[k];

		/* elsewhere ONNX goes by the scale, which is not that of the sizes */
		if (!(size >= 1 && size < 1 << 29) || fabs(size - round(size)) > 1e-4 * size)
			return ff_import_fail(im, n,
					"%d elements become %g, expected a whole number",
					in->shape[k], size);
		if (k < 2 && (int32_t)round(size) != in->shape[k])
			return ff_import_fail(
					im, n, "samples and channels stay as many as they are");
		if (k >= 2)
			a->size[k - 2] = (int32_t)round(size);
	}
	return FF_OK;
}

/* Nearest ones are the last before; where each becomes a whole number of equal ones, from the
 * middles of elements it is the same. */
static bool is_nearest(const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		const struct ff_resize_attrs *a)
{
	bool middles = !ff_onnx_attr(n, "coordinate_transformation_mode") ||
		       ff_onnx_is(n, "coordinate_transformation_mode", "half_pixel");
	bool rounds = !ff_onnx_attr(n, "nearest_mode") ||
		      ff_onnx_is(n, "nearest_mode", "round_prefer_floor") ||
		      ff_onnx_is(n, "nearest_mode", "round_prefer_ceil");

	for (int32_t k = 0; k < a->axes && middles; k++)
		middles = a->size[k] % in->shape[2 + k] == 0;
	return (middles && rounds) ||
	       (ff_onnx_is(n, "coordinate_transformation_mode", "asymmetric") &&
			       ff_onnx_is(n, "nearest_mode", "floor"));
}

/* PyTorch's export names its own middles, which are others of a single element. */
static bool is_linear(const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		const struct ff_resize_attrs *a)
{
	bool own = ff_onnx_is(n, "coordinate_transformation_mode", "pytorch_half_pixel");

	for (int32_t k = 0; k < a->axes && own; k++)
		own = a->size[k] > 1 || in->shape[2 + k] == 1;
	return own || a->corners || !ff_onnx_attr(n, "coordinate_transformation_mode") ||
	       ff_onnx_is(n, "coordinate_transformation_mode", "half_pixel");
}

int ff_onnx_resize(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_UPSAMPLE);
	struct ff_emit e = {.op = FF_OP_UPSAMPLE, .attrs = &a, .n_in = 1};
	bool linear = ff_onnx_is(n, "mode", "linear"), same = true;
	struct ff_onnx_value *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code < 0)
		return code;
	if (in->rank < 3 || in->rank > 5)
		return ff_import_fail(im, n, "expected images, or what has one to three axes");
	if ((code = read_size(im, n, in, &a.resize)) < 0)
		return code;
	if ((ff_onnx_attr(n, "mode") && !linear && !ff_onnx_is(n, "mode", "nearest")) ||
			ff_onnx_int(n, "antialias", 0) || ff_onnx_attr(n, "axes"))
		return ff_import_fail(im, n,
				"only modes nearest and linear are supported, of all axes and "
				"without "
				"antialias");
	a.resize.mode = linear ? FF_RESIZE_LINEAR : FF_RESIZE_NEAREST;
	a.resize.corners =
			linear && ff_onnx_is(n, "coordinate_transformation_mode", "align_corners");
	for (int32_t k = 0; k < a.resize.axes; k++)
		same = same && a.resize.size[k] == in->shape[2 + k];
	if (same)
		return ff_onnx_set_same(im, n, 0, in);
	if (!(linear ? is_linear : is_nearest)(n, in, &a.resize))
		return ff_import_fail(im, n,
				"its coordinate_transformation_mode or nearest_mode is not "
				"PyTorch's");
	e.in[0] = *in;
	return ff_emit_as(im, n, &e);
}
