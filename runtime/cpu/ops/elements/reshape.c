/* Reshape: element i of one tensor's row-major order is element i of the
 * other's.  The side with the longer rows is walked row by row; a row is a
 * range of indices, and a range is a few boxes of the other side.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/copy.h"
#include "cpu/core/kernel.h"

struct side {
	struct ff_region region;
	uint8_t order[FF_MAX_RANK];
	int64_t index[FF_MAX_RANK];  /* row-major stride in the tensor */
	int64_t stride[FF_MAX_RANK]; /* in the shard */
};

struct reshape {
	enum ff_dtype type;
	int64_t size; /* of an element */
	struct side rows, boxes;
	bool rows_are_input, fill_din;
	int64_t in_volume;
};

/* One row on its way: `row` and `box` are the shards' memory, with the row's
 * first element at `row`. */
struct passage {
	const struct reshape *r;
	int64_t first; /* index of the row's first element */
	char *row, *box;
	bool to_boxes;
};

static void copy_box(const struct passage *p, const struct ff_region *box)
{
	const struct side *b = &p->r->boxes, *a = &p->r->rows;
	int64_t step = a->stride[a->region.rank - 1], index = 0, row_at, box_at;
	struct ff_strided s = {.rank = box->rank};
	struct ff_region have;

	if (ff_region_intersect(box, &b->region, &have) == 0)
		return;
	for (uint32_t i = 0; i < have.rank; i++) {
		index += have.lo[i] * b->index[i];
		s.n[i] = ff_region_size(&have, i);
		s.source[i] = p->to_boxes ? b->index[i] * step : b->stride[i];
		s.sink[i] = p->to_boxes ? b->stride[i] : b->index[i] * step;
	}
	row_at = (index - p->first) * step * p->r->size;
	box_at = ff_region_offset(b->order, &b->region, have.lo) * p->r->size;
	if (p->to_boxes)
		ff_strided_copy(&s, p->r->type, p->row + row_at, p->box + box_at);
	else
		ff_strided_copy(&s, p->r->type, p->box + box_at, p->row + row_at);
}

/* Splits indices [lo, end), counted behind the prefix that `box` fixes, into
 * boxes: a partial step of `axis`, whole steps, a partial step. */
static void copy_range(const struct passage *p, struct ff_region *box, uint32_t axis, int64_t lo,
		int64_t end)
{
	const int64_t *index = p->r->boxes.index;
	int64_t step = index[axis], first = lo / step, stop = end / step;

	if (lo % step) {
		int64_t next = (first + 1) * step;

		box->lo[axis] = (int32_t)first;
		box->hi[axis] = (int32_t)first + 1;
		copy_range(p, box, axis + 1, lo - first * step,
				(next < end ? next : end) - first * step);
		first++;
	}
	if (first < stop) {
		box->lo[axis] = (int32_t)first;
		box->hi[axis] = (int32_t)stop;
		for (uint32_t i = axis + 1; i < box->rank; i++) {
			box->lo[i] = 0;
			box->hi[i] = (int32_t)(index[i - 1] / index[i]);
		}
		copy_box(p, box);
	}
	if (end % step && first <= stop) {
		box->lo[axis] = (int32_t)stop;
		box->hi[axis] = (int32_t)stop + 1;
		copy_range(p, box, axis + 1, 0, end - stop * step);
	}
}

/* Copies between memory of the row side and memory of the box side. */
static void copy_rows(const struct reshape *r, void *rows, void *boxes, bool to_boxes)
{
	const struct side *a = &r->rows;
	uint32_t last = a->region.rank - 1;
	int64_t length = ff_region_size(&a->region, last);
	int64_t n = ff_region_volume(&a->region) / length;

#pragma omp parallel for if (n * length >= FF_CPU_PARALLEL)
	for (int64_t row = 0; row < n; row++) {
		struct passage p = {.r = r, .row = rows, .box = boxes, .to_boxes = to_boxes};
		struct ff_region box = {.rank = r->boxes.region.rank};
		int64_t rest = row;

		p.first = a->region.lo[last];
		for (uint32_t i = last; i-- > 0;) {
			int32_t size = ff_region_size(&a->region, i);

			p.first += (a->region.lo[i] + rest % size) * a->index[i];
			p.row += rest % size * a->stride[i] * r->size;
			rest /= size;
		}
		copy_range(&p, &box, 0, p.first, p.first + length);
	}
}

/* The side that is read is not written: `to_boxes` says which. */
static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct reshape *r = k->state;
	void *in = (void *)io->in[0];

	(void)err;
	copy_rows(r, r->rows_are_input ? in : io->out[0], r->rows_are_input ? io->out[0] : in,
			r->rows_are_input);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct reshape *r = k->state;
	void *dout = (void *)io->dout[0], *din = io->din[0];

	(void)err;
	if (r->fill_din)
		memset(din, 0, (size_t)(r->in_volume * r->size));
	copy_rows(r, r->rows_are_input ? din : dout, r->rows_are_input ? dout : din,
			!r->rows_are_input);
	return FF_OK;
}

static void fill_side(const struct ff_operand *o, const struct ff_region *region, struct side *ret)
{
	int64_t step = 1;

	ret->region = *region;
	memcpy(ret->order, o->order, sizeof(ret->order));
	ff_region_strides(ret->order, region, ret->stride);
	for (uint32_t i = o->rank; i-- > 0;) {
		ret->index[i] = step;
		step *= o->shape[i];
	}
}

int ff_cpu_reshape_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct reshape *r = ff_kernel_state(k, sizeof(*r), err);
	const struct ff_region *in = &w->in[0], *out = &w->out[0];

	if (!r)
		return FF_E_NOMEM;
	r->type = ff_work_type(w);
	r->size = ff_dtype_bytes(r->type);
	r->rows_are_input = ff_region_size(in, in->rank - 1) > ff_region_size(out, out->rank - 1);
	fill_side(&w->node->in_map[0], in, r->rows_are_input ? &r->rows : &r->boxes);
	fill_side(&w->node->out_map[0], out, r->rows_are_input ? &r->boxes : &r->rows);
	r->in_volume = ff_region_volume(in);
	r->fill_din = r->in_volume != ff_region_volume(out);
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
