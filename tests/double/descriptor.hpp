/* What cuDNN's descriptors are told.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_DESCRIPTOR_HPP
#define FF_DOUBLE_DESCRIPTOR_HPP

#include <cstring>
#include <map>
#include <vector>

#include <cudnn.h>

#include "attention.hpp"
#include "convolution.hpp"

namespace dnn
{

struct Value {
	cudnnBackendAttributeType_t type;
	std::vector<char> bytes;
};

struct Descriptor {
	cudnnBackendDescriptorType_t type;
	bool finalized;
	std::map<int, Value> values;
	twin::Tensor tensor;           /* of a tensor */
	twin::Step step;               /* of an operation that is no convolution */
	twin::Convolution convolution; /* of an operation; of a plan */
	twin::Attention attention;     /* of a plan; without steps where that is a convolution */
	int64_t engine, workspace;     /* of an engine, its configuration, a plan */
	int64_t knob;                  /* of a configuration, of a knob: how it is set; 0: not */
};

/* What a descriptor may be told; `least` values before it is finalized. */
struct Attribute {
	cudnnBackendDescriptorType_t of;
	int name;
	cudnnBackendAttributeType_t type;
	int64_t least, most;
};

/* How a convolution's operation calls what it has. */
struct Pass {
	cudnnBackendDescriptorType_t of;
	twin::Convolution::Kind kind;
	int conv, image, weight, result, alpha, beta;
};

/* Says what is wrong; returns `code`. */
cudnnStatus_t complain(cudnnStatus_t code, const char *format, ...)
		__attribute__((format(printf, 2, 3)));
/* NULL for what is no descriptor, or was destroyed since; of what an attribute names. */
Descriptor *behind(cudnnBackendDescriptor_t opaque);
Descriptor *part(const Descriptor *d, int name);

/* finalize.cpp: any of them. */
cudnnStatus_t finalize(Descriptor *d);

/* operations.cpp: what is done to tensors beside convolutions. */
cudnnStatus_t finalize_pointwise(Descriptor *d);
cudnnStatus_t finalize_product(Descriptor *d);
cudnnStatus_t finalize_reduction(Descriptor *d);
cudnnStatus_t finalize_turn(Descriptor *d);

/* engines.cpp: engines, their configurations and plans; what is read of any descriptor. */
cudnnStatus_t finalize_engine(Descriptor *d);
cudnnStatus_t finalize_config(Descriptor *d);
cudnnStatus_t finalize_plan(Descriptor *d);
cudnnStatus_t tell(const Descriptor *d, cudnnBackendAttributeName_t name,
		cudnnBackendAttributeType_t type, int64_t most, int64_t *n, void *to);

/* NULL: none of that name; no convolution. */
const Attribute *attribute(cudnnBackendDescriptorType_t of, int name);
const Pass *pass_of(cudnnBackendDescriptorType_t type);
/* The first that a descriptor lacks. */
const Attribute *missing(const Descriptor *d);
size_t size_of(cudnnBackendAttributeType_t type);

template <typename T> std::vector<T> all(const Descriptor *d, int name)
{
	auto at = d->values.find(name);
	std::vector<T> ret;

	if (at != d->values.end()) {
		ret.resize(at->second.bytes.size() / sizeof(T));
		memcpy(ret.data(), at->second.bytes.data(), ret.size() * sizeof(T));
	}
	return ret;
}

template <typename T> T one(const Descriptor *d, int name, T preset)
{
	std::vector<T> v = all<T>(d, name);

	return v.empty() ? preset : v[0];
}

} // namespace dnn

#endif
