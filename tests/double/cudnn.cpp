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
#include <unistd.h>

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

/* FF_DOUBLE_SLOW names an engine that takes its time; -1: all do. */
static void dally(int64_t engine)
{
	const char *slow = getenv("FF_DOUBLE_SLOW");

	if (slow && (atoll(slow) == engine || atoll(slow) < 0))
		usleep(20000);
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
			       [plan = *d, all, workspace] {
				       dally(plan.engine);
				       return run(plan, all, workspace);
			       }) == cudaSuccess
			       ? CUDNN_STATUS_SUCCESS
			       : CUDNN_STATUS_EXECUTION_FAILED;
}

} // extern "C"
