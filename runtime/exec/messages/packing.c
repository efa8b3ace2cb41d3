/* Synchronisations whose messages are compressed.  Each device encodes its gradients and what it
 * has not sent of earlier ones, keeps what the code loses, and sends everybody their chunk; each
 * adds up its chunk in float32, in the order of the devices, encodes the sum likewise and sends it
 * to all (Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel
 * Distributed Training of Speech DNNs", Interspeech 2014).  So what all get and what they keep is
 * what was there: nothing is lost, some of it comes later.  SPDX-License-Identifier: Apache-2.0 */
#include "packing.h"

#include "address.h"
#include "ff/bucket_layout.h"

/* In this order: what each of the devices here encodes; what is sent; the sums of their chunks, and
 * those encoded; what is gathered; what all of it says. */
struct ff_packing {
	uint32_t n_all, n_sums, n_parcels;
	struct ff_coding *all, *sum, *chunk; /* n_all, n_sums, n_all */
	struct ff_parcel *parcel;
	struct ff_collective gather;
};

/* One bucket's, as number `me` of its devices has it. */
struct end {
	const struct ff_codec *codec;
	uint32_t n, me;
	int64_t elements, first, count; /* of its chunk */
	int64_t slot_bytes;
	float *gradient, *residual;
	char *packed, *slots;
};

/* False where device `me` is hosted elsewhere; then only counts are known. */
static bool find_end(const struct ff_transfer *t, uint32_t me, struct end *ret)
{
	const struct ff_schedule *s = t->x->s;
	const struct ff_bucket *b = &s->buckets[t->task->bucket];
	char *at = ff_address_bucket(t->x, t->task->bucket, me);
	uint32_t device = b->device[me];
	struct end e = {.codec = b->codec, .n = b->n_devices, .me = me};

	e.elements = b->bytes / FF_F32_BYTES;
	e.first = ff_codec_chunk(e.codec, e.elements, e.n, me);
	e.count = ff_codec_chunk(e.codec, e.elements, e.n, me + 1) - e.first;
	e.slot_bytes = ff_codec_slot_bytes(e.codec, e.elements, e.n);
	if (at) {
		e.gradient = (float *)(at + ff_bucket_arrays(b, s->optimizer, s->graph->dtype)
							    .gradients);
		e.residual = ff_address_residual(t->x, t->task->bucket, at);
		e.packed = t->x->host[t->x->host_of[device]].memory + s->packed_offset[device];
		e.slots = e.packed + (ff_codec_bytes(e.codec, e.elements) + 63) / 64 * 64;
	}
	*ret = e;
	return at != NULL;
}

/* Where the message of element `first` and those behind it lies in that of all. */
static char *message_at(const struct end *e, int64_t first)
{
	return e->packed + ff_codec_bytes(e->codec, first);
}

/* Where the message of device `from` arrives. */
static char *slot_of(const struct end *e, uint32_t from)
{
	return e->slots + (from - (from > e->me)) * e->slot_bytes;
}

static void add_codings(struct ff_packing *p, const struct end *e)
{
	const struct ff_coding all = {.codec = e->codec,
			.values = e->gradient,
			.residual = e->residual,
			.message = e->packed,
			.n = e->elements};

	p->chunk[p->n_all] = (struct ff_coding){.codec = e->codec,
			.values = e->gradient + e->first,
			.residual = e->residual + e->first,
			.message = e->slots,
			.n = e->count};
	p->all[p->n_all++] = all;
	for (uint32_t from = 0; from < e->n; from++)
		p->sum[p->n_sums++] = (struct ff_coding){.codec = e->codec,
				.values = e->gradient + e->first,
				.message = from == e->me ? message_at(e, e->first)
							 : slot_of(e, from),
				.n = e->count,
				.add = from > 0};
}

