/* A host double of the CUDA libraries: what tests ask of it beside the vendors' own calls.
 *
 * It stands in for the CUDA runtime, cuBLASLt, cuDNN's backend API and NCCL at link time, behind
 * the vendors' headers, and is harsh where they may be:
 *
 * - memory.cpp: device memory is closed to the host but while the device works; new memory is
 *   garbage (NaN), freed memory is never used again; every operation's pointers and extents are
 *   looked up when it runs.
 * - stream.cpp, copies.cpp, graph.cpp: nothing runs when it is enqueued.  What is waited for runs
 *   as late as events allow, and with it, in an order drawn from a seed, more or less of what else
 *   could.
 * - launch.cpp: blocks in a drawn order, one after another, or all at once where they meet; threads
 *   begin from a drawn one on, upwards or downwards; those that wait for each other are fibers,
 * those that do not are a loop.
 * - cublaslt.cpp, supported.cpp, product.cpp; cudnn.cpp, descriptor.cpp, finalize.cpp,
 *   operations.cpp, engines.cpp, convolution.cpp, attention.cpp: plain loops in float32, behind
 *   checks of every descriptor, of promised alignments, of workspaces (which are scribbled on).
 * - nccl.cpp, bundle.cpp, board.cpp: ranks of one process and of several on one host.  A call is
 *   an operation of its stream; ranks that are called for different things, at different times or
 *   never are told which, and fail.
 *
 * What is wrong is a sentence on stderr and an error from this call or, when the device has run
 * into it, from every call to come, as with CUDA.  It proves order, arguments and arithmetic;
 * its times mean nothing.
 *
 * FF_DOUBLE_SEED (1): what orders are drawn from; 0: nothing is drawn, all is as late as can be.
 * FF_DOUBLE_LACKS: what the libraries do not have, separated by commas: bias (products that add
 * one), bias-sums, activation, keep (an activation and what it is of), slope (gelu's
 * derivative), conv-bias, conv-relu, conv-sums (gradients that are added), attention,
 * attention-backward, conv-widen (float32 gradients of weights from bfloat16), conv; choices
 * (cuBLASLt's heuristics fail); abort (NCCL's ends nothing); meetings (NCCL has no number for one);
 * peers (whose memory a device reaches), room for peers (there are too many).
 * FF_DOUBLE_CUDNN: the version that cuDNN says it has. FF_DOUBLE_DEVICES (8): how many devices
 * there are. FF_DOUBLE_CAPABILITY (90): their compute capability. FF_DOUBLE_TIMEOUT (20): seconds
 * that NCCL waits for another rank. FF_DOUBLE_FOLDER (/dev/shm): where ranks of several processes
 * leave what they say. FF_DOUBLE_EXCLUSIVE: devices are in exclusive-process mode, so that no two
 * processes have contexts on one. FF_DOUBLE_NO_KEYS:
 * memory is closed without the processor's protection keys, slowly, as where it has none.
 * FF_DOUBLE_STEADY: events keep a time that passes by operations, threads and elements sent,
 * whatever else the host has to do; so whoever times kernels until times agree soon has enough.
 * FF_DOUBLE_COUNTS=FILE: devices do nothing, and what they were given is counted there, by name.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_H
#define FF_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As if FF_DOUBLE_SEED had been this. */
void ff_double_seed(uint64_t seed);
/* The last sentence; empty when there was none since the last call.  Errors are forgotten too:
 * the device is as good as new, what was queued is dropped. */
const char *ff_double_complaint(void);
/* From now on the `nth` time that the backend is at the place `what` (faults.h), it does that
 * wrong; 0: nothing is.  Returns how often it was at the place of the last call. */
uint64_t ff_double_plant(const char *what, uint64_t nth);
/* Whether this is the time, for places that tests have themselves. */
bool ff_double_planted(const char *what);
/* How often heuristics of cuBLASLt and cuDNN have been asked in this process. */
uint64_t ff_double_asked(void);

#ifdef __cplusplus
}
#endif

#endif
