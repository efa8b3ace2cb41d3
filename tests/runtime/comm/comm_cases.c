/* Cases for communication.  SPDX-License-Identifier: Apache-2.0 */
#include "comm_cases.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ff/backend.h"
#include "process/agree.h"
#include "typed.h"

#define MOST 16                       /* devices */
#define LENGTH (COMM_ARRAY_BYTES / 4) /* elements of an array */

#define OK(call) ck_assert_msg((call) == FF_OK, "%s", err.text)

/* Whole numbers, so that sums are exact in any order; of bfloat16 anything. */
static double value(enum ff_dtype type, uint32_t device, int64_t i)
{
	double x = (device + 1) * 1000 + (uint32_t)(i * 7 % 101);

	if (type == FF_U8)
		return (uint8_t)x;
	return type == FF_BF16 ? (double)ff_bf16_to_f32(ff_bf16_from_f32((float)(x / 7))) : x;
}

/* What a device sends to be reduced: of pairs the largest is alike on all, and of maxima some are
 * NaN on one device. */
static double partial(const struct ff_collective *x, uint32_t device, int64_t i)
{
	bool alike = ff_reduce_width(x->reduce) == 2 && i % 2 == 0;
	bool real = x->type == FF_F32 || x->type == FF_BF16;

	if (x->reduce == FF_REDUCE_MAX && real && i % 11 == device)
		return NAN;
	return value(x->type, alike ? 0 : device, i);
}

/* Arrays of all devices; of those hosted here, with contents. */
struct arrays {
	uint32_t n;
	uint16_t device[MOST];
	uint32_t send[MOST][LENGTH], recv[MOST][LENGTH];
	const void *from[MOST];
	void *to[MOST];
	int64_t count[MOST], offset[MOST], sent, size;
	bool even; /* chunks are of one size, and lie in order */
	struct ff_collective x;
};

#define UNTOUCHED 77

static void draw_group(struct arrays *a, const struct ff_comm *c, enum ff_move_kind kind,
		struct ff_random *r)
{
	uint32_t skip = ff_random_below(r, 3) ? ff_random_below(r, 1u << c->n_devices) : 0;
	enum ff_dtype type = (enum ff_dtype)ff_random_below(r, FF_DTYPE_COUNT);

	memset(a, 0, sizeof(*a));
	a->even = ff_random_below(r, 2);
	for (uint32_t d = 0; d < c->n_devices; d++)
		if (!(skip >> d & 1) || c->n_devices - d + a->n <= 2)
			a->device[a->n++] = (uint16_t)d;
	for (uint32_t i = 0; i < a->n; i++) {
		for (int64_t k = 0; k < LENGTH; k++) {
			typed_put(type, a->send[i], k, value(type, a->device[i], k));
			typed_put(type, a->recv[i], k, UNTOUCHED);
		}
		if (c->hosts(c, a->device[i])) {
			a->from[i] = a->send[i];
			a->to[i] = a->recv[i];
		}
		a->count[i] = i && a->even ? a->count[0]
					   : (int64_t)ff_random_below(r, LENGTH / a->n);
	}
	a->x = (struct ff_collective){.kind = kind,
			.type = type,
			.n_devices = a->n,
			.device = a->device,
			.send = a->from,
			.recv = a->to,
			.count = a->count,
			.offset = a->offset};
	a->sent = c->sent_bytes;
	a->size = ff_dtype_bytes(type);
}

/* Some of everything whose pairs stay together, to be reduced somehow. */
static void draw_reduction(struct arrays *a, struct ff_random *r)
{
	a->x.reduce = (enum ff_reduce)ff_random_below(r, FF_REDUCE_COUNT);
	if (!ff_reduce_takes(a->x.reduce, a->x.type))
		a->x.type = FF_F32;
	a->size = ff_dtype_bytes(a->x.type);
	for (uint32_t i = 0; i < a->n; i++) {
		a->count[i] -= a->count[i] % ff_reduce_width(a->x.reduce);
		for (int64_t k = 0; k < LENGTH; k++) {
			typed_put(a->x.type, a->send[i], k, partial(&a->x, a->device[i], k));
			typed_put(a->x.type, a->recv[i], k, UNTOUCHED);
		}
	}
}

