/* Region copies and updates of a backend (chosen.h) against element by element.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "box_points.h"
#include "chosen.h"
#include "ff/philox.h"
#include "typed.h"

static const struct ff_backend *backend;
static uint64_t seed;

static int32_t draw(struct ff_random *r, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(r, (uint32_t)(hi - lo + 1));
}

/* `region` grown by some elements on some sides, a few times its volume. */
static struct ff_region draw_around(struct ff_random *r, const struct ff_region *region)
{
	struct ff_region a = *region;

	for (uint32_t i = 0; i < a.rank; i++) {
		int32_t most = a.rank > 3 ? 1 : 3;

		if (ff_region_volume(&a) > 4 * ff_region_volume(region))
			break;
		a.lo[i] -= draw(r, 0, 1) * draw(r, 0, most);
		a.hi[i] += draw(r, 0, 1) * draw(r, 0, most);
	}
	return a;
}

/* Axes as they stand, as images have them, or anyhow. */
static const uint8_t *draw_order(struct ff_random *r, uint32_t rank, uint8_t *any)
{
	uint32_t kind = ff_random_below(r, 3);

	if (kind == 0)
		return ff_order_plain;
	if (kind == 1 && rank == 4)
		return ff_order_image;
	for (uint32_t i = 0; i < rank; i++) {
		uint32_t k = ff_random_below(r, i + 1);

		any[i] = any[k];
		any[k] = (uint8_t)i;
	}
	return any;
}

/* The last axis becomes that of what belongs together, whole and innermost wherever it lies. */
static void make_wide(struct ff_copy *c, int32_t width)
{
	struct ff_region *region[3] = {&c->region, &c->source_region, &c->sink_region};

	for (int i = 0; i < 3; i++) {
		region[i]->lo[c->region.rank - 1] = 0;
		region[i]->hi[c->region.rank - 1] = width;
	}
	c->order = ff_order_plain;
}

/* `order` keeps the order of its axes. */
static struct ff_copy draw_copy(struct ff_random *r, uint8_t order[FF_MAX_RANK])
{
	struct ff_copy c = {.add = draw(r, 0, 1)};
	int64_t largest = draw(r, 0, 99) ? 1000 : 100000;

	c.region.rank = (uint32_t)draw(r, 1, FF_MAX_RANK);
	for (uint32_t i = 0; i < c.region.rank; i++) {
		c.region.lo[i] = draw(r, 0, 20);
		c.region.hi[i] = c.region.lo[i] + draw(r, 1, 60);
	}
	/* shrink until it is small enough to check quickly */
	for (uint32_t i = 0; ff_region_volume(&c.region) > largest; i = (i + 1) % c.region.rank)
		c.region.hi[i] -= ff_region_size(&c.region, i) / 2;
	if (!draw(r, 0, 30))
		c.region.hi[0] = c.region.lo[0];
	c.order = draw_order(r, c.region.rank, order);
	c.source_region = draw(r, 0, 3) ? draw_around(r, &c.region) : c.region;
	c.sink_region = draw(r, 0, 3) ? draw_around(r, &c.region) : c.region;
	c.type = (enum ff_dtype)draw(r, 0, FF_DTYPE_COUNT - 1);
	c.reduce = c.add ? (enum ff_reduce)draw(r, 0, FF_REDUCE_COUNT - 1) : FF_REDUCE_SUM;
	c.add = c.add && ff_reduce_takes(c.reduce, c.type);
	if (c.add && ff_reduce_width(c.reduce) > 1)
		make_wide(&c, (int32_t)ff_reduce_width(c.reduce));
	return c;
}

