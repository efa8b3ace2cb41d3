/* Property test: the kernel that routes places to experts, of some of the samples, against its
 * definition, by sorting.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "chosen.h"
#include "ff/builder.h"
#include "ff/philox.h"
#include "ff/work.h"
#include "typed.h"

#define ROUNDS 150
#define MOST 700 /* places: more than threads of a block */

static const struct ff_backend *backend;

struct trial {
	struct ff_random r;
	struct ff_arena arena;
	struct ff_graph graph;
	struct ff_work work;
	enum ff_dtype type;
	int32_t shape[3], choices, capacity;
	bool index;
	double *in;
	char *want; /* 0 or 1 */
};

static int32_t draw(struct trial *t, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(&t->r, (uint32_t)(hi - lo + 1));
}

static void check(int code, const struct ff_error *err)
{
	ck_assert_msg(code == FF_OK, "%s", err->text);
}

/* What both outputs say, as one. */
static uint32_t join(struct ff_builder *b, uint32_t took, uint32_t node, const union ff_attrs *flat)
{
	union ff_attrs a = {.concat = {.axis = 1}};
	uint32_t places = FF_PORT(node, 1), in[2];

	places = ff_builder_add(b, FF_OP_CAST, "numbers", NULL, &places, 1);
	in[0] = took;
	in[1] = ff_builder_add(b, FF_OP_RESHAPE, "places", flat, &places, 1);
	return ff_builder_add(b, FF_OP_CONCAT, "both", &a, in, 2);
}

/* Scores -> node -> linear, loss. */
static void build(struct trial *t)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT), route = ff_attrs_preset(FF_OP_ROUTE);
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR), flat = {.reshape = {2, {0, -1}}};
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[2], node;

	route.route.choices = t->choices;
	route.route.capacity = t->capacity;
	route.route.index = t->index;
	fc.linear.out_features = 2;
	check(ff_builder_create("route", &t->arena, &b, &err), &err);
	ff_builder_set_dtype(b, t->type);
	a.input.rank = 3;
	memcpy(a.input.shape, t->shape, sizeof(t->shape));
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &a, NULL, 0);
	node = ff_builder_add(b, FF_OP_ROUTE, "node", &route, in, 1);
	in[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, &node, 1);
	if (t->index)
		in[0] = join(b, in[0], node, &flat);
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, in, 1);
	a.input = (struct ff_input_attrs){
			.rank = 1, .shape = {t->shape[0]}, .dtype = FF_I32, .classes = 2};
	in[1] = ff_builder_add(b, FF_OP_INPUT, "labels", &a, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	check(ff_builder_finish(b, &t->graph, &err), &err);
}

struct score {
	double of;
	int32_t expert;
};

static int compare(const void *a, const void *b)
{
	const struct score *x = a, *y = b;

	return x->of != y->of ? (x->of < y->of ? 1 : -1) : x->expert - y->expert;
}

/* Of a place. */
static int32_t slots_of(const struct trial *t)
{
	return t->capacity ? t->capacity : t->choices;
}

static void define(struct trial *t)
{
	int32_t places = t->shape[1], experts = t->shape[2];
	struct score *score = calloc((size_t)experts, sizeof(*score));
	int32_t *taken = calloc((size_t)experts, sizeof(*taken));

	for (int32_t n = 0; n < t->shape[0]; n++) {
		memset(taken, 0, (size_t)experts * sizeof(*taken));
		for (int32_t k = 0; k < t->choices; k++)
			for (int32_t p = 0; p < places; p++) {
				int64_t place = n * places + p;
				int32_t e;

				for (e = 0; e < experts; e++)
					score[e] = (struct score){t->in[place * experts + e], e};
				qsort(score, (size_t)experts, sizeof(*score), compare);
				e = score[k].expert;
				if (!t->capacity)
					t->want[(place * t->choices + k) * experts + e] = 1;
				else if (taken[e] < t->capacity)
					t->want[(place * t->capacity + taken[e]++) * experts + e] =
							1;
			}
	}
	free(taken);
	free(score);
}

static void draw_trial(struct trial *t, uint32_t round)
{
	struct ff_region box = {.rank = 1};
	int64_t n, slots;

	t->shape[0] = draw(t, 1, 4);
	t->shape[1] = round % 25 ? draw(t, 1, 12) : MOST;
	t->shape[2] = draw(t, 1, 9);
	t->choices = draw(t, 1, t->shape[2] < 3 ? t->shape[2] : 3);
	t->capacity = draw(t, 0, round % 25 ? 6 : MOST / 2);
	t->index = t->capacity && draw(t, 0, 1);
	build(t);
	n = (int64_t)t->shape[0] * t->shape[1] * t->shape[2];
	slots = n * slots_of(t);
	t->in = calloc((size_t)n, sizeof(*t->in));
	t->want = calloc((size_t)slots, 1);
	/* now and then few different scores, so that some are equal */
	for (int64_t i = 0; i < n; i++)
		t->in[i] = round % 3 ? typed_round(t->type, (float)ff_random_unit(&t->r))
				     : 0.25 * draw(t, -1, 2);
	box.lo[0] = draw(t, 0, t->shape[0] - 1);
	box.hi[0] = draw(t, box.lo[0] + 1, t->shape[0]);
	if (!t->capacity) { /* of some places of a sample */
		box.rank = 2;
		box.lo[1] = draw(t, 0, t->shape[1] - 1);
		box.hi[1] = t->shape[1];
		box.hi[0] = box.lo[0] + 1;
	}
	ff_work_fill(&t->graph, ff_graph_find(&t->graph, "node"), &box, FF_FORWARD, &t->work);
}

