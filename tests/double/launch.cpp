/* Grids of blocks of threads.  SPDX-License-Identifier: Apache-2.0 */
#include <cstring>
#include <dlfcn.h>
#include <numeric>
#include <unistd.h>

#include <launch.cuh>

#include "fibers.hpp"
#include "inside.hpp"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

/* static shared memory of kernels that are no templates; absent where there is none */
extern char __start_ff_shared[] __attribute__((weak));
extern char __stop_ff_shared[] __attribute__((weak));

namespace twin
{

static const int GARBAGE = 0xff;

struct Lane {
	uint64_t value, got;
	unsigned int from, generation;
};

/* Threads that have arrived at a barrier, and how often it has opened. */
struct Barrier {
	uint32_t arrived, generation;
};

static const uint32_t MOST = 4 * 1024; /* threads that run at once: of multiprocessors, a block */

static uint32_t n_threads, n_blocks, own; /* of a block; at once; the thread that runs */
static bool is_together;
static Barrier barrier[MOST], meeting; /* of each block; of all */
static uint32_t left_at[MOST], left_meeting[MOST];
static Lane lanes[MOST];
static uint32_t waiting[MOST / 32]; /* lanes of each warp that have arrived */
static uint32_t index_of[MOST];     /* of each block, in the grid */

static bool barrier_open(uint32_t thread)
{
	return left_at[thread] != barrier[thread / n_threads].generation;
}

static bool meeting_open(uint32_t thread)
{
	return left_meeting[thread] != meeting.generation;
}

/* One more of `n` arrives, who waits unless it is the last. */
static void arrive(Barrier *b, uint32_t *left, uint32_t n, bool (*open)(uint32_t thread))
{
	left[own] = b->generation;
	if (++b->arrived == n) {
		b->arrived = 0;
		b->generation++;
	} else {
		fibers_wait(open);
	}
}

static bool warp_open(uint32_t thread)
{
	return !(waiting[thread / 32] & 1u << thread % 32);
}

/* Lanes that the mask names and the block has. */
static uint32_t members(uint32_t warp, uint32_t mask)
{
	uint32_t n = n_blocks * n_threads - warp * 32;

	return n < 32 ? mask & ((1u << n) - 1) : mask;
}

/* The last to arrive gives all others what they came for. */
static void meet(uint32_t mask, void (*give)(uint32_t warp, uint32_t mask))
{
	uint32_t warp = own / 32, all = members(warp, mask);

	if (!(all & 1u << own % 32)) {
		fail(complain(cudaErrorLaunchFailure,
				"a thread is not in the mask of its own warp's exchange"));
		return;
	}
	waiting[warp] |= 1u << own % 32;
	if ((waiting[warp] & all) == all) {
		give(warp, all);
		waiting[warp] &= ~all;
	} else {
		fibers_wait(warp_open);
	}
}

static void give_values(uint32_t warp, uint32_t mask)
{
	for (uint32_t i = 0; i < 32; i++) {
		Lane &l = lanes[warp * 32 + i];

		if (mask & 1u << i)
			l.got = mask & 1u << l.from % 32 ? lanes[warp * 32 + l.from % 32].value
							 : ~uint64_t(0);
	}
}

static void give_ballot(uint32_t warp, uint32_t mask)
{
	uint64_t votes = 0;

	for (uint32_t i = 0; i < 32; i++)
		if (mask & 1u << i && lanes[warp * 32 + i].value)
			votes |= 1u << i;
	for (uint32_t i = 0; i < 32; i++)
		if (mask & 1u << i)
			lanes[warp * 32 + i].got = votes;
}

static void become(uint32_t thread)
{
	uint32_t index = index_of[thread / n_threads];

	own = thread;
	blockIdx = {index % gridDim.x, index / gridDim.x % gridDim.y,
			index / gridDim.x / gridDim.y};
	thread %= n_threads;
	threadIdx.x = thread % blockDim.x;
	threadIdx.y = thread / blockDim.x % blockDim.y;
	threadIdx.z = thread / blockDim.x / blockDim.y;
}

/* Of those whose `index_of` is set. */
static bool run_blocks(const std::function<void()> &body)
{
	meeting.arrived = 0;
	for (uint32_t i = 0; i < n_blocks; i++)
		barrier[i].arrived = 0;
	memset(waiting, 0, sizeof(waiting));
	if (__start_ff_shared)
		memset(__start_ff_shared, GARBAGE, size_t(__stop_ff_shared - __start_ff_shared));
	return fibers_run(n_blocks * n_threads, become, body);
}

static const char *name_of(const void *kernel)
{
	static char text[64];
	Dl_info info = {};

	if (dladdr(kernel, &info) && info.dli_sname)
		return info.dli_sname;
	snprintf(text, sizeof(text), "the kernel at %#zx",
			size_t(static_cast<const char *>(kernel) -
					static_cast<const char *>(info.dli_fbase)));
	return text;
}

static cudaError_t run_grid(const void *kernel, bool together, dim3 grid, dim3 block,
		const std::function<void()> &body)
{
	uint32_t n = grid.x * grid.y * grid.z, first = draw(n), stride = 1 + draw(n);

	while (std::gcd(stride, n) != 1)
		stride++;
	spend(uint64_t(n) * block.x * block.y * block.z);
	gridDim = grid;
	blockDim = block;
	n_threads = block.x * block.y * block.z;
	is_together = together;
	n_blocks = together ? n : 1;
	for (uint32_t i = 0; i < n; i++) {
		index_of[i % n_blocks] = drawn() ? uint32_t((first + uint64_t(i) * stride) % n) : i;
		if ((i + 1) % n_blocks == 0 && !run_blocks(body))
			return complain(cudaErrorLaunchFailure,
					"%s: threads of a block wait where others never get",
					name_of(kernel));
	}
	return failure();
}

/* Faults of a kernel's pointer. */
static void distort(char **p)
{
	static char of_host[1 << 12];

	if (!*p || side_of(*p) == PAGEABLE)
		return;
	if (planted("a kernel is given memory of the host"))
		*p = of_host;
	if (planted("a kernel's pointer is off"))
		*p += 64;
	if (planted("a kernel's pointer is far off"))
		*p += size_t(1) << 30;
	if (planted("a kernel is given no memory"))
		*p = nullptr;
}

/* Faults of a launch; true: there is none.  Blocks that are launched together share their work,
 * however many there are. */
static bool distort(bool together, dim3 *grid, dim3 *block, cudaStream_t *stream)
{
	if (!together && grid->x > 1 && planted("a kernel lacks a block"))
		grid->x--;
	if (planted("a kernel's grid is empty"))
		grid->x = 0;
	if (planted("a kernel's blocks are too large"))
		block->x *= 8;
	if (planted("a kernel is on the default stream"))
		*stream = nullptr;
	if (known(*stream) && !(*stream)->capture && planted("a kernel is on another stream"))
		*stream = beside(*stream);
	return planted("a kernel is missing");
}

} // namespace twin

