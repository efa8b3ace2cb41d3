/* The operator table against brute force: shapes, and the region of every
 * tensor that random iteration boxes touch.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "check_main.h"
#include "ff/graph.h"
#include "ff/philox.h"

#define ROUNDS 300
#define BOXES 6
#define MAX_IN 4

/* ---- a graph around one operator ---- */

struct probe {
	struct ff_arena arena;
	struct ff_graph graph;
	const struct ff_node *node;
	struct ff_error err;
	int rc;
};
struct shape {
	int32_t rank, size[FF_MAX_RANK];
};

/* in[] -> op "probe" -> flatten -> linear -> loss. */
static void probe_open(struct probe *p, enum ff_op op, const union ff_attrs *attrs,
		const struct shape *in, uint32_t n_in)
{
	struct ff_builder *b;
	uint32_t source[MAX_IN], x;
	memset(p, 0, sizeof *p);
	ff_arena_init(&p->arena);
	ck_assert_int_eq(ff_builder_create("probe", &p->arena, &b, &p->err), FF_OK);
	for (uint32_t i = 0; i < n_in; i++) {
		char name[16];
		union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
		a.input.rank = in[i].rank;
		memcpy(a.input.shape, in[i].size, sizeof in[i].size);
		snprintf(name, sizeof name, "in%u", i);
		source[i] = ff_builder_add(b, FF_OP_INPUT, name, &a, NULL, 0);
	}
	union ff_attrs flat = ff_attrs_preset(FF_OP_RESHAPE);
	flat.reshape.rank = 2;
	flat.reshape.shape[1] = -1;
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	fc.linear.out_features = 3;
	union ff_attrs label = ff_attrs_preset(FF_OP_INPUT);
	label.input = (struct ff_input_attrs){
			.rank = 1, .shape = {in[0].size[0]}, .dtype = FF_I32, .classes = 3};
	x = ff_builder_add(b, op, "probe", attrs, source, n_in);
	x = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, &x, 1);
	x = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, &x, 1);
	uint32_t y = ff_builder_add(b, FF_OP_INPUT, "labels", &label, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, (uint32_t[]){x, y}, 2);
	p->rc = ff_builder_finish(b, &p->graph, &p->err);
	if (p->rc == FF_OK)
		p->node = &p->graph.nodes[ff_graph_find(&p->graph, "probe")];
}

static void probe_close(struct probe *p)
{
	ff_arena_finish(&p->arena);
}

static const struct ff_tensor *out_of(const struct probe *p)
{
	return &p->graph.tensors[p->node->out];
}
static const struct ff_tensor *in_of(const struct probe *p, uint32_t slot)
{
	return &p->graph.tensors[p->graph.edges[p->node->in + slot].tensor];
}

/* ---- what a definition touches ---- */

struct hull {
	uint32_t rank; /* 0: nothing yet */
	int64_t lo[FF_MAX_RANK], hi[FF_MAX_RANK];
};
struct hulls {
	struct hull out, in[MAX_IN], weight[FF_MAX_WEIGHTS];
};

