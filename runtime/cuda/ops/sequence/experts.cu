/* Rows of places in the slots of experts, and back: threads read neighbours of a row, 16 bytes each
 * where rows lie so.  A place's slots are added up in the order of the experts, by one thread.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/places.cuh"
#include "experts.h"

#define WARPS (BLOCK / 32)

/* Rows of which a thread has some neighbours: packs of a row, and what rows are counted over. */
struct rowwise {
	struct ff_slots s;
	struct divisor packs, inner, middle;
	int64_t threads;
};

/* Row number (outer, middle, inner), and where in it. */
struct spot {
	int64_t outer, middle, inner, at;
};

template <class I> FF_DEVICE struct spot spot_among(const struct rowwise &r, I i, int each)
{
	I at = i, inner = (I)divided(r.packs, &at), middle = (I)divided(r.inner, &inner);
	I outer = (I)divided(r.middle, &middle);
	struct spot s = {(int64_t)outer, (int64_t)middle, (int64_t)inner, (int64_t)at * each};

	return s;
}

FF_DEVICE struct spot spot_of(const struct rowwise &r, int64_t i, int each)
{
	return r.threads <= FF_NARROW ? spot_among(r, (uint32_t)i, each) : spot_among(r, i, each);
}

static struct rowwise rowwise_of(
		const struct ff_slots *s, int64_t packs, int64_t middle, int64_t inner)
{
	struct rowwise r = {*s, divisor_of(packs), divisor_of(inner), divisor_of(middle),
			s->samples * middle * inner * packs};

	return r;
}

/* The part's place that has a slot; negative: none of them. */
FF_DEVICE int64_t place_of(const struct ff_slots &s, const int32_t *places, int64_t sample,
		int64_t expert, int64_t slot)
{
	int64_t p = places[sample * s.index.sample + expert * s.index.place +
				    slot * s.index.feature] -
		    s.first;

	return p < s.places ? p : -1;
}

FF_DEVICE int64_t slot_offset(const struct ff_slots &s, int64_t sample, int64_t e, int64_t slot)
{
	return sample * s.side.sample + e * s.side.expert + slot * s.side.slot;
}

FF_DEVICE int64_t row_offset(const struct ff_slots &s, int64_t sample, int64_t place)
{
	return sample * s.row.sample + place * s.row.place;
}

FF_DEVICE int64_t share_offset(const struct ff_slots &s, int64_t sample, int64_t place, int64_t e)
{
	return sample * s.share.sample + place * s.share.place + e * s.share.feature;
}

/* A thread a slot, of tables that say -1 all over. */
FF_KERNEL void list(struct rowwise r, const int32_t *places, int32_t *table)
{
	int64_t i = thread_index(), place;
	struct spot at;

	if (i >= r.threads)
		return;
	at = spot_of(r, i, 1);
	place = place_of(r.s, places, at.outer, at.middle, at.inner);
	if (place >= 0)
		table[(at.outer * r.s.places + place) * r.s.columns + r.s.column + at.middle] =
				(int32_t)at.inner;
}

template <class T, int N>
FF_KERNEL void fill(
		struct rowwise r, const int32_t *places, const T *rows, const T *shares, T *slots)
{
	int64_t i = thread_index(), place;
	several<T, N> all = {};
	struct spot at;

	if (i >= r.threads)
		return;
	at = spot_of(r, i, N);
	place = place_of(r.s, places, at.outer, at.middle, at.inner);
	if (place >= 0)
		all = *(const several<T, N> *)(rows + row_offset(r.s, at.outer, place) +
					       at.at * r.s.row.feature);
	if (place >= 0 && shares) {
		float share = real_get(shares[share_offset(r.s, at.outer, place, at.middle)]);

		for (int j = 0; j < N; j++)
			real_put(&all.x[j], share * real_get(all.x[j]));
	}
	*(several<T, N> *)(slots + slot_offset(r.s, at.outer, at.middle, at.inner) +
			   at.at * r.s.side.feature) = all;
}

template <class T, int N>
FF_KERNEL void add(struct rowwise r, const int32_t *table, const T *slots, const T *shares, T *rows)
{
	int64_t i = thread_index();
	float sum[N] = {};
	several<T, N> all;
	struct spot at;

	if (i >= r.threads)
		return;
	at = spot_of(r, i, N);
	table += (at.outer * r.s.places + at.inner) * r.s.columns + r.s.column;
	for (int64_t e = 0; e < r.s.experts; e++) {
		int32_t slot = table[e];
		float share = 1;

		if (slot < 0)
			continue;
		if (shares)
			share = real_get(shares[share_offset(r.s, at.outer, at.inner, e)]);
		all = *(const several<T, N> *)(slots + slot_offset(r.s, at.outer, e, slot) +
					       at.at * r.s.side.feature);
		for (int j = 0; j < N; j++)
			sum[j] += share * real_get(all.x[j]);
	}
	for (int j = 0; j < N; j++)
		real_put(&all.x[j], sum[j]);
	*(several<T, N> *)(rows + row_offset(r.s, at.outer, at.inner) + at.at * r.s.row.feature) =
			all;
}