/* Of bfloat16 anything, of others whole numbers that are exact. */
static void *random_shard(struct ff_random *r, enum ff_dtype type, const struct ff_region *region)
{
	int64_t n = ff_region_volume(region);
	uint32_t at = ff_random_u32(r);
	void *v = malloc((size_t)((n ? n : 1) * ff_dtype_bytes(type)));

	ck_assert_ptr_nonnull(v);
	for (int64_t i = 0; i < n; i++, at = at * 1664525u + 1013904223u)
		typed_put(type, v, i, type == FF_U8 ? at >> 24 : at >> 20);
	return v;
}

static bool inside(const struct ff_region *r, const int32_t *at)
{
	for (uint32_t i = 0; i < r->rank; i++)
		if (at[i] < r->lo[i] || at[i] >= r->hi[i])
			return false;
	return true;
}

/* What the neighbours that belong together come to, of which this is one. */
static double reduced(const struct ff_copy *c, const void *before, int64_t i, int64_t k)
{
	double x = typed_get(c->type, c->source, k), y = typed_get(c->type, before, i);
	int64_t width = ff_reduce_width(c->reduce);
	float all[4];

	if (c->reduce == FF_REDUCE_SUM)
		return x + y;
	if (c->reduce == FF_REDUCE_MAX)
		return fmax(x, y);
	memcpy(all, (const float *)before + i / width * width, (size_t)width * sizeof(*all));
	ff_reduce(c->reduce, FF_F32, width, (const float *)c->source + k / width * width, all);
	return (double)all[i % width];
}

/* Every element of the sink: copied, added to, or left alone.  Sums of bfloat16 are
 * rounded once.  All in the host's memory. */
static void check_sink(const struct ff_copy *c, const void *before)
{
	int32_t at[FF_MAX_RANK];

	if (!ff_region_volume(&c->sink_region))
		return;
	memcpy(at, c->sink_region.lo, sizeof(at));
	do {
		int64_t i = ff_region_offset(c->order, &c->sink_region, at);
		double want = typed_get(c->type, before, i), got = typed_get(c->type, c->sink, i);
		double apart = 0;

		if (inside(&c->region, at)) {
			int64_t k = ff_region_offset(c->order, &c->source_region, at);

			want = c->add ? reduced(c, before, i, k) : typed_get(c->type, c->source, k);
			if (c->add && c->type == FF_BF16)
				apart = want * BF16_HALF_ULP;
			if (c->add && c->reduce == FF_REDUCE_MOMENTS)
				apart = 1e-5 * fabs(want);
		}
		ck_assert_msg(fabs(want - got) <= apart,
				"%s, rank %u at (%d, %d, ...): %g, expected %g",
				ff_dtype_name(c->type), c->region.rank, at[0], at[1], got, want);
	} while (next(&c->sink_region, at));
}

START_TEST(test_regions)
{
	struct ff_random r = {.seed = seed};
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_error err;

	ck_assert_int_eq(backend->device.open(0, &dev, &err), FF_OK);
	ck_assert_int_eq(backend->stream.open(dev, false, &stream, &err), FF_OK);
	for (uint32_t i = 0; i < ff_test_rounds(1600); i++) {
		uint8_t order[FF_MAX_RANK];
		struct ff_copy c = draw_copy(&r, order);
		void *source = random_shard(&r, c.type, &c.source_region);
		void *sink = random_shard(&r, c.type, &c.sink_region);
		int64_t size = ff_dtype_bytes(c.type);
		size_t bytes = (size_t)(ff_region_volume(&c.sink_region) * size);
		size_t source_bytes = (size_t)(ff_region_volume(&c.source_region) * size);
		void *before = malloc(bytes ? bytes : 1), *from, *to;

		memcpy(before, sink, bytes);
		c.source = from = chosen_put(dev, stream, source, source_bytes);
		c.sink = to = chosen_put(dev, stream, sink, bytes);
		ck_assert_msg(backend->move.copy(stream, &c, &err) == FF_OK, "%s", err.text);
		chosen_get(stream, sink, to, bytes);
		c.source = source;
		c.sink = sink;
		check_sink(&c, before);
		backend->memory.free(dev, from);
		backend->memory.free(dev, to);
		free(before);
		free(source);
		free(sink);
	}
	backend->stream.close(stream);
	backend->device.close(dev);
}
END_TEST

