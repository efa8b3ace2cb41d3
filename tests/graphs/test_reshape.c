/* Reshape against brute force: the input's region holds every element of the
 * output's, and no more than whole blocks.  SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

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
	const struct ff_value *in = in_of(p, 0), *out = out_of(p);
	struct ff_region to, from;
	struct hull h = {0};
	int32_t at[FF_MAX_RANK];
	bool tight;

	ff_operand_region(p->node, &p->node->out_map[0], box, &to);
	ff_operand_region(p->node, &p->node->in_map[0], box, &from);
	memcpy(at, to.lo, sizeof(at));
	do {
		int64_t flat = flat_of(out->rank, out->shape, at), place[FF_MAX_RANK] = {0};

		for (uint32_t i = in->rank; i-- > 0;) {
			place[i] = flat % in->shape[i];
			flat /= in->shape[i];
		}
		touch(&h, in->rank, place);
	} while (next_point(&to, at));
	tight = aligned(&p->node->in_map[0], box);
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
		int32_t prime[5], swapped[5], samples;
		struct shape in, to;
		union ff_attrs a = ff_attrs_preset(FF_OP_RESHAPE);
		struct probe p;

		for (int i = 0; i < 5; i++)
			prime[i] = draw(&r, 0, 2) ? 2 + draw(&r, 0, 1) : 1;
		memcpy(swapped, prime, sizeof(prime));
		for (int i = 4; i > 0 && draw(&r, 0, 1); i--) {
			int j = draw(&r, 0, i);
			int32_t t = swapped[i];

			swapped[i] = swapped[j];
			swapped[j] = t;
		}
		samples = draw(&r, 1, 3);
		in = draw_shape(&r, samples, prime, 5);
		to = draw_shape(&r, samples, swapped, 5);
		a.reshape.rank = to.rank;
		memcpy(a.reshape.shape, to.size, sizeof(to.size));
		a.reshape.shape[0] = draw(&r, 0, 1) ? 0 : samples;
		a.reshape.shape[draw(&r, 1, to.rank - 1)] = -1;
		probe_open(&p, FF_OP_RESHAPE, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_int_eq(out_of(&p)->rank, to.rank);
		ck_assert_mem_eq(out_of(&p)->shape, to.size, sizeof(to.size[0]) * (size_t)to.rank);
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
		struct probe p;
		const struct ff_axis_map *m;

		a.reshape.rank = 2;
		a.reshape.shape[1] = -1;
		probe_open(&p, FF_OP_RESHAPE, &a, &cases[i].in, 1);
		ck_assert_int_eq(p.code, FF_OK);
		ck_assert_uint_eq(p.node->n_dims, 2);
		ck_assert_str_eq(p.node->dim[1].name, "feature");
		m = &p.node->in_map[0].axis[cases[i].axis];
		ck_assert_uint_eq(m->n_terms, 1);
		ck_assert_int_eq(m->term[0].dim, 1);
		ck_assert_int_eq(m->term[0].div, cases[i].div);
		ck_assert_int_eq(m->term[0].step, 1);
		ck_assert_int_eq(m->window, 1);
		probe_close(&p);
	}
}
END_TEST

/* Of axes that stay and of those that are merged or split, the outermost of each can be cut. */
START_TEST(what_can_be_cut)
{
	static const struct {
		struct shape in;
		struct ff_reshape_attrs to;
		const char *dims[4];
	} cases[] = {
			/* heads, apart and together again */
			{{3, {2, 6, 12}}, {4, {0, 0, 3, 4}}, {"sample", "channel", "height"}},
			{{4, {2, 6, 3, 4}}, {3, {0, 0, -1}}, {"sample", "axis1", "axis2"}},
			/* an image as rows of pixels */
			{{4, {2, 6, 3, 4}}, {3, {0, 6, 12}}, {"sample", "axis1", "axis2"}},
			/* windows of an image */
			{{4, {2, 4, 6, 5}}, {6, {0, 2, 2, 3, 2, 5}},
					{"sample", "axis1", "axis3", "axis5"}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		union ff_attrs a = {.reshape = cases[i].to};
		struct probe p;

		probe_open(&p, FF_OP_RESHAPE, &a, &cases[i].in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		for (uint32_t d = 0; d < p.node->n_dims; d++)
			ck_assert_str_eq(p.node->dim[d].name, cases[i].dims[d]);
		ck_assert(p.node->n_dims == 4 || !cases[i].dims[p.node->n_dims]);
		probe_close(&p);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("reshape");
	TCase *c = tcase_create("reshape");

	tcase_add_test(c, reshape);
	tcase_add_test(c, flatten);
	tcase_add_test(c, what_can_be_cut);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