static void touch(struct hull *h, uint32_t rank, const int64_t *at)
{
	for (uint32_t i = 0; i < rank; i++) {
		if (!h->rank || at[i] < h->lo[i])
			h->lo[i] = at[i];
		if (!h->rank || at[i] + 1 > h->hi[i])
			h->hi[i] = at[i] + 1;
	}
	h->rank = rank;
}
#define TOUCH(h, ...)                                                                              \
	touch(h, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

/* Touches what one point of the iteration space does. */
typedef void (*touch_fn)(const struct probe *p, const int32_t *at, struct hulls *h);

static void expect(const struct ff_operand *o, const struct ff_region *box, const struct hull *h,
		const char *what)
{
	struct ff_region got;
	ff_operand_region(o, box, &got);
	ck_assert_uint_eq(got.rank, o->rank);
	if (!h->rank) {
		ck_assert_msg(ff_region_volume(&got) == 0, "%s: should be empty", what);
		return;
	}
	for (uint32_t i = 0; i < o->rank; i++) {
		int64_t lo = h->lo[i] < 0 ? 0 : h->lo[i];
		int64_t hi = h->hi[i] > o->shape[i] ? o->shape[i] : h->hi[i];
		ck_assert_msg(got.lo[i] == lo && got.hi[i] == hi,
				"%s axis %u: got [%d, %d), expected [%lld, %lld)", what, i,
				got.lo[i], got.hi[i], (long long)lo, (long long)hi);
	}
}

static void draw_box(struct ff_random *r, const struct ff_node *n, struct ff_region *box)
{
	box->rank = n->n_dims;
	for (uint32_t d = 0; d < n->n_dims; d++) {
		uint32_t extent = (uint32_t)n->dim[d].extent;
		uint32_t size = 1 + ff_random_below(r, extent);
		box->lo[d] = (int32_t)ff_random_below(r, extent - size + 1);
		box->hi[d] = box->lo[d] + (int32_t)size;
	}
}

static bool next_point(const struct ff_region *box, int32_t *at)
{
	for (uint32_t i = box->rank; i-- > 0;) {
		if (++at[i] < box->hi[i])
			return true;
		at[i] = box->lo[i];
	}
	return false;
}

static void check_regions(struct ff_random *r, const struct probe *p, touch_fn fn)
{
	const struct ff_node *n = p->node;
	for (int i = 0; i < BOXES; i++) {
		struct hulls h = {0};
		struct ff_region box;
		int32_t at[FF_MAX_RANK];
		draw_box(r, n, &box);
		memcpy(at, box.lo, sizeof at);
		do {
			fn(p, at, &h);
		} while (next_point(&box, at));
		expect(&n->out_map, &box, &h.out, "out");
		for (uint32_t k = 0; k < n->n_in; k++)
			expect(&n->in_map[k], &box, &h.in[k], "in");
		for (uint32_t k = 0; k < n->n_weights; k++)
			expect(&n->weight[k].map, &box, &h.weight[k], n->weight[k].name);
	}
}

/* What holds for every node whatever its operator. */
static void check_node(const struct probe *p)
{
	const struct ff_node *n = p->node;
	const struct ff_tensor *out = out_of(p);
	ck_assert_uint_le(n->n_dims, FF_MAX_RANK);
	ck_assert_uint_eq(n->out_map.rank, out->rank);
	ck_assert_mem_eq(n->out_map.shape, out->shape, out->rank * sizeof out->shape[0]);
	ck_assert_int_eq(n->dim[0].label, FF_DIM_SAMPLE);
	for (uint32_t d = 0; d < n->n_dims; d++) {
		ck_assert_int_ge(n->dim[d].extent, 1);
		ck_assert(!d || n->dim[d].label != FF_DIM_SAMPLE);
		for (uint32_t e = 0; e < d; e++)
			ck_assert_str_ne(n->dim[d].name, n->dim[e].name);
	}
	for (uint32_t i = 0; i < out->rank; i++)
		for (uint32_t t = 0; t < n->out_map.axis[i].n_terms; t++)
			ck_assert_int_ne(n->dim[n->out_map.axis[i].term[t].dim].label,
					FF_DIM_REDUCTION);
	ck_assert_int_ge(n->flops_forward, 0);
	ck_assert_int_ge(n->flops_backward, 0);
}

static int32_t draw(struct ff_random *r, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(r, (uint32_t)(hi - lo + 1));
}

/* Places where a window of `extent` elements fits, by trying them. */
static int32_t count_windows(int32_t in, int32_t pad, int32_t stride, int32_t extent)
{
	int32_t n = 0;
	for (int32_t at = -pad; at + extent <= in + pad; at += stride)
		n++;
	return n;
}

/* ---- conv2d ---- */

static void touch_conv2d(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_conv2d_attrs *a = &p->node->attrs.conv2d;
	int32_t channels = in_of(p, 0)->shape[1];
	int32_t group = at[1] / (a->out_channels / a->groups);
	int32_t channel = group * (channels / a->groups) + at[4];
	TOUCH(&h->out, at[0], at[1], at[2], at[3]);
	TOUCH(&h->weight[1], at[1]);
	for (int32_t i = 0; i < a->kernel[0]; i++)
		for (int32_t j = 0; j < a->kernel[1]; j++) {
			TOUCH(&h->weight[0], at[1], at[4], i, j);
			TOUCH(&h->in[0], at[0], channel,
					at[2] * a->stride[0] - a->pad[0] + i * a->dilation[0],
					at[3] * a->stride[1] - a->pad[1] + j * a->dilation[1]);
		}
}

static void check_conv2d(const struct probe *p)
{
	const struct ff_node *n = p->node;
	const struct ff_conv2d_attrs *a = &n->attrs.conv2d;
	const struct ff_tensor *in = in_of(p, 0), *out = out_of(p);
	int64_t taps = (int64_t)in->shape[1] / a->groups * a->kernel[0] * a->kernel[1];
	ck_assert_int_eq(out->shape[0], in->shape[0]);
	ck_assert_int_eq(out->shape[1], a->out_channels);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(out->shape[2 + i],
				count_windows(in->shape[2 + i], a->pad[i], a->stride[i],
						a->dilation[i] * (a->kernel[i] - 1) + 1));
	int64_t size = (int64_t)out->shape[0] * out->shape[1] * out->shape[2] * out->shape[3];
	ck_assert_int_eq(n->flops_forward, 2 * size * taps + (a->bias ? size : 0));
	/* the data set needs no gradient */
	ck_assert_int_eq(n->flops_backward, n->flops_forward);
	ck_assert_uint_eq(n->n_weights, a->bias ? 2 : 1);
	ck_assert_int_eq(n->weight[0].fan_in, taps);
	ck_assert_uint_eq(n->weight[0].map.lead_only, 0);
	if (a->bias) {
		ck_assert_int_eq(n->weight[1].fan_in, 0);
		ck_assert_uint_eq(n->weight[1].map.lead_only, 1);
	}
}

START_TEST(conv2d)
{
	struct ff_random r = {.seed = ff_test_seed(1), .stream = 1};
	int built = 0;
	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_CONV2D);
		struct ff_conv2d_attrs *c = &a.conv2d;
		c->groups = draw(&r, 1, 3);
		c->out_channels = c->groups * draw(&r, 1, 3);
		c->bias = draw(&r, 0, 1);
		struct shape in = {4, {draw(&r, 1, 3), c->groups * draw(&r, 1, 3)}};
		for (int i = 0; i < 2; i++) {
			c->kernel[i] = draw(&r, 1, 4);
			c->stride[i] = draw(&r, 1, 3);
			c->dilation[i] = draw(&r, 1, 3);
			c->pad[i] = draw(&r, 0, c->dilation[i] * (c->kernel[i] - 1));
			in.size[2 + i] = draw(&r, 1, 9);
		}
		struct probe p;
		probe_open(&p, FF_OP_CONV2D, &a, &in, 1);
		if (p.rc == FF_OK) {
			built++;
			check_node(&p);
			check_conv2d(&p);
			check_regions(&r, &p, touch_conv2d);
		} else {
			ck_assert_msg(strstr(p.err.text, "the kernel spans"), "%s", p.err.text);
		}
		probe_close(&p);
	}
	ck_assert_int_gt(built, ROUNDS / 2);
}
END_TEST

