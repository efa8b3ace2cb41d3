/* Blocks that meet: all run at once, each sees what all wrote before they met, and launches that
 * CUDA would refuse, or that would never end, are told.  SPDX-License-Identifier: Apache-2.0 */
#include <launch.cuh>

#include "checked.hpp"

#define BLOCKS 4 /* multiprocessors of the double */
#define THREADS 64
#define ROUNDS 5

/* Each thread adds its neighbour's number to its own, round by round: the neighbour is another
 * block's. */
FF_KERNEL void ring(float *from, float *to)
{
	unsigned n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;

	for (int round = 0; round < ROUNDS; round++) {
		to[i] = from[i] + from[(i + blockDim.x) % n];
		ff_meet();
		from[i] = to[i];
		ff_meet();
	}
}

/* The same with the barrier of a block in the place of the grid's. */
FF_KERNEL void torn(float *from, float *to)
{
	unsigned n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;

	for (int round = 0; round < ROUNDS; round++) {
		to[i] = from[i] + from[(i + blockDim.x) % n];
		__syncthreads();
		from[i] = to[i];
		__syncthreads();
	}
}

/* Warps of blocks that run at once are apart. */
FF_KERNEL void sums(float *x)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	float sum = x[i];

	for (int lanes = 16; lanes > 0; lanes /= 2)
		sum += __shfl_xor_sync(~0u, sum, lanes);
	ff_meet();
	__syncthreads();
	x[i] = sum;
}

FF_KERNEL void first_meets(float *x)
{
	if (blockIdx.x == 0)
		ff_meet();
	x[blockIdx.x] = 1;
}

static std::vector<float> in_rounds(std::vector<float> x)
{
	std::vector<float> next(x.size());

	for (int round = 0; round < ROUNDS; round++, x = next)
		for (size_t i = 0; i < x.size(); i++)
			next[i] = x[i] + x[(i + THREADS) % x.size()];
	return x;
}

static std::vector<float> run(void (*kernel)(float *, float *), cudaStream_t s)
{
	float *from = device_array(numbers(BLOCKS * THREADS, 1));
	float *to = device_array(numbers(BLOCKS * THREADS, 0));
	std::vector<float> ret;

	OK(ff_launch_together(kernel, dim3(BLOCKS), dim3(THREADS), s, from, to));
	OK(cudaStreamSynchronize(s));
	ret = host_array(from, BLOCKS * THREADS);
	OK(cudaFree(from));
	OK(cudaFree(to));
	return ret;
}

static cudaStream_t new_stream()
{
	cudaStream_t s;

	OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	return s;
}

START_TEST(all_see_all)
{
	const std::vector<float> want = in_rounds(numbers(BLOCKS * THREADS, 1));
	cudaStream_t s = new_stream();
	int wrong = 0;

	for (uint64_t seed = 0; seed < 50; seed++) {
		ff_double_seed(seed);
		ck_assert(run(ring, s) == want);
		wrong += run(torn, s) != want;
	}
	ck_assert_int_gt(wrong, 0);
}
END_TEST

START_TEST(warps_are_apart)
{
	const std::vector<float> x = numbers(BLOCKS * THREADS, 1);
	cudaStream_t s = new_stream();
	float *p = device_array(x);
	std::vector<float> got;

	OK(ff_launch_together(sums, dim3(BLOCKS), dim3(THREADS), s, p));
	OK(cudaStreamSynchronize(s));
	got = host_array(p, x.size());
	for (size_t i = 0; i < x.size(); i++) {
		float want = 0;

		for (size_t k = 0; k < 32; k++)
			want += x[i / 32 * 32 + k];
		ck_assert_float_eq(got[i], want);
	}
}
END_TEST

START_TEST(refused)
{
	cudaStream_t s = new_stream();
	float *p = device_array(numbers(1024, 1));

	/* "Grid Synchronization", CUDA C++ Programming Guide: all blocks have to be resident */
	ck_assert_int_eq(ff_launch_together(sums, dim3(BLOCKS + 1), dim3(THREADS), s, p),
			cudaErrorCooperativeLaunchTooLarge);
	expect("are sure to run at once");
	ck_assert_int_ne(ff_launch_together(sums, dim3(1), dim3(48), s, p), cudaSuccess);
	expect("not whole warps");
	/* only such launches may meet */
	OK(ff_launch(sums, dim3(BLOCKS), dim3(THREADS), s, p));
	ck_assert_int_ne(cudaStreamSynchronize(s), cudaSuccess);
	expect("not launched together");
}
END_TEST

START_TEST(met_by_some)
{
	cudaStream_t s = new_stream();
	float *p = device_array(numbers(BLOCKS, 1));

	OK(ff_launch_together(first_meets, dim3(BLOCKS), dim3(THREADS), s, p));
	ck_assert_int_ne(cudaStreamSynchronize(s), cudaSuccess);
	expect("wait where others never get");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("together");
	TCase *c = tcase_create("blocks");

	tcase_add_test(c, all_see_all);
	tcase_add_test(c, warps_are_apart);
	tcase_add_test(c, refused);
	tcase_add_test(c, met_by_some);
	suite_add_tcase(s, c);
	return s;
}

int main()
{
	return ff_check_main(suite());
}
