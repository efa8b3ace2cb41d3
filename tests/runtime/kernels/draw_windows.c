/* Attributes of operators with windows, drawn.  SPDX-License-Identifier: Apache-2.0 */
#include "draw_windows.h"

static int32_t draw(struct ff_random *r, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(r, (uint32_t)(hi - lo + 1));
}

/* Mostly few, sometimes as many as a vector unit likes. */
static int32_t draw_channels(struct ff_random *r)
{
	return draw(r, 0, 3) ? draw(r, 1, 7) : 16 * draw(r, 1, 2);
}

/* As layers have them whose filters a backend takes for matrices, one for each group, or turns
 * about; parts have fewer channels. */
static void draw_layer(struct ff_random *r, uint32_t axes, struct ff_conv_attrs *a, int32_t *shape)
{
	bool deep = draw(r, 0, 1), pixels = deep && !draw(r, 0, 2);

	a->groups = pixels && draw(r, 0, 1) ? draw(r, 2, 4) : 1;
	shape[0] = draw(r, 1, 3);
	shape[1] = a->groups * 16 * (deep ? draw(r, 4, 8) : draw(r, 1, 4));
	a->out_channels = a->groups * 16 * (deep ? draw(r, 6, 14) : draw(r, 1, 4));
	for (uint32_t i = 0; i < axes; i++) {
		a->kernel[i] = pixels ? 1 : draw(r, 1, axes < 3 ? 3 : 2);
		a->stride[i] = deep && !pixels ? draw(r, 1, 2) : 1;
		a->dilation[i] = deep ? draw(r, 1, 2) : 1;
		a->pad[0][i] = a->pad[1][i] = ((a->kernel[i] - 1) * a->dilation[i] + 1) / 2;
		shape[2 + i] = (deep ? 1 : 2 * a->kernel[i]) + draw(r, 0, 2);
	}
}

static void draw_conv(struct ff_random *r, uint32_t axes, struct ff_conv_attrs *a, int32_t *shape)
{
	a->groups = draw(r, 0, 2) ? 1 : draw(r, 2, 5);
	shape[0] = draw(r, 1, 3);
	shape[1] = a->groups * draw_channels(r);
	a->out_channels = a->groups * draw_channels(r);
	if (!draw(r, 0, 5)) { /* filters of which libraries make blocks */
		shape[1] = a->groups * 16 * draw(r, 1, 3);
		a->out_channels = a->groups * 16 * draw(r, 1, 3);
	}
	if (!draw(r, 0, 5)) /* a filter for each channel */
		a->groups = a->out_channels = shape[1] = draw(r, 2, 80);
	a->bias = draw(r, 0, 1);
	if (!draw(r, 0, 2)) {
		draw_layer(r, axes, a, shape);
		return;
	}
	for (uint32_t i = 0; i < axes; i++) {
		bool alike = draw(r, 0, 1);
		int32_t reach;

		a->kernel[i] = draw(r, 1, axes < 3 ? 4 : 3);
		a->stride[i] = draw(r, 1, 3);
		a->dilation[i] = draw(r, 0, 1) ? 1 : draw(r, 1, 3);
		reach = a->dilation[i] * (a->kernel[i] - 1);
		a->pad[0][i] = draw(r, 0, 1) ? 0 : draw(r, 0, reach);
		a->pad[1][i] = alike ? a->pad[0][i] : draw(r, 0, reach);
		shape[2 + i] = draw(r, 1, axes < 3 ? 9 : 5);
		if (shape[2 + i] + a->pad[0][i] + a->pad[1][i] <= reach)
			shape[2 + i] = reach + 1;
	}
}

/* As PyTorch has them: padding beyond the window's reach, too. */
static void draw_conv_transpose(
		struct ff_random *r, uint32_t axes, struct ff_conv_attrs *a, int32_t *shape)
{
	draw_conv(r, axes, a, shape);
	for (uint32_t i = 0; i < axes; i++) {
		int32_t most = a->stride[i] > a->dilation[i] ? a->stride[i] : a->dilation[i];
		int32_t size;

		shape[2 + i] = draw(r, 1, axes < 3 ? 6 : 3);
		a->output_pad[i] = draw(r, 0, 1) ? 0 : draw(r, 0, most - 1);
		size = (shape[2 + i] - 1) * a->stride[i] + a->dilation[i] * (a->kernel[i] - 1) + 1 +
		       a->output_pad[i];
		a->pad[0][i] += draw(r, 0, 7) == 0;
		if (a->pad[0][i] + a->pad[1][i] >= size)
			a->pad[0][i] = a->pad[1][i] = 0;
	}
}