/* ---- pool2d ---- */

static void touch_pool2d(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_pool2d_attrs *a = &p->node->attrs.pool2d;
	TOUCH(&h->out, at[0], at[1], at[2], at[3]);
	for (int32_t i = 0; i < a->kernel[0]; i++)
		for (int32_t j = 0; j < a->kernel[1]; j++)
			TOUCH(&h->in[0], at[0], at[1], at[2] * a->stride[0] - a->pad[0] + i,
					at[3] * a->stride[1] - a->pad[1] + j);
}

START_TEST(pool2d)
{
	struct ff_random r = {.seed = ff_test_seed(2), .stream = 1};
	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_POOL2D);
		struct shape in = {4, {draw(&r, 1, 3), draw(&r, 1, 3)}};
		for (int i = 0; i < 2; i++) {
			a.pool2d.kernel[i] = draw(&r, 1, 4);
			a.pool2d.stride[i] = draw(&r, 0, 4); /* 0: as the kernel */
			a.pool2d.pad[i] = draw(&r, 0, a.pool2d.kernel[i] / 2);
			in.size[2 + i] = draw(&r, a.pool2d.kernel[i], 9);
		}
		struct probe p;
		probe_open(&p, FF_OP_POOL2D, &a, &in, 1);
		ck_assert_msg(p.rc == FF_OK, "%s", p.err.text);
		check_node(&p);
		for (int i = 0; i < 2; i++) {
			int32_t stride = a.pool2d.stride[i] ? a.pool2d.stride[i]
							    : a.pool2d.kernel[i];
			ck_assert_int_eq(p.node->attrs.pool2d.stride[i], stride);
			ck_assert_int_eq(out_of(&p)->shape[2 + i],
					count_windows(in.size[2 + i], a.pool2d.pad[i], stride,
							a.pool2d.kernel[i]));
		}
		check_regions(&r, &p, touch_pool2d);
		probe_close(&p);
	}
}
END_TEST

