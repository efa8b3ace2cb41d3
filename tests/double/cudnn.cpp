/* cuDNN's backend API: graphs of one convolution or its gradient, of a forward one with a bias
 * added and a relu behind it, and of attention. SPDX-License-Identifier: Apache-2.0 */
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include <cudnn.h>

#include "descriptor.hpp"
#include "inside.hpp"

struct cudnnContext {
	cudaStream_t stream;
	int device;
};

namespace dnn
{

static char last_message[300];

cudnnStatus_t complain(cudnnStatus_t code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(last_message, sizeof(last_message), format, args);
	va_end(args);
	twin::complain(cudaSuccess, "cuDNN: %s (status %d)", last_message, int(code));
	return code;
}

static std::set<Descriptor *> alive;

Descriptor *behind(cudnnBackendDescriptor_t opaque)
{
	auto *d = static_cast<Descriptor *>(opaque);

	return alive.count(d) ? d : nullptr;
}

/* NULL for what was destroyed since. */
Descriptor *part(const Descriptor *d, int name)
{
	return behind(one<cudnnBackendDescriptor_t>(d, name, nullptr));
}

} // namespace dnn

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

/* ---- finalizing ---- */

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

cudnnStatus_t finalize(Descriptor *d)
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

/* ---- execution ---- */

bool reachable(const twin::Tensor &t, const void *p)
{
	return twin::reachable("cuDNN's tensor", p, size_t(t.extent()) * (t.bf16 ? 2 : 4));
}

/* What a plan is run on: by id, what it is and where. */
struct Pack {
	std::map<int64_t, twin::Tensor> tensors;
	std::map<int64_t, void *> at;
	std::map<int64_t, uint32_t> numbers; /* of the host's, as they were */
};

/* What a convolution reads and writes, in the order of convolve(). */
std::vector<const twin::Tensor *> tensors_of(const twin::Convolution &c)
{
	std::vector<const twin::Tensor *> all = {&c.image, &c.weight, &c.result};

	if (c.has_bias)
		all.push_back(&c.bias);
	return all;
}

/* cuDNN's manual names none for plans.  So it is what memory has that cudaMalloc gave whole, as in
 * all of NVIDIA's samples ("aligned to at least 256 bytes": CUDA C++ Programming Guide, Device
 * Memory Accesses). */
const uint32_t WORKSPACE_ALIGN = 256;

cudaError_t run(const Descriptor &plan, const Pack &pack, void *workspace)
{
	const twin::Convolution &c = plan.convolution;
	size_t bytes = size_t(plan.workspace);
	std::map<int64_t, void *> at = pack.at;
	std::map<int64_t, uint32_t> numbers = pack.numbers;

	for (const auto &t : pack.tensors)
		if (!t.second.by_value && !reachable(t.second, at[t.first]))
			return cudaErrorIllegalAddress;
	if (!twin::reachable("cuDNN's workspace", workspace, bytes))
		return cudaErrorIllegalAddress;
	if (bytes)
		memset(workspace, 0xff, bytes);
	for (auto &number : numbers)
		at[number.first] = &number.second;
	if (plan.attention.steps.empty())
		twin::convolve(c, at[c.image.id], at[c.weight.id], at[c.result.id],
				c.has_bias ? at[c.bias.id] : nullptr);
	else
		twin::attend(plan.attention, at);
	return cudaSuccess;
}

