/* Rows of places to the slots of experts and back, by index: of every slot the place that has it,
 * as `route` writes them.  Nothing is multiplied by zeros, so that both cost the bytes they move.
 * Slots lie as pixels do whose channels are a group an expert: what a convolution in groups reads
 * without a copy.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/kernel_shape.h"
#include "operator/derive.h"

/* Slots [N, E W, C, 1], places that have them [N, E, C], rows of places [N, T, W]. */
struct sizes {
	int32_t samples, experts, slots, places, features;
};

/* Reads the indices at input `slot` of as many samples as the others have. */
static int read_places(
		const struct ff_derive *d, uint32_t slot, struct sizes *s, struct ff_error *err)
{
	const struct ff_value *v;
	int code = ff_derive_input(d, slot, FF_I32, 3, 3, &v, err);

	if (code < 0)
		return code;
	if (v->shape[0] != s->samples)
		return ff_derive_fail(d, err, "places %s are of %d samples, expected %d",
				ff_shape_text(v->rank, v->shape).text, v->shape[0], s->samples);
	s->experts = v->shape[1];
	s->slots = v->shape[2];
	return FF_OK;
}

/* By place and expert the slot that it has, or -1: what gradients of rows go by. */
static int save_slots(struct ff_derive *d, const struct sizes *s, struct ff_error *err)
{
	return ff_derive_out(d, 1, FF_I32, 3, (int32_t[]){s->samples, s->places, s->experts},
			ff_order_plain, err);
}

/* Channels of an expert's slots. */
static void map_slots(struct ff_operand *o, int32_t sample, int32_t expert, int32_t features)
{
	ff_axis_plain(o, 0, sample);
	ff_axis_term(o, 1, (struct ff_term){expert, 1, features})->window = features;
}

static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	(void)a;
	ret->saved = 1;
}

/* ---- dispatch ---- */

static void map_dispatch(struct ff_derive *d, const struct sizes *s)
{
	struct ff_operand *rows = ff_derive_map(d, 0), *places = ff_derive_map(d, 1);
	struct ff_operand *out = d->node->out_map, *saved = out + 1;
	int32_t sample = ff_derive_dim(d, FF_DIM_SAMPLE, "sample", s->samples);
	int32_t expert = ff_derive_dim(d, FF_DIM_ATTRIBUTE, "expert", s->experts);
	int32_t slot = ff_derive_dim(d, FF_DIM_ATTRIBUTE, "slot", s->slots);

	ff_axis_plain(rows, 0, sample);
	ff_axis_plain(places, 0, sample);
	ff_axis_plain(places, 1, expert);
	ff_axis_plain(places, 2, slot);
	map_slots(out, sample, expert, s->features);
	ff_axis_plain(out, 2, slot);
	ff_axis_plain(saved, 0, sample);
	ff_axis_plain(saved, 2, expert);
}

static int derive_dispatch(struct ff_derive *d, struct ff_error *err)
{
	struct sizes s = {0};
	const struct ff_value *in;
	int32_t shape[4] = {0};
	int code = ff_derive_input(d, 0, d->graph->dtype, 3, 3, &in, err);

	if (code < 0)
		return code;
	s = (struct sizes){
			.samples = in->shape[0], .places = in->shape[1], .features = in->shape[2]};
	code = read_places(d, 1, &s, err);
	if (code < 0)
		return code;
	if (__builtin_mul_overflow(s.experts, s.features, &shape[1]))
		return ff_derive_fail(d, err, "the output exceeds 32 bits along axis 1");
	shape[0] = s.samples;
	shape[2] = s.slots;
	shape[3] = 1;
	code = ff_derive_out(d, 0, d->graph->dtype, 4, shape, ff_derive_order(4), err);
	if (code == FF_OK)
		code = save_slots(d, &s, err);
	if (code < 0)
		return code;
	map_dispatch(d, &s);
	ff_derive_flops(d, 0, 1);
	return FF_OK;
}

static double bytes_of(const struct ff_work *w, const struct ff_region *r)
{
	return (double)(ff_region_volume(r) * ff_dtype_bytes(ff_work_type(w)));
}

/* Rows are found by index and written once in both directions: nothing is scattered. */
static struct ff_kernel_shape lookup(const struct ff_work *w)
{
	struct ff_kernel_shape s = ff_kernel_of_bytes(w, FF_KERNEL_LOOKUP);

	s.back = false;
	return s;
}

/* Of the rows at most as many are read as there are slots. */
static uint32_t kernels_dispatch(const struct ff_work *w, struct ff_kernel_shape *ret)
{
	double rows = bytes_of(w, &w->in[0]), slots = bytes_of(w, &w->out[0]);

	*ret = lookup(w);
	if (w->pass == FF_FORWARD && rows > slots)
		ret->bytes -= rows - slots;
	return 1;
}