/* The four numbers that element `k` is among, of all devices' arrays together. */
static double moments(const struct arrays *a, int64_t k)
{
	double y[4] = {0, 0, 0, 0};

	for (uint32_t j = 0; j < a->n; j++) {
		double x[4], apart;

		for (int i = 0; i < 4; i++)
			x[i] = partial(&a->x, a->device[j], k / 4 * 4 + i);
		apart = x[1] - y[1];
		y[1] = (x[0] * x[1] + y[0] * y[1]) / (x[0] + y[0]);
		y[2] += x[2] + apart * apart * x[0] * y[0] / (x[0] + y[0]);
		y[0] += x[0];
		y[3] += x[3];
	}
	return y[k % 4];
}

/* Element `k` of all devices' arrays together. */
static double reduced(const struct arrays *a, int64_t k)
{
	double all = partial(&a->x, a->device[0], k);

	if (a->x.reduce == FF_REDUCE_MOMENTS)
		return moments(a, k);
	for (uint32_t j = 1; j < a->n; j++) {
		double x = partial(&a->x, a->device[j], k);

		if (a->x.reduce == FF_REDUCE_SUM)
			all += x;
		else if (a->x.reduce == FF_REDUCE_MAX)
			all = x > all || isnan(x) ? x : all;
		else
			all += k % 2 ? (a->x.reduce == FF_REDUCE_TIES ? x : 1 + x) : 0;
	}
	return all;
}

/* Exact, but for moments and for sums of bfloat16: each of their additions rounds once. */
static void check_reduced(const struct arrays *a, const void *array, int64_t at, int64_t k)
{
	double got = typed_get(a->x.type, array, at), want = reduced(a, k), apart = 0;

	if (a->x.type == FF_BF16 && a->x.reduce == FF_REDUCE_SUM)
		apart = want * (pow(1 + BF16_HALF_ULP, a->n - 1) - 1);
	if (a->x.reduce == FF_REDUCE_MOMENTS)
		apart = 1e-5 * want;
	ck_assert_msg(isnan(want) ? isnan(got) : fabs(got - want) <= apart,
			"%s %s of %u devices: got %g, expected %g", ff_dtype_name(a->x.type),
			ff_reduce_name(a->x.reduce), a->n, got, want);
}

static bool member(const struct ff_comm *c, const struct arrays *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (c->hosts(c, a->device[i]))
			return true;
	return false;
}

/* What points to arguments may go once they were posted. */
static void run(struct ff_comm *c, const struct ff_channel *on, const struct arrays *a)
{
	struct arrays *copy = malloc(sizeof(*copy));
	struct ff_error err;

	if (!member(c, a)) {
		free(copy);
		return;
	}
	*copy = *a;
	copy->x.device = copy->device;
	copy->x.send = copy->from;
	copy->x.recv = copy->to;
	copy->x.count = copy->count;
	copy->x.offset = copy->offset;
	OK(c->collective(c, on, &copy->x, &err));
	memset(copy, 0xa5, sizeof(*copy));
	free(copy);
	OK(on->backend->stream.drain(on->stream, &err));
}

/* All ranks together sent `bytes`. */
static void check_sent(struct ff_comm *c, const struct arrays *a, int64_t bytes)
{
	struct ff_error err;
	int64_t sent = c->sent_bytes - a->sent;

	OK(ff_agree_sum(c, &sent, 1, &err));
	ck_assert_int_eq(sent, bytes);
}

