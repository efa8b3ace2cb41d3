/* The double of the CUDA runtime: what is right passes under every seed, and faults planted in
 * small scenes are caught.  SPDX-License-Identifier: Apache-2.0 */
#include <cmath>
#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <launch.cuh>

#include "check_main.h"
#include "double.h"

#define SEEDS 200
#define OK(call) ck_assert_msg((call) == cudaSuccess, "%s", cudaGetErrorString(cudaGetLastError()))

/* Two streams, an event, device memory and pinned memory. */
struct Scene {
	static const size_t N = 1000, BYTES = N * sizeof(float);
	cudaStream_t stream[2];
	cudaEvent_t event;
	float *device[2], *pinned;

	explicit Scene(uint64_t seed)
	{
		void *p;

		ff_double_complaint();
		ff_double_seed(seed);
		for (int i = 0; i < 2; i++) {
			OK(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
			OK(cudaMalloc(&p, BYTES));
			device[i] = static_cast<float *>(p);
		}
		OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
		OK(cudaHostAlloc(&p, BYTES, cudaHostAllocDefault));
		pinned = static_cast<float *>(p);
	}
	~Scene()
	{
		ff_double_complaint();
		for (int i = 0; i < 2; i++) {
			cudaStreamDestroy(stream[i]);
			cudaFree(device[i]);
		}
		cudaEventDestroy(event);
		cudaFreeHost(pinned);
		ff_double_complaint();
	}
	void fill(float value)
	{
		for (size_t i = 0; i < N; i++)
			pinned[i] = value + float(i);
	}
	/* How many are not `value + i`. */
	size_t wrong(float value) const
	{
		size_t n = 0;

		for (size_t i = 0; i < N; i++)
			n += !(fabsf(pinned[i] - (value + float(i))) < 1e-3f);
		return n;
	}
	cudaError_t up(int to, int on)
	{
		return cudaMemcpyAsync(
				device[to], pinned, BYTES, cudaMemcpyHostToDevice, stream[on]);
	}
	cudaError_t down(int from, int on)
	{
		return cudaMemcpyAsync(
				pinned, device[from], BYTES, cudaMemcpyDeviceToHost, stream[on]);
	}
};

/* The next sentence has `part` in it. */
static void expect(const char *part)
{
	const char *text = ff_double_complaint();

	ck_assert_msg(strstr(text, part) != nullptr, "\"%s\", expected \"%s\"", text, part);
}

/* ---- kernels ---- */

FF_KERNEL void add_one(const float *in, float *out, int64_t n)
{
	int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = in[i] + 1;
}

static cudaError_t plus_one(const float *in, float *out, cudaStream_t s, int64_t n = Scene::N)
{
	return ff_launch(add_one, dim3(unsigned((n + 127) / 128)), dim3(128), s, in, out, n);
}

/* A block's sum by shared memory and by shuffles. */
FF_KERNEL void sum(const float *in, float *out, int64_t n)
{
	FF_SHARED float part[8];
	unsigned int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	float mine = 0;

	for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
		mine += in[i];
	for (int d = 16; d > 0; d /= 2)
		mine += __shfl_xor_sync(0xffffffffu, mine, d);
	if (lane == 0)
		part[warp] = mine;
	__syncthreads();
	if (threadIdx.x == 0) {
		for (unsigned int w = 1; w < blockDim.x / 32; w++)
			mine += part[w];
		out[blockIdx.x] = mine;
	}
}

/* Without its barrier. */
FF_KERNEL void careless(float *out)
{
	FF_SHARED float mail[256];

	mail[threadIdx.x] = float(threadIdx.x);
	out[threadIdx.x] = mail[(threadIdx.x + 1) % blockDim.x];
}

/* Likewise, of what the thread before it has. */
FF_KERNEL void careless_back(float *out)
{
	FF_SHARED float mail[256];

	mail[threadIdx.x] = float(threadIdx.x);
	out[threadIdx.x] = mail[threadIdx.x ? threadIdx.x - 1 : 0];
}

FF_KERNEL void divided(float *out)
{
	if (threadIdx.x < 7)
		__syncthreads();
	out[threadIdx.x] = 1;
}

/* ---- what is right ---- */

START_TEST(streams_and_events)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		Scene s(seed);

