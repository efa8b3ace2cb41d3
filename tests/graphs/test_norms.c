/* Normalisations against brute force: shapes, what is saved, parameters, the region of every
 * tensor that random iteration boxes touch.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/backward.h"
#include "ff/micro.h"
#include "ff/work.h"
#include "probe.h"

static void copy_at(const int32_t *at, uint32_t n, int64_t *to)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] = at[i];
}

/* What lies at a place that is given along the axes before `lead`, whole along the others. */
static void touch_row(struct hull *h, const struct ff_value *v, uint32_t lead, int64_t *to)
{
	for (uint32_t k = 0; k < 2; k++) {
		for (uint32_t i = lead; i < v->rank; i++)
			to[i] = k ? v->shape[i] - 1 : 0;
		touch(h, v->rank, to);
	}
}

static void touch_params(const struct probe *p, struct hulls *h)
{
	for (uint32_t k = 0; k < params_of(p); k++)
		touch_row(&h->weight[k], param_of(p, k), 0, (int64_t[FF_MAX_RANK]){0});
}

/* ---- layer_norm and rms_norm ---- */

static void touch_last(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t lead = p->node->n_dims;
	int64_t to[FF_MAX_RANK] = {0};

	copy_at(at, lead, to);
	touch_row(&h->out, out_of(p), lead, to);
	touch_row(&h->in[0], in_of(p, 0), lead, to);
	touch_row(&h->saved, &out_of(p)[1], lead, to);
	touch_params(p, h);
}

