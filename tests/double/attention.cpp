/* Attention as the steps that a graph says, one after the other: what is virtual is float32, or
 * rounded where it says so; factors of products are rounded to bfloat16.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cmath>
#include <cstring>
#include <memory>
#include <set>

#include "attention.hpp"
#include "elements.hpp"

namespace twin
{

/* The four axes of a tensor that was told of so many. */
static const int axes[] = {0, 1, 3, 4};

static int64_t size(const Tensor &t, int axis)
{
	return t.n[axes[axis]];
}

static bool same(const Tensor &a, const Tensor &b)
{
	return !memcmp(a.n, b.n, sizeof(a.n));
}

/* Of each axis as many as `whole`, or one for all. */
static bool spreads(const Tensor &t, const Tensor &whole)
{
	for (int i = 0; i < 4; i++)
		if (size(t, i) != size(whole, i) && size(t, i) != 1)
			return false;
	return true;
}

/* ---- what is wrong with a step ---- */

static const struct {
	cudnnPointwiseMode_t mode;
	bool has_b, has_t;
} functions[] = {
		{CUDNN_POINTWISE_ADD, true, false},
		{CUDNN_POINTWISE_SUB, true, false},
		{CUDNN_POINTWISE_MUL, true, false},
		{CUDNN_POINTWISE_DIV, true, false},
		{CUDNN_POINTWISE_EXP, false, false},
		{CUDNN_POINTWISE_LOG, false, false},
		{CUDNN_POINTWISE_GEN_INDEX, false, false},
		{CUDNN_POINTWISE_CMP_GE, true, false},
		{CUDNN_POINTWISE_BINARY_SELECT, true, true},
};

bool is_function(int mode)
{
	for (const auto &f : functions)
		if (f.mode == mode)
			return true;
	return false;
}

static std::string function_fault(const Step &s)
{
	bool truth = s.mode == CUDNN_POINTWISE_CMP_GE, place = s.mode == CUDNN_POINTWISE_GEN_INDEX;

	for (const auto &f : functions) {
		if (f.mode != s.mode)
			continue;
		if (f.has_b != (s.b.id != 0) || f.has_t != (s.t.id != 0))
			return "a function of too many or too few";
		if (!same(s.x, s.y) || (f.has_b && !spreads(s.b, s.y)) ||
				(f.has_t && !same(s.t, s.y)))
			return "a function of tensors that do not fit";
		if (f.has_t && s.t.type != CUDNN_DATA_BOOLEAN)
			return "a choice by what is neither true nor false";
		if (truth != (s.y.type == CUDNN_DATA_BOOLEAN) ||
				(place && (s.y.type != CUDNN_DATA_INT32 || s.axis < 0 ||
							  s.axis > 3)))
			return "a comparison or a position of a wrong type";
		return "";
	}
	return "a function that attention does not have";
}

static std::string product_fault(const Step &s)
{
	if (size(s.x, 0) != size(s.y, 0) || size(s.b, 0) != size(s.y, 0) ||
			size(s.x, 1) != size(s.y, 1) || size(s.y, 1) % size(s.b, 1))
		return "a product of batches that do not fit";
	if (size(s.x, 2) != size(s.y, 2) || size(s.b, 3) != size(s.y, 3) ||
			size(s.x, 3) != size(s.b, 2))
		return "a product of matrices that do not fit";
	if ((!s.x.is_virtual && !s.x.bf16) || !s.b.bf16)
		return "a product of what is not bfloat16";
	return "";
}

static std::string reduction_fault(const Step &s)
{
	int shrunk = 0;

	if (s.mode != CUDNN_REDUCE_TENSOR_MAX && s.mode != CUDNN_REDUCE_TENSOR_ADD)
		return "a reduction that attention does not have";
	for (int i = 0; i < 4; i++) {
		bool group = i == 1 && size(s.x, 1) % size(s.y, 1) == 0;

		if (size(s.x, i) != size(s.y, i) && size(s.y, i) != 1 && !group)
			return "a reduction to what does not fit";
		shrunk += size(s.x, i) != size(s.y, i);
	}
	return shrunk > 1 ? "a reduction of several axes" : "";
}

std::string fault(const Step &s)
{
	if (s.kind == Step::PRODUCT)
		return product_fault(s);
	if (s.kind == Step::REDUCTION)
		return reduction_fault(s);
	if (s.kind == Step::FUNCTION)
		return function_fault(s);
	return s.x.extent() == s.y.extent() && s.y.is_virtual
			       ? ""
			       : "a view of more or less, or to what is not virtual";
}

/* ---- what is wrong with them together ---- */

/* What a graph of attention has: the counts of steps of each kind that cuDNN looks for. */
struct Census {
	int products, largest, sums, masks, sources;
};

