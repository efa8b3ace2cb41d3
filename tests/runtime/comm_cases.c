/* Cases for communication.  SPDX-License-Identifier: Apache-2.0 */
#include "comm_cases.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"

#define MOST 16    /* devices */
#define LENGTH 200 /* elements of an array */

#define OK(call) ck_assert_msg((call) == FF_OK, "%s", err.text)

/* Whole numbers, so that sums are exact in any order. */
static float value(uint32_t device, int64_t i)
{
	return (float)((device + 1) * 1000 + (uint32_t)(i * 7 % 101));
}

/* What a device sends to be reduced: of log-sum-exp the largest is alike on all. */
static float partial(enum ff_reduce op, uint32_t device, int64_t i)
{
	return value(op == FF_REDUCE_LOG_SUM_EXP && i % 2 == 0 ? 0 : device, i);
}

/* Arrays of all devices; of those hosted here, with contents. */
struct arrays {
	uint32_t n;
	uint16_t device[MOST];
	float send[MOST][LENGTH], recv[MOST][LENGTH];
	const void *from[MOST];
	void *to[MOST];
	int64_t count[MOST], offset[MOST], sent;
	struct ff_collective x;
};

static void draw_group(struct arrays *a, const struct ff_comm *c, struct ff_random *r)
{
	uint32_t skip = ff_random_below(r, 3) ? ff_random_below(r, 1u << c->n_devices) : 0;

	memset(a, 0, sizeof(*a));
	for (uint32_t d = 0; d < c->n_devices; d++)
		if (!(skip >> d & 1) || c->n_devices - d + a->n <= 2)
			a->device[a->n++] = (uint16_t)d;
	for (uint32_t i = 0; i < a->n; i++) {
		for (int64_t k = 0; k < LENGTH; k++) {
			a->send[i][k] = value(a->device[i], k);
			a->recv[i][k] = -1;
		}
		if (c->hosts(c, a->device[i])) {
			a->from[i] = a->send[i];
			a->to[i] = a->recv[i];
		}
		a->count[i] = (int64_t)ff_random_below(r, LENGTH / a->n);
	}
	a->x = (struct ff_collective){a->n, a->device, a->from, a->to, a->count, a->offset};
	a->sent = c->sent_bytes;
}

/* Some of everything whose pairs stay together, to be reduced somehow. */
static void draw_reduction(struct arrays *a, struct ff_random *r)
{
	a->x.reduce = (enum ff_reduce)ff_random_below(r, 3);
	for (uint32_t i = 0; i < a->n; i++) {
		a->count[i] -= a->count[i] % ff_reduce_width(a->x.reduce);
		for (int64_t k = 0; k < LENGTH; k++)
			a->send[i][k] = partial(a->x.reduce, a->device[i], k);
	}
}

/* Element `k` of all devices' arrays together. */
static float reduced(const struct arrays *a, int64_t k)
{
	float all = partial(a->x.reduce, a->device[0], k);

	for (uint32_t j = 1; j < a->n; j++) {
		float x = partial(a->x.reduce, a->device[j], k);

		if (a->x.reduce == FF_REDUCE_SUM)
			all += x;
		else if (a->x.reduce == FF_REDUCE_MAX)
			all = x > all ? x : all;
		else
			all += k % 2 ? 1 + x : 0;
	}
	return all;
}

static bool member(const struct ff_comm *c, const struct arrays *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (c->hosts(c, a->device[i]))
			return true;
	return false;
}

/* All ranks together sent `bytes`. */
static void check_sent(struct ff_comm *c, const struct arrays *a, int64_t bytes)
{
	struct ff_error err;
	int64_t sent = c->sent_bytes - a->sent;

	OK(ff_agree_sum(c, &sent, 1, &err));
	ck_assert_int_eq(sent, bytes);
}