/* Now and then a window with more positions than a byte can tell. */
static void draw_pool(struct ff_random *r, uint32_t axes, struct ff_pool_attrs *a, int32_t *shape)
{
	bool large = draw(r, 0, 19) == 0;
	int32_t most = axes == 3 ? 7 : 18, least = axes == 3 ? 6 : 16;

	a->mode = draw(r, 0, 1);
	a->ceil = draw(r, 0, 1);
	a->count_pad = draw(r, 0, 1);
	shape[0] = draw(r, 1, 3);
	shape[1] = draw_channels(r);
	for (uint32_t i = 0; i < axes; i++) {
		a->kernel[i] = large ? draw(r, least, most) : draw(r, 1, 4);
		a->stride[i] = draw(r, 1, 4);
		a->pad[0][i] = draw(r, 0, a->kernel[i] / 2);
		a->pad[1][i] = draw(r, 0, 1) ? a->pad[0][i] : draw(r, 0, a->kernel[i] / 2);
		shape[2 + i] = draw(r, a->kernel[i], a->kernel[i] + (axes < 3 ? 5 : 2));
	}
}

/* Smaller, larger or as large. */
static void draw_resize(struct ff_random *r, enum ff_op op, uint32_t axes,
		struct ff_resize_attrs *a, int32_t *shape)
{
	a->axes = (int32_t)axes;
	if (op == FF_OP_UPSAMPLE) {
		a->mode = draw(r, 0, 1);
		a->corners = a->mode == FF_RESIZE_LINEAR && draw(r, 0, 1);
	}
	shape[0] = draw(r, 1, 3);
	shape[1] = draw_channels(r);
	for (uint32_t i = 0; i < axes; i++) {
		shape[2 + i] = draw(r, 1, axes < 3 ? 9 : 5);
		a->size[i] = draw(r, 1, axes < 3 ? 12 : 6);
	}
}

/* Strong enough to be seen. */
static bool draw_response(
		struct ff_random *r, struct ff_response_attrs *a, int32_t *shape, uint32_t *rank)
{
	*rank = (uint32_t)draw(r, 2, FF_MAX_RANK);
	a->size = draw(r, 1, 7);
	a->alpha = 0.25 * draw(r, 0, 6);
	a->beta = 0.25 * draw(r, 1, 5);
	a->k = 0.5 * draw(r, 1, 4);
	for (uint32_t i = 0; i < *rank; i++)
		shape[i] = i == 1 ? draw_channels(r) : draw(r, 1, *rank > 4 ? 3 : 6);
	return true;
}

bool draw_windows(struct ff_random *r, enum ff_op op, union ff_attrs *attrs, int32_t *shape,
		uint32_t *rank)
{
	uint32_t axes = ff_op_row(op)->axes;
	bool resize = op == FF_OP_ADAPTIVE_POOL || op == FF_OP_UPSAMPLE;

	if (resize)
		axes = (uint32_t)draw(r, 1, FF_MAX_SPATIAL);
	if (op >= FF_OP_CONV1D && op <= FF_OP_CONV3D)
		draw_conv(r, axes, &attrs->conv, shape);
	else if (op >= FF_OP_CONV_TRANSPOSE1D && op <= FF_OP_CONV_TRANSPOSE3D)
		draw_conv_transpose(r, axes, &attrs->conv, shape);
	else if (op >= FF_OP_POOL1D && op <= FF_OP_POOL3D)
		draw_pool(r, axes, &attrs->pool, shape);
	else if (op == FF_OP_LOCAL_RESPONSE_NORM)
		return draw_response(r, &attrs->response, shape, rank);
	else if (resize)
		draw_resize(r, op, axes, &attrs->resize, shape);
	else
		return false;
	*rank = 2 + axes;
	return true;
}
