/* Convolutions as loops whose innermost one is over channels.  SPDX-License-Identifier: Apache-2.0
 */
#include <vector>

#include "convolution.hpp"
#include "elements.hpp"

namespace twin
{

int64_t Tensor::extent() const
{
	int64_t last = 0;

	for (int i = 0; i < 4; i++)
		last += (n[i] - 1) * stride[i];
	return last + 1;
}

/* Calls `fn` with every position and where it is in memory. */
template <typename F> static void each(const Tensor &t, F fn)
{
	for (int64_t a = 0; a < t.n[0]; a++)
		for (int64_t b = 0; b < t.n[1]; b++)
			for (int64_t c = 0; c < t.n[2]; c++)
				for (int64_t d = 0; d < t.n[3]; d++)
					fn(a, b, c, d,
							a * t.stride[0] + b * t.stride[1] +
									c * t.stride[2] +
									d * t.stride[3]);
}

/* The order in which loops want it: channels last, and a filter's R S C K by groups. */
struct Order {
	int64_t step[4], groups = 1, per_group = 1, group_step = 0; /* of axis 0 */
	int64_t at(int64_t a, int64_t b, int64_t c, int64_t d) const
	{
		return a / per_group * group_step + a % per_group * step[0] + b * step[1] +
		       c * step[2] + d * step[3];
	}
};

static Order image_order(const Tensor &t)
{
	return {{t.n[1] * t.n[2] * t.n[3], 1, t.n[3] * t.n[1], t.n[1]}, 1, t.n[0], 0};
}

/* `k_last`: else C is. */
static Order weight_order(const Tensor &t, int64_t groups, bool k_last)
{
	int64_t k = t.n[0] / groups, c = t.n[1], taps = t.n[2] * t.n[3];

	return {{k_last ? 1 : c, k_last ? k : 1, t.n[3] * c * k, c * k}, groups, k, taps * c * k};
}

static std::vector<float> gather(const Tensor &t, const Order &o, const void *from, bool tf32)
{
	std::vector<float> ret(size_t(t.n[0] * t.n[1] * t.n[2] * t.n[3]));

	each(t, [&](int64_t a, int64_t b, int64_t c, int64_t d, int64_t at) {
		float x = get(t.bf16, from, at);

		ret[size_t(o.at(a, b, c, d))] = tf32 ? to_tf32(x) : x;
	});
	return ret;
}

static void scatter(const Convolution &v, const Order &o, const std::vector<float> &from, void *to,
		const void *bias)
{
	const Tensor &t = v.sink();

	each(t, [&](int64_t a, int64_t b, int64_t c, int64_t d, int64_t at) {
		float x = float(v.alpha) * from[size_t(o.at(a, b, c, d))];

		if (v.beta != 0)
			x += float(v.beta) * get(t.bf16, to, at);
		if (bias)
			x += get(v.bias.bf16, bias, b * v.bias.stride[1]);
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

/* Every image position and tap that an output position meets, once a group. */
template <typename F> static void taps(const Convolution &v, F fn)
{
	const Tensor &x = v.image, &y = v.result, &w = v.weight;

	for (int64_t n = 0; n < y.n[0]; n++)
		for (int64_t p = 0; p < y.n[2]; p++)
			for (int64_t q = 0; q < y.n[3]; q++)
				for (int64_t r = 0; r < w.n[2]; r++)
					for (int64_t s = 0; s < w.n[3]; s++) {
						int64_t h = p * v.stride[0] - v.pad[0] +
							    r * v.dilation[0];
						int64_t l = q * v.stride[1] - v.pad[1] +
							    s * v.dilation[1];

						if (h < 0 || h >= x.n[2] || l < 0 || l >= x.n[3])
							continue;
						fn(((n * x.n[2] + h) * x.n[3] + l) * x.n[1],
								((n * y.n[2] + p) * y.n[3] + q) *
										y.n[1],
								r * w.n[3] + s);
					}
}

void convolve(const Convolution &v, void *image, void *weight, void *result, const void *bias)
{
	int64_t groups = v.groups(), c = v.weight.n[1], k = v.weight.n[0] / groups;
	int64_t n_taps = v.weight.n[2] * v.weight.n[3];
	Order ox = image_order(v.image), oy = image_order(v.result);
	Order ow = weight_order(v.weight, groups, v.kind != Convolution::DATA);
	std::vector<float> x, w, y;

	if (v.kind == Convolution::DATA)
		x.resize(size_t(v.image.n[0] * v.image.n[1] * v.image.n[2] * v.image.n[3]));
	else
		x = gather(v.image, ox, image, v.tf32);
	if (v.kind == Convolution::FILTER)
		w.resize(size_t(groups * n_taps * c * k));
	else
		w = gather(v.weight, ow, weight, v.tf32);
	if (v.kind == Convolution::FORWARD)
		y.resize(size_t(v.result.n[0] * v.result.n[1] * v.result.n[2] * v.result.n[3]));
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
	if (v.kind == Convolution::FORWARD)
		scatter(v, oy, y, result, bias);
	else if (v.kind == Convolution::DATA)
		scatter(v, ox, x, image, nullptr);
	else
		scatter(v, ow, w, weight, nullptr);
}

} // namespace twin