/* Of the part, in all samples. */
static int64_t first_place(const struct trial *t)
{
	return t->work.box.lo[0] * t->shape[1] + (t->capacity ? 0 : t->work.box.lo[1]);
}

/* Asserted once: Check writes down every assertion, of what may be millions of elements. */
static void compare_with_want(const struct trial *t, const void *host)
{
	int64_t first = first_place(t) * t->shape[2] * slots_of(t), i = 0;
	int64_t n = ff_region_volume(&t->work.out[0]);

	while (i < n && typed_get(t->type, host, i) == t->want[first + i])
		i++;
	ck_assert_msg(i == n, "element %lld is %g, of [%d, %d, %d], %d choices, %d slots",
			(long long)(first + i), typed_get(t->type, host, i < n ? i : 0),
			t->shape[0], t->shape[1], t->shape[2], t->choices, t->capacity);
}

/* By index: the ones of all slots of an expert, and whose they are. */
static void compare_index(const struct trial *t, const void *took, const int32_t *places)
{
	int32_t experts = t->shape[2], bad = 0;
	int64_t first = first_place(t), n = ff_region_volume(&t->work.in[0]);

	for (int64_t i = 0; i < n; i++) {
		int64_t place = i / experts, e = i % experts, sample = place / t->shape[1];
		bool any = false;

		for (int32_t s = 0; s < t->capacity; s++) {
			bool one = t->want[((first + place) * t->capacity + s) * experts + e];
			int32_t has = places[(sample * experts + e) * t->capacity + s];

			any = any || one;
			bad += one != (has == place % t->shape[1]);
			bad += has < -1 || has >= t->shape[1];
		}
		bad += typed_get(t->type, took, i) != any;
	}
	ck_assert_msg(!bad, "%d slots of [%d, %d, %d], %d choices, %d slots", bad, t->shape[0],
			t->shape[1], t->shape[2], t->choices, t->capacity);
}

static void run(struct trial *t, struct ff_device *dev, struct ff_stream *stream)
{
	int64_t in = ff_region_volume(&t->work.in[0]), out = ff_region_volume(&t->work.out[0]);
	int64_t each = ff_dtype_bytes(t->type), first = first_place(t) * t->shape[2];
	void *host = malloc((size_t)((in > out ? in : out) * each));
	int64_t slots = t->index ? ff_region_volume(&t->work.out[1]) : 0;
	int32_t *places = malloc((size_t)(slots + 1) * sizeof(*places));
	struct ff_kernel_io io = {.step = 0};
	struct ff_kernel *k;
	struct ff_error err;

	for (int64_t i = 0; i < in; i++)
		typed_put(t->type, host, i, t->in[first + i]);
	io.in[0] = chosen_put(dev, stream, host, (size_t)(in * each));
	io.out[0] = chosen_put(dev, stream, NULL, (size_t)(out * each));
	if (t->index)
		io.out[1] = chosen_put(dev, stream, NULL, (size_t)slots * sizeof(*places));
	check(backend->kernel.open(dev, &t->work, &k, &err), &err);
	io.workspace = chosen_put(dev, stream, NULL, (size_t)backend->kernel.workspace(k));
	check(backend->kernel.run(stream, k, &io, &err), &err);
	check(backend->stream.drain(stream, &err), &err);
	chosen_get(stream, host, io.out[0], (size_t)(out * each));
	if (t->index)
		chosen_get(stream, places, io.out[1], (size_t)slots * sizeof(*places));
	if (t->index)
		compare_index(t, host, places);
	else
		compare_with_want(t, host);
	backend->kernel.close(k);
	backend->memory.free(dev, io.workspace);
	backend->memory.free(dev, io.out[0]);
	backend->memory.free(dev, io.out[1]);
	backend->memory.free(dev, (void *)(uintptr_t)io.in[0]);
	free(places);
	free(host);
}

START_TEST(definition)
{
	enum ff_dtype type = _i ? FF_BF16 : FF_F32;
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_error err;
	bool able;

	check(backend->device.open(0, &dev, &err), &err);
	check(backend->stream.open(dev, 0, &stream, &err), &err);
	able = backend->device.computes(dev, type, &err) == FF_OK;
	for (uint32_t i = 0; i < ff_test_rounds(ROUNDS) && able; i++) {
		struct trial t = {.r = {.seed = ff_test_seed(41), .stream = i}, .type = type};

		ff_arena_init(&t.arena);
		draw_trial(&t, i);
		define(&t);
		run(&t, dev, stream);
		free(t.in);
		free(t.want);
		ff_arena_finish(&t.arena);
	}
	backend->stream.close(stream);
	backend->device.close(dev);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("route");
	TCase *c = tcase_create("property");

	backend = chosen_backend();
	tcase_set_timeout(c, 0);
	tcase_add_loop_test(c, definition, 0, 2);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