/* Integers travel as bits, also those that are NaNs as floats. */
START_TEST(test_bits)
{
	struct ff_region all = {.rank = 4, .hi = {2, 5, 3, 4}},
			 part = {.rank = 4, .lo = {0, 1, 1, 0}, .hi = {2, 4, 3, 4}};
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_error err;
	uint32_t source[120], sink[48];
	void *from;
	struct ff_copy c = {.order = ff_order_image,
			.source_region = all,
			.sink_region = part,
			.region = part};
	int32_t at[FF_MAX_RANK];

	for (uint32_t i = 0; i < 120; i++)
		source[i] = 0x7f800001u + i * 0x11111u;
	ck_assert_int_eq(backend->device.open(0, &dev, &err), FF_OK);
	ck_assert_int_eq(backend->stream.open(dev, false, &stream, &err), FF_OK);
	c.source = from = chosen_put(dev, stream, source, sizeof(source));
	c.sink = chosen_put(dev, stream, NULL, sizeof(sink));
	ck_assert_int_eq(backend->move.copy(stream, &c, &err), FF_OK);
	chosen_get(stream, sink, c.sink, sizeof(sink));
	backend->memory.free(dev, from);
	backend->memory.free(dev, c.sink);
	memcpy(at, part.lo, sizeof(at));
	do
		ck_assert_uint_eq(sink[ff_region_offset(c.order, &part, at)],
				source[ff_region_offset(c.order, &all, at)]);
	while (next(&part, at));
	backend->stream.close(stream);
	backend->device.close(dev);
}
END_TEST

/* Every element of every type, and none behind the last; what has no sum is not added. */
START_TEST(test_fill)
{
	static const uint32_t bits[] = {0, 0x12345678, 0xffffffff};
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_error err = {0};
	struct ff_region one = {.rank = 1, .hi = {1}};
	struct ff_copy add = {.source = bits,
			.order = ff_order_plain,
			.source_region = one,
			.sink_region = one,
			.region = one,
			.type = FF_U8,
			.add = true};

	ck_assert_int_eq(backend->device.open(0, &dev, &err), FF_OK);
	ck_assert_int_eq(backend->stream.open(dev, true, &stream, &err), FF_OK);
	for (int t = 0; t < FF_DTYPE_COUNT; t++)
		for (int n = 0; n < 40; n++) {
			size_t size = (size_t)ff_dtype_bytes((enum ff_dtype)t);
			uint32_t b = bits[n % 3];
			unsigned char memory[200];
			void *device;

			memset(memory, 0x5a, sizeof(memory));
			device = chosen_put(dev, stream, memory, sizeof(memory));
			backend->move.fill(stream, device, (enum ff_dtype)t, n, b, &err);
			chosen_get(stream, memory, device, sizeof(memory));
			backend->memory.free(dev, device);
			for (size_t i = 0; i < (size_t)n; i++)
				ck_assert_mem_eq(memory + i * size, &b, size);
			for (size_t i = (size_t)n * size; i < sizeof(memory); i++)
				ck_assert_int_eq(memory[i], 0x5a);
		}
	ck_assert_int_eq(backend->move.copy(stream, &add, &err), FF_E_RUN);
	ck_assert_ptr_nonnull(strstr(err.text, "uint8"));
	backend->stream.close(stream);
	backend->device.close(dev);
}
END_TEST

