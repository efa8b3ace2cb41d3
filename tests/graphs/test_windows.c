/* Operators with windows against brute force: shapes, and what of every tensor random boxes of
 * iterations touch.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/work.h"
#include "probe.h"

/* Places where a window of `extent` elements fits, by trying them; rounded up, one more that
 * begins before the padding behind, if that leaves something. */
static int32_t count_windows(
		int32_t in, const int32_t pad[2], int32_t stride, int32_t extent, bool up)
{
	int32_t n = 0, at = -pad[0];

	for (; at + extent <= in + pad[1]; at += stride)
		n++;
	return n + (up && at - stride + extent < in + pad[1] && at < in);
}

/* The hull of what a window at `to` touches along spatial axis `i` of the input. */
static void touch_window(struct hull *h, const int64_t *at, uint32_t rank, const int32_t *start,
		const int32_t *reach)
{
	int64_t low[FF_MAX_RANK] = {at[0], at[1]}, high[FF_MAX_RANK] = {at[0], at[1]};

	for (uint32_t i = 2; i < rank; i++) {
		low[i] = start[i - 2];
		high[i] = start[i - 2] + reach[i - 2];
	}
	touch(h, rank, low);
	touch(h, rank, high);
}

/* ---- conv1d, conv2d, conv3d ---- */

static void touch_conv(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_conv_attrs *a = &p->node->attrs.conv;
	int32_t channels = in_of(p, 0)->shape[1], start[FF_MAX_SPATIAL], reach[FF_MAX_SPATIAL];
	uint32_t rank = in_of(p, 0)->rank, axes = rank - 2;
	int32_t group = at[1] / (a->out_channels / a->groups);
	int64_t out[FF_MAX_RANK], in[2] = {at[0], group * (channels / a->groups) + at[rank]};
	int64_t first[FF_MAX_RANK] = {at[1], at[rank]}, last[FF_MAX_RANK] = {at[1], at[rank]};

	for (uint32_t i = 0; i < rank; i++)
		out[i] = at[i];
	for (uint32_t i = 0; i < axes; i++) {
		start[i] = at[2 + i] * a->stride[i] - a->pad[0][i];
		reach[i] = (a->kernel[i] - 1) * a->dilation[i];
		last[2 + i] = a->kernel[i] - 1;
	}
	touch(&h->out, rank, out);
	if (at[rank] == 0) /* the first of the reduction adds the bias */
		TOUCH(&h->weight[1], at[1]);
	touch(&h->weight[0], rank, first);
	touch(&h->weight[0], rank, last);
	touch_window(&h->in[0], in, rank, start, reach);
}

static void check_conv(const struct probe *p)
{
	const struct ff_node *n = p->node;
	const struct ff_conv_attrs *a = &n->attrs.conv;
	const struct ff_value *in = in_of(p, 0), *out = out_of(p);
	int64_t taps = (int64_t)in->shape[1] / a->groups, size;

	ck_assert_int_eq(out->shape[0], in->shape[0]);
	ck_assert_int_eq(out->shape[1], a->out_channels);
	size = (int64_t)out->shape[0] * out->shape[1];
	for (uint32_t i = 0; i + 2 < in->rank; i++) {
		const int32_t pad[2] = {a->pad[0][i], a->pad[1][i]};

		ck_assert_int_eq(out->shape[2 + i],
				count_windows(in->shape[2 + i], pad, a->stride[i],
						a->dilation[i] * (a->kernel[i] - 1) + 1, false));
		taps *= a->kernel[i];
		size *= out->shape[2 + i];
	}
	ck_assert_int_eq(n->flops_forward, 2 * size * taps + (a->bias ? size : 0));
	/* the data set needs no gradient */
	ck_assert_int_eq(n->flops_backward, n->flops_forward);
	ck_assert_uint_eq(params_of(p), a->bias ? 2 : 1);
	ck_assert_int_eq(param_of(p, 0)->fan_in, taps);
	ck_assert_uint_eq(n->in_map[1].lead_only, 0);
	if (a->bias) {
		ck_assert_int_eq(param_of(p, 1)->fan_in, 0);
		ck_assert_uint_eq(n->in_map[2].lead_only, 1);
	}
}

