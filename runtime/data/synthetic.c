/* Synthetic samples that can be learned: every class has a random prototype,
 * every sample adds noise to its class's.  Both are read from one pool of
 * random numbers at random places, so that a batch costs two reads a value,
 * whatever the number of classes.  SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "ff/philox.h"
#include "source.h"

#define PRESET_SAMPLES 4096
#define MOST_SAMPLES 100000000
#define POOL_VALUES (UINT64_C(1) << 20)
#define RUN UINT64_C(1024) /* values that are made at once, when one is read */
#define UNLABELLED 16      /* classes where no input has labels */

/* Streams of the data set's own; nodes, the other users of the seed, have
 * small numbers. */
enum purpose { PURPOSE_POOL = 1, PURPOSE_CLASS, PURPOSE_LABEL, PURPOSE_SAMPLE, PURPOSE_IDS };
#define STREAM(purpose) ff_philox_stream(UINT32_MAX, purpose)
/* Two streams an input of ids: its classes' and its samples'. */
#define IDS_STREAM(node, which) STREAM(PURPOSE_IDS + 2 * (node) + (which))
/* One a target of several elements, and one an input of values but the first. */
#define TARGET_STREAM(node) ff_philox_stream(UINT32_MAX - 2, 2 * (node))
#define VALUES_STREAM(node) ff_philox_stream(UINT32_MAX - 2, 2 * (node) + 1)

struct synthetic {
	struct ff_source base;
	const struct ff_fields *fields;
	uint64_t seed;
	int32_t classes;
	uint32_t first; /* input of values */
	pthread_mutex_t making;
	atomic_bool made[POOL_VALUES / RUN];
	float pool[POOL_VALUES]; /* uniform, of variance 1/2 */
};

static void make_run(struct synthetic *y, uint64_t run)
{
	float *v = y->pool + run * RUN;

	pthread_mutex_lock(&y->making);
	if (!atomic_load(&y->made[run])) {
		ff_philox_uniform(y->seed, STREAM(PURPOSE_POOL), run * RUN, RUN, v);
		for (uint64_t i = 0; i < RUN; i++)
			v[i] = (v[i] - 0.5f) * 2.449489743f; /* sqrt(6): variance 1/2 */
		atomic_store_explicit(&y->made[run], true, memory_order_release);
	}
	pthread_mutex_unlock(&y->making);
}

/* Values from number `i` on; at most *n, which becomes how many of them are one behind the other.
 */
static const float *values_at(struct synthetic *y, uint64_t i, int32_t *n)
{
	uint64_t at = i % POOL_VALUES, left = RUN - at % RUN;

	if (!atomic_load_explicit(&y->made[at / RUN], memory_order_acquire))
		make_run(y, at / RUN);
	*n = (uint64_t)*n < left ? *n : (int32_t)left;
	return y->pool + at;
}

/* Training samples come first, then those for testing. */
static uint64_t sample_id(const struct synthetic *y, const struct ff_pick *p)
{
	return (uint64_t)(p->train ? p->sample : y->base.samples[1] + p->sample);
}

static int32_t class_of(const struct synthetic *y, const struct ff_pick *p)
{
	uint32_t word = ff_philox_at(y->seed, STREAM(PURPOSE_LABEL), sample_id(y, p));

	return (int32_t)(word % (uint32_t)y->classes);
}

/* Targets are their class's alone; inputs beside the first one are elsewhere in the pool. */
static int synthetic_reals(struct ff_source *s, const struct ff_pick *p, int64_t first, int32_t n,
		float *out, int64_t step, struct ff_error *err)
{
	struct synthetic *y = (struct synthetic *)s;
	const struct ff_field *f = &y->fields->field[p->field];
	uint64_t class = (uint64_t)class_of(y, p), id = sample_id(y, p);
	uint64_t offset = (uint64_t)first;
	uint64_t a, b;

	(void)err;
	if (f->target || p->field != y->first)
		offset += ff_philox_at(y->seed, VALUES_STREAM(f->stream), 0);
	a = ff_philox_at(y->seed, STREAM(PURPOSE_CLASS), class) + offset;
	b = ff_philox_at(y->seed, STREAM(PURPOSE_SAMPLE), id) + offset;
	for (int32_t i = 0, run; i < n; i += run, out += run * step) {
		const float *of_class, *of_sample;

		run = n - i;
		of_class = values_at(y, a + (uint64_t)i, &run);
		of_sample = values_at(y, b + (uint64_t)i, &run);
		for (int32_t k = 0; k < run; k++)
			out[k * step] = !f->target  ? of_class[k] + of_sample[k]
					: f->binary ? of_class[k] > 0
						    : of_class[k];
	}
	return FF_OK;
}