/* One element in float64, as PyTorch's documentation has it; `n` updates before. */
static void update_element(enum ff_optimizer_id id, const double *value, int n, double g, double *w,
		double state[2])
{
	double rate = value[FF_SETTING_RATE], decay = value[FF_SETTING_DECAY];
	double b1 = value[FF_SETTING_BETA1], b2 = value[FF_SETTING_BETA2], m, v;
	double momentum = value[FF_SETTING_MOMENTUM];

	switch (id) {
	case FF_OPTIMIZER_SGD:
		*w -= rate * (g + decay * *w);
		return;
	case FF_OPTIMIZER_MOMENTUM:
		state[0] = momentum * state[0] + g + decay * *w;
		*w -= rate * state[0];
		return;
	case FF_OPTIMIZER_NESTEROV:
		g += decay * *w;
		state[0] = momentum * state[0] + g;
		*w -= rate * (g + momentum * state[0]);
		return;
	case FF_OPTIMIZER_ADAM:
	case FF_OPTIMIZER_ADAMW:
		if (id == FF_OPTIMIZER_ADAM)
			g += decay * *w;
		else
			*w -= rate * decay * *w;
		state[0] = b1 * state[0] + (1 - b1) * g;
		state[1] = b2 * state[1] + (1 - b2) * g * g;
		m = state[0] / (1 - pow(b1, n + 1));
		v = state[1] / (1 - pow(b2, n + 1));
		*w -= rate * m / (sqrt(v) + value[FF_SETTING_EPSILON]);
		return;
	case FF_OPTIMIZER_COUNT:
		ck_abort();
	}
}

#define MOST 70000 /* enough for threads */

/* Every optimizer, a few elements or many; the one behind the last stays as it was.  What
 * is read of the weights in bfloat16 is their rounding. */
START_TEST(test_update)
{
	static const double told[FF_SETTING_COUNT] = {0.1, 0.8, 0.7, 0.9, 0.05, 0.3};
	const struct ff_optimizer *o =
			ff_optimizer((enum ff_optimizer_id)(_i % FF_OPTIMIZER_COUNT));
	int n = _i < FF_OPTIMIZER_COUNT ? 999 : MOST - 1;
	struct ff_random r = {.seed = seed, .stream = 1};
	static float w[MOST], g[MOST], state[2][MOST];
	static double ww[MOST], s[MOST][2];
	static uint16_t rounded[MOST];
	struct ff_update u = {.optimizer = o, .n = (size_t)n};
	uint16_t *device_rounded;
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_error err;
	float *device_g;

	for (int i = 0; i <= n; i++) {
		ww[i] = w[i] = (float)draw(&r, -50, 50);
		state[0][i] = state[1][i] = 0;
		s[i][0] = s[i][1] = 0;
	}
	ck_assert_int_eq(backend->device.open(0, &dev, &err), FF_OK);
	ck_assert_int_eq(backend->stream.open(dev, true, &stream, &err), FF_OK);
	u.weight = chosen_put(dev, stream, w, sizeof(w));
	u.gradient = device_g = chosen_put(dev, stream, NULL, sizeof(g));
	for (uint32_t i = 0; i < o->states; i++)
		u.state[i] = chosen_put(dev, stream, state[i], sizeof(state[i]));
	device_rounded = chosen_put(dev, stream, NULL, sizeof(rounded));
	for (int step = 0; step < 4; step++) {
		for (int i = 0; i < n; i++)
			g[i] = (float)draw(&r, -50, 50);
		chosen_set(stream, device_g, g, (size_t)n * sizeof(*g));
		o->factors(told, (uint64_t)step, &u.factors);
		u.rounded = step == 3 ? device_rounded : NULL;
		ck_assert_int_eq(backend->math.update(stream, &u, 1, &err), FF_OK);
		for (int i = 0; i < n; i++)
			update_element(o->id, told, step, g[i], &ww[i], s[i]);
	}
	chosen_get(stream, w, u.weight, sizeof(w));
	chosen_get(stream, rounded, device_rounded, sizeof(rounded));
	for (uint32_t i = 0; i < o->states; i++) {
		chosen_get(stream, state[i], u.state[i], sizeof(state[i]));
		backend->memory.free(dev, u.state[i]);
	}
	backend->memory.free(dev, u.weight);
	backend->memory.free(dev, device_g);
	backend->memory.free(dev, device_rounded);
	for (int i = 0; i <= n; i++) {
		ck_assert_double_eq_tol(w[i], ww[i], 1e-4);
		ck_assert_uint_eq(rounded[i], i < n ? ff_bf16_from_f32(w[i]) : 0xffff);
		for (uint32_t k = 0; k < 2; k++)
			ck_assert_double_eq_tol(state[k][i], s[i][k], 1e-4 * (1 + fabs(s[i][k])));
	}
	backend->stream.close(stream);
	backend->device.close(dev);
}
END_TEST