/* Along _i + 1 axes. */
START_TEST(conv)
{
	struct ff_random r = {.seed = ff_test_seed(1), .stream = (uint64_t)_i};
	enum ff_op op = (enum ff_op)((int)FF_OP_CONV1D + _i);
	int built = 0;

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(op);
		struct ff_conv_attrs *c = &a.conv;
		struct shape in;
		struct probe p;

		c->groups = draw(&r, 1, 3);
		c->out_channels = c->groups * draw(&r, 1, 3);
		c->bias = draw(&r, 0, 1);
		in = (struct shape){3 + _i, {draw(&r, 1, 3), c->groups * draw(&r, 1, 3)}};
		for (int i = 0; i <= _i; i++) {
			c->kernel[i] = draw(&r, 1, 4);
			c->stride[i] = draw(&r, 1, 3);
			c->dilation[i] = draw(&r, 1, 3);
			for (int k = 0; k < 2; k++)
				c->pad[k][i] = draw(&r, 0, c->dilation[i] * (c->kernel[i] - 1));
			in.size[2 + i] = draw(&r, 1, _i < 2 ? 9 : 6);
		}
		probe_open(&p, op, &a, &in, 1);
		if (p.code == FF_OK) {
			built++;
			check_node(&p);
			check_conv(&p);
			check_regions(&r, &p, touch_conv);
		} else {
			ck_assert_msg(strstr(p.err.text, "the kernel spans"), "%s", p.err.text);
		}
		probe_close(&p);
	}
	ck_assert_int_gt(built, ROUNDS / 3);
}
END_TEST

/* ---- conv_transpose1d, conv_transpose2d, conv_transpose3d ---- */

/* The hull of the elements of the input whose windows span the output's element at `at`. */
static void touch_spanning(
		const struct probe *p, const int32_t *at, const int64_t *in, struct hull *h)
{
	const struct ff_conv_attrs *a = &p->node->attrs.conv;
	uint32_t rank = in_of(p, 0)->rank;
	int64_t low[FF_MAX_RANK] = {in[0], in[1]}, high[FF_MAX_RANK] = {in[0], in[1]};

	for (uint32_t k = 0; k + 2 < rank; k++) {
		int32_t size = in_of(p, 0)->shape[2 + k];

		low[2 + k] = size;
		for (int32_t i = 0; i < size; i++) {
			int32_t first = i * a->stride[k] - a->pad[0][k], to = at[2 + k];

			if (to < first || to > first + (a->kernel[k] - 1) * a->dilation[k])
				continue;
			low[2 + k] = low[2 + k] < i ? low[2 + k] : i;
			high[2 + k] = i;
		}
		if (low[2 + k] == size)
			return;
	}
	touch(h, rank, low);
	touch(h, rank, high);
}

/* The dim of channels is of groups where there are several. */
static void touch_conv_transpose(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_conv_attrs *a = &p->node->attrs.conv;
	int32_t depth = in_of(p, 0)->shape[1] / a->groups, width = a->out_channels / a->groups;
	uint32_t rank = in_of(p, 0)->rank;
	bool grouped = a->groups > 1;
	int64_t out[FF_MAX_RANK], last[FF_MAX_RANK];

	for (uint32_t i = 2; i < rank; i++) {
		out[i] = at[i];
		last[i] = a->kernel[i - 2] - 1;
	}
	out[0] = at[0];
	if (grouped) { /* all of the weight */
		touch(&h->weight[0], rank, (int64_t[FF_MAX_RANK]){0});
		TOUCH(&h->weight[1], 0);
		TOUCH(&h->weight[1], a->out_channels - 1);
		last[0] = in_of(p, 0)->shape[1] - 1;
		last[1] = width - 1;
		touch(&h->weight[0], rank, last);
	}
	for (int32_t c = 0; c < (grouped ? depth : 1); c++)
		for (int32_t o = 0; o < (grouped ? width : 1); o++) {
			int32_t from = grouped ? at[1] * depth + c : at[rank];
			int32_t to = grouped ? at[1] * width + o : at[1];
			int64_t first[FF_MAX_RANK] = {from, grouped ? o : to};

			last[0] = from;
			last[1] = out[1] = first[1];
			touch(&h->weight[0], rank, first);
			touch(&h->weight[0], rank, last);
			out[1] = to;
			touch(&h->out, rank, out);
			if (grouped || at[rank] == 0)
				TOUCH(&h->weight[1], to);
			touch_spanning(p, at, (int64_t[]){at[0], from}, &h->in[0]);
		}
}

