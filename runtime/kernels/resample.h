/* Linear maps of images that are a product of one map an axis: averages of windows, averages of
 * equal shares, enlargements.  What kernels of both backends share: before they include it they
 * say in FF_RESAMPLE_FN how its functions are declared.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_RESAMPLE_H
#define FF_RUNTIME_RESAMPLE_H

#include <stdint.h>

/* What an element of the output is of those of the input, along one axis. */
enum ff_resample_kind {
	FF_RESAMPLE_WINDOW,  /* the mean of a window; some of the padding may count */
	FF_RESAMPLE_SHARE,   /* the mean of its share, rounded outwards */
	FF_RESAMPLE_NEAREST, /* the one whose share it is in */
	FF_RESAMPLE_LINEAR,  /* between the two next to it; elements are areas */
	FF_RESAMPLE_CORNERS, /* likewise; the first and the last element stay where they are */
	FF_RESAMPLE_REFLECT, /* the one `pad` before; outside, mirrored at the outermost */
	FF_RESAMPLE_EDGE,    /* likewise; outside, the outermost */
};

/* Without padding, as kernels of devices take it as it is. */
struct ff_resample_axis {
	int64_t in, out;            /* of the whole tensors */
	int64_t in_lo, in_n;        /* of the part: what it reads */
	int64_t out_lo, out_n;      /* what it writes */
	int64_t count_lo, count_hi; /* WINDOW: positions that the mean counts */
	int32_t kernel, stride, pad, kind;
};

/* Images of N D H W C, dense in that order. */
struct ff_resample {
	int64_t n, c;
	struct ff_resample_axis axis[3];
};

#ifdef __cplusplus
extern "C" {
#endif
struct ff_work;
/* Of a part of a pool that takes means. */
void ff_resample_pool(const struct ff_work *w, struct ff_resample *ret);
/* Of a part of what changes the size of images. */
void ff_resample_resize(const struct ff_work *w, struct ff_resample *ret);
/* Of a part of what puts elements of images around them. */
void ff_resample_pad(const struct ff_work *w, struct ff_resample *ret);
#ifdef __cplusplus
}
#endif

/* Where output `o` lies between inputs: whole part and rest, of `*over`. */
FF_RESAMPLE_FN int64_t ff_resample_place(
		const struct ff_resample_axis *a, int64_t o, int64_t *rest, int64_t *over)
{
	int64_t corners = a->kind == FF_RESAMPLE_CORNERS;
	int64_t at = corners ? o * (a->in - 1) : (2 * o + 1) * a->in - a->out;

	*over = !corners ? 2 * a->out : a->out > 1 ? a->out - 1 : 1;
	at = at < 0 || (corners && a->out == 1) ? 0 : at;
	*rest = at % *over;
	return at / *over;
}

/* Which input output `o` is, of what has its own elements around it. */
FF_RESAMPLE_FN int64_t ff_resample_inner(const struct ff_resample_axis *a, int64_t o)
{
	int64_t at = o - a->pad, last = a->in - 1;

	if (a->kind == FF_RESAMPLE_EDGE)
		return at < 0 ? 0 : at > last ? last : at;
	return at < 0 ? -at : at > last ? 2 * last - at : at;
}

/* Output `o` is made of inputs from the one to before the other. */
FF_RESAMPLE_FN int64_t ff_resample_begin(const struct ff_resample_axis *a, int64_t o)
{
	int64_t at, rest, over;

	if (a->kind == FF_RESAMPLE_WINDOW) {
		at = o * a->stride - a->pad;
		return at < 0 ? 0 : at;
	}
	if (a->kind == FF_RESAMPLE_SHARE || a->kind == FF_RESAMPLE_NEAREST)
		return o * a->in / a->out;
	if (a->kind >= FF_RESAMPLE_REFLECT)
		return ff_resample_inner(a, o);
	return ff_resample_place(a, o, &rest, &over);
}
FF_RESAMPLE_FN int64_t ff_resample_end(const struct ff_resample_axis *a, int64_t o)
{
	int64_t end;

	if (a->kind == FF_RESAMPLE_SHARE)
		return ((o + 1) * a->in + a->out - 1) / a->out;
	if (a->kind == FF_RESAMPLE_NEAREST)
		return o * a->in / a->out + 1;
	if (a->kind >= FF_RESAMPLE_REFLECT)
		return ff_resample_inner(a, o) + 1;
	if (a->kind == FF_RESAMPLE_LINEAR && (2 * o + 1) * a->in < a->out)
		return 1;
	end = a->kind == FF_RESAMPLE_WINDOW ? o * a->stride - a->pad + a->kernel
					    : ff_resample_begin(a, o) + 2;
	return end < a->in ? end : a->in;
}

/* With which weight input `i`, one of those, goes into output `o`. */
FF_RESAMPLE_FN float ff_resample_weight(const struct ff_resample_axis *a, int64_t o, int64_t i)
{
	int64_t lo = o * a->stride - a->pad, hi = lo + a->kernel, rest, over;

	if (a->kind == FF_RESAMPLE_WINDOW) {
		lo = lo < a->count_lo ? a->count_lo : lo;
		hi = hi > a->count_hi ? a->count_hi : hi;
		return 1.0f / (float)(hi - lo);
	}
	if (a->kind == FF_RESAMPLE_SHARE)
		return 1.0f / (float)(ff_resample_end(a, o) - ff_resample_begin(a, o));
	if (a->kind == FF_RESAMPLE_NEAREST || a->kind >= FF_RESAMPLE_REFLECT)
		return 1;
	lo = ff_resample_place(a, o, &rest, &over);
	if (i > lo)
		return (float)rest / (float)over;
	return lo + 1 < a->in ? (float)(over - rest) / (float)over : 1;
}

/* No output before the one and none from the other on is made of input `i`. */
FF_RESAMPLE_FN int64_t ff_resample_reader(const struct ff_resample_axis *a, int64_t i)
{
	int64_t o = i + a->pad;

	if (a->kind == FF_RESAMPLE_EDGE)
		return i ? o : 0;
	if (a->kind == FF_RESAMPLE_REFLECT)
		return i && i <= a->pad ? a->pad - i : o;
	if (a->kind == FF_RESAMPLE_WINDOW)
		o = (i + a->pad - a->kernel) / a->stride;
	else
		o = (i - 1) * a->out / a->in - 2;
	return o < 0 ? 0 : o;
}
FF_RESAMPLE_FN int64_t ff_resample_last(const struct ff_resample_axis *a, int64_t i)
{
	int64_t o = a->kind == FF_RESAMPLE_WINDOW ? (i + a->pad) / a->stride + 1
						  : (i + 2) * a->out / a->in + 2;
	int64_t mirrored = 2 * (a->in - 1) - i + a->pad;

	if (a->kind >= FF_RESAMPLE_REFLECT)
		o = i + a->pad + 1;
	if (a->kind == FF_RESAMPLE_EDGE && i == a->in - 1)
		o = a->out;
	if (a->kind == FF_RESAMPLE_REFLECT && mirrored < a->out)
		o = mirrored + 1;
	return o < a->out ? o : a->out;
}

#endif