using namespace twin;

void twin_barrier()
{
	arrive(&barrier[own / n_threads], left_at, n_threads, barrier_open);
}

void twin_meet()
{
	if (is_together)
		arrive(&meeting, left_meeting, n_blocks * n_threads, meeting_open);
	else if (failure() == cudaSuccess)
		fail(complain(cudaErrorLaunchFailure,
				"blocks meet that are not launched together"));
}

uint64_t twin_exchange(unsigned int mask, uint64_t value, unsigned int lane)
{
	uint32_t me = own;

	lanes[me].value = value;
	lanes[me].from = lane;
	meet(mask, give_values);
	return lanes[me].got;
}

unsigned int twin_ballot(unsigned int mask, bool predicate)
{
	uint32_t me = own;

	lanes[me].value = predicate;
	meet(mask, give_ballot);
	return static_cast<unsigned int>(lanes[me].got);
}

/* Pointers must be the device's; words in structs that look like the host's heap or stack are
 * taken for pointers. */
bool twin_argument(void *bytes, size_t n, bool pointer)
{
	static char *const heap = static_cast<char *>(sbrk(0)) - (1 << 16);
	char *here = static_cast<char *>(__builtin_frame_address(0));
	Lock l(mutex);
	void *p;

	if (pointer)
		distort(static_cast<char **>(bytes));
	for (size_t i = 0; i + sizeof(p) <= n; i += sizeof(p)) {
		memcpy(&p, static_cast<char *>(bytes) + i, sizeof(p));
		if (!pointer && !(p >= heap && p < sbrk(0)) && !(p >= here && p < here + (1 << 20)))
			continue;
		if (!argument(p))
			return false;
	}
	return true;
}

/* "Grid Synchronization", CUDA C++ Programming Guide: all blocks must be able to run at once. */
static cudaError_t check_together(const void *kernel, dim3 grid, uint64_t threads)
{
	cudaDeviceProp p;

	cudaGetDeviceProperties(&p, device());
	if (uint64_t(grid.x) * grid.y * grid.z > uint64_t(p.multiProcessorCount))
		return complain(cudaErrorCooperativeLaunchTooLarge,
				"%s: %u blocks that meet, where %d are sure to run at once",
				name_of(kernel), grid.x * grid.y * grid.z, p.multiProcessorCount);
	if (threads % 32)
		return complain(cudaErrorInvalidConfiguration,
				"%s: blocks that meet are of %llu threads, which are not whole "
				"warps",
				name_of(kernel), static_cast<unsigned long long>(threads));
	return cudaSuccess;
}

cudaError_t twin_launch(const void *kernel, unsigned most, bool together, dim3 grid, dim3 block,
		cudaStream_t stream, std::function<void()> body)
{
	Call c("ff_launch");
	uint64_t threads;

	if (c.code != cudaSuccess)
		return c.code;
	if (distort(together, &grid, &block, &stream))
		return cudaSuccess;
	if (planted("memory is freed before the kernel runs"))
		free_first();
	threads = uint64_t(block.x) * block.y * block.z;
	/* "Stream and Event Behavior", CUDA C++ Programming Guide: a kernel's stream is the current
	 * device's */
	if (known(stream) &&
			(stream->device != device() || planted("a kernel's device is not current")))
		return complain(cudaErrorInvalidResourceHandle,
				"%s goes to a stream of device %d while %d is current",
				name_of(kernel), stream->device, device());
	if (!threads || threads > 1024 || block.z > 64 || !grid.x || !grid.y || !grid.z ||
			grid.y > 65535 || grid.z > 65535 || grid.x > INT32_MAX)
		return complain(cudaErrorInvalidConfiguration,
				"%s: a grid of %u x %u x %u blocks of %u x %u x %u threads",
				name_of(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z);
	/* "Launch Bounds", CUDA C++ Programming Guide: a launch with more threads fails */
	if (threads > most)
		return complain(cudaErrorInvalidConfiguration,
				"%s: %llu threads a block, its launch bounds are %u",
				name_of(kernel), static_cast<unsigned long long>(threads), most);
	if (together) {
		cudaError_t code = check_together(kernel, grid, threads);

		if (code != cudaSuccess)
			return code;
	}
	return enqueue(stream, name_of(kernel), [=, body = std::move(body)] {
		return run_grid(kernel, together, grid, block, body);
	});
}
