/* Kernels compiled for the host: what their source needs, and how they are launched.  Found
 * before the one in runtime/cuda/.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LAUNCH_CUH
#define FF_LAUNCH_CUH

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include <cuda_runtime.h>

#include <cuda_bf16.h>

#undef __device__
#undef __host__
#define __device__
#define __host__

#define FF_BLOCK 256
#define FF_WIDE 1024
#define FF_KERNEL static
#define FF_KERNEL_BESIDE(blocks) static
#define FF_WIDE_KERNEL static
#define FF_DEVICE static inline
#define FF_METHOD inline
#define FF_UNROLL
/* blocks run one after another; where no template hinders it, each finds garbage */
#define FF_SHARED static __attribute__((section("ff_shared")))

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static const int warpSize = 32;

/* ---- launch.cpp ---- */

/* A kernel whose launch bounds are `most` threads; `together`: its blocks run at once. */
cudaError_t twin_launch(const void *kernel, unsigned most, bool together, dim3 grid, dim3 block,
		cudaStream_t stream, std::function<void()> body);
bool twin_argument(void *bytes, size_t n, bool pointer);
void twin_barrier();
void twin_meet();
uint64_t twin_exchange(unsigned int mask, uint64_t value, unsigned int lane);
unsigned int twin_ballot(unsigned int mask, bool predicate);

template <unsigned most, bool together, typename... P, typename... A>
cudaError_t twin_give(void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... args)
{
	std::tuple<P...> kept(static_cast<P>(args)...);
	bool here = std::apply(
			[](auto &...a) {
				return (twin_argument((void *)&a, sizeof(a),
							std::is_pointer_v<std::decay_t<
									decltype(a)>>) &&
						...);
			},
			kept);

	if (!here)
		return cudaErrorInvalidValue;
	return twin_launch(reinterpret_cast<const void *>(kernel), most, together, grid, block,
			stream, [=] { std::apply(kernel, kept); });
}

template <unsigned most = FF_BLOCK, typename... P, typename... A>
cudaError_t ff_launch(void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... args)
{
	return twin_give<most, false>(kernel, grid, block, stream, args...);
}

template <typename... P, typename... A>
cudaError_t ff_launch_together(
		void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... args)
{
	return twin_give<FF_BLOCK, true>(kernel, grid, block, stream, args...);
}

#define FF_UNROLL_ALL

static inline float ff_plus(float x, float y)
{
	return x + y;
}

static inline void ff_meet()
{
	twin_meet();
}

/* ---- threads of a block ---- */

static inline void __syncthreads()
{
	twin_barrier();
}

static inline void __syncwarp(unsigned int mask = 0xffffffffu)
{
	twin_ballot(mask, false);
}

static inline unsigned int twin_lane()
{
	return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

template <typename T> T twin_shuffle(unsigned int mask, T value, unsigned int lane)
{
	uint64_t bits = 0;
	T ret;

	static_assert(sizeof(T) <= sizeof(bits), "a shuffle is of 8 bytes at most");
	memcpy(&bits, &value, sizeof(value));
	bits = twin_exchange(mask, bits, lane);
	memcpy(&ret, &bits, sizeof(ret));
	return ret;
}

template <typename T> T __shfl_sync(unsigned int mask, T value, int lane, int width = 32)
{
	unsigned int own = twin_lane(), w = unsigned(width);

	return twin_shuffle(mask, value, own / w * w + unsigned(lane) % w);
}

template <typename T>
T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32)
{
	unsigned int own = twin_lane(), w = unsigned(width);

	return twin_shuffle(mask, value, own % w >= delta ? own - delta : own);
}

template <typename T>
T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32)
{
	unsigned int own = twin_lane(), w = unsigned(width);

	return twin_shuffle(mask, value, own % w + delta < w ? own + delta : own);
}

template <typename T> T __shfl_xor_sync(unsigned int mask, T value, int lanes, int width = 32)
{
	unsigned int own = twin_lane(), w = unsigned(width), from = own ^ unsigned(lanes);

	return twin_shuffle(mask, value, from / w <= own / w ? from : own);
}

static inline unsigned int __ballot_sync(unsigned int mask, int predicate)
{
	return twin_ballot(mask, predicate != 0);
}

static inline int __any_sync(unsigned int mask, int predicate)
{
	return twin_ballot(mask, predicate != 0) != 0;
}

static inline int __all_sync(unsigned int mask, int predicate)
{
	return twin_ballot(mask, predicate == 0) == 0;
}

static inline void __threadfence()
{
}

static inline void __threadfence_block()
{
}

static inline void __threadfence_system()
{
}

/* a store of one access, which the compiler does not take apart */
template <typename T> void __stwb(T *to, T value)
{
	*to = value;
}

/* ---- atomics: threads of a device take turns ---- */

#define TWIN_ATOMIC(name, expression)                                                              \
	template <typename T> T name(T *p, std::common_type_t<T> v)                                \
	{                                                                                          \
		T old = *p;                                                                        \
                                                                                                   \
		*p = expression;                                                                   \
		return old;                                                                        \
	}

TWIN_ATOMIC(atomicAdd, static_cast<T>(old + v))
TWIN_ATOMIC(atomicSub, static_cast<T>(old - v))
TWIN_ATOMIC(atomicMax, old < v ? v : old)
TWIN_ATOMIC(atomicMin, v < old ? v : old)
TWIN_ATOMIC(atomicOr, static_cast<T>(old | v))
TWIN_ATOMIC(atomicAnd, static_cast<T>(old &v))
TWIN_ATOMIC(atomicExch, v)
TWIN_ATOMIC(atomicInc, old >= v ? 0 : static_cast<T>(old + 1))
#undef TWIN_ATOMIC

template <typename T> T atomicCAS(T *p, std::common_type_t<T> old, std::common_type_t<T> v)
{
	T was = *p;

	if (was == old)
		*p = v;
	return was;
}

/* ---- arithmetic that the host's library has by other names ---- */

template <typename A, typename B> constexpr std::common_type_t<A, B> min(A a, B b)
{
	return b < a ? b : a;
}

template <typename A, typename B> constexpr std::common_type_t<A, B> max(A a, B b)
{
	return a < b ? b : a;
}

static inline float rsqrtf(float x)
{
	return 1 / sqrtf(x);
}

#endif