static void check_conv_transpose(const struct probe *p)
{
	const struct ff_node *n = p->node;
	const struct ff_conv_attrs *a = &n->attrs.conv;
	const struct ff_value *in = in_of(p, 0), *out = out_of(p);
	int64_t taps = a->out_channels / a->groups, met = (int64_t)in->shape[0] * in->shape[1];
	int64_t size = (int64_t)out->shape[0] * out->shape[1];

	ck_assert_int_eq(out->shape[0], in->shape[0]);
	ck_assert_int_eq(out->shape[1], a->out_channels);
	ck_assert_int_eq(param_of(p, 0)->shape[0], in->shape[1]);
	ck_assert_int_eq(param_of(p, 0)->shape[1], a->out_channels / a->groups);
	for (uint32_t i = 0; i + 2 < in->rank; i++) {
		/* as PyTorch's documentation has it */
		ck_assert_int_eq(out->shape[2 + i],
				(in->shape[2 + i] - 1) * a->stride[i] - a->pad[0][i] -
						a->pad[1][i] + a->dilation[i] * (a->kernel[i] - 1) +
						a->output_pad[i] + 1);
		taps *= a->kernel[i];
		met *= in->shape[2 + i];
		size *= out->shape[2 + i];
	}
	ck_assert_int_eq(n->flops_forward, 2 * met * taps + (a->bias ? size : 0));
	ck_assert_int_eq(n->flops_backward, n->flops_forward);
	ck_assert_int_eq(param_of(p, 0)->fan_in, taps);
}

/* Along _i + 1 axes. */
START_TEST(conv_transpose)
{
	struct ff_random r = {.seed = ff_test_seed(1), .stream = 10 + (uint64_t)_i};
	enum ff_op op = (enum ff_op)((int)FF_OP_CONV_TRANSPOSE1D + _i);
	int built = 0;

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(op);
		struct ff_conv_attrs *c = &a.conv;
		bool fits = true;
		struct shape in;
		struct probe p;

		c->groups = draw(&r, 0, 1) ? 1 : draw(&r, 2, 3);
		c->out_channels = c->groups * draw(&r, 1, 3);
		c->bias = draw(&r, 0, 1);
		in = (struct shape){3 + _i, {draw(&r, 1, 3), c->groups * draw(&r, 1, 3)}};
		for (int i = 0; i <= _i; i++) {
			c->kernel[i] = draw(&r, 1, 4);
			c->stride[i] = draw(&r, 1, 3);
			c->dilation[i] = draw(&r, 1, 2);
			c->output_pad[i] = draw(&r, 0, 2);
			for (int k = 0; k < 2; k++)
				c->pad[k][i] = draw(&r, 0, 3);
			in.size[2 + i] = draw(&r, 1, _i < 2 ? 6 : 4);
			fits = fits && (c->output_pad[i] < c->stride[i] ||
						       c->output_pad[i] < c->dilation[i]);
			fits = fits &&
			       (in.size[2 + i] - 1) * c->stride[i] +
							       c->dilation[i] * (c->kernel[i] - 1) +
							       c->output_pad[i] >=
					       c->pad[0][i] + c->pad[1][i];
		}
		probe_open(&p, op, &a, &in, 1);
		ck_assert_msg((p.code == FF_OK) == fits, "%s", p.err.text);
		if (fits) {
			built++;
			check_node(&p);
			check_conv_transpose(&p);
			check_regions(&r, &p, touch_conv_transpose);
		}
		probe_close(&p);
	}
	ck_assert_int_gt(built, ROUNDS / 8);
}
END_TEST

