/* Files of whole tensors by name: safetensors (https://github.com/huggingface/safetensors).
 * Eight bytes that say how long the JSON header is, the header, the elements of one tensor
 * after the other, row-major.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SAFETENSORS_H
#define FF_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/arena.h"
#include "ff/error.h"
#include "ff/file.h"
#include "ff/json.h"

#define FF_TENSOR_RANK 16
#define FF_SUM_BYTES 4 /* of a checksum, and of the elements that are written */

/* As a file has it. */
struct ff_tensor {
	const char *name, *type; /* "F32", "BF16", ... */
	uint32_t rank;
	int64_t shape[FF_TENSOR_RANK];
	int64_t elements;
	int64_t at, bytes; /* where in the file */
};

struct ff_names;

/* A file that is read. */
struct ff_tensors {
	const char *path; /* the caller's */
	int fd;           /* -1: not open */
	int64_t first;    /* where elements begin */
	uint32_t n;
	struct ff_tensor *tensor;    /* in the order of the header */
	const struct ff_json *notes; /* "__metadata__": texts by key; or NULL */
	struct ff_names *names;
};

/* Opens `path` and checks its whole header: FF_E_INPUT names what is wrong, also where
 * tensors overlap, leave holes or reach behind the end.  The memory is `a`'s. */
int ff_tensors_open(
		const char *path, struct ff_arena *a, struct ff_tensors *ret, struct ff_error *err);
/* Accepts a zeroed file with fd -1. */
void ff_tensors_close(struct ff_tensors *t);
/* NULL when absent. */
const struct ff_tensor *ff_tensors_find(const struct ff_tensors *t, const char *name);
const char *ff_tensors_note(const struct ff_tensors *t, const char *key);
/* Whether `t` has elements that ff_tensors_read makes float32: F64, F32, F16 and BF16. */
bool ff_tensor_is_real(const struct ff_tensor *t);
/* All elements as float32, row-major: whole[elements].  FF_E_INPUT for other types than
 * those, FF_E_IO where the file cannot be read (any more). */
int ff_tensors_read(const struct ff_tensors *f, const struct ff_tensor *t, float *whole,
		struct ff_error *err);

/* Reads the whole file: whether header and tensors have the checksums (CRC-32, zlib's) that its
 * last tensor, "__crc32__", says.  FF_E_INPUT names the tensor that has not, or says that there are
 * none.  *ret is that of all checksums: it tells one file from another. */
bool ff_tensors_is_summed(const struct ff_tensors *f);
int ff_tensors_check(const struct ff_tensors *f, uint32_t *ret, struct ff_error *err);

/* A tensor's, while it is written. */
struct ff_tensor_sum {
	int64_t left; /* bytes to come */
	uint32_t crc;
};

/* A file that is written: all tensors are declared, then their elements follow in the same
 * order, and it appears whole. */
struct ff_tensors_out {
	struct ff_file file;
	struct ff_out header;
	int64_t bytes;              /* of elements, declared */
	bool started;               /* the header is in the file */
	struct ff_tensor_sum *sums; /* of the header and of each tensor; NULL: none are kept */
	uint32_t n_sums, summed;    /* so many are complete */
};
int ff_tensors_create(const char *path, struct ff_tensors_out *ret, struct ff_error *err);
/* Before anything is declared: the file ends with checksums of all that is before them. */
void ff_tensors_sum(struct ff_tensors_out *o);
/* Texts that say what the file is; `keys` and `texts` are `n` long.  At most once. */
void ff_tensors_describe(struct ff_tensors_out *o, const char *const *keys,
		const char *const *texts, uint32_t n);
/* `type` is "F32" or "I32": elements of four bytes. */
void ff_tensors_declare(struct ff_tensors_out *o, const char *name, const char *type, uint32_t rank,
		const int32_t *shape);
int ff_tensors_write(
		struct ff_tensors_out *o, const void *data, size_t bytes, struct ff_error *err);
int ff_tensors_commit(struct ff_tensors_out *o, struct ff_error *err);
/* Gives up, if it was not committed; accepts a zeroed one with file.fd -1. */
void ff_tensors_drop(struct ff_tensors_out *o);

#endif