		s.fill(1);
		OK(s.up(0, 0));
		OK(plus_one(s.device[0], s.device[1], s.stream[0]));
		OK(cudaEventRecord(s.event, s.stream[0]));
		OK(cudaStreamWaitEvent(s.stream[1], s.event, 0));
		OK(plus_one(s.device[1], s.device[1], s.stream[1]));
		OK(s.down(1, 1));
		OK(cudaStreamSynchronize(s.stream[1]));
		ck_assert_uint_eq(s.wrong(3), 0);
		ck_assert_str_eq(ff_double_complaint(), "");
	}
}
END_TEST

START_TEST(threads_that_wait)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		Scene s(seed);
		float want = 0;

		s.fill(0);
		for (size_t i = 0; i < Scene::N; i++)
			want += s.pinned[i];
		OK(s.up(0, 0));
		OK(ff_launch(sum, dim3(50), dim3(256), s.stream[0], s.device[0], s.device[1],
				int64_t(Scene::N)));
		OK(s.down(1, 0));
		OK(cudaStreamSynchronize(s.stream[0]));
		for (int i = 0; i < 50; i++)
			ck_assert_float_eq_tol(s.pinned[i], want, 1);
		ck_assert_float_nan(s.pinned[50]);
	}
}
END_TEST

/* Both streams in one graph, launched twice. */
START_TEST(graphs)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		Scene s(seed);
		cudaGraphExec_t exec;
		cudaGraph_t graph;

		OK(cudaStreamBeginCapture(s.stream[0], cudaStreamCaptureModeGlobal));
		OK(s.up(0, 0));
		OK(cudaEventRecord(s.event, s.stream[0]));
		OK(cudaStreamWaitEvent(s.stream[1], s.event, 0));
		OK(plus_one(s.device[0], s.device[1], s.stream[1]));
		OK(cudaEventRecord(s.event, s.stream[1]));
		OK(cudaStreamWaitEvent(s.stream[0], s.event, 0));
		OK(s.down(1, 0));
		OK(cudaStreamEndCapture(s.stream[0], &graph));
		OK(cudaGraphInstantiate(&exec, graph, 0));
		OK(cudaGraphDestroy(graph));
		s.fill(1);
		for (int i = 0; i < 2; i++)
			OK(cudaGraphLaunch(exec, s.stream[0]));
		OK(cudaStreamSynchronize(s.stream[0]));
		OK(cudaGraphExecDestroy(exec));
		ck_assert_uint_eq(s.wrong(3), 0);
	}
}
END_TEST

static void note(void *arg)
{
	++*static_cast<int *>(arg);
}

START_TEST(host_functions_run_in_order)
{
	Scene s(0);
	int calls = 0;

	OK(cudaLaunchHostFunc(s.stream[0], note, &calls));
	ck_assert_int_eq(calls, 0);
	OK(cudaEventRecord(s.event, s.stream[0]));
	OK(cudaLaunchHostFunc(s.stream[0], note, &calls));
	OK(cudaEventSynchronize(s.event));
	ck_assert_int_eq(calls, 1);
	OK(cudaDeviceSynchronize());
	ck_assert_int_eq(calls, 2);
}
END_TEST

/* ---- planted faults ---- */