/* ---- linear ---- */

static void touch_linear(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t last = in_of(p, 0)->rank - 1;
	int64_t in[FF_MAX_RANK], out[FF_MAX_RANK];
	for (uint32_t i = 0; i < last; i++)
		in[i] = out[i] = at[i];
	out[last] = at[last];
	in[last] = at[last + 1];
	touch(&h->out, last + 1, out);
	touch(&h->in[0], last + 1, in);
	TOUCH(&h->weight[0], at[last], at[last + 1]);
	TOUCH(&h->weight[1], at[last]);
}

START_TEST(linear)
{
	struct ff_random r = {.seed = ff_test_seed(3), .stream = 1};
	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);
		struct shape in = {.rank = draw(&r, 2, 5)};
		int64_t volume = 1;
		a.linear.out_features = draw(&r, 1, 6);
		a.linear.bias = draw(&r, 0, 1);
		for (int i = 0; i < in.rank; i++) {
			in.size[i] = draw(&r, 1, 4);
			volume *= in.size[i];
		}
		struct probe p;
		probe_open(&p, FF_OP_LINEAR, &a, &in, 1);
		ck_assert_msg(p.rc == FF_OK, "%s", p.err.text);
		check_node(&p);
		const struct ff_tensor *out = out_of(&p);
		int64_t rows = volume / in.size[in.rank - 1];
		ck_assert_int_eq(out->rank, in.rank);
		ck_assert_int_eq(out->shape[in.rank - 1], a.linear.out_features);
		ck_assert_int_eq(p.node->flops_forward,
				(2 * volume + (a.linear.bias ? rows : 0)) * a.linear.out_features);
		ck_assert_int_eq(p.node->weight[0].fan_in, in.size[in.rank - 1]);
		check_regions(&r, &p, touch_linear);
		/* the linear layer behind it computes both gradients */
		const struct ff_node *fc = &p.graph.nodes[ff_graph_find(&p.graph, "fc")];
		int64_t n = 3 * (int64_t)in.size[0];
		ck_assert_int_eq(fc->flops_backward, 2 * (fc->flops_forward - n) + n);
		probe_close(&p);
	}
}
END_TEST

/* ---- one element to one element ---- */