/* Every tensor of the plan has a pointer, and no pointer has none. */
cudnnStatus_t unpack(const Descriptor *plan, const Descriptor *v, Pack *ret)
{
	auto ids = all<int64_t>(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
	auto data = all<void *>(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);

	ret->tensors = plan->attention.given;
	if (plan->attention.steps.empty())
		for (const twin::Tensor *t : tensors_of(plan->convolution))
			ret->tensors[t->id] = *t;
	if (ids.size() != ret->tensors.size() || data.size() != ids.size())
		return complain(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
				"%zu ids and %zu pointers for %zu tensors", ids.size(), data.size(),
				ret->tensors.size());
	for (size_t i = 0; i < ids.size(); i++)
		ret->at[ids[i]] = data[i];
	for (const auto &t : ret->tensors) {
		void *p = ret->at.count(t.first) ? ret->at[t.first] : nullptr;

		if (!p || reinterpret_cast<uintptr_t>(p) %
						(t.second.by_value ? 4 : uint64_t(t.second.align)))
			return complain(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
					"tensor %lld is at %p, expected a multiple of %lld",
					static_cast<long long>(t.first), p,
					static_cast<long long>(t.second.align));
		if (!t.second.by_value)
			continue;
		if (twin::side_of(p) == twin::DEVICE)
			return complain(CUDNN_STATUS_BAD_PARAM,
					"number %lld is in the device's memory",
					static_cast<long long>(t.first));
		memcpy(&ret->numbers[t.first], p, 4);
	}
	return CUDNN_STATUS_SUCCESS;
}

/* Faults of attributes. */
void distort(cudnnBackendAttributeName_t name, std::vector<char> *bytes)
{
	static const struct {
		cudnnBackendAttributeName_t name;
		const char *what;
		int64_t more;
	} faults[] = {
			{CUDNN_ATTR_TENSOR_DIMENSIONS, "a tensor has another extent", 1},
			{CUDNN_ATTR_TENSOR_STRIDES, "a tensor has another stride", 1},
			{CUDNN_ATTR_TENSOR_UNIQUE_ID, "a tensor has another name", 1},
			{CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, "a tensor is said to be aligned more",
					4080},
			{CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, "a convolution is padded more", 1},
			{CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, "a convolution has larger steps",
					1},
			{CUDNN_ATTR_CONVOLUTION_DILATIONS, "a convolution is wider", 1},
			{CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, "cuDNN's pointer is off", 256},
			{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, "cuDNN's pointer is for no tensor",
					100},
	};
	int64_t value;

	for (const auto &f : faults)
		if (f.name == name && twin::planted(f.what)) {
			memcpy(&value, bytes->data(), sizeof(value));
			value += f.more;
			memcpy(bytes->data(), &value, sizeof(value));
		}
}

} // namespace

