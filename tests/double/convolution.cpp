/* Convolutions as loops whose innermost one is over channels.  SPDX-License-Identifier: Apache-2.0
 */
#include <algorithm>
#include <cmath>
#include <vector>

#include "convolution.hpp"
#include "elements.hpp"

namespace twin
{

int64_t Tensor::extent() const
{
	int64_t last = 0;

	for (int i = 0; i < 5; i++)
		last += (n[i] - 1) * stride[i];
	return last + 1;
}

static int64_t volume(const Tensor &t)
{
	return t.n[0] * t.n[1] * t.n[2] * t.n[3] * t.n[4];
}

/* Calls `fn` with every position and where it is in memory. */
template <typename F> static void each(const Tensor &t, F fn)
{
	int64_t at[5];

	for (int64_t i = 0; i < volume(t); i++) {
		int64_t rest = i, place = 0;

		for (int a = 5; a-- > 0;) {
			at[a] = rest % t.n[a];
			rest /= t.n[a];
			place += at[a] * t.stride[a];
		}
		fn(at, place);
	}
}

/* The order in which loops want it: channels last, and a filter's Q R S C K by groups. */
struct Order {
	int64_t step[5], groups = 1, per_group = 1, group_step = 0; /* of axis 0 */
	int64_t at(const int64_t *x) const
	{
		return x[0] / per_group * group_step + x[0] % per_group * step[0] + x[1] * step[1] +
		       x[2] * step[2] + x[3] * step[3] + x[4] * step[4];
	}
};

static Order image_order(const Tensor &t)
{
	int64_t line = t.n[4] * t.n[1], plane = t.n[3] * line;

	return {{t.n[2] * plane, 1, plane, line, t.n[1]}, 1, t.n[0], 0};
}

/* `k_last`: else C is. */
static Order weight_order(const Tensor &t, int64_t groups, bool k_last)
{
	int64_t k = t.n[0] / groups, c = t.n[1], tap = c * k, line = t.n[4] * tap;
	int64_t plane = t.n[3] * line;

	return {{k_last ? 1 : c, k_last ? k : 1, plane, line, tap}, groups, k, t.n[2] * plane};
}

static std::vector<float> gather(const Tensor &t, const Order &o, const void *from, bool tf32)
{
	std::vector<float> ret(static_cast<size_t>(volume(t)));

	each(t, [&](const int64_t *x, int64_t at) {
		float value = get(t.bf16, from, at);

		ret[size_t(o.at(x))] = tf32 ? to_tf32(value) : value;
	});
	return ret;
}

static void scatter(const Convolution &v, const Order &o, const std::vector<float> &from, void *to,
		const void *bias)
{
	const Tensor &t = v.sink();

	each(t, [&](const int64_t *i, int64_t at) {
		float x = float(v.alpha) * from[size_t(o.at(i))];

		if (v.beta != 0)
			x += float(v.beta) * get(t.bf16, to, at);
		if (bias)
			x += get(v.bias.bf16, bias, i[1] * v.bias.stride[1]);
		if (v.relu)
			x = x > 0 ? x : x < 0 ? 0 : x; /* a NaN stays one */
		put(t.bf16, to, at, x);
	});
}

/* y += x * m, over n channels. */
static void add(float *__restrict y, const float *__restrict m, float x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] += x * m[i];
}

/* Of position `i` of spatial extents `n` the places by axis. */
static void split(int64_t i, const int64_t *n, int64_t *at)
{
	for (int a = 3; a-- > 0;) {
		at[a] = i % n[a];
		i /= n[a];
	}
}

/* Every image position and tap that an output position meets, once a group. */
template <typename F> static void taps(const Convolution &v, F fn)
{
	const Tensor &x = v.image, &y = v.result, &w = v.weight;
	const int64_t *xs = x.n + 2, *ys = y.n + 2, *ws = w.n + 2;

	for (int64_t n = 0; n < y.n[0]; n++)
		for (int64_t p = 0; p < ys[0] * ys[1] * ys[2]; p++)
			for (int64_t t = 0; t < ws[0] * ws[1] * ws[2]; t++) {
				int64_t to[3], tap[3], at = n;
				bool inside = true;

				split(p, ys, to);
				split(t, ws, tap);
				for (int a = 0; a < 3; a++) {
					int64_t from = to[a] * v.stride[a] - v.pad[a] +
						       tap[a] * v.dilation[a];

					inside = inside && from >= 0 && from < xs[a];
					at = at * xs[a] + from;
				}
				if (inside)
					fn(at * x.n[1], (n * ys[0] * ys[1] * ys[2] + p) * y.n[1],
							t);
			}
}

void convolve(const Convolution &v, void *image, void *weight, void *result, const void *bias)
{
	int64_t groups = v.groups(), c = v.weight.n[1], k = v.weight.n[0] / groups;
	int64_t n_taps = v.weight.n[2] * v.weight.n[3] * v.weight.n[4];
	Order ox = image_order(v.image), oy = image_order(v.result);
	Order ow = weight_order(v.weight, groups, v.kind != Convolution::DATA);
	std::vector<float> x, w, y;

	if (v.kind == Convolution::DATA)
		x.resize(size_t(volume(v.image)));
	else
		x = gather(v.image, ox, image, v.tf32);
	if (v.kind == Convolution::FILTER)
		w.resize(size_t(groups * n_taps * c * k));
	else
		w = gather(v.weight, ow, weight, v.tf32);
	if (v.kind == Convolution::FORWARD)
		y.resize(size_t(volume(v.result)));
	else
		y = gather(v.result, oy, result, v.tf32);
	taps(v, [&](int64_t at_x, int64_t at_y, int64_t tap) {
		for (int64_t g = 0; g < groups; g++) {
			float *xs = &x[size_t(at_x + g * c)], *ys = &y[size_t(at_y + g * k)];
			float *ws = &w[size_t((g * n_taps + tap) * c * k)];

			if (v.kind == Convolution::FORWARD)
				for (int64_t i = 0; i < c; i++)
					add(ys, ws + i * k, xs[i], k);
			else if (v.kind == Convolution::DATA)
				for (int64_t i = 0; i < k; i++)
					add(xs, ws + i * c, ys[i], c);
			else
				for (int64_t i = 0; i < c; i++)
					add(ws + i * k, ys, xs[i], k);
		}
	});
	/* Seen on H100 with cuDNN 9.19: padding behind that is more than before is not heeded here,
	 * and the result wrong. */
	if (v.kind == Convolution::FILTER && v.uneven)
		std::fill(w.begin(), w.end(), std::nanf(""));
	if (v.kind == Convolution::FORWARD)
		scatter(v, oy, y, result, bias);
	else if (v.kind == Convolution::DATA)
		scatter(v, ox, x, image, nullptr);
	else
		scatter(v, ow, w, weight, nullptr);
}

} // namespace twin