START_TEST(last_axes)
{
	struct ff_random r = {.seed = ff_test_seed(41), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		enum ff_op op = round % 2 ? FF_OP_RMS_NORM : FF_OP_LAYER_NORM;
		struct shape in = {.rank = draw(&r, 2, FF_MAX_RANK)};
		union ff_attrs a = ff_attrs_preset(op);
		int32_t lead;
		struct probe p;

		for (int i = 0; i < in.rank; i++)
			in.size[i] = draw(&r, 1, 4);
		a.norm.axes = draw(&r, 1, in.rank - 1);
		a.norm.affine = draw(&r, 0, 2) > 0;
		if (op == FF_OP_LAYER_NORM)
			a.norm.bias = draw(&r, 0, 1);
		lead = in.rank - a.norm.axes;
		probe_open(&p, op, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(p.node->n_dims, (uint32_t)lead);
		ck_assert_mem_eq(out_of(&p)->shape, in.size, sizeof(int32_t) * (size_t)in.rank);
		ck_assert_uint_eq(p.node->n_saved, 1);
		ck_assert_uint_eq(out_of(&p)[1].rank, (uint32_t)lead + 1);
		ck_assert_int_eq(out_of(&p)[1].shape[lead], 2);
		ck_assert_int_eq(out_of(&p)[1].dtype, FF_F32);
		ck_assert_uint_eq(params_of(&p), !a.norm.affine                          ? 0
						 : op == FF_OP_LAYER_NORM && a.norm.bias ? 2
											 : 1);
		for (uint32_t k = 0; k < params_of(&p); k++) {
			ck_assert_uint_eq(param_of(&p, k)->rank, (uint32_t)a.norm.axes);
			ck_assert_int_eq(param_of(&p, k)->fan_in, k ? 0 : FF_FAN_ONE);
		}
		check_regions(&r, &p, touch_last);
		probe_close(&p);
	}
}
END_TEST

/* ---- group_norm ---- */

/* The first and the last of a group's channels. */
static void touch_channels(const struct probe *p, struct hull *h, const struct ff_value *v,
		int64_t *to, int32_t group)
{
	int32_t each = in_of(p, 0)->shape[1] / p->node->attrs.norm.groups;

	to[1] = (int64_t)group * each;
	touch_row(h, v, 2, to);
	to[1] += each - 1;
	touch_row(h, v, 2, to);
}

static void touch_group(const struct probe *p, const int32_t *at, struct hulls *h)
{
	int64_t to[FF_MAX_RANK] = {at[0]};

	touch_channels(p, &h->out, out_of(p), to, at[1]);
	touch_channels(p, &h->in[0], in_of(p, 0), to, at[1]);
	touch_params(p, h);
	copy_at(at, 2, to);
	touch_row(&h->saved, &out_of(p)[1], 2, to);
}

START_TEST(groups)
{
	struct ff_random r = {.seed = ff_test_seed(42), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_GROUP_NORM);
		struct shape in = {.rank = draw(&r, 2, 5)};
		struct probe p;

		for (int i = 0; i < in.rank; i++)
			in.size[i] = draw(&r, 1, 4);
		a.norm.groups = draw(&r, 1, 4);
		in.size[1] = a.norm.groups * draw(&r, 1, 3);
		a.norm.affine = draw(&r, 0, 2) > 0;
		a.norm.bias = draw(&r, 0, 1);
		probe_open(&p, FF_OP_GROUP_NORM, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(p.node->n_dims, 2);
		ck_assert_uint_eq(params_of(&p), !a.norm.affine ? 0 : a.norm.bias ? 2 : 1);
		check_regions(&r, &p, touch_group);
		probe_close(&p);
	}
}
END_TEST

/* ---- batch_norm ---- */

/* One element, and what is known of its channel. */
static void touch_channel(const struct probe *p, const int32_t *at, struct hulls *h)
{
	bool sums = p->node->op == FF_OP_BATCH_MOMENTS;
	int32_t group = p->node->attrs.norm.group;
	int64_t to[FF_MAX_RANK] = {0}, channel[FF_MAX_RANK] = {at[1]};
	int64_t moments[FF_MAX_RANK] = {group ? at[0] / group : at[1], at[1]};
	uint32_t lead = group ? 2 : 1;

	copy_at(at, in_of(p, 0)->rank, to);
	touch(&h->in[0], in_of(p, 0)->rank, to);
	if (sums) {
		touch_row(&h->out, out_of(p), lead, moments);
		return;
	}
	touch(&h->out, out_of(p)->rank, to);
	touch_row(&h->in[1], in_of(p, 1), lead, moments);
	touch(&h->saved, 1, channel);
	for (uint32_t k = 0; k < params_of(p); k++)
		touch(&h->weight[k], 1, channel);
}

/* Made beside the norm, split as it is; backward comes to it where the data has a gradient. */
static void check_moments(struct ff_random *r, struct probe *p)
{
	const struct ff_graph *g = &p->graph;
	const struct ff_node *norm = p->node;
	uint32_t prelude = ff_node_prelude(g, (uint32_t)(norm - g->nodes));

	ck_assert_uint_ne(prelude, FF_NONE);
	p->node = &g->nodes[prelude];
	ck_assert_str_eq(p->node->name, "probe.moments");
	check_regions(r, p, touch_channel);
	ck_assert_int_eq(p->node->out_map[0].reduce, FF_REDUCE_MOMENTS);
	ck_assert_uint_eq(p->node->n_dims, norm->n_dims);
	for (uint32_t d = 0; d < norm->n_dims; d++) {
		ck_assert_str_eq(p->node->dim[d].name, norm->dim[d].name);
		ck_assert_int_eq(p->node->dim[d].extent, norm->dim[d].extent);
		ck_assert_int_eq(p->node->dim[d].label == FF_DIM_REDUCTION,
				d != 1 && (d || !norm->attrs.norm.group));
	}
	ck_assert_uint_eq(g->edges[norm->in].shared, p->node->in);
	/* the data set needs no gradient */
	ck_assert(!ff_node_needs_grad(g, prelude));
	ck_assert(!ff_edge_needs_grad(g, norm->in + 1));
	ck_assert(!ff_edge_is_in_place(g, p->node->in));
}

START_TEST(batches)
{
	struct ff_random r = {.seed = ff_test_seed(43), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_BATCH_NORM);
		struct shape in = {.rank = draw(&r, 2, FF_MAX_RANK)};
		struct probe p;

		for (int i = 0; i < in.rank; i++)
			in.size[i] = draw(&r, i ? 1 : 2, 4);
		a.norm.affine = draw(&r, 0, 2) > 0;
		a.norm.bias = draw(&r, 0, 1);
		a.norm.sync = draw(&r, 0, 1);
		in.size[in.rank - 1] +=
				in.rank > 2 && !a.norm.sync; /* so that one sample will do */
		a.norm.group = a.norm.sync ? 0 : draw(&r, in.rank > 2 ? 1 : 5, 6);
		probe_open(&p, FF_OP_BATCH_NORM, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(p.node->n_dims, (uint32_t)in.rank);
		ck_assert_uint_eq(params_of(&p), !a.norm.affine ? 0 : a.norm.bias ? 2 : 1);
		ck_assert_uint_eq(p.node->n_kept, 2);
		ck_assert_int_eq(p.node->kept_apart, !a.norm.sync);
		for (uint32_t k = 0; k < 2; k++) {
			ck_assert(ff_value_is_kept(&p.graph, p.node->out + 1 + k));
			ck_assert_int_eq(out_of(&p)[1 + k].shape[0], in.size[1]);
			ck_assert_int_eq(out_of(&p)[1 + k].fan_in, k ? FF_FAN_ONE : 0);
		}
		ck_assert(!ff_value_is_kept(&p.graph, p.node->out));
		check_regions(&r, &p, touch_channel);
		check_moments(&r, &p);
		probe_close(&p);
	}
}
END_TEST

/* Statistics are of the whole batch, so nothing computes them of a part. */
START_TEST(no_micro_batches)
{
	const struct shape in = {2, {4, 3}};
	struct ff_graph micro;
	struct ff_error err;
	struct probe p;

	probe_open(&p, FF_OP_BATCH_NORM, NULL, &in, 1);
	ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
	ck_assert_int_eq(ff_graph_micro(&p.graph, 2, &p.arena, &micro, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "graph probe cannot be trained in micro-batches: operator "
				   "probe.moments does not keep samples apart");
	ck_assert_int_eq(ff_graph_micro(&p.graph, 1, &p.arena, &micro, &err), FF_OK);
	probe_close(&p);
}
END_TEST

/* But statistics of groups that a micro-batch has whole are those of the batch. */
START_TEST(micro_batches_of_groups)
{
	const struct shape in = {3, {12, 3, 2}};
	union ff_attrs a = ff_attrs_preset(FF_OP_BATCH_NORM);

	a.norm.sync = 0;
	for (a.norm.group = 1; a.norm.group <= 13; a.norm.group++) {
		struct probe p;

		probe_open(&p, FF_OP_BATCH_NORM, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		for (uint32_t m = 2; m <= 12; m++) {
			int32_t samples = 12 / (int32_t)m;
			const struct ff_value *v;
			struct ff_graph micro;
			struct ff_error err;
			int code = ff_graph_micro(&p.graph, m, &p.arena, &micro, &err);

			if (12 % m || samples % a.norm.group) {
				ck_assert_int_eq(code, FF_E_INPUT);
				continue;
			}
			ck_assert_msg(code == FF_OK, "%s", err.text);
			v = &micro.values[micro.nodes[ff_graph_find(&micro, "probe.moments")].out];
			ck_assert_int_eq(v->shape[0], samples / a.norm.group);
			ck_assert(micro.nodes[ff_graph_find(&micro, "probe")].kept_apart);
		}
		probe_close(&p);
	}
}
END_TEST

START_TEST(cut_groups)
{
	const struct shape in = {3, {12, 3, 2}};
	union ff_attrs a = ff_attrs_preset(FF_OP_BATCH_NORM);
	struct ff_graph micro;
	struct ff_error err;
	struct probe p;

	a.norm.sync = 0;
	a.norm.group = 4;
	probe_open(&p, FF_OP_BATCH_NORM, &a, &in, 1);
	ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
	ck_assert_int_eq(ff_graph_micro(&p.graph, 2, &p.arena, &micro, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text,
			"graph probe cannot be trained in micro-batches of 6 samples: operator "
			"probe.moments does not keep samples apart but in groups of 4");
	probe_close(&p);
}
END_TEST

START_TEST(errors)
{
	const struct shape in = {3, {2, 6, 4}};
	union ff_attrs a = ff_attrs_preset(FF_OP_LAYER_NORM);
	struct probe p;

	a.norm.axes = 3;
	probe_open(&p, FF_OP_LAYER_NORM, &a, &in, 1);
	refused(&p, "expected 4 to 6 axes");
	a = ff_attrs_preset(FF_OP_GROUP_NORM);
	a.norm.groups = 4;
	probe_open(&p, FF_OP_GROUP_NORM, &a, &in, 1);
	refused(&p, "6 channels are not 4 equal groups");
	probe_open(&p, FF_OP_BATCH_NORM, NULL, &(struct shape){3, {1, 6, 1}}, 1);
	refused(&p, "input [1, 6, 1] has one value for each channel");
	a = ff_attrs_preset(FF_OP_BATCH_NORM);
	a.norm.group = 2;
	probe_open(&p, FF_OP_BATCH_NORM, &a, &in, 1);
	refused(&p, "\"group\", samples that are normalised together, goes with \"sync\" false");
	a.norm.sync = 0;
	probe_open(&p, FF_OP_BATCH_NORM, &a, &(struct shape){2, {7, 6}}, 1);
	refused(&p, "of input [7, 6] a group, of 2 samples at most, has one value for each");
	a.norm.group = 1;
	probe_open(&p, FF_OP_BATCH_NORM, &a, &(struct shape){2, {8, 6}}, 1);
	refused(&p, "of input [8, 6] a group, of 1 samples at most, has one value for each");
	a.norm.group = 0;
	probe_open(&p, FF_OP_BATCH_NORM, &a, &in, 1);
	refused(&p, "\"sync\" false goes with \"group\", the number of samples");
}
END_TEST

/* Rows of other lengths over the same shape are other work. */
START_TEST(axes_are_in_the_key)
{
	const struct shape in = {3, {2, 6, 4}};
	char key[2][FF_KEY_BYTES];

	for (int i = 0; i < 2; i++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_RMS_NORM);
		struct ff_region box = {.rank = 1, .hi = {2}};
		struct ff_work w;
		struct probe p;

		a.norm.axes = 1 + i;
		a.norm.affine = 0;
		probe_open(&p, FF_OP_RMS_NORM, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		box.rank = p.node->n_dims;
		for (uint32_t d = 0; d < box.rank; d++)
			box.hi[d] = p.node->dim[d].extent;
		ff_work_fill(&p.graph, (uint32_t)(p.node - p.graph.nodes), &box, FF_FORWARD, &w);
		ff_work_key(&w, key[i]);
		probe_close(&p);
	}
	ck_assert_str_ne(key[0], key[1]);
}
END_TEST

static void work_key(enum ff_op op, const union ff_attrs *a, bool prelude, char *key)
{
	const struct shape in = {3, {4, 6, 4}};
	struct ff_region box = {0};
	struct ff_work w;
	struct probe p;
	uint32_t node;

	probe_open(&p, op, a, &in, 1);
	ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
	node = (uint32_t)(p.node - p.graph.nodes);
	node = prelude ? ff_node_prelude(&p.graph, node) : node;
	box.rank = p.graph.nodes[node].n_dims;
	for (uint32_t d = 0; d < box.rank; d++)
		box.hi[d] = p.graph.nodes[node].dim[d].extent;
	ff_work_fill(&p.graph, node, &box, FF_FORWARD, &w);
	ff_work_key(&w, key);
	probe_close(&p);
}

/* Of all samples a key is what it always was; groups are in it, whatever the shapes show. */
START_TEST(groups_are_in_the_key)
{
	char key[3][FF_KEY_BYTES];

	for (int prelude = 0; prelude < 2; prelude++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_BATCH_NORM);

		work_key(FF_OP_BATCH_NORM, &a, prelude, key[0]);
		ck_assert_str_eq(key[0], prelude ? "batch_moments.forward in0=4x6x4 out=6x4 float32"
						 : "batch_norm.forward in0=4x6x4 in1=6x4 weight=6 "
						   "bias=6 out=4x6x4 float32");
		a.norm.sync = 0;
		for (int i = 1; i < 3; i++) {
			a.norm.group = 1 + i;
			work_key(FF_OP_BATCH_NORM, &a, prelude, key[i]);
		}
		ck_assert_str_ne(key[1], key[2]);
		ck_assert_str_ne(key[1], key[0]);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("norms");
	TCase *c = tcase_create("norms");

	tcase_add_test(c, last_axes);
	tcase_add_test(c, groups);
	tcase_add_test(c, batches);
	tcase_add_test(c, no_micro_batches);
	tcase_add_test(c, micro_batches_of_groups);
	tcase_add_test(c, cut_groups);
	tcase_add_test(c, errors);
	tcase_add_test(c, axes_are_in_the_key);
	tcase_add_test(c, groups_are_in_the_key);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
