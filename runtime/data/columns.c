/* Reading columns.  SPDX-License-Identifier: Apache-2.0 */
#include "columns.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "element.h"

#define WINDOW ((int64_t)128 << 10)    /* bytes of a file that are read at once, at most */
#define PIECE 1024                     /* elements that are converted at once */
#define LOOKED_AT ((int64_t)256 << 20) /* bytes of a column that are read when it is opened */

/* What was last read of a column whose file is not in memory. */
struct window {
	uint8_t *bytes; /* WINDOW of them; NULL: none yet */
	const struct ff_store *store;
	int64_t at, n;
};

struct reader {
	struct ff_column column;
	const struct ff_field *field;
	int64_t samples;
	const float *value; /* of pixels: 256 a channel */
	struct window window;
};

struct ff_columns {
	struct ff_source base;
	const struct ff_opening *o;
	struct reader *reader[2]; /* by field, for testing and training */
	struct ff_store **store;
	uint32_t n_stores, room;
};

/* ---- bytes ---- */

/* `n` bytes, at most WINDOW, of which `more` follow within the sample. */
static int look(struct window *w, const struct ff_store *store, int64_t at, int64_t n, int64_t more,
		const uint8_t **ret, struct ff_error *err)
{
	const uint8_t *memory = ff_store_memory(store);
	int64_t ahead = n + more < WINDOW ? n + more : WINDOW;
	int code;

	if (memory) {
		*ret = memory + at;
		return FF_OK;
	}
	if (w->store != store || at < w->at || at + n > w->at + w->n) {
		if (!w->bytes && !(w->bytes = malloc((size_t)WINDOW)))
			return ff_fail_memory(err);
		w->store = NULL; /* in case it fails */
		code = ff_store_read(store, at, (size_t)ahead, w->bytes, err);
		if (code < 0)
			return code;
		w->store = store;
		w->at = at;
		w->n = ahead;
	}
	*ret = w->bytes + (at - w->at);
	return FF_OK;
}

/* Elements of one sample: where they are, and where they lie in their file. */
struct piece {
	const uint8_t *in;
	const struct ff_store *store;
	int64_t at;
};

/* Up to PIECE elements. */
static int find(struct reader *r, int64_t sample, int64_t first, int32_t n, struct piece *ret,
		struct ff_error *err)
{
	const struct ff_column_part *p = r->column.part;
	int64_t bytes = ff_element_bytes(r->column.element);

	while (sample >= p->samples)
		sample -= (p++)->samples;
	ret->store = p->store;
	ret->at = p->at + sample * p->stride + first * bytes;
	return look(&r->window, p->store, ret->at, n * bytes,
			(r->field->elements - first - n) * bytes, &ret->in, err);
}

/* ---- numbers ---- */

static void map_pixels(const struct reader *r, const uint8_t *in, int64_t first, int32_t n,
		float *out, int64_t step)
{
	int64_t plane = r->field->elements / r->column.channels;

	for (int32_t i = 0; i < n;) {
		const float *value = r->value + (first + i) / plane * 256;
		int64_t left = plane - (first + i) % plane;
		int32_t end = left < n - i ? i + (int32_t)left : n;

		for (; i < end; i++)
			out[i * step] = value[in[i]];
	}
}

static int columns_reals(struct ff_source *s, const struct ff_pick *p, int64_t first, int32_t n,
		float *out, int64_t step, struct ff_error *err)
{
	struct reader *r = &((struct ff_columns *)s)->reader[p->train][p->field];

	for (int32_t k = 0, some; k < n; k += some) {
		struct piece piece;
		int code;

		some = n - k < PIECE ? n - k : PIECE;
		if ((code = find(r, p->sample, first + k, some, &piece, err)) < 0)
			return code;
		if (r->column.pixels)
			map_pixels(r, piece.in, first + k, some, out + k * step, step);
		else
			ff_element_rows[r->column.element].reals(
					piece.in, some, out + k * step, step);
	}
	return FF_OK;
}

static int refuse(const struct ff_columns *c, const struct reader *r, const struct piece *p,
		int32_t i, int64_t value, struct ff_error *err)
{
	return ff_fail(err, FF_E_INPUT,
			"%s: byte %" PRId64 ": %s %" PRId64 ", but the graph has %d classes%s%s",
			ff_store_name(p->store),
			p->at + i * (int64_t)ff_element_bytes(r->column.element),
			r->field->target ? "label" : "id", value, r->field->classes,
			c->o->fields->n > 2 ? " in input " : "",
			c->o->fields->n > 2 ? r->field->name : "");
}

