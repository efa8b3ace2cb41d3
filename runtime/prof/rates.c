/* Rates of work that is not an operator.  SPDX-License-Identifier: Apache-2.0 */
#include "prof.h"

#include <math.h>
#include <stdlib.h>

#define SIZES 6
#define MIDDLE (64 << 10)          /* bytes, by which lines are compared */
#define ARRAYS (3 + FF_MAX_STATES) /* weights, gradients, states, rounded weights */
static const int64_t sizes[SIZES] = {4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

struct bench {
	struct ff_prof *p;
	enum ff_rate_kind kind;
	int32_t run; /* COPY, ADD: elements that lie behind each other */
	int64_t bytes;
	float *memory[ARRAYS];
	void *host; /* beside a device that is not the host: pinned */
	struct ff_copy copy;
	struct ff_update update;
	struct ff_coding coding;
	uint64_t step; /* LOAD: of which samples are loaded; training finds none in a cache */
	uint32_t node; /* and the input of values */
	struct ff_region region;
};

static int fill_values(void *arg, struct ff_error *err)
{
	struct bench *b = arg;

	return ff_dataset_fill(b->p->data, true, b->step++, b->node, &b->region, b->memory[0], err);
}

/* As the runtime's preset is: by the host; or, where the device is another, from where the
 * samples were prefetched to. */
static int load(struct bench *b, struct ff_error *err)
{
	const struct ff_backend *on = b->p->backend;

	if (!b->host)
		return on->call(b->p->stream, fill_values, b, err);
	return on->upload(b->p->stream, b->memory[0], b->host, (size_t)b->bytes, err);
}

static bool is_coding(enum ff_rate_kind kind)
{
	return kind >= FF_RATE_ENCODE && kind < FF_RATE_DECODE + FF_CODEC_COUNT;
}

static int run(void *arg, struct ff_error *err)
{
	struct bench *b = arg;

	if (is_coding(b->kind))
		return b->kind < FF_RATE_DECODE
				       ? b->p->backend->encode(b->p->stream, &b->coding, err)
				       : b->p->backend->decode(b->p->stream, &b->coding, err);
	switch (b->kind) {
	case FF_RATE_COPY:
	case FF_RATE_ADD:
	case FF_RATE_ACCUMULATE:
		return b->p->backend->copy(b->p->stream, &b->copy, err);
	case FF_RATE_LOAD:
	case FF_RATE_LOAD_IDS:
		return load(b, err);
	case FF_RATE_UPLOAD:
		return b->p->backend->upload(
				b->p->stream, b->memory[0], b->host, (size_t)b->bytes, err);
	case FF_RATE_DOWNLOAD:
		return b->p->backend->download(
				b->p->stream, b->host, b->memory[0], (size_t)b->bytes, err);
	default:
		return b->p->backend->update(b->p->stream, &b->update, err);
	}
}

/* A whole gradient to another. */
static void set_accumulation(struct bench *b)
{
	struct ff_region whole = {.rank = 1, .hi = {(int32_t)(b->bytes / FF_F32_BYTES)}};

	b->copy = (struct ff_copy){.source = b->memory[0],
			.sink = b->memory[1],
			.order = ff_order_plain,
			.source_region = whole,
			.sink_region = whole,
			.region = whole,
			.add = true};
}

/* Half the channels of images 16 pixels wide and high: runs of as many elements, as
 * packing a shard for the network has them. */
static void set_copy(struct bench *b)
{
	int32_t images = (int32_t)(b->bytes / ((int64_t)b->run * 16 * 16 * FF_F32_BYTES));
	bool small = images == 0;
	int32_t height = (int32_t)(b->bytes / ((int64_t)b->run * 16 * FF_F32_BYTES));
	struct ff_region whole = {
			.rank = 4, .hi = {small ? 1 : images, 2 * b->run, small ? height : 16, 16}};

	b->copy = (struct ff_copy){.source = b->memory[0],
			.sink = b->memory[1],
			.order = ff_order_image,
			.source_region = whole,
			.region = whole,
			.add = b->kind == FF_RATE_ADD};
	b->copy.region.hi[1] = b->run;
	b->copy.sink_region = b->copy.region;
	b->bytes = ff_region_volume(&b->copy.region) * FF_F32_BYTES;
}

/* Gradients and what is left of them; from others they are added up. */
static void set_coding(struct bench *b)
{
	bool encodes = b->kind < FF_RATE_DECODE;

	b->coding = (struct ff_coding){
			.codec = ff_codec((enum ff_codec_id)(
					b->kind - (encodes ? FF_RATE_ENCODE : FF_RATE_DECODE))),
			.values = b->memory[0],
			.residual = b->memory[1],
			.message = b->memory[2],
			.n = b->bytes / FF_F32_BYTES,
			.add = !encodes};
}

/* Of the optimizer whose rate it is, if it is one's. */
static void set_update(struct bench *b)
{
	double told[FF_SETTING_COUNT], value[FF_SETTING_COUNT];

	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++)
		told[i] = NAN;
	for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
		const struct ff_optimizer *o = ff_optimizer((enum ff_optimizer_id)i);

		if (o->rate != b->kind && o->rounding_rate != b->kind)
			continue;
		b->update = (struct ff_update){.optimizer = o,
				.weight = b->memory[0],
				.gradient = b->memory[1],
				.n = (size_t)b->bytes / sizeof(float)};
		for (uint32_t k = 0; k < o->states; k++)
			b->update.state[k] = b->memory[2 + k];
		if (o->rounding_rate == b->kind)
			b->update.rounded = (uint16_t *)b->memory[2 + FF_MAX_STATES];
		if (ff_optimizer_set(o, told, value, NULL) == FF_OK)
			o->factors(value, 0, &b->update.factors);
	}
}