/* Without a wait the second stream reads too early under most seeds, and always under 0. */
START_TEST(missing_wait)
{
	uint32_t caught = 0;

	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		Scene s(seed);

		s.fill(1);
		OK(s.up(0, 0));
		OK(plus_one(s.device[0], s.device[1], s.stream[0]));
		OK(plus_one(s.device[1], s.device[1], s.stream[1]));
		OK(cudaStreamSynchronize(s.stream[1]));
		OK(cudaMemcpy(s.pinned, s.device[1], Scene::BYTES, cudaMemcpyDeviceToHost));
		caught += s.wrong(3) > 0;
		ck_assert(seed || caught);
	}
	ck_assert_uint_gt(caught, SEEDS / 2);
}
END_TEST

/* A stream whose end nobody awaits has not run; a pinned buffer is read late. */
START_TEST(pinned_reuse)
{
	Scene s(0);

	s.fill(1);
	OK(s.up(0, 0));
	s.fill(5); /* too early */
	OK(cudaStreamSynchronize(s.stream[0]));
	OK(s.down(0, 0));
	s.pinned[3] = NAN;
	ck_assert_float_nan(s.pinned[3]); /* has not come down yet */
	OK(cudaStreamSynchronize(s.stream[0]));
	ck_assert_uint_eq(s.wrong(5), 0);
}
END_TEST

START_TEST(wrong_offset)
{
	Scene s(0);

	/* out of the allocation: a copy and a kernel */
	ck_assert_int_eq(cudaMemsetAsync(s.device[0] + 1, 0, Scene::BYTES, s.stream[0]),
			cudaSuccess);
	ck_assert_int_eq(cudaStreamSynchronize(s.stream[0]), cudaErrorIllegalAddress);
	ck_assert_int_eq(cudaGetLastError(), cudaErrorIllegalAddress);
	expect("a fill: 4000 bytes at");
	OK(plus_one(s.device[0], s.device[1], s.stream[0], 3000));
	ck_assert_int_eq(cudaStreamSynchronize(s.stream[0]), cudaErrorIllegalAddress);
	ck_assert_int_eq(s.up(0, 0), cudaErrorIllegalAddress); /* from now on */
	expect("bytes into 4000 bytes of device 0");
	/* what nobody wrote is no number */
	OK(cudaMemsetAsync(s.device[0], 0, Scene::BYTES / 2, s.stream[0]));
	OK(plus_one(s.device[0] + 100, s.device[1], s.stream[0], 500));
	OK(s.down(1, 0));
	OK(cudaStreamSynchronize(s.stream[0]));
	ck_assert_float_eq(s.pinned[399], 1);
	ck_assert_float_nan(s.pinned[400]);
}
END_TEST

/* A few bytes over the end change nothing but what lies behind. */
START_TEST(small_overrun)
{
	Scene s(0);
	void *p;

	OK(cudaMalloc(&p, 40));
	OK(cudaMemsetAsync(s.device[0], 0, Scene::BYTES, s.stream[0]));
	OK(plus_one(s.device[0], static_cast<float *>(p), s.stream[0], 11));
	OK(cudaStreamSynchronize(s.stream[0]));
	ck_assert_int_eq(cudaFree(p), cudaErrorIllegalAddress);
	expect("just outside of 40 bytes");
}
END_TEST

START_TEST(freed_too_early)
{
	Scene s(0);
	void *p;

	OK(cudaMalloc(&p, Scene::BYTES));
	s.fill(1);
	OK(s.up(0, 0));
	OK(plus_one(s.device[0], static_cast<float *>(p), s.stream[0]));
	OK(cudaFree(p));
	ck_assert_int_eq(cudaStreamSynchronize(s.stream[0]), cudaErrorIllegalAddress);
	expect("in freed memory, 0 bytes into 4000");
	ck_assert_int_eq(cudaFree(p), cudaErrorInvalidValue);
	expect("in freed memory");
	/* pinned memory too */
	OK(cudaHostAlloc(&p, 64, cudaHostAllocDefault));
	OK(cudaMemcpyAsync(s.device[0], p, 64, cudaMemcpyHostToDevice, s.stream[0]));
	OK(cudaFreeHost(p));
	ck_assert_int_eq(cudaStreamSynchronize(s.stream[0]), cudaErrorIllegalAddress);
	expect("a copy reads: 64 bytes");
}
END_TEST