static void touch_same(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t rank = out_of(p)->rank;
	int64_t to[FF_MAX_RANK];
	for (uint32_t i = 0; i < rank; i++)
		to[i] = at[i];
	touch(&h->out, rank, to);
	for (uint32_t k = 0; k < p->node->n_in; k++)
		touch(&h->in[k], rank, to);
}

START_TEST(elementwise)
{
	static const enum ff_op ops[] = {
			FF_OP_RELU, FF_OP_TANH, FF_OP_SIGMOID, FF_OP_DROPOUT, FF_OP_ADD};
	struct ff_random r = {.seed = ff_test_seed(4), .stream = 1};
	for (int round = 0; round < ROUNDS; round++) {
		enum ff_op op = ops[round % 5];
		uint32_t n_in = op == FF_OP_ADD ? (uint32_t)draw(&r, 2, MAX_IN) : 1;
		struct shape in[MAX_IN] = {{.rank = draw(&r, 1, FF_MAX_RANK)}};
		for (int i = 0; i < in[0].rank; i++)
			in[0].size[i] = draw(&r, 1, 4);
		for (uint32_t i = 1; i < n_in; i++)
			in[i] = in[0];
		struct probe p;
		probe_open(&p, op, NULL, in, n_in);
		ck_assert_msg(p.rc == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(p.node->n_dims, out_of(&p)->rank);
		ck_assert_mem_eq(out_of(&p)->shape, in[0].size,
				sizeof in[0].size[0] * (size_t)in[0].rank);
		check_regions(&r, &p, touch_same);
		probe_close(&p);
	}
}
END_TEST

/* ---- concat ---- */

static void touch_concat(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t rank = out_of(p)->rank, axis = (uint32_t)p->node->attrs.concat.axis;
	int64_t to[FF_MAX_RANK];
	for (uint32_t i = 0; i < rank; i++)
		to[i] = at[i];
	touch(&h->out, rank, to);
	for (uint32_t k = 0; k < p->node->n_in; k++) {
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
		a.concat.axis = draw(&r, 1, in[0].rank - 1);
		for (int i = 0; i < in[0].rank; i++)
			in[0].size[i] = draw(&r, 1, 3);
		int32_t sum = in[0].size[a.concat.axis];
		for (uint32_t i = 1; i < n_in; i++) {
			in[i] = in[0];
			in[i].size[a.concat.axis] = draw(&r, 1, 4);
			sum += in[i].size[a.concat.axis];
		}
		struct probe p;
		probe_open(&p, FF_OP_CONCAT, &a, in, n_in);
		ck_assert_msg(p.rc == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_int_eq(out_of(&p)->shape[a.concat.axis], sum);
		check_regions(&r, &p, touch_concat);
		probe_close(&p);
	}
}
END_TEST

/* ---- reshape ---- */

static int64_t flat_of(uint32_t rank, const int32_t *shape, const int32_t *at)
{
	int64_t n = 0;
	for (uint32_t i = 0; i < rank; i++)
		n = n * shape[i] + at[i];
	return n;
}

/* Is every bound of `box` a multiple of what its dim is divided by? */
static bool aligned(const struct ff_operand *o, const struct ff_region *box)
{
	for (uint32_t i = 0; i < o->rank; i++)
		for (uint32_t t = 0; t < o->axis[i].n_terms; t++) {
			const struct ff_term *m = &o->axis[i].term[t];
			if (box->lo[m->dim] % m->div || box->hi[m->dim] % m->div)
				return false;
		}
	return true;
}

/* The input's region must hold all elements of the output's, and nothing more
 * when the box is aligned. */
static bool check_reshape_box(const struct probe *p, const struct ff_region *box)
{
	const struct ff_tensor *in = in_of(p, 0), *out = out_of(p);
	struct ff_region to, from;
	struct hull h = {0};
	int32_t at[FF_MAX_RANK];
	ff_operand_region(&p->node->out_map, box, &to);
	ff_operand_region(&p->node->in_map[0], box, &from);
	memcpy(at, to.lo, sizeof at);
	do {
		int64_t flat = flat_of(out->rank, out->shape, at), place[FF_MAX_RANK];
		for (uint32_t i = in->rank; i-- > 0;) {
			place[i] = flat % in->shape[i];
			flat /= in->shape[i];
		}
		touch(&h, in->rank, place);
	} while (next_point(&to, at));
	bool tight = aligned(&p->node->in_map[0], box);
	for (uint32_t i = 0; i < in->rank; i++) {
		ck_assert_int_le(from.lo[i], h.lo[i]);
		ck_assert_int_ge(from.hi[i], h.hi[i]);
		ck_assert(!tight || (from.lo[i] == h.lo[i] && from.hi[i] == h.hi[i]));
	}
	return tight;
}

/* A shape with as many elements behind axis 0 as the product of `prime`. */
static struct shape draw_shape(struct ff_random *r, int32_t samples, const int32_t *prime, int n)
{
	struct shape s = {.rank = 1, .size = {samples}};
	int32_t axis = 1;
	for (int i = 0; i < n; i++) {
		axis *= prime[i];
		if (s.rank < FF_MAX_RANK - 1 && draw(r, 0, 1)) {
			s.size[s.rank++] = axis;
			axis = 1;
		}
		if (s.rank < FF_MAX_RANK - 1 && draw(r, 0, 9) == 0)
			s.size[s.rank++] = 1;
	}
	s.size[s.rank++] = axis;
	return s;
}

START_TEST(reshape)
{
	struct ff_random r = {.seed = ff_test_seed(6), .stream = 1};
	int tight = 0, split = 0;
	for (int round = 0; round < 2 * ROUNDS; round++) {
		int32_t prime[5], swapped[5];
		for (int i = 0; i < 5; i++)
			prime[i] = draw(&r, 0, 2) ? 2 + draw(&r, 0, 1) : 1;
		memcpy(swapped, prime, sizeof prime);
		for (int i = 4; i > 0 && draw(&r, 0, 1); i--) {
			int j = draw(&r, 0, i);
			int32_t t = swapped[i];
			swapped[i] = swapped[j];
			swapped[j] = t;
		}
		int32_t samples = draw(&r, 1, 3);
		struct shape in = draw_shape(&r, samples, prime, 5);
		struct shape to = draw_shape(&r, samples, swapped, 5);
		union ff_attrs a = ff_attrs_preset(FF_OP_RESHAPE);
		a.reshape.rank = to.rank;
		memcpy(a.reshape.shape, to.size, sizeof to.size);
		a.reshape.shape[0] = draw(&r, 0, 1) ? 0 : samples;
		a.reshape.shape[draw(&r, 1, to.rank - 1)] = -1;
		struct probe p;
		probe_open(&p, FF_OP_RESHAPE, &a, &in, 1);
		ck_assert_msg(p.rc == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_int_eq(out_of(&p)->rank, to.rank);
		ck_assert_mem_eq(out_of(&p)->shape, to.size, sizeof to.size[0] * (size_t)to.rank);
		split += p.node->n_dims > 1;
		for (int i = 0; i < BOXES; i++) {
			struct ff_region box;
			draw_box(&r, p.node, &box);
			tight += check_reshape_box(&p, &box);
		}
		probe_close(&p);
	}
	ck_assert_int_gt(split, ROUNDS);
	ck_assert_int_gt(tight, ROUNDS);
}
END_TEST

/* Flattening images for a linear layer is split by whole channels, or by rows
 * where there is one channel. */
START_TEST(flatten)
{
	static const struct {
		struct shape in;
		int32_t axis, div;
	} cases[] = {{{4, {2, 16, 5, 5}}, 1, 25}, {{4, {2, 1, 28, 28}}, 2, 28}};
	for (int i = 0; i < 2; i++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_RESHAPE);
		a.reshape.rank = 2;
		a.reshape.shape[1] = -1;
		struct probe p;
		probe_open(&p, FF_OP_RESHAPE, &a, &cases[i].in, 1);
		ck_assert_int_eq(p.rc, FF_OK);
		ck_assert_uint_eq(p.node->n_dims, 2);
		ck_assert_str_eq(p.node->dim[1].name, "feature");
		const struct ff_axis_map *m = &p.node->in_map[0].axis[cases[i].axis];
		ck_assert_uint_eq(m->n_terms, 1);
		ck_assert_int_eq(m->term[0].dim, 1);
		ck_assert_int_eq(m->term[0].div, cases[i].div);
		ck_assert_int_eq(m->term[0].step, 1);
		ck_assert_int_eq(m->window, 1);
		probe_close(&p);
	}
}
END_TEST

/* ---- softmax_cross_entropy ---- */

static void touch_loss(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t rank = in_of(p, 1)->rank;
	int64_t logit[FF_MAX_RANK], label[FF_MAX_RANK];
	for (uint32_t i = 0; i < rank; i++)
		label[i] = logit[i ? i + 1 : 0] = at[i];
	touch(&h->in[1], rank, label);
	for (int32_t c = 0; c < in_of(p, 0)->shape[1]; c++) {
		logit[1] = c;
		touch(&h->in[0], rank + 1, logit);
	}
	TOUCH(&h->out, 0);
	TOUCH(&h->out, 1);
}

START_TEST(softmax_cross_entropy)
{
	struct ff_random r = {.seed = ff_test_seed(7), .stream = 1};
	for (int round = 0; round < ROUNDS; round++) {
		struct probe p = {0};
		struct ff_builder *b;
		union ff_attrs x = ff_attrs_preset(FF_OP_INPUT), y = x;
		union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
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
		uint32_t in = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
		uint32_t logits = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, &in, 1);
		uint32_t labels = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
		ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL,
				(uint32_t[]){logits, labels}, 2);
		p.rc = ff_builder_finish(b, &p.graph, &p.err);
		ck_assert_msg(p.rc == FF_OK, "%s", p.err.text);
		p.node = &p.graph.nodes[p.graph.loss];
		check_node(&p);
		ck_assert_uint_eq(out_of(&p)->rank, 1);
		ck_assert_int_eq(out_of(&p)->shape[0], 2);
		ck_assert_int_gt(p.node->flops_backward, 0);
		check_regions(&r, &p, touch_loss);
		probe_close(&p);
	}
}
END_TEST

