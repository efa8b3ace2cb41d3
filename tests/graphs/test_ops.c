/* The operator table against brute force: shapes, and the region of every
 * tensor that random iteration boxes touch.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

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

/* ---- route ---- */

static void touch_sample(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_value *v[2] = {in_of(p, 0), out_of(p)};

	for (int i = 0; i < 2; i++) {
		int64_t last[3] = {at[0], v[i]->shape[1] - 1, v[i]->shape[2] - 1};

		touch(i ? &h->out : &h->in[0], 3, (int64_t[]){at[0], 0, 0});
		touch(i ? &h->out : &h->in[0], 3, last);
	}
}

START_TEST(route)
{
	struct ff_random r = {.seed = ff_test_seed(2), .stream = 11};

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_ROUTE);
		struct shape in = {3, {draw(&r, 1, 5), draw(&r, 1, 9), draw(&r, 1, 6)}};
		struct probe p;

		a.route.choices = draw(&r, 1, in.size[2] + 1);
		a.route.capacity = draw(&r, 1, 4);
		probe_open(&p, FF_OP_ROUTE, &a, &in, 1);
		if (a.route.choices > in.size[2]) {
			ck_assert_ptr_nonnull(strstr(p.err.text, "choices of"));
		} else {
			ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
			check_node(&p);
			ck_assert_int_eq(out_of(&p)->shape[2], a.route.capacity * in.size[2]);
			ck_assert(!out_of(&p)->needs_grad);
			check_regions(&r, &p, touch_sample);
		}
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

/* ---- linear ---- */

static void touch_linear(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t last = in_of(p, 0)->rank - 1;
	int64_t in[FF_MAX_RANK] = {0}, out[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < last; i++)
		in[i] = out[i] = at[i];
	out[last] = at[last];
	in[last] = at[last + 1];
	touch(&h->out, last + 1, out);
	touch(&h->in[0], last + 1, in);
	TOUCH(&h->weight[0], at[last], at[last + 1]);
	if (at[last + 1] == 0)
		TOUCH(&h->weight[1], at[last]);
}

START_TEST(linear)
{
	struct ff_random r = {.seed = ff_test_seed(3), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);
		struct shape in = {.rank = draw(&r, 2, 5)};
		int64_t volume = 1;
		struct probe p;
		const struct ff_value *out;
		int64_t rows, n;
		const struct ff_node *fc;

		a.linear.out_features = draw(&r, 1, 6);
		a.linear.bias = draw(&r, 0, 1);
		for (int i = 0; i < in.rank; i++) {
			in.size[i] = draw(&r, 1, 4);
			volume *= in.size[i];
		}
		probe_open(&p, FF_OP_LINEAR, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		out = out_of(&p);
		rows = volume / in.size[in.rank - 1];
		ck_assert_int_eq(out->rank, in.rank);
		ck_assert_int_eq(out->shape[in.rank - 1], a.linear.out_features);
		ck_assert_int_eq(p.node->flops_forward,
				(2 * volume + (a.linear.bias ? rows : 0)) * a.linear.out_features);
		ck_assert_int_eq(param_of(&p, 0)->fan_in, in.size[in.rank - 1]);
		ck_assert_uint_eq(params_of(&p), a.linear.bias ? 2 : 1);
		ck_assert_uint_eq(p.node->in_map[1].lead_only, 0);
		ck_assert(!a.linear.bias ||
				(p.node->in_map[2].lead_only && param_of(&p, 1)->fan_in == 0));
		check_regions(&r, &p, touch_linear);
		/* the linear layer behind it computes both gradients */
		fc = &p.graph.nodes[ff_graph_find(&p.graph, "fc")];
		n = 3 * (int64_t)in.size[0];
		ck_assert_int_eq(fc->flops_backward, 2 * (fc->flops_forward - n) + n);
		probe_close(&p);
	}
}
END_TEST

/* ---- one element to one element ---- */

static void touch_same(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t rank = out_of(p)->rank;
	int64_t to[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < rank; i++)
		to[i] = at[i];
	touch(&h->out, rank, to);
	for (uint32_t k = 0; k < p->node->n_data; k++)
		touch(&h->in[k], rank, to);
}

