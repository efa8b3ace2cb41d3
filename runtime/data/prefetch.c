/* Prefetch: each slot has a pass that it should hold and one that it does; the thread makes them
 * the same.  SPDX-License-Identifier: Apache-2.0 */
#include "prefetch.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct slot {
	struct ff_batch want, have;
	bool wanted, full;       /* whether there is any */
	struct ff_error failure; /* code < 0: what became of `have`; it is full of that */
};

struct ff_prefetch {
	ff_prefetch_fill fill;
	void *arg;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed; /* what is wanted, or what is there */
	bool closing;
	uint32_t first; /* the slot that somebody waits for */
	struct slot slot[FF_SLOTS];
};

static bool is_same(const struct ff_batch *a, const struct ff_batch *b)
{
	return a->step == b->step && a->training == b->training;
}

static bool is_ready(const struct slot *s)
{
	return !s->wanted || (s->full && is_same(&s->have, &s->want));
}

/* The slot to be filled, if there is one.  The lock is held. */
static struct slot *find_work(struct ff_prefetch *p)
{
	for (uint32_t i = 0; i < FF_SLOTS; i++) {
		struct slot *s = &p->slot[(p->first + i) % FF_SLOTS];

		if (!is_ready(s))
			return s;
	}
	return NULL;
}

/* The lock is held but for the fill itself.  Something else may be wanted after it, and then it
 * is not ready. */
static void fill_slot(struct ff_prefetch *p, struct slot *s)
{
	struct ff_batch pass = s->want;
	struct ff_error failure = {0};
	int code;

	s->full = false;
	pthread_mutex_unlock(&p->mutex);
	code = p->fill(p->arg, &pass, &failure);
	failure.code = code;
	pthread_mutex_lock(&p->mutex);
	s->have = pass;
	s->failure = failure;
	s->full = true;
	pthread_cond_broadcast(&p->changed);
}

static void *run(void *arg)
{
	struct ff_prefetch *p = arg;

	pthread_mutex_lock(&p->mutex);
	while (!p->closing) {
		struct slot *s = find_work(p);

		if (s)
			fill_slot(p, s);
		else
			pthread_cond_wait(&p->changed, &p->mutex);
	}
	pthread_mutex_unlock(&p->mutex);
	return NULL;
}

/* Signals are the other threads': who handles them expects to be where they go on. */
static int start(struct ff_prefetch *p)
{
	sigset_t all, before;
	int code;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(&p->thread, NULL, run, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return code;
}

int ff_prefetch_create(
		ff_prefetch_fill fill, void *arg, struct ff_prefetch **ret, struct ff_error *err)
{
	struct ff_prefetch *p = calloc(1, sizeof(*p));
	int code;

	if (!p)
		return ff_fail_memory(err);
	p->fill = fill;
	p->arg = arg;
	pthread_mutex_init(&p->mutex, NULL);
	pthread_cond_init(&p->changed, NULL);
	code = start(p);
	if (code) {
		pthread_cond_destroy(&p->changed);
		pthread_mutex_destroy(&p->mutex);
		free(p);
		return ff_fail(err, FF_E_RUN, "no thread to fetch samples starts: %s",
				strerror(code));
	}
	*ret = p;
	return FF_OK;
}

void ff_prefetch_destroy(struct ff_prefetch *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->mutex);
	p->closing = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->mutex);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->mutex);
	free(p);
}

/* The lock is held. */
static void want(struct ff_prefetch *p, const struct ff_batch *pass)
{
	struct slot *s = &p->slot[ff_batch_slot(pass->step)];

	s->want = *pass;
	s->wanted = true;
}

int ff_prefetch_take(struct ff_prefetch *p, const struct ff_batch *now, const struct ff_batch *next,
		struct ff_error *err)
{
	struct slot *s = &p->slot[ff_batch_slot(now->step)];
	int code;

	pthread_mutex_lock(&p->mutex);
	p->first = ff_batch_slot(now->step);
	want(p, now);
	if (next)
		want(p, next);
	pthread_cond_broadcast(&p->changed);
	while (!is_ready(s))
		pthread_cond_wait(&p->changed, &p->mutex);
	code = s->failure.code;
	if (code < 0) {
		if (err)
			*err = s->failure;
		s->full = s->wanted = false; /* who takes it again has it filled again */
	}
	pthread_mutex_unlock(&p->mutex);
	return code;
}