void comm_all_reduce(struct ff_comm *c, struct ff_random *r)
{
	struct arrays a;
	struct ff_error err;
	int64_t n;

	draw_group(&a, c, r);
	a.count[0] = (int64_t)ff_random_below(r, LENGTH);
	draw_reduction(&a, r);
	n = a.count[0];
	if (ff_random_below(r, 2)) { /* in place */
		memcpy(a.recv, a.send, sizeof(a.recv));
		for (uint32_t i = 0; i < a.n; i++)
			a.from[i] = a.to[i];
	}
	if (member(c, &a))
		OK(c->all_reduce(c, &a.x, &err));
	for (uint32_t i = 0; i < a.n; i++)
		for (int64_t k = 0; a.to[i] && k < n; k++)
			ck_assert_float_eq(a.recv[i][k], reduced(&a, k));
	check_sent(c, &a, 2 * (int64_t)(a.n - 1) * n * 4);
}

void comm_all_gather(struct ff_comm *c, struct ff_random *r)
{
	struct arrays a;
	struct ff_error err;
	int64_t whole = 0, gap = (int64_t)ff_random_below(r, 3);

	draw_group(&a, c, r);
	for (uint32_t i = 0; i < a.n; i++) {
		if (i % 3 == 1) /* a device may have nothing */
			a.count[i] *= (int64_t)ff_random_below(r, 2);
		if (a.count[i] > gap)
			a.count[i] -= gap;
	}
	/* chunks need not lie in the order of the devices */
	for (uint32_t i = 0, at = ff_random_below(r, a.n); i < a.n; i++, at = (at + 1) % a.n) {
		a.offset[at] = whole;
		whole += a.count[at];
	}
	if (member(c, &a))
		OK(c->all_gather(c, &a.x, &err));
	for (uint32_t i = 0; i < a.n; i++)
		for (uint32_t j = 0; a.to[i] && j < a.n; j++)
			for (int64_t k = 0; k < a.count[j]; k++)
				ck_assert_float_eq(
						a.recv[i][a.offset[j] + k], value(a.device[j], k));
	for (uint32_t i = 0; i < a.n; i++)
		ck_assert_float_eq(a.recv[i][whole], -1);
	check_sent(c, &a, (int64_t)(a.n - 1) * whole * 4);
}

void comm_reduce_scatter(struct ff_comm *c, struct ff_random *r)
{
	struct arrays a;
	struct ff_error err;
	int64_t at = 0;

	draw_group(&a, c, r);
	draw_reduction(&a, r);
	if (member(c, &a))
		OK(c->reduce_scatter(c, &a.x, &err));
	for (uint32_t i = 0; i < a.n; at += a.count[i++]) {
		for (int64_t k = 0; a.to[i] && k < a.count[i]; k++)
			ck_assert_float_eq(a.recv[i][k], reduced(&a, at + k));
		ck_assert_float_eq(a.recv[i][a.count[i]], -1);
	}
	check_sent(c, &a, (int64_t)(a.n - 1) * at * 4);
}

void comm_exchange(struct ff_comm *c, struct ff_random *r)
{
	struct ff_parcel parcel[MOST * MOST];
	struct ff_error err;
	struct arrays a;
	float *in[MOST * MOST];
	uint32_t n = 0;
	int64_t bytes = 0;

	draw_group(&a, c, r);
	for (uint32_t i = 0; i < a.n; i++)
		for (uint32_t j = 0; j < a.n; j++) {
			int64_t length = (int64_t)ff_random_below(r, LENGTH);

			if (i == j || ff_random_below(r, 2))
				continue;
			in[n] = calloc(LENGTH, sizeof(float));
			ck_assert_ptr_nonnull(in[n]);
			parcel[n] = (struct ff_parcel){a.device[i], a.device[j], a.from[i],
					a.to[j] ? in[n] : NULL, 4 * length};
			bytes += 4 * length;
			n++;
		}
	if (member(c, &a))
		OK(c->exchange(c, parcel, n, &err));
	for (uint32_t p = 0; p < n; p++) {
		for (int64_t k = 0; parcel[p].recv && k < parcel[p].bytes / 4; k++)
			ck_assert_float_eq(in[p][k], value(parcel[p].from, k));
		ck_assert_float_eq(in[p][parcel[p].bytes / 4], 0);
		free(in[p]);
	}
	check_sent(c, &a, bytes);
}