START_TEST(elementwise)
{
	static const enum ff_op ops[] = {
#define UNARY(e, row) e,
			FF_UNARY_OPS(UNARY)
#undef UNARY
					FF_OP_DROPOUT,
			FF_OP_ADD};
	struct ff_random r = {.seed = ff_test_seed(4), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		enum ff_op op = ops[round % (int)(sizeof(ops) / sizeof(ops[0]))];
		uint32_t n_in = op == FF_OP_ADD ? (uint32_t)draw(&r, 2, MAX_IN) : 1;
		struct shape in[MAX_IN] = {{.rank = draw(&r, 1, FF_MAX_RANK)}};
		struct probe p;

		for (int i = 0; i < in[0].rank; i++)
			in[0].size[i] = draw(&r, 1, 4);
		for (uint32_t i = 1; i < n_in; i++)
			in[i] = in[0];
		probe_open(&p, op, NULL, in, n_in);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(p.node->n_dims, out_of(&p)->rank);
		ck_assert_mem_eq(out_of(&p)->shape, in[0].size,
				sizeof(in[0].size[0]) * (size_t)in[0].rank);
		check_regions(&r, &p, touch_same);
		probe_close(&p);
	}
}
END_TEST

/* Powers cost differently, and say so; so do both kinds of gelu. */
START_TEST(numbers_in_keys)
{
	const struct shape in = {2, {3, 4}};
	const double exponents[] = {2, 0.5, 0.1};
	char key[5][FF_KEY_BYTES];
	uint64_t hash[5];

	for (int i = 0; i < 5; i++) {
		union ff_attrs a = ff_attrs_preset(i < 3 ? FF_OP_POW : FF_OP_GELU);
		struct ff_region box = {2, {0}, {3, 4}};
		struct ff_work w;
		struct probe p;

		if (i < 3)
			a.unary.a = exponents[i];
		else
			a.unary.form = i - 3;
		probe_open(&p, i < 3 ? FF_OP_POW : FF_OP_GELU, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		ff_work_fill(&p.graph, ff_graph_find(&p.graph, "probe"), &box, FF_FORWARD, &w);
		ff_work_key(&w, key[i]);
		hash[i] = ff_work_hash(&w);
		for (int k = 0; k < i; k++)
			ck_assert_uint_ne(hash[i], hash[k]);
		probe_close(&p);
	}
	ck_assert_str_eq(key[0], "pow.forward exponent=2 in0=3x4 out=3x4 float32");
	ck_assert_ptr_nonnull(strstr(key[2], " exponent=0.10000000000000001 "));
	ck_assert_ptr_nonnull(strstr(key[4], " approximate=1 "));
}
END_TEST

START_TEST(limits)
{
	const struct shape in = {2, {3, 4}};
	union ff_attrs a = ff_attrs_preset(FF_OP_CLIP);
	struct probe p;

	a.unary.a = 2;
	a.unary.b = 1;
	probe_open(&p, FF_OP_CLIP, &a, &in, 1);
	ck_assert_int_eq(p.code, FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(p.err.text, "\"min\" 2 is larger than \"max\" 1"));
	probe_close(&p);
}
END_TEST

/* ---- concat ---- */

static void touch_concat(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t rank = out_of(p)->rank, axis = (uint32_t)p->node->attrs.concat.axis;
	int64_t to[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < rank; i++)
		to[i] = at[i];
	touch(&h->out, rank, to);
	for (uint32_t k = 0; k < p->node->n_data; k++) {
		int32_t size = in_of(p, k)->shape[axis];

		if (to[axis] >= 0 && to[axis] < size)
			touch(&h->in[k], rank, to);
		to[axis] -= size;
	}
}

START_TEST(concat)
{
	struct ff_random r = {.seed = ff_test_seed(5), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t n_in = (uint32_t)draw(&r, 1, MAX_IN);
		union ff_attrs a = ff_attrs_preset(FF_OP_CONCAT);
		struct shape in[MAX_IN] = {{.rank = draw(&r, 2, 5)}};
		int32_t sum;
		struct probe p;

		a.concat.axis = draw(&r, 1, in[0].rank - 1);
		for (int i = 0; i < in[0].rank; i++)
			in[0].size[i] = draw(&r, 1, 3);
		sum = in[0].size[a.concat.axis];
		for (uint32_t i = 1; i < n_in; i++) {
			in[i] = in[0];
			in[i].size[a.concat.axis] = draw(&r, 1, 4);
			sum += in[i].size[a.concat.axis];
		}
		probe_open(&p, FF_OP_CONCAT, &a, in, n_in);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_int_eq(out_of(&p)->shape[a.concat.axis], sum);
		check_regions(&r, &p, touch_concat);
		probe_close(&p);
	}
}
END_TEST

/* ---- softmax_cross_entropy ---- */

/* One logit, its label, and what is known of all logits of that. */
static void touch_logit(const struct probe *p, const int32_t *at, struct hulls *h, bool loss)
{
	uint32_t rank = in_of(p, 1)->rank;
	int64_t logit[FF_MAX_RANK] = {0}, label[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < rank; i++)
		label[i] = logit[i ? i + 1 : 0] = at[i];
	logit[1] = at[rank];
	touch(&h->in[0], rank + 1, logit);
	touch(&h->in[1], rank, label);
	for (label[rank] = 0; label[rank] < 2; label[rank]++) {
		touch(loss ? &h->in[2] : &h->out, rank + 1, label);
		touch(&h->in[3], rank + 1, label);
	}
}

static void touch_loss(const struct probe *p, const int32_t *at, struct hulls *h)
{
	touch_logit(p, at, h, true);
	TOUCH(&h->out, 0);
	TOUCH(&h->out, 1);
}

static void touch_statistics(const struct probe *p, const int32_t *at, struct hulls *h)
{
	touch_logit(p, at, h, false);
}

/* Made beside the loss, split as it is, read by nobody else. */
static void check_statistics(struct ff_random *r, struct probe *p)
{
	const struct ff_graph *g = &p->graph;
	const struct ff_node *loss = &g->nodes[g->loss[0]];
	uint32_t prelude = ff_node_prelude(g, g->loss[0]);

	ck_assert_uint_ne(prelude, FF_NONE);
	p->node = &g->nodes[prelude];
	check_node(p);
	check_regions(r, p, touch_statistics);
	ck_assert_str_eq(p->node->name, "loss.statistics");
	ck_assert_uint_eq(ff_node_leader(g, prelude), g->loss[0]);
	ck_assert(!ff_node_needs_config(g, prelude) && !ff_node_needs_grad(g, prelude));
	ck_assert_uint_eq(p->node->n_dims, loss->n_dims);
	for (uint32_t d = 0; d < loss->n_dims; d++) {
		ck_assert_str_eq(p->node->dim[d].name, loss->dim[d].name);
		ck_assert_int_eq(p->node->dim[d].extent, loss->dim[d].extent);
	}
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_uint_eq(g->edges[loss->in + i].shared, p->node->in + i);
		ck_assert_uint_eq(g->edges[loss->in + i].value, g->edges[p->node->in + i].value);
		ck_assert_mem_eq(loss->in_map[i].axis, p->node->in_map[i].axis,
				sizeof(loss->in_map[i].axis));
		ck_assert_uint_eq(g->edges[loss->in + 2 + i].shared, FF_NONE);
	}
	ck_assert(!ff_edge_needs_grad(g, p->node->in) && ff_edge_needs_grad(g, loss->in));
	ck_assert_int_eq(p->node->out_map[0].reduce, FF_REDUCE_LOG_SUM_EXP);
	ck_assert_int_eq(p->node->out_map[1].reduce, FF_REDUCE_MAX);
}