/* ---- the table ---- */

START_TEST(table)
{
	for (uint32_t i = 0; i < FF_OP_COUNT; i++) {
		const struct ff_op_row *row = ff_op_row((enum ff_op)i);
		enum ff_op found = FF_OP_COUNT;
		ck_assert_ptr_eq(ff_op_find(row->name, &found), row);
		ck_assert_uint_eq(found, i);
		ck_assert_ptr_nonnull(row->summary);
		ck_assert_ptr_nonnull(row->derive);
		ck_assert_uint_le(row->min_in, row->max_in);
		ck_assert_int_eq(row->max_in == 0, (row->flags & FF_OP_SOURCE) != 0);
		for (uint32_t k = 0; k < row->n_attrs; k++) {
			const struct ff_attr_row *a = &row->attrs[k];
			ck_assert(a->min <= a->max);
			ck_assert_int_eq(a->type == FF_ATTR_CHOICE, a->choices != NULL);
			/* keyed attributes are whole numbers, alone or in pairs */
			ck_assert(!a->in_key ||
					(a->type != FF_ATTR_SHAPE && a->type != FF_ATTR_REAL));
		}
	}
	enum ff_op none = FF_OP_COUNT;
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
	tcase_add_test(c, conv2d);
	tcase_add_test(c, pool2d);
	tcase_add_test(c, linear);
	tcase_add_test(c, elementwise);
	tcase_add_test(c, concat);
	tcase_add_test(c, reshape);
	tcase_add_test(c, flatten);
	tcase_add_test(c, softmax_cross_entropy);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
