/* cuDNN's descriptors finalized: whether what they were told fits together, and what it is.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string>

#include "descriptor.hpp"
#include "inside.hpp"

using namespace dnn;

namespace
{

/* alpha or beta, which is float or double */
double scalar(const Descriptor *d, int name, double preset)
{
	auto at = d->values.find(name);

	if (at == d->values.end())
		return preset;
	return at->second.type == CUDNN_TYPE_FLOAT ? double(one<float>(d, name, 0))
						   : one<double>(d, name, 0);
}

cudnnStatus_t finalize_tensor(Descriptor *d)
{
	std::vector<int64_t> n = all<int64_t>(d, CUDNN_ATTR_TENSOR_DIMENSIONS);
	std::vector<int64_t> stride = all<int64_t>(d, CUDNN_ATTR_TENSOR_STRIDES);
	auto type = one(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
	twin::Tensor &t = d->tensor;

	t.id = one<int64_t>(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
	t.align = one<int64_t>(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0);
	t.bf16 = type == CUDNN_DATA_BFLOAT16;
	t.type = type;
	t.by_value = one<uint8_t>(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0);
	t.is_virtual = one<uint8_t>(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0);
	if (type != CUDNN_DATA_FLOAT && !t.bf16 &&
			!((type == CUDNN_DATA_INT32 || type == CUDNN_DATA_BOOLEAN) &&
					(t.is_virtual || t.by_value)))
		return complain(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "a tensor of type %d", type);
	if (t.align < (t.bf16 ? 2 : 4) || t.align & (t.align - 1))
		return complain(CUDNN_STATUS_BAD_PARAM, "a tensor is aligned to %lld bytes",
				static_cast<long long>(t.align));
	if (t.is_virtual && t.by_value)
		return complain(CUDNN_STATUS_BAD_PARAM, "a tensor that is virtual and a number");
	if (n.size() != stride.size())
		return complain(CUDNN_STATUS_BAD_PARAM, "a tensor of %zu sizes and %zu strides",
				n.size(), stride.size());
	t.n[2] = t.stride[2] = 1;
	for (size_t i = 0; i < n.size(); i++) {
		size_t to = i < 2 ? i : i + 5 - n.size();

		t.n[to] = n[i];
		t.stride[to] = stride[i];
		if (n[i] < 1 || stride[i] < 1)
			return complain(CUDNN_STATUS_BAD_PARAM,
					"axis %zu of a tensor has size %lld, stride %lld", i,
					static_cast<long long>(n[i]),
					static_cast<long long>(stride[i]));
	}
	t.axes = int(n.size()) - 2;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_convolution(const Descriptor *d)
{
	int64_t axes = one<int64_t>(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0);
	auto stride = all<int64_t>(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
	auto dilation = all<int64_t>(d, CUDNN_ATTR_CONVOLUTION_DILATIONS);

	if (axes < 2 || axes > 3 ||
			one(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_HALF) !=
					CUDNN_DATA_FLOAT ||
			one(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CONVOLUTION) !=
					CUDNN_CROSS_CORRELATION)
		return complain(CUDNN_STATUS_NOT_SUPPORTED,
				"a convolution that is no cross-correlation of 2 or 3 axes in "
				"float32");
	if (int64_t(stride.size()) != axes || int64_t(dilation.size()) != axes ||
			int64_t(all<int64_t>(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS).size()) !=
					axes ||
			int64_t(all<int64_t>(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS).size()) !=
					axes)
		return complain(CUDNN_STATUS_BAD_PARAM, "numbers that are not one an axis");
	for (size_t i = 0; i < size_t(axes); i++)
		if (dilation[i] < 1 || stride[i] < 1)
			return complain(CUDNN_STATUS_BAD_PARAM, "a stride or dilation below 1");
	return CUDNN_STATUS_SUCCESS;
}

/* Channels and positions of the three tensors fit each other. */
cudnnStatus_t check_shapes(const twin::Convolution &c, const int64_t *post)
{
	const twin::Tensor &x = c.image, &w = c.weight, &y = c.result;

	if (x.n[0] != y.n[0] || w.n[0] != y.n[1] || x.n[1] % w.n[1] || w.n[0] % c.groups())
		return complain(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
				"channels: image %lld, weights %lld x %lld, result %lld",
				static_cast<long long>(x.n[1]), static_cast<long long>(w.n[0]),
				static_cast<long long>(w.n[1]), static_cast<long long>(y.n[1]));
	for (int i = 0; i < 3; i++) {
		int64_t reach = c.dilation[i] * (w.n[2 + i] - 1) + 1;
		int64_t room = x.n[2 + i] + c.pad[i] + post[i] - reach;

		if (room < 0 || y.n[2 + i] != room / c.stride[i] + 1)
			return complain(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
					"axis %d: image %lld + %lld + %lld, window %lld, stride "
					"%lld, but result %lld",
					i, static_cast<long long>(x.n[2 + i]),
					static_cast<long long>(c.pad[i]),
					static_cast<long long>(post[i]),
					static_cast<long long>(reach),
					static_cast<long long>(c.stride[i]),
					static_cast<long long>(y.n[2 + i]));
	}
	if (x.id == w.id || x.id == y.id || w.id == y.id)
		return complain(CUDNN_STATUS_BAD_PARAM, "two tensors have one id");
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_operation(Descriptor *d, const Pass &p)
{
	const Descriptor *conv = part(d, p.conv), *x = part(d, p.image), *w = part(d, p.weight);
	const Descriptor *y = part(d, p.result);
	twin::Convolution &c = d->convolution;
	std::vector<int64_t> pad[2], stride, dilation;
	int64_t post[3] = {0, 0, 0};

	if (!conv || !x || !w || !y || conv->type != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR ||
			x->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR ||
			w->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR ||
			y->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR)
		return complain(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
				"an operation's parts are not what they are called");
	pad[0] = all<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
	pad[1] = all<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
	stride = all<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
	dilation = all<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS);
	if (x->tensor.axes != int(stride.size()) || w->tensor.axes != x->tensor.axes ||
			y->tensor.axes != x->tensor.axes)
		return complain(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
				"tensors of %d, %d and %d spatial axes in a convolution of %zu",
				x->tensor.axes, w->tensor.axes, y->tensor.axes, stride.size());
	c = {p.kind, x->tensor, w->tensor, y->tensor, {0, 0, 0}, {1, 1, 1}, {1, 1, 1},
			scalar(d, p.alpha, 1), scalar(d, p.beta, 0), false};
	for (size_t i = 0, at = 3 - stride.size(); i < stride.size(); i++, at++) {
		c.pad[at] = pad[0][i];
		c.stride[at] = stride[i];
		c.dilation[at] = dilation[i];
		post[at] = pad[1][i];
		c.uneven = c.uneven || pad[1][i] > pad[0][i];
	}
	for (const Descriptor *t : {x, w, y})
		if (t->tensor.by_value || (t->tensor.type != CUDNN_DATA_FLOAT && !t->tensor.bf16))
			return complain(CUDNN_STATUS_NOT_SUPPORTED,
					"a convolution of what is neither float32 nor bfloat16");
	return check_shapes(c, post);
}

/* What is done to a result, which then has no memory of its own: one addition of a number a
 * channel, one relu. */
cudnnStatus_t follow(twin::Convolution &c, const Descriptor *op)
{
	const twin::Step *s = op ? &op->step : nullptr;
	bool relu = s && s->mode == CUDNN_POINTWISE_RELU_FWD;

	if (!s || s->kind != twin::Step::FUNCTION || (!relu && s->mode != CUDNN_POINTWISE_ADD) ||
			c.relu || (c.has_bias && !relu))
		return complain(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
				"a graph of something else than a convolution, a sum and a relu");
	if (!relu && (s->b.n[0] != 1 || s->b.n[1] != s->x.n[1] || s->b.n[2] != 1 ||
				     s->b.n[3] != 1 || s->b.n[4] != 1))
		return complain(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
				"an addition that is not of one number a channel");
	if (c.kind != twin::Convolution::FORWARD || s->x.id != c.result.id ||
			!c.result.is_virtual || !s->x.is_virtual || c.result.bf16)
		return complain(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
				"what is followed on is not the virtual float32 result of a "
				"convolution");
	c.relu = relu;
	c.has_bias = c.has_bias || !relu;
	if (!relu)
		c.bias = s->b;
	c.result = s->y;
	return CUDNN_STATUS_SUCCESS;
}

/* A graph without convolutions. */
cudnnStatus_t finalize_attention(Descriptor *d, const std::vector<cudnnBackendDescriptor_t> &ops)
{
	std::vector<twin::Step> steps;
	std::string why;

	for (cudnnBackendDescriptor_t op : ops) {
		const Descriptor *o = behind(op);

		if (!o || o->step.kind == twin::Step::NONE)
			return complain(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
					"a graph that begins with no convolution, or has one "
					"later");
		steps.push_back(o->step);
	}
	why = twin::attention_of(steps, &d->attention);
	return why.empty() ? CUDNN_STATUS_SUCCESS
			   : complain(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s", why.c_str());
}

cudnnStatus_t finalize_graph(Descriptor *d)
{
	auto ops = all<cudnnBackendDescriptor_t>(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
	const Descriptor *conv = behind(ops[0]);
	twin::Convolution &c = d->convolution;
	cudnnStatus_t code = CUDNN_STATUS_SUCCESS;

	if (!conv || !pass_of(conv->type))
		return finalize_attention(d, ops);
	c = conv->convolution;
	for (size_t i = 1; i < ops.size() && code == CUDNN_STATUS_SUCCESS; i++)
		code = follow(c, behind(ops[i]));
	if (code != CUDNN_STATUS_SUCCESS)
		return code;
	if (c.image.is_virtual || c.weight.is_virtual || c.result.is_virtual || c.bias.is_virtual)
		return complain(CUDNN_STATUS_BAD_PARAM, "a graph's end is virtual");
	return CUDNN_STATUS_SUCCESS;
}

/* Takes the operation over from what it was made of. */
cudnnStatus_t inherit(Descriptor *d, int name, cudnnBackendDescriptorType_t type)
{
	const Descriptor *from = part(d, name);

	if (!from || from->type != type)
		return complain(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
				"a descriptor of type %d stands on none of type %d", d->type, type);
	d->convolution = from->convolution;
	d->attention = from->attention;
	return CUDNN_STATUS_SUCCESS;
}

} // namespace

cudnnStatus_t dnn::finalize(Descriptor *d)
{
	const Pass *p = pass_of(d->type);

	if (p)
		return finalize_operation(d, *p);
	switch (int(d->type)) {
	case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
		return finalize_tensor(d);
	case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
		return finalize_convolution(d);
	case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
		return finalize_pointwise(d);
	case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
		return finalize_product(d);
	case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
		return finalize_reduction(d);
	case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
		return finalize_turn(d);
	case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
		return finalize_graph(d);
	case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
		twin::asked();
		return inherit(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
				CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
		return finalize_engine(d);
	case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
		return finalize_config(d);
	case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
		return finalize_plan(d);
	}
	return CUDNN_STATUS_SUCCESS;
}