START_TEST(softmax_cross_entropy)
{
	struct ff_random r = {.seed = ff_test_seed(7), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		struct probe p = {0};
		struct ff_builder *b;
		union ff_attrs x = ff_attrs_preset(FF_OP_INPUT), y = x;
		union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
		uint32_t in, logits, labels;

		x.input.rank = draw(&r, 2, 5);
		y.input = (struct ff_input_attrs){
				.rank = x.input.rank - 1, .dtype = FF_I32, .classes = 1};
		fc.linear.out_features = draw(&r, 1, 4);
		for (int i = 0; i < x.input.rank; i++) {
			x.input.shape[i] = draw(&r, 1, 4);
			if (i != 1)
				y.input.shape[i ? i - 1 : 0] = x.input.shape[i];
		}
		if (x.input.rank > 2)
			y.input.shape[x.input.rank - 2] = fc.linear.out_features;
		ff_arena_init(&p.arena);
		ck_assert_int_eq(ff_builder_create("loss", &p.arena, &b, &p.err), FF_OK);
		in = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
		logits = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, &in, 1);
		labels = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
		ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL,
				(uint32_t[]){logits, labels}, 2);
		p.code = ff_builder_finish(b, &p.graph, &p.err);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		p.node = &p.graph.nodes[p.graph.loss[0]];
		check_node(&p);
		ck_assert_uint_eq(out_of(&p)->rank, 1);
		ck_assert_int_eq(out_of(&p)->shape[0], 2);
		ck_assert_int_gt(p.node->flops_backward, 0);
		check_regions(&r, &p, touch_loss);
		check_statistics(&r, &p);
		probe_close(&p);
	}
}
END_TEST

/* ---- losses by element ---- */

static void touch_points(const struct probe *p, const int32_t *at, struct hulls *h)
{
	int64_t x[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < in_of(p, 0)->rank; i++)
		x[i] = at[i];
	touch(&h->in[0], in_of(p, 0)->rank, x);
	touch(&h->in[1], in_of(p, 0)->rank, x);
	TOUCH(&h->out, 0);
	TOUCH(&h->out, 1);
}

