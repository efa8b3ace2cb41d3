/* Rates of work that is not an operator.  SPDX-License-Identifier: Apache-2.0 */
#include "prof.h"

#include <math.h>
#include <stdlib.h>

#include "stopwatch.h"

#define SIZES 6
#define MIDDLE (64 << 10)          /* bytes, by which lines are compared */
#define ARRAYS (3 + FF_MAX_STATES) /* weights, gradients, states, rounded weights */
#define MOST_LINES 256             /* of all kinds, inputs and states */
static const int64_t sizes[SIZES] = {4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

/* One to measure. */
struct line {
	enum ff_rate_kind kind;
	int64_t reuse_bytes;
	uint32_t node;        /* LOAD, LOAD_IDS: the input */
	struct ff_rate *seen; /* in each round */
};
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
	uint32_t node; /* and the input */
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
		return on->stream.call(b->p->stream, fill_values, b, err);
	return on->move.upload(b->p->stream, b->memory[0], b->host, (size_t)b->bytes, err);
}

static bool is_load(enum ff_rate_kind kind)
{
	return kind == FF_RATE_LOAD || kind == FF_RATE_LOAD_IDS;
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
				       ? b->p->backend->math.encode(b->p->stream, &b->coding, err)
				       : b->p->backend->math.decode(b->p->stream, &b->coding, err);
	switch (b->kind) {
	case FF_RATE_COPY:
	case FF_RATE_ADD:
	case FF_RATE_ACCUMULATE:
		return b->p->backend->move.copy(b->p->stream, &b->copy, err);
	case FF_RATE_LOAD:
	case FF_RATE_LOAD_IDS:
		return load(b, err);
	case FF_RATE_UPLOAD:
		return b->p->backend->move.upload(
				b->p->stream, b->memory[0], b->host, (size_t)b->bytes, err);
	case FF_RATE_DOWNLOAD:
		return b->p->backend->move.download(
				b->p->stream, b->host, b->memory[0], (size_t)b->bytes, err);
	default:
		return b->p->backend->math.update(b->p->stream, &b->update, 1, err);
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

/* Bytes of one sample of an input. */
static int64_t sample_bytes(const struct ff_value *t)
{
	return ff_shape_volume(t->rank - 1, t->shape + 1) * ff_dtype_bytes(t->dtype);
}

static const struct ff_value *input_value(const struct ff_prof *p, uint32_t node)
{
	return &p->graph.values[p->graph.nodes[node].out];
}

static void set_load(struct bench *b)
{
	const struct ff_value *t = input_value(b->p, b->node);
	int64_t sample = sample_bytes(t), rows = b->bytes / sample;

	b->region = (struct ff_region){.rank = t->rank};
	for (uint32_t i = 1; i < t->rank; i++)
		b->region.hi[i] = t->shape[i];
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

		code = b->p->backend->memory.alloc(b->p->dev, bytes, &memory, err);
		if (code == FF_OK)
			b->memory[i] = memory;
	}
	if (code == FF_OK && b->p->backend->memory.pin)
		code = b->p->backend->memory.pin(b->p->dev, bytes, &b->host, err);
	else if (code == FF_OK && !b->p->backend->memory.of_host && !(b->host = malloc(bytes)))
		return ff_fail_memory(err);
	return code;
}

static void release(struct bench *b)
{
	for (int i = 0; i < ARRAYS; i++)
		if (b->memory[i])
			b->p->backend->memory.free(b->p->dev, b->memory[i]);
	if (b->host && b->p->backend->memory.pin)
		b->p->backend->memory.unpin(b->p->dev, b->host);
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
	} else {
		/* Backward, half of a step, has read the weights and written the gradients, the
		 * last layers' first.  Then all of a bucket were summed. */
		set_update(b);
		what->hot[0] = (struct ff_hot){b->memory[0], b->bytes};
		what->hot[1] = (struct ff_hot){b->memory[1], b->bytes};
		what->since_bytes = what->reuse_bytes / 2;
	}
	return FF_OK;
}

/* Its sizes, each in memory of its own. */
static int prepare_sizes(struct ff_prof *p, const struct line *l, int32_t run_elements,
		struct bench *b, struct ff_timed *what, uint32_t *n, struct ff_error *err)
{
	int code = FF_OK;