START_TEST(host_pointers)
{
	Scene s(0);
	std::vector<float> v(Scene::N);

	ck_assert_int_eq(plus_one(v.data(), s.device[0], s.stream[0]), cudaErrorInvalidValue);
	expect("a kernel is given");
	ck_assert_int_eq(cudaMemcpyAsync(s.device[0], s.device[1], 64, cudaMemcpyHostToDevice,
					 s.stream[0]),
			cudaErrorInvalidValue);
	expect("a copy to device from host is not");
	ck_assert_int_eq(cudaMemsetAsync(s.device[0], 0, 4, nullptr),
			cudaErrorInvalidResourceHandle);
	expect("the default stream");
}
END_TEST

START_TEST(host_touches_device_memory)
{
	Scene s(0);
	int status;
	pid_t child = fork();

	if (child == 0) {
		signal(SIGSEGV, SIG_DFL); /* handlers of others are not asked again */
		raise(*reinterpret_cast<volatile int *>(s.device[0]) ? SIGTERM : SIGINT);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
END_TEST

static bool is_caught(void (*kernel)(float *), uint64_t seed, int (*whose)(int))
{
	Scene s(seed);
	bool wrong = false;

	OK(ff_launch(kernel, dim3(1), dim3(256), s.stream[0], s.device[0]));
	OK(s.down(0, 0));
	OK(cudaStreamSynchronize(s.stream[0]));
	for (int i = 0; i < 256; i++)
		wrong |= !(s.pinned[i] == float(whose(i)));
	return wrong;
}

START_TEST(missing_barrier)
{
	uint32_t caught = 0, caught_back = 0;

	for (uint64_t seed = 1; seed < 20; seed++) {
		caught += is_caught(careless, seed, [](int i) { return (i + 1) % 256; });
		caught_back += is_caught(careless_back, seed, [](int i) { return i ? i - 1 : 0; });
	}
	ck_assert_uint_eq(caught, 19);
	ck_assert_uint_ge(caught_back, 15);
}
END_TEST

START_TEST(barrier_of_some)
{
	Scene s(3);

	OK(ff_launch(divided, dim3(1), dim3(32), s.stream[0], s.device[0]));
	ck_assert_int_eq(cudaStreamSynchronize(s.stream[0]), cudaErrorLaunchFailure);
	expect("wait where others never get");
}
END_TEST

START_TEST(captures)
{
	Scene s(0);
	cudaGraph_t graph;
	void *p;

	/* a stream that is not waited for */
	OK(cudaStreamBeginCapture(s.stream[0], cudaStreamCaptureModeGlobal));
	OK(cudaEventRecord(s.event, s.stream[0]));
	OK(cudaStreamWaitEvent(s.stream[1], s.event, 0));
	OK(cudaMemsetAsync(s.device[0], 0, 4, s.stream[1]));
	ck_assert_int_eq(cudaStreamEndCapture(s.stream[0], &graph), cudaErrorStreamCaptureUnjoined);
	expect("does not wait for all others");
	/* what may not be captured */
	OK(cudaStreamBeginCapture(s.stream[0], cudaStreamCaptureModeGlobal));
	ck_assert_int_eq(cudaMalloc(&p, 4), cudaErrorStreamCaptureUnsupported);
	expect("cudaMalloc is called while a stream is captured");
}
END_TEST

/* What breaks a capture, and that its stream goes on when it has been ended. */
START_TEST(broken_captures)
{
	static cudaError_t (*const calls[])(const Scene &s) = {
			[](const Scene &s) { return cudaStreamSynchronize(s.stream[0]); },
			[](const Scene &s) { return cudaStreamSynchronize(s.stream[1]); },
			[](const Scene &s) { return cudaStreamQuery(s.stream[0]); },
			[](const Scene &) { return cudaDeviceSynchronize(); },
			[](const Scene &s) { return cudaFree(s.device[0]); },
			[](const Scene &s) { return cudaFreeHost(s.pinned); },
			[](const Scene &s) { return cudaMemset(s.device[0], 0, 4); },
			[](const Scene &s) { return cudaEventSynchronize(s.event); }, /* another */
	};

	for (auto call : calls) {
		Scene s(0);
		cudaGraph_t graph = nullptr;

		OK(cudaStreamBeginCapture(s.stream[0], cudaStreamCaptureModeThreadLocal));
		ck_assert_int_eq(call(s), cudaErrorStreamCaptureUnsupported);
		ck_assert_int_eq(s.up(0, 0), cudaErrorStreamCaptureInvalidated);
		ck_assert_int_eq(cudaEventRecord(s.event, s.stream[0]),
				cudaErrorStreamCaptureInvalidated);
		ck_assert_int_eq(cudaStreamEndCapture(s.stream[0], &graph),
				cudaErrorStreamCaptureInvalidated);
		ck_assert_ptr_null(graph);
		cudaGetLastError();
		s.fill(1);
		OK(s.up(0, 0));
		OK(s.down(0, 0));
		OK(cudaStreamSynchronize(s.stream[0]));
		ck_assert_uint_eq(s.wrong(1), 0);
	}
}
END_TEST

/* An event recorded in a capture is in no stream, then and later. */
START_TEST(captured_events)
{
	Scene s(0);
	cudaGraph_t graph;

	OK(cudaEventRecord(s.event, s.stream[1]));
	OK(cudaStreamBeginCapture(s.stream[0], cudaStreamCaptureModeThreadLocal));
	ck_assert_int_eq(cudaStreamWaitEvent(s.stream[0], s.event, 0),
			cudaErrorStreamCaptureIsolation);
	expect("from before the capture");
	OK(cudaStreamBeginCapture(s.stream[0], cudaStreamCaptureModeThreadLocal));
	OK(cudaEventRecord(s.event, s.stream[0]));
	OK(cudaStreamEndCapture(s.stream[0], &graph));
	ck_assert_int_eq(cudaEventSynchronize(s.event), cudaErrorCapturedEvent);
	ck_assert_int_eq(cudaEventQuery(s.event), cudaErrorCapturedEvent);
	expect("cudaEventQuery of an event that was recorded in a capture");
	ck_assert_int_eq(cudaStreamWaitEvent(s.stream[1], s.event, 0),
			cudaErrorStreamCaptureIsolation);
	expect("of a capture that has ended");
	OK(cudaEventRecord(s.event, s.stream[1]));
	OK(cudaEventSynchronize(s.event));
	OK(cudaGraphDestroy(graph));
}
END_TEST

/* Other threads may do what this one may not, but not end its capture; unless it looks at none,
 * or at all. */
START_TEST(threads_and_captures)
{
	static const struct {
		cudaStreamCaptureMode mode;
		cudaError_t own, other, end;
	} ways[] = {{cudaStreamCaptureModeGlobal, cudaErrorStreamCaptureUnsupported,
				    cudaErrorStreamCaptureUnsupported,
				    cudaErrorStreamCaptureWrongThread},
			{cudaStreamCaptureModeThreadLocal, cudaErrorStreamCaptureUnsupported,
					cudaSuccess, cudaErrorStreamCaptureWrongThread},
			{cudaStreamCaptureModeRelaxed, cudaSuccess, cudaSuccess, cudaSuccess}};

	for (const auto &w : ways) {
		Scene s(0);
		cudaError_t other = cudaSuccess, end = cudaSuccess;
		cudaGraph_t graph = nullptr;
		void *p[2] = {nullptr, nullptr};

		OK(cudaStreamBeginCapture(s.stream[0], w.mode));
		std::thread([&] {
			other = cudaMalloc(&p[0], 4);
			end = cudaStreamEndCapture(s.stream[0], &graph);
		}).join();
		ck_assert_int_eq(other, w.other);
		ck_assert_int_eq(end, w.end);
		if (w.end != cudaSuccess) {
			ck_assert_int_eq(cudaMalloc(&p[1], 4), w.own);
			ck_assert_int_eq(cudaStreamEndCapture(s.stream[0], &graph),
					cudaErrorStreamCaptureInvalidated);
		}
		ff_double_complaint();
		for (void *memory : p)
			OK(cudaFree(memory));
		if (graph)
			OK(cudaGraphDestroy(graph));
	}
}
END_TEST

/* Each launch reads pinned memory anew, and calls the host's functions again. */
START_TEST(launched_again)
{
	Scene s(5);
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	int calls = 0;

	OK(cudaStreamBeginCapture(s.stream[0], cudaStreamCaptureModeThreadLocal));
	OK(s.up(0, 0));
	OK(plus_one(s.device[0], s.device[1], s.stream[0]));
	OK(s.down(1, 0));
	OK(cudaLaunchHostFunc(s.stream[0], note, &calls));
	OK(cudaStreamEndCapture(s.stream[0], &graph));
	OK(cudaGraphInstantiate(&exec, graph, 0));
	OK(cudaGraphDestroy(graph));
	ck_assert_int_eq(calls, 0);
	for (int i = 1; i < 4; i++) {
		s.fill(float(10 * i));
		OK(cudaGraphLaunch(exec, s.stream[1]));
		OK(cudaStreamSynchronize(s.stream[1]));
		ck_assert_uint_eq(s.wrong(float(10 * i + 1)), 0);
		ck_assert_int_eq(calls, i);
	}
	/* what it reads is looked up when it runs */
	OK(cudaFree(s.device[1]));
	OK(cudaGraphLaunch(exec, s.stream[1]));
	ck_assert_int_eq(cudaStreamSynchronize(s.stream[1]), cudaErrorIllegalAddress);
	expect("in freed memory");
	OK(cudaGraphExecDestroy(exec));
	s.device[1] = nullptr;
}
END_TEST

static void calls_cuda(void *arg)
{
	*static_cast<cudaError_t *>(arg) = cudaDeviceSynchronize();
}

START_TEST(cuda_in_host_function)
{
	Scene s(0);
	cudaError_t code = cudaSuccess;

	OK(cudaLaunchHostFunc(s.stream[0], calls_cuda, &code));
	OK(cudaStreamSynchronize(s.stream[0]));
	ck_assert_int_eq(code, cudaErrorNotPermitted);
	expect("is called from a host function");
}
END_TEST

static Suite *suite()
{
	Suite *s = suite_create("double");
	TCase *c = tcase_create("runtime");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, streams_and_events);
	tcase_add_test(c, threads_that_wait);
	tcase_add_test(c, graphs);
	tcase_add_test(c, host_functions_run_in_order);
	tcase_add_test(c, missing_wait);
	tcase_add_test(c, pinned_reuse);
	tcase_add_test(c, wrong_offset);
	tcase_add_test(c, small_overrun);
	tcase_add_test(c, freed_too_early);
	tcase_add_test(c, host_pointers);
	tcase_add_test(c, host_touches_device_memory);
	tcase_add_test(c, missing_barrier);
	tcase_add_test(c, barrier_of_some);
	tcase_add_test(c, captures);
	tcase_add_test(c, broken_captures);
	tcase_add_test(c, captured_events);
	tcase_add_test(c, threads_and_captures);
	tcase_add_test(c, launched_again);
	tcase_add_test(c, cuda_in_host_function);
	suite_add_tcase(s, c);
	return s;
}

int main()
{
	return ff_check_main(suite());
}
