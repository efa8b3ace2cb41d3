/* Where in device memory things lie.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_ADDRESS_H
#define FF_RUNTIME_ADDRESS_H

#include "executor.h"

/* The memory of `buffer`; NULL for FF_NONE and for devices hosted elsewhere. */
void *ff_address_buffer(const struct ff_executor *x, uint32_t buffer);
/* The weights of a bucket's device at `position`, NULL if hosted elsewhere;
 * gradients and the optimizer's states follow, each bucket->bytes long. */
char *ff_address_bucket(const struct ff_executor *x, uint32_t bucket, uint32_t position);
/* In such a bucket's memory, what of its gradients was not sent; only where they are compressed. */
float *ff_address_residual(const struct ff_executor *x, uint32_t bucket, char *at);
/* What a device hosted here has not sent of a piece that is compressed. */
float *ff_address_unsent(
		const struct ff_executor *x, const struct ff_task *t, const struct ff_piece *p);
/* In the bucket at `at`: its weights rounded to what the graph computes in, or NULL where
 * that is float32. */
uint16_t *ff_address_rounded(const struct ff_executor *x, uint32_t bucket, char *at);

#endif
