/* The backend that tests of kernels, copies, streams and executors run on: the CPU's, or what
 * FF_TEST_BACKEND names.  Its memory is reached by uploads and downloads alone.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_CHOSEN_H
#define FF_TEST_CHOSEN_H

#include "check_main.h"
#include "ff/backend.h"

const struct ff_backend *chosen_backend(void);
bool chosen_is_cpu(void);
/* bfloat16, or float32 where the backend computes only in that: oneDNN of processors without
 * AVX-512. */
enum ff_dtype chosen_rounded(void);

/* Device memory with these bytes (NULL: every one is 0xff), and back. */
void *chosen_put(struct ff_device *dev, struct ff_stream *s, const void *host, size_t bytes);
void chosen_get(struct ff_stream *s, void *host, const void *device, size_t bytes);
/* Over what is there. */
void chosen_set(struct ff_stream *s, void *device, const void *host, size_t bytes);

/* Runs the suite, or fails where no device of the backend can be opened. */
int chosen_main(Suite *(*suite)(void));

#endif