START_TEST(point_losses)
{
	struct ff_random r = {.seed = ff_test_seed(8), .stream = 1};
	enum ff_op op = _i ? FF_OP_BCE_WITH_LOGITS : FF_OP_MSE;

	for (int round = 0; round < ROUNDS; round++) {
		struct probe p = {0};
		struct ff_builder *b;
		union ff_attrs x = ff_attrs_preset(FF_OP_INPUT), loss = ff_attrs_preset(op);
		union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
		bool computed = draw(&r, 0, 9) == 0, narrow = !computed && draw(&r, 0, 9) == 0;
		uint32_t in, of[2];

		x.input.rank = draw(&r, 2, 5);
		for (int i = 0; i < x.input.rank; i++)
			x.input.shape[i] = draw(&r, 1, 4);
		fc.linear.out_features = x.input.shape[x.input.rank - 1];
		loss.loss.weight = draw(&r, 0, 3);
		ff_arena_init(&p.arena);
		ck_assert_int_eq(ff_builder_create("loss", &p.arena, &b, &p.err), FF_OK);
		in = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
		of[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, &in, 1);
		x.input.shape[x.input.rank - 1] += narrow;
		of[1] = computed ? ff_builder_add(b, FF_OP_LINEAR, "fc2", &fc, &in, 1)
				 : ff_builder_add(b, FF_OP_INPUT, "t", &x, NULL, 0);
		ff_builder_add(b, op, "loss", &loss, of, 2);
		p.code = ff_builder_finish(b, &p.graph, &p.err);
		if (computed || narrow) {
			ck_assert_int_eq(p.code, FF_E_INPUT);
			ck_assert_ptr_nonnull(strstr(p.err.text,
					computed ? "\"fc2\" is computed" : "do not fit"));
			ff_arena_finish(&p.arena);
			continue;
		}
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		ck_assert_uint_eq(p.graph.n_losses, 1);
		p.node = &p.graph.nodes[p.graph.loss[0]];
		check_node(&p);
		ck_assert_uint_eq(ff_node_prelude(&p.graph, p.graph.loss[0]), FF_NONE);
		ck_assert_int_gt(p.node->flops_backward, 0);
		check_regions(&r, &p, touch_points);
		probe_close(&p);
	}
}
END_TEST

/* ---- the table ---- */

START_TEST(table)
{
	enum ff_op none = FF_OP_COUNT;

	for (uint32_t i = 0; i < FF_OP_COUNT; i++) {
		const struct ff_op_row *row = ff_op_row((enum ff_op)i);
		enum ff_op found = FF_OP_COUNT;

		bool made = row->flags & (FF_OP_UPDATE | FF_OP_PRELUDE);

		/* parameters and preludes are made by those that read them, no file names them */
		ck_assert_ptr_eq(ff_op_find(row->name, &found), made ? NULL : row);
		ck_assert_uint_eq(found, made ? FF_OP_COUNT : i);
		ck_assert_ptr_nonnull(row->summary);
		ck_assert_ptr_nonnull(row->derive);
		ck_assert_uint_le(row->min_in, row->max_in);
		ck_assert(!row->max_in || !(row->flags & (FF_OP_SOURCE | FF_OP_UPDATE)));
		for (uint32_t k = 0; k < row->n_attrs; k++) {
			const struct ff_attr_row *a = &row->attrs[k];

			ck_assert(a->min <= a->max);
			ck_assert_int_eq(a->type == FF_ATTR_CHOICE, a->choices != NULL);
		}
	}
	ck_assert_ptr_null(ff_op_find("Conv2d", &none));
	ck_assert_ptr_null(ff_op_find("", &none));
	ck_assert_uint_eq(none, FF_OP_COUNT);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("ops");
	TCase *c = tcase_create("ops");

	tcase_add_test(c, table);
	tcase_add_loop_test(c, conv, 0, FF_MAX_SPATIAL);
	tcase_add_loop_test(c, conv_transpose, 0, FF_MAX_SPATIAL);
	tcase_add_loop_test(c, pool, 0, FF_MAX_SPATIAL);
	tcase_add_loop_test(c, resize, 0, 2);
	tcase_add_test(c, response);
	tcase_add_test(c, route);
	tcase_add_test(c, wide_pool2d);
	tcase_add_test(c, linear);
	tcase_add_test(c, elementwise);
	tcase_add_test(c, numbers_in_keys);
	tcase_add_test(c, limits);
	tcase_add_test(c, concat);
	tcase_add_test(c, softmax_cross_entropy);
	tcase_add_loop_test(c, point_losses, 0, 2);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