/* An input of whole numbers or of others. */
static bool find_input(const struct ff_graph *g, bool ids, uint32_t *node)
{
	bool found = false;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_source(g, i) &&
				ids == (g->values[g->nodes[i].out].dtype == FF_I32)) {
			*node = i;
			found = true;
		}
	return found;
}

static void set_load(struct bench *b)
{
	const struct ff_graph *g = &b->p->graph;
	const struct ff_value *t = &g->values[0]; /* one of them is: the data set was opened */
	int64_t sample, rows;

	if (find_input(g, b->kind == FF_RATE_LOAD_IDS, &b->node))
		t = &g->values[g->nodes[b->node].out];
	sample = ff_dtype_bytes(t->dtype);
	b->region = (struct ff_region){.rank = t->rank};
	for (uint32_t i = 1; i < t->rank; i++) {
		b->region.hi[i] = t->shape[i];
		sample *= t->shape[i];
	}
	rows = b->bytes / sample;
	rows = rows < 1 ? 1 : rows > t->shape[0] ? t->shape[0] : rows;
	b->region.hi[0] = (int32_t)rows;
	b->bytes = rows * sample;
}

static int allocate(struct bench *b, struct ff_error *err)
{
	/* twice the figure: a copy reads from something larger */
	size_t bytes = 2 * (size_t)b->bytes + (1 << 16);
	int code = FF_OK;

	for (int i = 0; i < ARRAYS && code == FF_OK; i++) {
		void *memory;

		code = b->p->backend->alloc(b->p->dev, bytes, &memory, err);
		if (code == FF_OK)
			b->memory[i] = memory;
	}
	if (code == FF_OK && b->p->backend->pin)
		code = b->p->backend->pin(b->p->dev, bytes, &b->host, err);
	else if (code == FF_OK && !b->p->backend->host_memory && !(b->host = malloc(bytes)))
		return ff_fail_memory(err);
	return code;
}

static void release(struct bench *b)
{
	for (int i = 0; i < ARRAYS; i++)
		if (b->memory[i])
			b->p->backend->free(b->p->dev, b->memory[i]);
	if (b->host && b->p->backend->pin)
		b->p->backend->unpin(b->p->dev, b->host);
	else
		free(b->host);
}