void comm_all_reduce(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r)
{
	struct arrays a;
	int64_t n;

	draw_group(&a, c, FF_MOVE_ALL_REDUCE, r);
	a.count[0] = (int64_t)ff_random_below(r, LENGTH);
	draw_reduction(&a, r);
	n = a.count[0];
	if (ff_random_below(r, 2)) { /* in place */
		memcpy(a.recv, a.send, sizeof(a.recv));
		for (uint32_t i = 0; i < a.n; i++)
			a.from[i] = a.to[i];
	}
	run(c, on, &a);
	for (uint32_t i = 0; i < a.n; i++)
		for (int64_t k = 0; a.to[i] && k < n; k++)
			check_reduced(&a, a.recv[i], k, k);
	check_sent(c, &a, 2 * (int64_t)(a.n - 1) * n * a.size);
}

void comm_all_gather(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r)
{
	struct arrays a;
	int64_t whole = 0, gap = (int64_t)ff_random_below(r, 3);
	bool in_place = ff_random_below(r, 2);

	draw_group(&a, c, FF_MOVE_ALL_GATHER, r);
	for (uint32_t i = 0; i < a.n; i++) {
		if (i % 3 == 1 && !a.even) /* a device may have nothing */
			a.count[i] *= (int64_t)ff_random_below(r, 2);
		if (a.count[i] > gap)
			a.count[i] -= gap;
	}
	/* chunks need not lie in the order of the devices */
	for (uint32_t i = 0, at = a.even ? 0 : ff_random_below(r, a.n); i < a.n;
			i++, at = (at + 1) % a.n) {
		a.offset[at] = whole;
		whole += a.count[at];
	}
	for (uint32_t i = 0; in_place && i < a.n; i++) {
		char *own = (char *)a.recv[i] + a.offset[i] * a.size;

		memcpy(own, a.send[i], (size_t)(a.count[i] * a.size));
		a.from[i] = a.to[i] ? own : NULL;
	}
	run(c, on, &a);
	for (uint32_t i = 0; i < a.n; i++)
		for (uint32_t j = 0; a.to[i] && j < a.n; j++)
			for (int64_t k = 0; k < a.count[j]; k++)
				ck_assert_double_eq(typed_get(a.x.type, a.recv[i], a.offset[j] + k),
						value(a.x.type, a.device[j], k));
	for (uint32_t i = 0; i < a.n; i++)
		ck_assert_double_eq(typed_get(a.x.type, a.recv[i], whole), UNTOUCHED);
	check_sent(c, &a, (int64_t)(a.n - 1) * whole * a.size);
}

void comm_reduce_scatter(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r)
{
	struct arrays a;
	bool in_place = ff_random_below(r, 2);
	int64_t at = 0;

	draw_group(&a, c, FF_MOVE_REDUCE_SCATTER, r);
	draw_reduction(&a, r);
	for (uint32_t i = 0; in_place && i < a.n; at += a.count[i++])
		if (a.to[i])
			a.to[i] = (char *)a.send[i] + at * a.size;
	run(c, on, &a);
	at = 0;
	for (uint32_t i = 0; i < a.n; at += a.count[i++]) {
		for (int64_t k = 0; a.to[i] && k < a.count[i]; k++)
			check_reduced(&a, a.to[i], k, at + k);
		ck_assert_double_eq(typed_get(a.x.type, a.recv[i], in_place ? 0 : a.count[i]),
				UNTOUCHED);
	}
	check_sent(c, &a, (int64_t)(a.n - 1) * at * a.size);
}

/* As the executor does, a rank lists the parcels that have an end here, and posts none of others.
 */
static void exchange(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
		const struct ff_parcel *all, uint32_t n)
{
	struct ff_parcel *own = calloc(n + 1, sizeof(*own));
	struct ff_error err;
	uint32_t n_own = 0;

	ck_assert_ptr_nonnull(own);
	for (uint32_t i = 0; i < n; i++)
		if (c->hosts(c, all[i].from) || c->hosts(c, all[i].to))
			own[n_own++] = all[i];
	if (n_own)
		OK(c->exchange(c, on, type, own, n_own, &err));
	memset(own, 0xa5, n_own * sizeof(*own));
	free(own);
	OK(on->backend->stream.drain(on->stream, &err));
}