/* A label is the class, labels of several elements are drawn for each class. */
static int32_t label_of(const struct synthetic *y, const struct ff_pick *p,
		const struct ff_field *f, uint64_t at)
{
	uint64_t class = (uint64_t)class_of(y, p), n = (uint64_t)f->elements;

	if (n > 1)
		class = ff_philox_at(y->seed, TARGET_STREAM(f->stream), class * n + at);
	return (int32_t)(class % (uint64_t)f->classes);
}

/* The class's, but for one in four. */
static int32_t id_of(const struct synthetic *y, const struct ff_pick *p, const struct ff_field *f,
		uint64_t at)
{
	uint64_t n = (uint64_t)f->elements, own = sample_id(y, p) * n + at, shared;
	uint32_t word = ff_philox_at(y->seed, IDS_STREAM(f->stream, 1), own);

	if (word % 4 == 0)
		return (int32_t)(word / 4 % (uint32_t)f->classes);
	shared = (uint64_t)class_of(y, p) * n + at;
	word = ff_philox_at(y->seed, IDS_STREAM(f->stream, 0), shared);
	return (int32_t)(word % (uint32_t)f->classes);
}

static int synthetic_wholes(struct ff_source *s, const struct ff_pick *p, int64_t first, int32_t n,
		int32_t *out, int64_t step, struct ff_error *err)
{
	const struct synthetic *y = (const struct synthetic *)s;
	const struct ff_field *f = &y->fields->field[p->field];

	(void)err;
	for (int32_t i = 0; i < n; i++)
		out[i * step] = f->target ? label_of(y, p, f, (uint64_t)(first + i))
					  : id_of(y, p, f, (uint64_t)(first + i));
	return FF_OK;
}

static void synthetic_close(struct ff_source *s)
{
	pthread_mutex_destroy(&((struct synthetic *)s)->making);
	free(s);
}

static int read_samples(const struct ff_spec *spec, int64_t *ret, struct ff_error *err)
{
	char *end;

	*ret = PRESET_SAMPLES;
	if (!spec->what)
		return FF_OK;
	errno = 0;
	*ret = strtoll(spec->what, &end, 10);
	if (spec->what[0] < '0' || spec->what[0] > '9' || *end || errno || *ret < 1 ||
			*ret > MOST_SAMPLES)
		return ff_fail(err, FF_E_INPUT,
				"data %s: expected synthetic:SAMPLES with SAMPLES from 1 to %d",
				spec->text, MOST_SAMPLES);
	return FF_OK;
}

static void choose_fields(struct synthetic *y, const struct ff_fields *f)
{
	y->fields = f;
	y->first = FF_NONE;
	y->classes = UNLABELLED;
	for (uint32_t i = f->n; i-- > 0;) {
		if (!f->field[i].whole && !f->field[i].target)
			y->first = i;
		if (f->field[i].whole && f->field[i].target)
			y->classes = f->field[i].classes;
	}
}

static int synthetic_open(const struct ff_opening *o, struct ff_source **ret, struct ff_error *err)
{
	struct synthetic *y;
	int64_t samples;
	int code = read_samples(o->spec, &samples, err);

	if (code < 0)
		return code;
	if (!(y = calloc(1, sizeof(*y))))
		return ff_fail_memory(err);
	pthread_mutex_init(&y->making, NULL);
	y->base = (struct ff_source){
			.samples = {(samples + 3) / 4, samples},
			.reals = synthetic_reals,
			.wholes = synthetic_wholes,
			.close = synthetic_close,
	};
	y->seed = o->seed;
	choose_fields(y, o->fields);
	*ret = &y->base;
	return FF_OK;
}

/* `samples` for training and a quarter as many for testing, rounded up. */
const struct ff_format ff_format_synthetic = {
		.name = "synthetic",
		.what = "SAMPLES",
		.open = synthetic_open,
};
