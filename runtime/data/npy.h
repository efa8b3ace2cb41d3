/* NumPy's files: .npy holds an array (numpy.lib.format), .npz is a ZIP archive of them (PKWARE's
 * APPNOTE.TXT, stored or deflated).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DATA_NPY_H
#define FF_DATA_NPY_H

#include "columns.h"

struct ff_npy {
	enum ff_element element;
	uint32_t rank; /* at least 1 */
	int64_t shape[FF_MAX_RANK];
	int64_t at; /* where the elements begin, row-major; they end with the file */
};
/* FF_E_INPUT names the byte of what is wrong. */
int ff_npy_read(struct ff_store *s, struct ff_npy *ret, struct ff_error *err);

struct ff_zip_member {
	const char *name;
	int64_t head; /* where its own header lies */
	int64_t packed, unpacked;
	uint32_t crc;
	uint16_t method;
};
struct ff_zip {
	const char *path; /* the caller's */
	uint32_t n;
	struct ff_zip_member *member;
};
/* The memory is `a`'s. */
int ff_zip_list(const char *path, struct ff_arena *a, struct ff_zip *ret, struct ff_error *err);
/* NULL: there is none of that name. */
const struct ff_zip_member *ff_zip_find(const struct ff_zip *z, const char *name);
int ff_zip_open(const struct ff_zip *z, const struct ff_zip_member *m, struct ff_arena *a,
		struct ff_store **ret, struct ff_error *err);

#endif