const struct ff_op_row ff_op_dispatch = {
		.name = "dispatch",
		.summary = "rows of places in the slots of experts, by index",
		.min_in = 2,
		.max_in = 2,
		.count = count,
		.derive = derive_dispatch,
		.kernels = kernels_dispatch,
		.example = FF_EXAMPLE({"in" : [[ 4, 6, 8 ]], "labels" : [[ 4, 3, 2 ]]}),
};

/* ---- combine ---- */

static void map_combine(struct ff_derive *d, const struct sizes *s)
{
	struct ff_operand *slots = ff_derive_map(d, 0), *shares = ff_derive_map(d, 1);
	struct ff_operand *places = ff_derive_map(d, 2);
	struct ff_operand *out = d->node->out_map, *saved = out + 1;
	int32_t sample = ff_derive_dim(d, FF_DIM_SAMPLE, "sample", s->samples);
	int32_t place = ff_derive_dim(d, FF_DIM_ATTRIBUTE, "place", s->places);
	int32_t expert = ff_derive_dim(d, FF_DIM_REDUCTION, "expert", s->experts);

	map_slots(slots, sample, expert, s->features);
	ff_axis_plain(shares, 0, sample);
	ff_axis_plain(shares, 1, place);
	ff_axis_plain(shares, 2, expert);
	ff_axis_plain(places, 0, sample);
	ff_axis_plain(places, 1, expert);
	ff_axis_plain(out, 0, sample);
	ff_axis_plain(out, 1, place);
	ff_axis_plain(saved, 0, sample);
	ff_axis_plain(saved, 1, place);
}

static int check_combine(const struct ff_derive *d, const struct ff_value *slots,
		const struct ff_value *shares, struct sizes *s, struct ff_error *err)
{
	int code;

	*s = (struct sizes){.samples = slots->shape[0], .places = shares->shape[1]};
	code = read_places(d, 2, s, err);
	if (code < 0)
		return code;
	if (slots->shape[1] % s->experts || slots->shape[2] != s->slots || slots->shape[3] != 1)
		return ff_derive_fail(d, err,
				"slots %s are not what %d experts make of %d slots each: expected "
				"[%d, %d features, %d, 1]",
				ff_shape_text(slots->rank, slots->shape).text, s->experts, s->slots,
				s->samples, s->experts, s->slots);
	if (shares->shape[0] != s->samples || shares->shape[2] != s->experts)
		return ff_derive_fail(d, err, "shares %s, expected [%d, places, %d]",
				ff_shape_text(shares->rank, shares->shape).text, s->samples,
				s->experts);
	s->features = slots->shape[1] / s->experts;
	return FF_OK;
}

static int derive_combine(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_value *slots, *shares;
	struct sizes s = {0};
	int64_t flops;
	int code = ff_derive_input(d, 0, d->graph->dtype, 4, 4, &slots, err);

	if (code == FF_OK)
		code = ff_derive_input(d, 1, d->graph->dtype, 3, 3, &shares, err);
	if (code == FF_OK)
		code = check_combine(d, slots, shares, &s, err);
	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, 3,
				(int32_t[]){s.samples, s.places, s.features}, ff_order_plain, err);
	if (code == FF_OK)
		code = save_slots(d, &s, err);
	if (code < 0)
		return code;
	map_combine(d, &s);
	/* a product and a sum; a product for each gradient, and the sums of the shares' */
	flops = ff_shape_volume(slots->rank, slots->shape);
	d->node->flops_forward = ff_sat_mul(2, flops);
	d->node->flops_backward =
			ff_sat_mul(flops, slots->needs_grad + 2 * (int64_t)shares->needs_grad);
	return FF_OK;
}

/* Parts with some of the places read the slots that those have: as large a share, if experts take
 * them alike. */
static uint32_t kernels_combine(const struct ff_work *w, struct ff_kernel_shape *ret)
{
	double share = (double)ff_region_size(&w->out[0], 1) / w->node->out_map[0].shape[1];

	*ret = lookup(w);
	ret->bytes -= (1 - share) * bytes_of(w, &w->in[0]);
	return 1;
}

const struct ff_op_row ff_op_combine = {
		.name = "combine",
		.summary = "what experts made of their slots, by share added up where it came from",
		.min_in = 3,
		.max_in = 3,
		.flags = FF_OP_BACKWARD_IN,
		.count = count,
		.derive = derive_combine,
		.kernels = kernels_combine,
		.example = FF_EXAMPLE({
			"in" : [ [ 4, 24, 2, 1 ], [ 4, 6, 3 ] ],
			"labels" : [[ 4, 3, 2 ]]
		}),
};
