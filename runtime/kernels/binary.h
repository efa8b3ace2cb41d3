/* Functions of two elements, a line each, and what rows, CPU and CUDA kernels call them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_BINARY_H
#define FF_RUNTIME_BINARY_H

/* X(name, z of x and y, dz/dx, dz/dy).  Of equal ones the least and the largest are both, by half,
 * and what is no number is the least and the largest, as PyTorch has it. */
#define FF_BINARIES(X)                                                                             \
	X(add, x + y, 1, 1)                                                                        \
	X(sub, x - y, 1, -1)                                                                       \
	X(mul, (x * y), y, x)                                                                      \
	X(div, x / y, 1 / y, -x / (y * y))                                                         \
	X(min, x < y || x != x ? x : y,                                                            \
			x < y   ? 1                                                                \
			: x > y ? 0                                                                \
				: 0.5f,                                                            \
			y < x   ? 1                                                                \
			: y > x ? 0                                                                \
				: 0.5f)                                                            \
	X(max, x > y || x != x ? x : y,                                                            \
			x > y   ? 1                                                                \
			: x < y ? 0                                                                \
				: 0.5f,                                                            \
			y > x   ? 1                                                                \
			: y < x ? 0                                                                \
				: 0.5f)                                                            \
	X(mask, y > 0 ? x : 0, y > 0 ? 1 : 0, 0)                                                   \
	X(atan2, atan2f(x, y), y / (x * x + y * y), -x / (x * x + y * y))                          \
	X(first, x, 1, 0)                                                                          \
	X(equal, x == y ? 1.0f : 0.0f, 0, 0)

enum ff_binary {
#define FF_BINARY_ENUM(name, z, dx, dy) FF_BINARY_##name,
	FF_BINARIES(FF_BINARY_ENUM)
#undef FF_BINARY_ENUM
			FF_BINARY_COUNT
};

/* What is wanted of one: itself, or the gradient of z times a slope.  The gradient's number less
 * one is its operand's. */
enum ff_binary_part { FF_BINARY_Z, FF_BINARY_DX, FF_BINARY_DY, FF_BINARY_PARTS };

#endif