/* Where it lies and what of it has just been written. */
static int prepare(struct bench *b, struct ff_timed *what, struct ff_error *err)
{
	int code = allocate(b, err);

	if (code < 0)
		return code;
	if (b->kind == FF_RATE_COPY || b->kind == FF_RATE_ADD) {
		set_copy(b);
		what->hot[0] = (struct ff_hot){b->memory[0], 2 * b->bytes};
	} else if (b->kind == FF_RATE_ACCUMULATE) {
		set_accumulation(b);
		what->hot[0] = (struct ff_hot){b->memory[0], b->bytes};
	} else if (is_coding(b->kind)) {
		set_coding(b);
	} else { /* backward has read the weights and written the gradients */
		set_update(b);
		what->hot[0] = (struct ff_hot){b->memory[0], b->bytes};
		what->hot[1] = (struct ff_hot){b->memory[1], b->bytes};
	}
	return FF_OK;
}

/* Its sizes, each in memory of its own. */
static int prepare_sizes(struct ff_prof *p, enum ff_rate_kind kind, int64_t passed_bytes,
		int32_t run_elements, struct bench *b, struct ff_timed *what, uint32_t *n,
		struct ff_error *err)
{
	int code = FF_OK;

	*n = 0;
	for (uint32_t i = 0; i < SIZES && code == FF_OK; i++) {
		struct bench *at = &b[*n];

		*at = (struct bench){.p = p, .kind = kind, .bytes = sizes[i], .run = run_elements};
		what[*n] = (struct ff_timed){.run = run,
				.arg = at,
				.passed_bytes = passed_bytes,
				.most = ff_samples_of(FF_SAMPLES, p->rounds)};
		if (kind == FF_RATE_LOAD || kind == FF_RATE_LOAD_IDS)
			set_load(at);
		if (ff_prof_is_beyond(p, at->bytes, *n))
			break;
		if (*n && at->bytes <= b[*n - 1].bytes)
			continue; /* no more rows in a batch */
		code = prepare(at, &what[(*n)++], err);
	}
	return code;
}

/* In turns where that is the same to each of them. */
static int time_sizes(struct ff_prof *p, const struct ff_timed *what, uint32_t n,
		struct ff_timing *ret, struct ff_error *err)
{
	uint32_t each = ff_prof_keeps_nothing(p, what->passed_bytes) ? n : 1;
	int code = FF_OK;

	for (uint32_t i = 0; i < n && code == FF_OK && !p->end; i += each)
		code = ff_prof_time_group(p, what + i, each, ret + i, err);
	return code;
}

/* In runs of so many elements where it is copied or added. */
static int measure_line(struct ff_prof *p, enum ff_rate_kind kind, int64_t passed_bytes,
		int32_t run_elements, struct ff_rate *ret, struct ff_error *err)
{
	struct bench b[SIZES] = {0};
	struct ff_timed what[SIZES];
	struct ff_timing t[SIZES];
	struct ff_point point[SIZES];
	uint32_t n;
	int code = prepare_sizes(p, kind, passed_bytes, run_elements, b, what, &n, err);

	if (code == FF_OK)
		code = time_sizes(p, what, n, t, err);
	for (uint32_t i = 0; i < SIZES; i++)
		release(&b[i]);
	if (code < 0 || p->end)
		return code;
	for (uint32_t i = 0; i < n; i++)
		point[i] = (struct ff_point){(double)b[i].bytes, t[i].median_us, t[i].disturbed};
	*ret = ff_prof_fit(point, n);
	return FF_OK;
}

static double middle_us(const struct ff_rate *r)
{
	return r->latency_us + MIDDLE / r->bytes_per_us;
}

/* Of so many rounds' the line that counts, and the one in short runs. */
static struct ff_rate middle(const struct ff_rate *round, uint32_t n)
{
	struct ff_sample line[FF_PROF_ROUNDS], in_short[FF_PROF_ROUNDS];
	struct ff_rate ret;

	for (uint32_t i = 0; i < n; i++) {
		line[i] = (struct ff_sample){middle_us(&round[i]), round[i].disturbed};
		in_short[i] = (struct ff_sample){-round[i].short_bytes_per_us, 0};
	}
	ret = round[ff_steady_middle(line, n)];
	ret.short_bytes_per_us = round[ff_steady_middle(in_short, n)].short_bytes_per_us;
	return ret;
}