void comm_exchange(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r)
{
	struct ff_parcel parcel[MOST * MOST] = {{0}};
	struct arrays a;
	void *in[MOST * MOST];
	uint32_t n = 0;
	int64_t sent = 0;

	draw_group(&a, c, FF_MOVE_POINT_TO_POINT, r);
	for (uint32_t i = 0; i < a.n; i++)
		for (uint32_t j = 0; j < a.n; j++) {
			int64_t length = (int64_t)ff_random_below(r, LENGTH);

			if (i == j || ff_random_below(r, 2))
				continue;
			in[n] = calloc(LENGTH, sizeof(float));
			ck_assert_ptr_nonnull(in[n]);
			parcel[n] = (struct ff_parcel){a.device[i], a.device[j], a.from[i],
					a.to[j] ? in[n] : NULL, length};
			sent += a.size * length;
			n++;
		}
	exchange(c, on, a.x.type, parcel, n);
	for (uint32_t p = 0; p < n; p++) {
		for (int64_t k = 0; parcel[p].recv && k < parcel[p].count; k++)
			ck_assert_double_eq(typed_get(a.x.type, in[p], k),
					value(a.x.type, parcel[p].from, k));
		ck_assert_double_eq(typed_get(a.x.type, in[p], parcel[p].count), 0);
		free(in[p]);
	}
	check_sent(c, &a, sent);
}

/* Byte `k` of message `m`. */
static uint8_t byte_of(uint32_t m, int64_t k)
{
	return (uint8_t)((uint64_t)(k + 1) * 2654435761u >> 13) ^ (uint8_t)(37 * m);
}

/* Both ends hosted here have their own memory; its last byte is nobody's. */
static void draw_message(struct ff_parcel *p, uint32_t m, uint32_t from, uint32_t to,
		const struct ff_comm *c, struct ff_random *r)
{
	int64_t bytes = 1 + (int64_t)ff_random_below(r, COMM_MESSAGE_BYTES);
	uint8_t *send = malloc((size_t)bytes), *recv = malloc((size_t)bytes + 1);

	ck_assert(send && recv);
	for (int64_t k = 0; k < bytes; k++)
		send[k] = byte_of(m, k);
	memset(recv, UNTOUCHED, (size_t)bytes + 1);
	*p = (struct ff_parcel){(uint16_t)from, (uint16_t)to, c->hosts(c, from) ? send : NULL,
			c->hosts(c, to) ? recv : NULL, bytes};
	if (!p->send)
		free(send);
	if (!p->recv)
		free(recv);
}

static void check_message(const struct ff_parcel *p, uint32_t m)
{
	const uint8_t *recv = p->recv;

	int64_t k = 0;

	while (recv && k < p->count && recv[k] == byte_of(m, k))
		k++;
	ck_assert_msg(!recv || k == p->count,
			"byte %lld of %lld from device %u to %u is %u, not %u", (long long)k,
			(long long)p->count, p->from, p->to, recv[k], byte_of(m, k));
	if (recv)
		ck_assert_uint_eq(recv[p->count], UNTOUCHED);
	free((void *)p->send);
	free(p->recv);
}

void comm_server(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r)
{
	uint32_t server = ff_random_below(r, c->n_devices), way = ff_random_below(r, 3), n = 0;
	struct ff_parcel parcel[4 * MOST] = {{0}};

	for (uint32_t d = 0; d < c->n_devices; d++) {
		if (d == server)
			continue;
		for (uint32_t k = 1 + ff_random_below(r, 2); k-- > 0;) {
			if (way != 1) {
				draw_message(&parcel[n], n, server, d, c, r);
				n++;
			}
			if (way != 0) {
				draw_message(&parcel[n], n, d, server, c, r);
				n++;
			}
		}
	}
	exchange(c, on, FF_U8, parcel, n);
	for (uint32_t m = 0; m < n; m++)
		check_message(&parcel[m], m);
}