	*n = 0;
	for (uint32_t i = 0; i < SIZES && code == FF_OK; i++) {
		struct bench *at = &b[*n];

		*at = (struct bench){.p = p,
				.kind = l->kind,
				.bytes = sizes[i],
				.run = run_elements,
				.node = l->node};
		what[*n] = (struct ff_timed){.run = run,
				.arg = at,
				.reuse_bytes = l->reuse_bytes,
				.most = ff_samples_of(FF_SAMPLES, p->rounds)};
		if (is_load(l->kind))
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
	uint32_t each = ff_prof_keeps_nothing(p, what->reuse_bytes) ? n : 1;
	int code = FF_OK;

	for (uint32_t i = 0; i < n && code == FF_OK && !p->end; i += each)
		code = ff_prof_time_group(p, what + i, each, ret + i, err);
	return code;
}

/* In runs of so many elements where it is copied or added. */
static int measure_line(struct ff_prof *p, const struct line *l, int32_t run_elements,
		struct ff_rate *ret, struct ff_error *err)
{
	struct bench b[SIZES] = {0};
	struct ff_timed what[SIZES];
	struct ff_timing t[SIZES];
	struct ff_point point[SIZES];
	uint32_t n;
	int code = prepare_sizes(p, l, run_elements, b, what, &n, err);

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

/* In the last of so many rounds. */
static int measure(struct ff_prof *p, const struct line *l, uint32_t rounds, struct ff_error *err)
{
	bool in_runs = l->kind == FF_RATE_COPY || l->kind == FF_RATE_ADD;
	struct ff_rate rate = {0}, in_short = {0};
	int code = measure_line(p, l, FF_LONG_RUN_BYTES / FF_F32_BYTES, &rate, err);

	if (code == FF_OK && in_runs && !p->end)
		code = measure_line(p, l, FF_SHORT_RUN_BYTES / FF_F32_BYTES, &in_short, err);
	if (code < 0 || p->end)
		return code;
	rate.reuse_bytes = l->reuse_bytes;
	rate.sample_bytes = is_load(l->kind) ? sample_bytes(input_value(p, l->node)) : 0;
	rate.short_bytes_per_us = in_short.bytes_per_us;
	rate.disturbed += in_short.disturbed;
	l->seen[rounds - 1] = rate;
	return ff_costs_set_rate(p->costs, l->kind, middle(l->seen, rounds), err);
}

/* Updates of weights that are read as another type than the graph's are no use to it. */
static bool is_needed(const struct ff_prof *p, enum ff_rate_kind kind)
{
	bool plain = false, rounding = false;

	if (kind == FF_RATE_UPLOAD || kind == FF_RATE_DOWNLOAD)
		return p->backend->memory.pin;

	for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
		const struct ff_optimizer *o = ff_optimizer((enum ff_optimizer_id)i);

		plain = plain || o->rate == kind;
		rounding = rounding || o->rounding_rate == kind;
	}
	return p->graph.dtype == FF_F32 ? !rounding : !plain;
}

static bool is_missing(const struct ff_prof *p, const struct line *l)
{
	int64_t sample = is_load(l->kind) ? sample_bytes(input_value(p, l->node)) : 0;
	const struct ff_rate *known = ff_costs_load_rate(p->costs, l->kind, sample, l->reuse_bytes);

	return !known || known->sample_bytes != sample ||
	       !ff_prof_is_same(p, known->reuse_bytes, l->reuse_bytes) ||
	       (p->opt->again && known->disturbed);
}

/* What is to be measured; `seen` is room for all rounds of all of them. */
struct lines {
	struct ff_prof *p;
	uint32_t n;
	struct line line[MOST_LINES];
	struct ff_rate seen[];
};

static void add_line(struct lines *l, enum ff_rate_kind kind, uint32_t node, int64_t reuse_bytes)
{
	struct line line = {kind, reuse_bytes, node, l->seen + (size_t)l->n * l->p->rounds};

	if (l->n < MOST_LINES && is_missing(l->p, &line))
		l->line[l->n++] = line;
}

/* Those whose samples differ in size: of others as many bytes take as long. */
static void add_loads(struct lines *l, enum ff_rate_kind kind)
{
	const struct ff_graph *g = &l->p->graph;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_value *t = &g->values[g->nodes[i].out];
		bool seen = false;

		if (!ff_node_is_source(g, i) || (kind == FF_RATE_LOAD_IDS) != (t->dtype == FF_I32))
			continue;
		for (uint32_t k = 0; k < l->n; k++)
			seen = seen ||
			       (l->line[k].kind == kind &&
					       sample_bytes(input_value(l->p, l->line[k].node)) ==
							       sample_bytes(t));
		if (!seen)
			add_line(l, kind, i, l->p->states.reuse_bytes[0]);
	}
}

/* What each micro-batch does is measured as its caches are; copies of gradients and what is added
 * to what was just moved, where nothing has gone by. */
static void add_kind(struct lines *l, enum ff_rate_kind kind)
{
	const struct ff_prof_states *s = &l->p->states;
	bool in_all = kind == FF_RATE_COPY || kind == FF_RATE_ACCUMULATE;
	uint32_t n = in_all ? s->n : kind != FF_RATE_ADD;

	if (kind == FF_RATE_COPY || kind == FF_RATE_ADD)
		add_line(l, kind, FF_NONE, FF_REUSE_NEAR);
	for (uint32_t i = 0; i < n; i++)
		add_line(l, kind, FF_NONE, s->reuse_bytes[i]);
}

static void find_lines(struct lines *l)
{
	for (int k = 0; k < FF_RATE_COUNT; k++) {
		enum ff_rate_kind kind = (enum ff_rate_kind)k;

		if (is_load(kind))
			add_loads(l, kind);
		else if (is_needed(l->p, kind))
			add_kind(l, kind);
	}
}

/* All of them in each round: what slows memory for a second spoils one round of a line, not all. */
static int measure_rounds(struct lines *l, struct ff_error *err)
{
	struct ff_prof *p = l->p;
	int code = FF_OK;

	for (uint32_t round = 0; round < p->rounds; round++)
		for (uint32_t i = 0; i < l->n && code == FF_OK && !p->end; i++) {
			if (p->comm->rank == 0)
				ff_progress_show(&p->progress, 0,
						(ff_clock_us() - p->start_us) * 1e-6, "rate of %s",
						ff_rate_name(l->line[i].kind));
			code = measure(p, &l->line[i], round + 1, err);
			if (code == FF_OK)
				code = ff_prof_save(p, false, err);
		}
	return code;
}

int ff_prof_rates(struct ff_prof *p, struct ff_error *err)
{
	size_t room = (size_t)MOST_LINES * p->rounds * sizeof(struct ff_rate);
	struct lines *l = malloc(sizeof(*l) + room);
	int code;

	if (!l)
		return ff_fail_memory(err);
	l->p = p;
	l->n = 0;
	find_lines(l);
	code = measure_rounds(l, err);
	free(l);
	return code;
}