/* ---- pool1d, pool2d, pool3d ---- */

static void touch_pool(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_pool_attrs *a = &p->node->attrs.pool;
	int32_t start[FF_MAX_SPATIAL], reach[FF_MAX_SPATIAL];
	uint32_t rank = in_of(p, 0)->rank;
	int64_t out[FF_MAX_RANK];

	for (uint32_t i = 0; i < rank; i++)
		out[i] = at[i];
	for (uint32_t i = 0; i + 2 < rank; i++) {
		start[i] = at[2 + i] * a->stride[i] - a->pad[0][i];
		reach[i] = a->kernel[i] - 1;
	}
	touch(&h->out, rank, out);
	touch(&h->saved, rank, out);
	touch_window(&h->in[0], out, rank, start, reach);
}

/* Along _i + 1 axes. */
START_TEST(pool)
{
	struct ff_random r = {.seed = ff_test_seed(2), .stream = (uint64_t)_i};
	enum ff_op op = (enum ff_op)((int)FF_OP_POOL1D + _i);
	int more = 0;

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(op);
		struct shape in = {3 + _i, {draw(&r, 1, 3), draw(&r, 1, 3)}};
		struct probe p;

		a.pool.mode = draw(&r, 0, 1);
		a.pool.ceil = draw(&r, 0, 1);
		a.pool.count_pad = draw(&r, 0, 1);
		for (int i = 0; i <= _i; i++) {
			a.pool.kernel[i] = draw(&r, 1, 4);
			a.pool.stride[i] = draw(&r, 0, 4); /* 0: as the kernel */
			for (int k = 0; k < 2; k++)
				a.pool.pad[k][i] = draw(&r, 0, a.pool.kernel[i] / 2);
			in.size[2 + i] = draw(&r, a.pool.kernel[i], _i < 2 ? 9 : 6);
		}
		probe_open(&p, op, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		for (int i = 0; i <= _i; i++) {
			const int32_t pad[2] = {a.pool.pad[0][i], a.pool.pad[1][i]};
			int32_t stride = a.pool.stride[i] ? a.pool.stride[i] : a.pool.kernel[i];
			int32_t down = count_windows(
					in.size[2 + i], pad, stride, a.pool.kernel[i], false);
			int32_t n = count_windows(
					in.size[2 + i], pad, stride, a.pool.kernel[i], a.pool.ceil);

			ck_assert_int_eq(p.node->attrs.pool.stride[i], stride);
			ck_assert_int_eq(out_of(&p)->shape[2 + i], n);
			more += n > down;
		}
		/* the largest keeps where in its window it was, in a byte where that fits */
		ck_assert_uint_eq(p.node->n_saved, a.pool.mode == FF_POOL_MAX);
		if (p.node->n_saved && _i < 2)
			ck_assert_int_eq(out_of(&p)[1].dtype, FF_U8);
		check_regions(&r, &p, touch_pool);
		probe_close(&p);
	}
	ck_assert_int_gt(more, ROUNDS / 20);
}
END_TEST

/* ---- adaptive_pool, upsample ---- */

static void touch_resize(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_resize_attrs *a = &p->node->attrs.resize;
	const struct ff_value *in = in_of(p, 0), *to = out_of(p);
	int64_t out[FF_MAX_RANK], low[FF_MAX_RANK], high[FF_MAX_RANK];

	for (uint32_t i = 0; i < in->rank; i++) {
		int64_t n = in->shape[i], m = to->shape[i], o = at[i];

		out[i] = low[i] = high[i] = o;
		if (i < 2)
			continue;
		low[i] = high[i] = o * n / m; /* nearest */
		if (p->node->op == FF_OP_ADAPTIVE_POOL)
			high[i] = ((o + 1) * n - 1) / m;
		else if (a->mode == FF_RESIZE_LINEAR && a->corners)
			low[i] = m > 1 ? o * (n - 1) / (m - 1) : 0;
		else if (a->mode == FF_RESIZE_LINEAR)
			low[i] = (int64_t)floor((double)((2 * o + 1) * n - m) / (double)(2 * m));
		if (a->mode == FF_RESIZE_LINEAR && p->node->op == FF_OP_UPSAMPLE)
			high[i] = low[i] + 1;
	}
	touch(&h->out, in->rank, out);
	touch(&h->in[0], in->rank, low);
	touch(&h->in[0], in->rank, high);
}