static void count(const Step &s, Census *c)
{
	c->products += s.kind == Step::PRODUCT;
	c->largest += s.kind == Step::REDUCTION && s.mode == CUDNN_REDUCE_TENSOR_MAX;
	c->sums += s.kind == Step::REDUCTION && s.mode == CUDNN_REDUCE_TENSOR_ADD &&
		   size(s.y, 3) == 1;
	c->masks += s.kind == Step::FUNCTION && s.mode == CUDNN_POINTWISE_BINARY_SELECT;
	c->sources += s.kind == Step::FUNCTION && s.mode == CUDNN_POINTWISE_MUL &&
		      !s.x.is_virtual && !s.b.is_virtual && !s.b.by_value;
}

static bool is_dense(const Tensor &t)
{
	int64_t step = 1;

	for (int i = 4; i-- > 0; step *= size(t, i))
		if (t.stride[axes[i]] != step)
			return false;
	return true;
}

/* A tensor that has memory: rows of heads, a mask, or numbers by row. */
static std::string given_fault(const Tensor &t)
{
	bool by_row = size(t, 3) == 1 && !t.bf16;
	int64_t inner = t.stride[4], other = t.stride[3];

	if (t.by_value)
		return t.extent() == 1 ? "" : "a number that is several";
	if (t.bf16 && t.align < 16)
		return "rows that are not promised to be aligned to 16 bytes";
	if (by_row)
		return t.type == CUDNN_DATA_FLOAT && is_dense(t)
				       ? ""
				       : "numbers by row that are not float32 without gaps";
	if (!t.bf16)
		return "rows that are not bfloat16";
	return inner == 1 || other == 1 ? "" : "rows whose elements are apart";
}

/* Takes note of a tensor that a step reads or writes. */
static std::string note(const Tensor &t, bool written, std::set<int64_t> *made, Attention *a)
{
	auto known = a->given.find(t.id);

	if (!t.id)
		return "";
	if (written && !made->insert(t.id).second)
		return "a tensor that is written twice";
	if (t.is_virtual)
		return made->count(t.id) ? ""
					 : "a virtual tensor that is read before it is written";
	if (written && t.by_value)
		return "a number that is written";
	if (known != a->given.end() &&
			(known->second.extent() != t.extent() || known->second.type != t.type))
		return "two tensors of one id";
	a->given[t.id] = t;
	return given_fault(t);
}

static std::string shape_fault(const Attention &a, const Census &c)
{
	const Step &first = a.steps[a.backward ? 3 : 0];

	if (c.masks > 1)
		return "more than one mask";
	if (first.kind != Step::PRODUCT || size(first.x, 3) % 8)
		return "heads that are not of a multiple of 8 elements";
	if (!a.backward)
		return c.products == 2 && c.largest == 1 && c.sums == 1 &&
						       a.steps.back().kind == Step::PRODUCT &&
						       !a.steps.back().y.is_virtual
				       ? ""
				       : "no two products with a softmax between them";
	return c.products == 5 && c.sums == 1 && c.sources == 1
			       ? ""
			       : "no five products beside the sum of output and gradient";
}

int64_t Attention::scores() const
{
	const Tensor &y = steps[backward ? 3 : 0].y;

	return y.n[0] * y.n[1] * y.n[3] * y.n[4];
}

std::string attention_of(const std::vector<Step> &steps, Attention *ret)
{
	std::set<int64_t> made, read;
	Census c = {};

	*ret = {steps, {}, false};
	for (const Step &s : steps) {
		count(s, &c);
		for (const Tensor *t : {&s.x, &s.b, &s.t}) {
			std::string why = note(*t, false, &made, ret);

			if (!why.empty())
				return why;
			read.insert(t->id);
		}
		std::string why = note(s.y, true, &made, ret);
		if (s.kind == Step::FUNCTION && !s.y.is_virtual &&
				(size(s.y, 3) != 1 || s.y.type != CUDNN_DATA_FLOAT))
			why = "what is between products is kept, and is not float32 by row";
		if (!why.empty())
			return why;
	}
	for (int64_t id : made)
		if (!read.count(id) && !ret->given.count(id))
			return "a virtual tensor that nobody reads";
	ret->backward = c.products > 2;
	if (steps.size() < 4)
		return "too few steps";
	return shape_fault(*ret, c);
}

/* ---- running ---- */

/* A tensor in passing, or where it is. */
struct Place {
	Tensor t;
	std::shared_ptr<std::vector<float>> own;
	void *at;