/* A warp a place. */
template <class T>
FF_KERNEL void agree(
		struct ff_slots s, const int32_t *table, const T *slots, const T *rows, T *shares)
{
	int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32, sample = i / s.places;
	int64_t place = i - sample * s.places, row = row_offset(s, sample, place);
	int64_t lane = threadIdx.x % 32;

	if (sample >= s.samples)
		return;
	for (int64_t e = 0; e < s.experts; e++) {
		int32_t slot = table[i * s.columns + s.column + e];
		int64_t at = slot_offset(s, sample, e, slot);
		float sum = 0;

		for (int64_t c = lane; slot >= 0 && c < s.features; c += 32)
			sum += real_get(rows[row + c * s.row.feature]) *
			       real_get(slots[at + c * s.side.feature]);
		for (int lanes = 16; slot >= 0 && lanes > 0; lanes /= 2)
			sum += __shfl_xor_sync(0xffffffff, sum, lanes);
		if (lane == 0)
			real_put(&shares[share_offset(s, sample, place, e)], sum);
	}
}

/* Whether rows of both sides lie in packs of n. */
static bool lie_in_packs(const struct ff_slots *s, int n, const void *rows, const void *slots)
{
	return s->row.feature == 1 && s->side.feature == 1 && s->features % n == 0 &&
	       s->row.sample % n == 0 && s->row.place % n == 0 && s->side.sample % n == 0 &&
	       s->side.expert % n == 0 && s->side.slot % n == 0 &&
	       ((uintptr_t)rows | (uintptr_t)slots) % 16 == 0;
}

template <class T, int N>
static cudaError_t launch_fill(const struct ff_slots *p, const int32_t *places, const void *rows,
		const void *shares, void *slots, cudaStream_t s)
{
	struct rowwise r = rowwise_of(p, p->features / N, p->experts, p->slots);

	return ff_launch(fill<T, N>, blocks_of(r.threads), dim3(BLOCK), s, r, places,
			(const T *)rows, (const T *)shares, (T *)slots);
}

template <class T, int N>
static cudaError_t launch_add(const struct ff_slots *p, const int32_t *table, const void *slots,
		const void *shares, void *rows, cudaStream_t s)
{
	struct rowwise r = rowwise_of(p, p->features / N, 1, p->places);

	return ff_launch(add<T, N>, blocks_of(r.threads), dim3(BLOCK), s, r, table,
			(const T *)slots, (const T *)shares, (T *)rows);
}

template <class T>
static cudaError_t launch_agree(const struct ff_slots *p, const int32_t *table, const void *slots,
		const void *rows, void *shares, cudaStream_t s)
{
	int64_t blocks = (p->samples * p->places + WARPS - 1) / WARPS;

	return ff_launch(agree<T>, dim3((unsigned)blocks), dim3(BLOCK), s, *p, table,
			(const T *)slots, (const T *)rows, (T *)shares);
}

cudaError_t ff_launch_slot_table(
		const struct ff_slots *p, const int32_t *places, int32_t *table, cudaStream_t s)
{
	int64_t n = p->samples * p->places * p->columns;
	struct rowwise r = rowwise_of(p, 1, p->experts, p->slots);
	cudaError_t code = cudaMemsetAsync(table, 0xff, (size_t)n * sizeof(*table), s);

	if (code != cudaSuccess)
		return code;
	return ff_launch(list, blocks_of(r.threads), dim3(BLOCK), s, r, places, table);
}

cudaError_t ff_launch_fill_slots(enum ff_dtype type, const struct ff_slots *p,
		const int32_t *places, const void *rows, const void *shares, void *slots,
		cudaStream_t s)
{
	if (type == FF_BF16 && lie_in_packs(p, pack<uint16_t>::n, rows, slots))
		return launch_fill<uint16_t, pack<uint16_t>::n>(p, places, rows, shares, slots, s);
	if (type == FF_BF16)
		return launch_fill<uint16_t, 1>(p, places, rows, shares, slots, s);
	if (lie_in_packs(p, pack<float>::n, rows, slots))
		return launch_fill<float, pack<float>::n>(p, places, rows, shares, slots, s);
	return launch_fill<float, 1>(p, places, rows, shares, slots, s);
}

cudaError_t ff_launch_add_slots(enum ff_dtype type, const struct ff_slots *p, const int32_t *table,
		const void *slots, const void *shares, void *rows, cudaStream_t s)
{
	if (type == FF_BF16 && lie_in_packs(p, pack<uint16_t>::n, rows, slots))
		return launch_add<uint16_t, pack<uint16_t>::n>(p, table, slots, shares, rows, s);
	if (type == FF_BF16)
		return launch_add<uint16_t, 1>(p, table, slots, shares, rows, s);
	if (lie_in_packs(p, pack<float>::n, rows, slots))
		return launch_add<float, pack<float>::n>(p, table, slots, shares, rows, s);
	return launch_add<float, 1>(p, table, slots, shares, rows, s);
}

cudaError_t ff_launch_share_gradients(enum ff_dtype type, const struct ff_slots *p,
		const int32_t *table, const void *slots, const void *rows, void *shares,
		cudaStream_t s)
{
	if (type == FF_BF16)
		return launch_agree<uint16_t>(p, table, slots, rows, shares, s);
	return launch_agree<float>(p, table, slots, rows, shares, s);
}