extern "C" {

size_t cudnnGetVersion(void)
{
	const char *text = getenv("FF_DOUBLE_CUDNN");

	return text ? strtoul(text, nullptr, 10) : CUDNN_VERSION;
}

size_t cudnnGetCudartVersion(void)
{
	return CUDART_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
	static thread_local char text[32];

	snprintf(text, sizeof(text), "cuDNN status %d", int(status));
	return status == CUDNN_STATUS_SUCCESS ? "success" : text;
}

void cudnnGetLastErrorString(char *message, size_t size)
{
	if (size)
		snprintf(message, size, "%s", last_message);
	last_message[0] = 0;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *ret)
{
	*ret = new cudnnContext{nullptr, twin::device()};
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
	delete h;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream)
{
	twin::Call c("cudnnSetStream");

	if (stream && (!twin::known(stream) || stream->device != h->device))
		return complain(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH,
				"a handle of device %d is given another's stream", h->device);
	if (twin::planted("cuDNN is not told its stream"))
		return CUDNN_STATUS_SUCCESS;
	if (twin::known(stream) && twin::planted("cuDNN is told another stream"))
		stream = twin::beside(stream);
	h->stream = stream;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t h, cudaStream_t *ret)
{
	*ret = h->stream;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(
		cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *ret)
{
	twin::Call c("cudnnBackendCreateDescriptor");
	auto *d = new Descriptor{};

	d->type = type;
	alive.insert(d);
	*ret = d;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t opaque)
{
	twin::Call c("cudnnBackendDestroyDescriptor");
	Descriptor *d = behind(opaque);

	if (!d)
		return complain(CUDNN_STATUS_BAD_PARAM, "there is no such descriptor");
	alive.erase(d);
	delete d;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t opaque,
		cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
		const void *values)
{
	twin::Call c("cudnnBackendSetAttribute");
	Descriptor *d = behind(opaque);
	const Attribute *a = d ? attribute(d->type, name) : nullptr;
	const Pass *p = d ? pass_of(d->type) : nullptr;
	bool scale = p && (name == p->alpha || name == p->beta);
	size_t bytes = size_of(type) * size_t(n);

	if (!d || d->finalized)
		return complain(d ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
				"attribute %d is set of what is finalized or nothing", name);
	if (!a && !scale)
		return complain(CUDNN_STATUS_NOT_SUPPORTED,
				"the double knows no attribute %d of a descriptor of type %d", name,
				d->type);
	if (!values ||
			(scale && ((type != CUDNN_TYPE_FLOAT && type != CUDNN_TYPE_DOUBLE) ||
						  n != 1)) ||
			(a && (type != a->type || n < 1 || n > a->most)))
		return complain(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
				"attribute %d is set to %lld values of type %d", name,
				static_cast<long long>(n), type);
	if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
		for (int64_t i = 0; i < n; i++) {
			const Descriptor *k = behind(
					static_cast<const cudnnBackendDescriptor_t *>(values)[i]);

			if (!k || !k->finalized)
				return complain(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
						"attribute %d is set to what is not finalized",
						name);
		}
	d->values[name] = {type, std::vector<char>(static_cast<const char *>(values),
						 static_cast<const char *>(values) + bytes)};
	distort(name, &d->values[name].bytes);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t opaque)
{
	twin::Call c("cudnnBackendFinalize");
	Descriptor *d = behind(opaque);
	const Attribute *lacks;
	cudnnStatus_t code;

	if (!d || d->finalized)
		return complain(CUDNN_STATUS_BAD_PARAM,
				"what is finalized or nothing is finalized");
	lacks = missing(d);
	if (lacks)
		return complain(CUDNN_STATUS_BAD_PARAM,
				"attribute %d of a descriptor of type %d is missing", lacks->name,
				d->type);
	code = finalize(d);
	d->finalized = code == CUDNN_STATUS_SUCCESS &&
		       !twin::planted("a descriptor of cuDNN's is not finalized");
	return code;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const opaque,
		cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
		int64_t *n, void *to)
{
	twin::Call c("cudnnBackendGetAttribute");
	const Descriptor *d = behind(opaque);

	if (!d || !d->finalized)
		return complain(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
				"attribute %d is read of what is not finalized", name);
	return tell(d, name, type, most, n, to);
}

cudnnStatus_t cudnnBackendExecute(
		cudnnHandle_t h, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
	twin::Call call("cudnnBackendExecute");
	const Descriptor *d = behind(plan), *v = behind(pack);
	void *workspace;
	cudnnStatus_t code;
	Pack all;

	if (call.code != cudaSuccess)
		return CUDNN_STATUS_EXECUTION_FAILED;
	if (!d || !v || !d->finalized || !v->finalized ||
			d->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
			v->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
		return complain(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
				"a plan or its pointers are not finalized");
	code = unpack(d, v, &all);
	if (code != CUDNN_STATUS_SUCCESS)
		return code;
	/* cudnnCreate(), cuDNN: a handle is of the device that was current */
	if (h->device != twin::device())
		return complain(CUDNN_STATUS_BAD_PARAM,
				"a handle of device %d is used while %d is current", h->device,
				twin::device());
	/* "cudnnBackendNumericalNote_t", cuDNN: float16 has neither the range of float32 nor of
	 * bfloat16; TF32 has, and no such note */
	if (d->convolution.half)
		return complain(CUDNN_STATUS_EXECUTION_FAILED,
				"a plan rounds images of float32 to float16");
	if (twin::planted("a plan of cuDNN's is not executed"))
		return CUDNN_STATUS_SUCCESS;
	workspace = one<void *>(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
	if (d->workspace && twin::planted("a plan of cuDNN's has no workspace"))
		workspace = nullptr;
	if (d->workspace && twin::planted("a plan of cuDNN's has a workspace that is not aligned"))
		workspace = static_cast<char *>(workspace) + 8;
	if (d->workspace && !workspace)
		return complain(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
				"a plan that needs %lld bytes of workspace has none",
				static_cast<long long>(d->workspace));
	if (d->workspace && reinterpret_cast<uintptr_t>(workspace) % WORKSPACE_ALIGN)
		return complain(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
				"a workspace is at %p, expected a multiple of %u", workspace,
				WORKSPACE_ALIGN);
	return twin::enqueue(h->stream,
			       d->attention.steps.empty() ? "a convolution" : "an attention",
			       [plan = *d, all, workspace] { return run(plan, all, workspace); }) ==
					       cudaSuccess
			       ? CUDNN_STATUS_SUCCESS
			       : CUDNN_STATUS_EXECUTION_FAILED;
}

} // extern "C"