/* Many at once on a stream, each of which needs what the one before it brought. */
void comm_posted(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r)
{
	int rounds = 1 + (int)ff_random_below(r, 40);
	struct arrays a;
	struct ff_error err;
	double want = 1;

	draw_group(&a, c, FF_MOVE_ALL_REDUCE, r);
	a.n = 2;
	a.device[0] = 0;
	a.device[1] = 1;
	a.x.type = FF_F32;
	a.x.n_devices = 2;
	a.count[0] = LENGTH;
	for (uint32_t i = 0; i < 2; i++) {
		a.from[i] = a.to[i] = c->hosts(c, i) ? a.send[i] : NULL;
		for (int64_t k = 0; k < LENGTH; k++)
			typed_put(FF_F32, a.send[i], k, 1);
	}
	for (int k = 0; k < rounds && (a.from[0] || a.from[1]); k++, want *= 2)
		OK(c->collective(c, on, &a.x, &err));
	OK(on->backend->stream.drain(on->stream, &err));
	for (uint32_t i = 0; i < 2; i++)
		for (int64_t k = 0; a.from[i] && k < LENGTH; k++)
			ck_assert_double_eq(typed_get(FF_F32, a.send[i], k), want);
}

/* What has no sum is refused when it is posted, and what other ranks have among themselves. */
void comm_refused(struct ff_comm *c, const struct ff_channel *on)
{
	struct arrays a = {.device = {0, 1}, .count = {1}};
	struct ff_error err = {0};

	a.x = (struct ff_collective){FF_MOVE_ALL_REDUCE, FF_U8, FF_REDUCE_SUM, 2, a.device, a.from,
			a.to, a.count, NULL};
	ck_assert_int_eq(c->collective(c, on, &a.x, &err), FF_E_RUN);
	ck_assert_ptr_nonnull(strstr(err.text, "uint8"));
	ck_assert_ptr_nonnull(strstr(err.text, "sum"));
	if (c->n_ranks > 2) {
		const struct ff_parcel other = {(uint16_t)((c->rank + 1) % c->n_ranks),
				(uint16_t)((c->rank + 2) % c->n_ranks), NULL, NULL, 1};

		ck_assert_int_eq(c->exchange(c, on, FF_U8, &other, 1, &err), FF_E_RUN);
		ck_assert_ptr_nonnull(strstr(err.text, "parcel"));
	}
}

/* The CPU, or one that claims that the host cannot read its memory. */
static const struct ff_backend *backend_of(bool far)
{
	static struct ff_backend backend;

	backend = ff_backend_cpu;
	backend.memory.of_host = false;
	return far ? &backend : &ff_backend_cpu;
}

void comm_each(struct ff_random *r, int n, void (*test)(void *ctx, const struct ff_channel *on),
		void *ctx)
{
	struct ff_stream *stream[1 + FF_BESIDE_COUNT]; /* the caller's own first */
	struct ff_device *dev;
	struct ff_error err;

	OK(ff_backend_cpu.device.open(0, &dev, &err));
	OK(ff_backend_cpu.stream.open(dev, false, &stream[0], &err));
	for (int by = 0; by < FF_BESIDE_COUNT; by++)
		OK(ff_backend_cpu.stream.beside(
				dev, (enum ff_beside)by, NULL, &stream[1 + by], &err));
	for (int i = 0; i < n; i++) {
		uint32_t draw = ff_random_below(r, 2 * (1 + FF_BESIDE_COUNT));
		struct ff_channel on = {backend_of(draw & 1), stream[draw >> 1]};

		test(ctx, &on);
	}
	for (int k = 0; k < 1 + FF_BESIDE_COUNT; k++)
		ff_backend_cpu.stream.close(stream[k]);
	ff_backend_cpu.device.close(dev);
}