/* From one device to another: only those are listed that end here. */
static void add_parcel(struct ff_packing *p, const struct ff_bucket *b, const struct end *from,
		const struct end *to)
{
	if (!from->packed && !to->packed)
		return;
	p->parcel[p->n_parcels++] = (struct ff_parcel){.from = b->device[from->me],
			.to = b->device[to->me],
			.send = from->packed ? message_at(from, to->first) : NULL,
			.recv = to->packed ? slot_of(to, from->me) : NULL,
			.count = ff_codec_bytes(to->codec, to->count) /
				 ff_dtype_bytes(to->codec->type)};
}

static void add_gather(const struct ff_bucket *b, const struct end *end, const void **send,
		void **recv, int64_t *count, int64_t *offset, struct ff_collective *ret)
{
	int64_t size = ff_dtype_bytes(b->codec->type);

	for (uint32_t i = 0; i < b->n_devices; i++) {
		send[i] = end[i].slots;
		recv[i] = end[i].packed;
		count[i] = ff_codec_bytes(b->codec, end[i].count) / size;
		offset[i] = ff_codec_bytes(b->codec, end[i].first) / size;
	}
	*ret = (struct ff_collective){.kind = FF_MOVE_ALL_GATHER,
			.type = b->codec->type,
			.n_devices = b->n_devices,
			.device = b->device,
			.send = send,
			.recv = recv,
			.count = count,
			.offset = offset};
}

int ff_packing_build(struct ff_transfer *t, struct ff_error *err)
{
	const struct ff_bucket *b = &t->x->s->buckets[t->task->bucket];
	struct ff_arena *a = &t->x->arena;
	size_t n = b->n_devices, hosts = t->x->n_hosts < n ? t->x->n_hosts : n;
	struct ff_packing *p = ff_arena_alloc(a, sizeof(*p));
	struct end *end = ff_arena_array(a, n, sizeof(*end));
	const void **send = ff_arena_array(a, n, sizeof(*send));
	void **recv = ff_arena_array(a, n, sizeof(*recv));
	int64_t *count = ff_arena_array(a, 2 * n, sizeof(*count));

	if (!p || !end || !send || !recv || !count)
		return ff_fail_memory(err);
	p->all = ff_arena_array(a, hosts, sizeof(*p->all));
	p->chunk = ff_arena_array(a, hosts, sizeof(*p->chunk));
	p->sum = ff_arena_array(a, hosts * n, sizeof(*p->sum));
	p->parcel = ff_arena_array(a, 2 * hosts * n, sizeof(*p->parcel));
	if (!p->all || !p->chunk || !p->sum || !p->parcel)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++)
		if (find_end(t, i, &end[i]))
			add_codings(p, &end[i]);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < n; k++)
			if (i != k)
				add_parcel(p, b, &end[i], &end[k]);
	add_gather(b, end, send, recv, count, count + n, &p->gather);
	t->packing = p;
	return FF_OK;
}

int ff_packing_issue(const struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err)
{
	const struct ff_packing *p = t->packing;
	const struct ff_backend *b = t->x->b;
	const struct ff_channel on = {b, stream};
	struct ff_comm *c = t->x->comm;
	int code = FF_OK;

	for (uint32_t i = 0; i < p->n_all && code == FF_OK; i++)
		code = b->math.encode(stream, &p->all[i], err);
	if (code == FF_OK)
		code = c->exchange(c, &on, p->gather.type, p->parcel, p->n_parcels, err);
	for (uint32_t i = 0; i < p->n_sums && code == FF_OK; i++)
		code = b->math.decode(stream, &p->sum[i], err);
	for (uint32_t i = 0; i < p->n_all && code == FF_OK; i++)
		code = b->math.encode(stream, &p->chunk[i], err);
	if (code == FF_OK)
		code = c->collective(c, &on, &p->gather, err);
	for (uint32_t i = 0; i < p->n_all && code == FF_OK; i++)
		code = b->math.decode(stream, &p->all[i], err);
	return code;
}