/* Of one piece; `out` may be NULL. */
static int read_wholes(const struct ff_columns *c, struct reader *r, int64_t sample, int64_t first,
		int32_t n, int32_t *out, int64_t step, struct ff_error *err)
{
	int64_t value[PIECE];
	struct piece piece;
	int code = find(r, sample, first, n, &piece, err);

	if (code < 0)
		return code;
	ff_element_rows[r->column.element].wholes(piece.in, n, value);
	for (int32_t i = 0; i < n; i++) {
		if (value[i] != r->field->none && (value[i] < 0 || value[i] >= r->field->classes))
			return refuse(c, r, &piece, i, value[i], err);
		if (out)
			out[i * step] = (int32_t)value[i];
	}
	return FF_OK;
}

static int columns_wholes(struct ff_source *s, const struct ff_pick *p, int64_t first, int32_t n,
		int32_t *out, int64_t step, struct ff_error *err)
{
	struct ff_columns *c = (struct ff_columns *)s;
	struct reader *r = &c->reader[p->train][p->field];
	int code = FF_OK;

	for (int32_t k = 0, some; k < n && code == FF_OK; k += some) {
		some = n - k < PIECE ? n - k : PIECE;
		code = read_wholes(c, r, p->sample, first + k, some, out + k * step, step, err);
	}
	return code;
}

/* ---- making them ---- */

static int create(const struct ff_opening *o, struct ff_columns **ret, struct ff_error *err)
{
	struct ff_columns *c = calloc(1, sizeof(*c));

	if (!c)
		return ff_fail_memory(err);
	c->o = o;
	for (int train = 0; train < 2; train++) {
		c->reader[train] = ff_arena_array(o->arena, o->fields->n, sizeof(struct reader));
		if (!c->reader[train]) {
			free(c);
			return ff_fail_memory(err);
		}
		for (uint32_t i = 0; i < o->fields->n; i++)
			c->reader[train][i].field = &o->fields->field[i];
	}
	*ret = c;
	return FF_OK;
}

struct ff_column *ff_columns_of(struct ff_columns *c, bool train, uint32_t field)
{
	return &c->reader[train][field].column;
}

int ff_columns_keep(struct ff_columns *c, struct ff_store *store, struct ff_error *err)
{
	if (c->n_stores == c->room) {
		uint32_t room = c->room ? 2 * c->room : 8;
		struct ff_store **grown = realloc(c->store, room * sizeof(*grown));

		if (!grown) {
			ff_store_close(store);
			return ff_fail_memory(err);
		}
		c->store = grown;
		c->room = room;
	}
	c->store[c->n_stores++] = store;
	return FF_OK;
}

static void destroy(struct ff_columns *c)
{
	if (!c)
		return;
	for (int train = 0; train < 2; train++)
		for (uint32_t i = 0; i < c->o->fields->n; i++)
			free(c->reader[train][i].window.bytes);
	for (uint32_t i = 0; i < c->n_stores; i++)
		ff_store_close(c->store[i]);
	free(c->store);
	free(c);
}

static void columns_close(struct ff_source *s)
{
	destroy((struct ff_columns *)s);
}

int ff_columns_open(const struct ff_opening *o,
		int (*add)(struct ff_columns *c, const struct ff_opening *o, struct ff_error *err),
		struct ff_source **ret, struct ff_error *err)
{
	struct ff_columns *c;
	int code = create(o, &c, err);

	if (code < 0)
		return code;
	code = add(c, o, err);
	if (code < 0)
		destroy(c);
	else
		*ret = &c->base;
	return code;
}

/* ---- looking at what is there ---- */

static int64_t column_bytes(const struct reader *r)
{
	return r->samples * r->field->elements * ff_element_bytes(r->column.element);
}

static int check_wholes(const struct ff_columns *c, struct reader *r, struct ff_error *err)
{
	int code = FF_OK;

	if (!ff_element_is_whole(r->column.element))
		return ff_fail(err, FF_E_INPUT,
				"%s: is %s, but input %s of graph %s wants whole numbers",
				ff_store_name(r->column.part[0].store),
				ff_element_name(r->column.element), r->field->name,
				c->o->fields->graph);
	if (column_bytes(r) > LOOKED_AT)
		return FF_OK;
	for (int64_t i = 0; i < r->samples && code == FF_OK; i++)
		for (int64_t k = 0; k < r->field->elements && code == FF_OK; k += PIECE) {
			int64_t left = r->field->elements - k;

			code = read_wholes(c, r, i, k, left < PIECE ? (int32_t)left : PIECE, NULL,
					0, err);
		}
	return code;
}

