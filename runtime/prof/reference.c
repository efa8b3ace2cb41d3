/* Work that is always the same, done between samples, and the time that threads wait for
 * a processor: what they show of other programs.  SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHAIN                                                                                      \
	300000   /* steps of some nanoseconds each: half a millisecond, so that the tick does not  \
		    show */
#define FIRST 32 /* references before anything is measured */
/* On a device that is not the host: weights that fit its caches; updated until it takes so long;
 * in a stream that has room for so many. */
#define ELEMENTS ((size_t)1 << 16)
#define DEVICE_US 250
#define MOST_REPEATS 256

/* All threads that kernels use, each in its registers alone. */
static double compute(void)
{
	double all = 0;

#pragma omp parallel reduction(+ : all)
	{
		double a = 1, b = 2, c = 3, d = 4;

		for (int i = 0; i < CHAIN; i++) {
			a = a * 0.5 + 1;
			b = b * 0.5 + 1;
			c = c * 0.5 + 1;
			d = d * 0.5 + 1;
		}
		all += a + b + c + d;
	}
	return all;
}

/* Where Linux counts the nanoseconds that a thread waited in a queue of runnable ones.
 * Only the kernels' own threads count: others wait because these run. */
static int open_schedstat(long thread)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%ld/schedstat", thread);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static double read_wait_us(int fd)
{
	char text[96];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	unsigned long long running, waiting;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return sscanf(text, "%llu %llu", &running, &waiting) == 2 ? (double)waiting * 1e-3 : 0;
}

void ff_prof_wait_start(struct ff_prof *p)
{
	struct ff_reference *r = &p->reference;

	for (uint32_t i = 0; i < r->n_threads; i++)
		r->wait_us[i] = read_wait_us(r->schedstat[i]);
}

double ff_prof_wait_us(const struct ff_prof *p)
{
	const struct ff_reference *r = &p->reference;
	double most = 0;

	for (uint32_t i = 0; i < r->n_threads; i++) {
		double us = read_wait_us(r->schedstat[i]) - r->wait_us[i];

		most = us > most ? us : most;
	}
	return most;
}

static void set_update(const struct ff_reference *r, struct ff_update *ret)
{
	const struct ff_optimizer *o = ff_optimizer(FF_OPTIMIZER_ADAMW);
	double told[FF_SETTING_COUNT], value[FF_SETTING_COUNT];

	*ret = (struct ff_update){.optimizer = o,
			.weight = r->array[0],
			.gradient = r->array[1],
			.state = {r->array[2], r->array[3]},
			.n = ELEMENTS};
	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++)
		told[i] = NAN;
	if (ff_optimizer_set(o, told, value, NULL) == FF_OK)
		o->factors(value, 0, &ret->factors);
}

/* Updates of weights that stay zero, in the device's cache. */
static int compute_there(void *arg, struct ff_error *err)
{
	struct ff_prof *p = arg;
	struct ff_update update;
	int code = FF_OK;

	set_update(&p->reference, &update);
	for (uint32_t i = 0; i < p->reference.repeats && code == FF_OK; i++)
		code = p->backend->math.update(p->stream, &update, 1, err);
	return code;
}

static int time_compute(struct ff_prof *p, double *us, struct ff_error *err)
{
	double start = ff_clock_us();

	if (p->reference.repeats)
		return ff_watch_time(&p->watch, compute_there, p, us, err);
	p->reference.sink += compute(); /* or there would be nothing to compute */
	*us = ff_clock_us() - start;
	return FF_OK;
}

int ff_prof_reference(struct ff_prof *p, double *us, struct ff_error *err)
{
	struct ff_reference *r = &p->reference;
	int code = time_compute(p, us, err);

	if (code < 0)
		return code;
	ff_baseline_add(&r->compute, *us);
	if (r->n == r->cap) {
		uint32_t cap = r->cap ? 2 * r->cap : 4096;
		double *grown = realloc(r->all_us, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		r->all_us = grown;
		r->cap = cap;
	}
	r->all_us[r->n++] = *us;
	return FF_OK;
}

static int compare_reals(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double ff_prof_reference_spread(struct ff_prof *p)
{
	struct ff_reference *r = &p->reference;

	if (!r->n)
		return 1;
	qsort(r->all_us, r->n, sizeof(*r->all_us), compare_reals);
	return r->all_us[r->n - 1 - r->n / 10] / r->all_us[r->n / 10];
}

static int open_threads(struct ff_reference *r, struct ff_error *err)
{
	uint32_t cap = 0;

#pragma omp parallel reduction(+ : cap)
	cap++;
	r->schedstat = calloc(cap, sizeof(*r->schedstat));
	r->wait_us = calloc(cap, sizeof(*r->wait_us));
	if (!r->schedstat || !r->wait_us)
		return ff_fail_memory(err);
#pragma omp parallel
	{
		int fd = open_schedstat(syscall(SYS_gettid));

#pragma omp critical
		if (fd >= 0 && r->n_threads < cap)
			r->schedstat[r->n_threads++] = fd;
		else if (fd >= 0)
			close(fd);
	}
	return FF_OK; /* where the system keeps no such count, the references must do */
}

/* As many updates as take long enough: from then on always as many.  The first time kernels may
 * have to be loaded. */
static int open_device(struct ff_prof *p, struct ff_error *err)
{
	struct ff_reference *r = &p->reference;
	double us = 0;
	int code = FF_OK;

	for (int i = 0; i < 4 && code == FF_OK; i++)
		code = p->backend->memory.alloc(
				p->dev, ELEMENTS * sizeof(float), &r->array[i], err);
	r->repeats = 1;
	if (code == FF_OK)
		code = ff_watch_time(&p->watch, compute_there, p, &us, err);
	for (; code == FF_OK; r->repeats *= 2) {
		code = ff_watch_time(&p->watch, compute_there, p, &us, err);
		if (us >= DEVICE_US || r->repeats == MOST_REPEATS)
			break;
	}
	return code;
}

int ff_prof_reference_open(struct ff_prof *p, struct ff_error *err)
{
	bool here = p->backend->memory.of_host;
	double us;
	int code = here ? open_threads(&p->reference, err) : open_device(p, err);

	for (int i = 0; i < FIRST && code == FF_OK; i++)
		code = ff_prof_reference(p, &us, err);
	p->reference.n = 0; /* the first ones warm up: not to be reported */
	return code;
}

void ff_prof_reference_close(struct ff_prof *p)
{
	struct ff_reference *r = &p->reference;

	for (int i = 0; i < 4; i++)
		if (r->array[i])
			p->backend->memory.free(p->dev, r->array[i]);
	for (uint32_t i = 0; i < r->n_threads; i++)
		close(r->schedstat[i]);
	free(r->schedstat);
	free(r->wait_us);
	free(r->all_us);
	memset(r, 0, sizeof(*r));
}