START_TEST(resize)
{
	struct ff_random r = {.seed = ff_test_seed(2), .stream = 9};
	enum ff_op op = _i ? FF_OP_UPSAMPLE : FF_OP_ADAPTIVE_POOL;

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(op);
		struct shape in = {draw(&r, 3, 5), {draw(&r, 1, 3), draw(&r, 1, 3)}};
		struct probe p;

		a.resize.axes = in.rank - 2;
		a.resize.mode = _i ? draw(&r, 0, 1) : 0;
		a.resize.corners = a.resize.mode && draw(&r, 0, 1);
		for (int i = 0; i < a.resize.axes; i++) {
			in.size[2 + i] = draw(&r, 1, in.rank < 5 ? 9 : 5);
			a.resize.size[i] = draw(&r, 1, in.rank < 5 ? 12 : 6);
		}
		probe_open(&p, op, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		for (int i = 0; i < a.resize.axes; i++)
			ck_assert_int_eq(out_of(&p)->shape[2 + i], a.resize.size[i]);
		check_regions(&r, &p, touch_resize);
		probe_close(&p);
	}
}
END_TEST

/* ---- local_response_norm ---- */

static void touch_response(const struct probe *p, const int32_t *at, struct hulls *h)
{
	int32_t size = p->node->attrs.response.size;
	int64_t out[FF_MAX_RANK], low[FF_MAX_RANK], high[FF_MAX_RANK];
	uint32_t rank = in_of(p, 0)->rank;

	for (uint32_t i = 0; i < rank; i++)
		out[i] = low[i] = high[i] = at[i];
	low[1] -= size / 2;
	high[1] = low[1] + size - 1;
	touch(&h->out, rank, out);
	touch(&h->in[0], rank, low);
	touch(&h->in[0], rank, high);
}

START_TEST(response)
{
	struct ff_random r = {.seed = ff_test_seed(2), .stream = 10};

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_LOCAL_RESPONSE_NORM);
		struct shape in = draw_any_shape(&r, 2);
		struct probe p;

		in.size[1] = draw(&r, 1, 9);
		a.response.size = draw(&r, 1, 7);
		probe_open(&p, FF_OP_LOCAL_RESPONSE_NORM, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_int_eq(p.node->dim[1].label, FF_DIM_PARAMETER);
		check_regions(&r, &p, touch_response);
		probe_close(&p);
	}
}
END_TEST

/* A window of more places than a byte counts. */
START_TEST(wide_pool2d)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_POOL2D);
	struct shape in = {4, {1, 1, 16, 16}};

	for (int32_t k = 15; k <= 16; k++) {
		struct probe p;

		a.pool.kernel[0] = 16;
		a.pool.kernel[1] = k;
		probe_open(&p, FF_OP_POOL2D, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_int_eq(out_of(&p)[1].dtype, 16 * k <= UINT8_MAX ? FF_U8 : FF_I32);
		probe_close(&p);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("windows");
	TCase *c = tcase_create("windows");

	tcase_add_loop_test(c, conv, 0, FF_MAX_SPATIAL);
	tcase_add_loop_test(c, conv_transpose, 0, FF_MAX_SPATIAL);
	tcase_add_loop_test(c, pool, 0, FF_MAX_SPATIAL);
	tcase_add_loop_test(c, resize, 0, 2);
	tcase_add_test(c, response);
	tcase_add_test(c, wide_pool2d);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