/* How often each level is there, in all samples or in as many as may be looked at. */
static int count_pixels(struct reader *r, int64_t *count, struct ff_error *err)
{
	int64_t plane = r->field->elements / r->column.channels;
	int64_t every = column_bytes(r) / LOOKED_AT + 1;

	for (int64_t i = 0; i < r->samples; i += every)
		for (int64_t k = 0, some; k < r->field->elements; k += some) {
			int64_t left = plane - k % plane, *level = count + k / plane * 256;
			struct piece piece;
			int code;

			some = left < PIECE ? left : PIECE;
			if ((code = find(r, i, k, (int32_t)some, &piece, err)) < 0)
				return code;
			for (int64_t j = 0; j < some; j++)
				level[piece.in[j]]++;
		}
	return FF_OK;
}

/* Levels in [0, 1], then with mean 0 and deviation 1. */
static void normalise(const int64_t count[256], float value[256])
{
	double mean = 0, square = 0, deviation;
	int64_t all = 0;

	for (int i = 0; i < 256; i++)
		all += count[i];
	for (int i = 0; i < 256; i++) {
		double v = i / 255.0, share = (double)count[i] / (double)all;

		mean += share * v;
		square += share * v * v;
	}
	deviation = sqrt(square - mean * mean > 0 ? square - mean * mean : 0);
	for (int i = 0; i < 256; i++)
		value[i] = (float)((i / 255.0 - mean) / (deviation > 0 ? deviation : 1));
}

/* What the training set's pixels become holds for testing, too. */
static int learn_pixels(struct ff_columns *c, uint32_t field, struct ff_error *err)
{
	struct reader *r = &c->reader[1][field];
	size_t n = (size_t)r->column.channels * 256;
	int64_t *count = ff_arena_array(c->o->arena, n, sizeof(*count));
	float *value = ff_arena_array(c->o->arena, n, sizeof(*value));
	int code;

	if (!count || !value)
		return ff_fail_memory(err);
	if ((code = count_pixels(r, count, err)) < 0)
		return code;
	for (uint32_t i = 0; i < r->column.channels; i++)
		normalise(count + (size_t)i * 256, value + (size_t)i * 256);
	c->reader[0][field].value = r->value = value;
	return FF_OK;
}

static int check_samples(struct ff_columns *c, int train, struct ff_error *err)
{
	const struct reader *first = c->reader[train];

	for (uint32_t i = 0; i < c->o->fields->n; i++) {
		struct reader *r = &c->reader[train][i];

		r->samples = 0;
		for (uint32_t k = 0; k < r->column.n_parts; k++)
			r->samples += r->column.part[k].samples;
		if (r->samples != first->samples)
			return ff_fail(err, FF_E_INPUT,
					"%s: has %" PRId64 " samples, but %s %" PRId64,
					ff_store_name(r->column.part[0].store), r->samples,
					ff_store_name(first->column.part[0].store), first->samples);
	}
	c->base.samples[train] = first->samples;
	return FF_OK;
}

static int check_column(struct ff_columns *c, int train, uint32_t field, struct ff_error *err)
{
	struct reader *r = &c->reader[train][field];

	if (!r->samples)
		return FF_OK;
	if (r->field->whole) {
		if (r->field->target && ff_element_rows[r->column.element].is_signed)
			c->base.ignores = true;
		return check_wholes(c, r, err);
	}
	if (r->field->compared && !ff_element_is_whole(r->column.element))
		c->base.ignores = true;
	return r->column.pixels && train ? learn_pixels(c, field, err) : FF_OK;
}

int ff_columns_check(struct ff_columns *c, struct ff_error *err)
{
	int code = FF_OK;

	for (int train = 1; train >= 0 && code == FF_OK; train--) {
		code = check_samples(c, train, err);
		for (uint32_t i = 0; i < c->o->fields->n && code == FF_OK; i++)
			code = check_column(c, train, i, err);
	}
	c->base.reals = columns_reals;
	c->base.wholes = columns_wholes;
	c->base.close = columns_close;
	return code;
}