	float get(int64_t i) const
	{
		if (own)
			return (*own)[size_t(i)];
		if (t.type == CUDNN_DATA_INT32)
			return float(static_cast<const int32_t *>(at)[i]);
		return twin::get(t.bf16, at, i);
	}
	void put(int64_t i, float x)
	{
		if (own)
			(*own)[size_t(i)] = t.bf16 ? from_bf16(to_bf16(x)) : x;
		else
			twin::put(t.bf16, at, i, x);
	}
	/* at a position of a tensor that it spreads over; heads may share one */
	int64_t index(const int64_t *at_, int64_t heads) const
	{
		int64_t i = 0;

		for (int a = 0; a < 4; a++) {
			int64_t n = size(t, a);
			int64_t x = a == 1 && n < heads ? at_[1] / (heads / n) : at_[a];

			i += (n == 1 ? 0 : x) * t.stride[axes[a]];
		}
		return i;
	}
};

template <typename F> static void each(const Tensor &t, F fn)
{
	int64_t at[4];

	for (at[0] = 0; at[0] < size(t, 0); at[0]++)
		for (at[1] = 0; at[1] < size(t, 1); at[1]++)
			for (at[2] = 0; at[2] < size(t, 2); at[2]++)
				for (at[3] = 0; at[3] < size(t, 3); at[3]++)
					fn(at);
}

static float value_of(int mode, float x, float b, bool t)
{
	switch (mode) {
	case CUDNN_POINTWISE_ADD:
		return x + b;
	case CUDNN_POINTWISE_SUB:
		return x - b;
	case CUDNN_POINTWISE_MUL:
		return x * b;
	case CUDNN_POINTWISE_DIV:
		return x / b;
	case CUDNN_POINTWISE_EXP:
		return std::exp(x);
	case CUDNN_POINTWISE_LOG:
		return std::log(x);
	case CUDNN_POINTWISE_CMP_GE:
		return x >= b;
	default:
		return t ? x : b;
	}
}

static void apply(const Step &s, const Place &x, const Place &b, const Place &t, Place *y)
{
	int64_t heads = size(s.y, 1);

	each(s.y, [&](const int64_t *at) {
		float v = s.mode == CUDNN_POINTWISE_GEN_INDEX
					  ? float(at[s.axis])
					  : value_of(s.mode, x.get(x.index(at, heads)),
							    s.b.id ? b.get(b.index(at, heads)) : 0,
							    s.t.id && t.get(t.index(at, heads)) !=
											    0);

		y->put(y->index(at, heads), v);
	});
}

static void multiply(const Step &s, const Place &x, const Place &b, Place *y)
{
	int64_t heads = size(s.y, 1), inner = size(s.x, 3);

	each(s.y, [&](const int64_t *at) {
		int64_t left[] = {at[0], at[1], at[2], 0}, right[] = {at[0], at[1], 0, at[3]};
		int64_t i = x.index(left, heads), k = b.index(right, heads);
		float sum = 0;

		for (int64_t n = 0; n < inner; n++) {
			float p = x.get(i + n * s.x.stride[4]), q = b.get(k + n * s.b.stride[3]);

			sum += from_bf16(to_bf16(p)) * from_bf16(to_bf16(q));
		}
		y->put(y->index(at, heads), sum);
	});
}

static void reduce(const Step &s, const Place &x, Place *y)
{
	bool most = s.mode == CUDNN_REDUCE_TENSOR_MAX;
	int64_t heads = size(s.x, 1);
	std::vector<float> sum(size_t(s.y.extent()), most ? -INFINITY : 0);

	each(s.x, [&](const int64_t *at) {
		float v = x.get(x.index(at, heads)), &to = sum[size_t(y->index(at, heads))];

		to = most ? std::fmax(to, v) : to + v;
	});
	each(s.y, [&](const int64_t *at) {
		int64_t i = y->index(at, size(s.y, 1));

		y->put(i, sum[size_t(i)]);
	});
}

void attend(const Attention &a, const std::map<int64_t, void *> &at)
{
	std::map<int64_t, Place> places;

	auto place = [&](const Tensor &t) -> Place & {
		Place &p = places[t.id];

		if (p.at || p.own)
			return p.t = t, p;
		p.t = t;
		if (t.is_virtual)
			p.own = std::make_shared<std::vector<float>>(size_t(t.extent()), NAN);
		else if (t.id)
			p.at = at.at(t.id);
		return p;
	};
	for (const Step &s : a.steps) {
		Place &y = place(s.y), &x = place(s.x), &b = place(s.b), &t = place(s.t);

		if (s.kind == Step::PRODUCT)
			multiply(s, x, b, &y);
		else if (s.kind == Step::REDUCTION)
			reduce(s, x, &y);
		else if (s.kind == Step::FUNCTION)
			apply(s, x, b, t, &y);
		else
			for (int64_t i = 0; i < s.x.extent(); i++)
				y.put(i, x.get(i));
	}
}

} // namespace twin