#define RUNS 40
#define EACH 700 /* elements of a run, less than that */

/* Several runs at once, some of them empty, each with factors of its own: as one by one. */
START_TEST(test_updates)
{
	const struct ff_optimizer *o = ff_optimizer((enum ff_optimizer_id)_i);
	struct ff_random r = {.seed = seed, .stream = 2 + (uint64_t)_i};
	static float start[RUNS * EACH], alone[RUNS * EACH], together[RUNS * EACH];
	float *memory[2][2 + FF_MAX_STATES]; /* of both ways: weights, gradients, states */
	struct ff_update u[2][RUNS];
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_error err;

	for (int i = 0; i < RUNS * EACH; i++)
		start[i] = (float)draw(&r, 1, 50);
	ck_assert_int_eq(backend->device.open(0, &dev, &err), FF_OK);
	ck_assert_int_eq(backend->stream.open(dev, true, &stream, &err), FF_OK);
	for (int way = 0; way < 2; way++)
		for (int k = 0; k < 2 + FF_MAX_STATES; k++)
			memory[way][k] = chosen_put(dev, stream, start, sizeof(start));
	for (int run = 0; run < RUNS; run++) {
		double told[FF_SETTING_COUNT] = {draw(&r, 0, 1), 0.8, 0.7, 0.9, 0.05, 0.3};
		size_t n = run % 5 == 3 ? 0 : ff_random_below(&r, EACH);

		for (int way = 0; way < 2; way++) {
			float *const *m = memory[way];

			u[way][run] = (struct ff_update){.optimizer = o,
					.n = n,
					.weight = m[0] + run * EACH,
					.gradient = m[1] + run * EACH,
					.state = {m[2] + run * EACH, m[3] + run * EACH},
					.times = (uint32_t)run % 3};
			o->factors(told, (uint64_t)run, &u[way][run].factors);
		}
	}
	for (int run = 0; run < RUNS; run++)
		ck_assert_int_eq(backend->math.update(stream, &u[0][run], 1, &err), FF_OK);
	ck_assert_int_eq(backend->math.update(stream, u[1], RUNS, &err), FF_OK);
	for (int k = 0; k < 2 + FF_MAX_STATES; k++) {
		chosen_get(stream, alone, memory[0][k], sizeof(alone));
		chosen_get(stream, together, memory[1][k], sizeof(together));
		ck_assert_mem_eq(alone, together, sizeof(alone));
		ck_assert(k || memcmp(alone, start, sizeof(start)));
		backend->memory.free(dev, memory[0][k]);
		backend->memory.free(dev, memory[1][k]);
	}
	backend->stream.close(stream);
	backend->device.close(dev);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("copy");
	TCase *t = tcase_create("property");

	backend = chosen_backend();
	seed = ff_test_seed(7);
	tcase_set_timeout(t, 0);
	tcase_add_test(t, test_regions);
	tcase_add_test(t, test_bits);
	tcase_add_test(t, test_fill);
	tcase_add_loop_test(t, test_update, 0, 2 * FF_OPTIMIZER_COUNT);
	tcase_add_loop_test(t, test_updates, 0, FF_OPTIMIZER_COUNT);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