/* In the last of so many rounds, into round[n - 1]. */
static int measure(struct ff_prof *p, enum ff_rate_kind kind, int64_t passed_bytes,
		struct ff_rate *round, uint32_t n, struct ff_error *err)
{
	bool in_runs = kind == FF_RATE_COPY || kind == FF_RATE_ADD;
	struct ff_rate rate = {0}, in_short = {0};
	int code = measure_line(
			p, kind, passed_bytes, FF_LONG_RUN_BYTES / FF_F32_BYTES, &rate, err);

	if (code == FF_OK && in_runs && !p->end)
		code = measure_line(p, kind, passed_bytes, FF_SHORT_RUN_BYTES / FF_F32_BYTES,
				&in_short, err);
	if (code < 0 || p->end)
		return code;
	rate.passed_bytes = passed_bytes;
	rate.short_bytes_per_us = in_short.bytes_per_us;
	rate.disturbed += in_short.disturbed;
	round[n - 1] = rate;
	return ff_costs_set_rate(p->costs, kind, middle(round, n), err);
}

/* Updates of weights that are read as another type than the graph's are no use to it. */
static bool is_needed(const struct ff_prof *p, enum ff_rate_kind kind)
{
	bool plain = false, rounding = false;
	uint32_t node;

	if (kind == FF_RATE_LOAD_IDS)
		return find_input(&p->graph, true, &node);
	if (kind == FF_RATE_UPLOAD || kind == FF_RATE_DOWNLOAD)
		return p->backend->pin;

	for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
		const struct ff_optimizer *o = ff_optimizer((enum ff_optimizer_id)i);

		plain = plain || o->rate == kind;
		rounding = rounding || o->rounding_rate == kind;
	}
	return p->graph.dtype == FF_F32 ? !rounding : !plain;
}

static bool is_missing(const struct ff_prof *p, enum ff_rate_kind kind, int64_t passed_bytes)
{
	const struct ff_rate *known = ff_costs_rate(p->costs, kind, passed_bytes);

	return !known || !ff_prof_is_same(p, known->passed_bytes, passed_bytes) ||
	       (p->opt->again && known->disturbed);
}

/* What each micro-batch does is measured as its caches are; copies of gradients and what is added
 * to what was just moved, where nothing has gone by. */
static int measure_kind(struct ff_prof *p, enum ff_rate_kind kind, struct ff_error *err)
{
	bool in_all = kind == FF_RATE_COPY || kind == FF_RATE_ACCUMULATE;
	uint32_t states = in_all ? p->states.n : kind != FF_RATE_ADD, n = 0;
	int64_t missing[FF_PROF_STATES + 1];
	struct ff_rate seen[FF_PROF_STATES + 1][FF_PROF_ROUNDS];
	int code = FF_OK;

	if ((kind == FF_RATE_COPY || kind == FF_RATE_ADD) && is_missing(p, kind, FF_PASSED_NEAR))
		missing[n++] = FF_PASSED_NEAR;
	for (uint32_t i = 0; i < states; i++)
		if (is_missing(p, kind, p->states.passed_bytes[i]))
			missing[n++] = p->states.passed_bytes[i];
	for (uint32_t round = 0; round < p->rounds; round++)
		for (uint32_t i = 0; i < n && code == FF_OK && !p->end; i++)
			code = measure(p, kind, missing[i], seen[i], round + 1, err);
	return code;
}

int ff_prof_rates(struct ff_prof *p, struct ff_error *err)
{
	int code = FF_OK;

	for (int k = 0; k < FF_RATE_COUNT && code == FF_OK && !p->end; k++) {
		enum ff_rate_kind kind = (enum ff_rate_kind)k;

		if (p->comm->rank == 0)
			ff_progress_show(&p->progress, 0, (ff_clock_us() - p->start_us) * 1e-6,
					"rate of %s", ff_rate_name(kind));
		if (is_needed(p, kind))
			code = measure_kind(p, kind, err);
		if (code == FF_OK)
			code = ff_prof_save(p, false, err);
	}
	return code;
}
