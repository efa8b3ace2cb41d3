/* ZIP archives: their central directory, at the end, says what is in them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "npy.h"

#define LOCAL_HEAD 30
#define CENTRAL_HEAD 46
#define END_HEAD 22
#define END64_HEAD 56
#define LOCATOR_HEAD 20
#define MOST_COMMENT 65535
#define STORED 0
#define DEFLATED 8
#define ENCRYPTED 1          /* of the flags */
#define ELSEWHERE UINT32_MAX /* a size that stands in a field of 64 bits */
#define FIELD64 1

static uint64_t number(const uint8_t *at, uint32_t bytes)
{
	uint64_t n = 0;

	while (bytes--)
		n = n << 8 | at[bytes];
	return n;
}

static bool is_record(const uint8_t *at, uint8_t third, uint8_t fourth)
{
	return at[0] == 'P' && at[1] == 'K' && at[2] == third && at[3] == fourth;
}

/* `n` bytes that the file may not have. */
static int get(const struct ff_store *s, uint64_t at, size_t n, uint8_t *to, struct ff_error *err)
{
	uint64_t all = (uint64_t)ff_store_bytes(s);

	if (at > all || n > all - at)
		return ff_fail(err, FF_E_INPUT,
				"%s: is damaged: something is said to lie at byte %" PRIu64
				", but it has %" PRIu64,
				ff_store_name(s), at, all);
	return ff_store_read(s, (int64_t)at, n, to, err);
}

/* Where the directory lies and how long it is. */
struct directory {
	uint64_t at, bytes, members;
};

static int read_end64(
		const struct ff_store *s, uint64_t end, struct directory *ret, struct ff_error *err)
{
	uint8_t locator[LOCATOR_HEAD], head[END64_HEAD];
	int code;

	if (end < LOCATOR_HEAD)
		return FF_OK;
	if ((code = get(s, end - LOCATOR_HEAD, sizeof(locator), locator, err)) < 0)
		return code;
	if (!is_record(locator, 6, 7))
		return FF_OK;
	if ((code = get(s, number(locator + 8, 8), sizeof(head), head, err)) < 0)
		return code;
	if (!is_record(head, 6, 6))
		return ff_fail(err, FF_E_INPUT, "%s: byte %" PRIu64 ": expected the archive's end",
				ff_store_name(s), number(locator + 8, 8));
	*ret = (struct directory){number(head + 48, 8), number(head + 40, 8), number(head + 32, 8)};
	return FF_OK;
}

/* The last thing in the file, but for a comment. */
static int find_directory(const struct ff_store *s, struct directory *ret, struct ff_error *err)
{
	int64_t all = ff_store_bytes(s);
	int64_t from = all > END_HEAD + MOST_COMMENT ? all - END_HEAD - MOST_COMMENT : 0;
	uint8_t *tail = malloc((size_t)(all - from) + 1);
	int64_t at = all - END_HEAD - from;
	int code = tail ? get(s, (uint64_t)from, (size_t)(all - from), tail, err)
			: ff_fail_memory(err);

	while (code == FF_OK && at >= 0 && !is_record(tail + at, 5, 6))
		at--;
	if (code == FF_OK && at < 0)
		code = ff_fail(err, FF_E_INPUT,
				"%s: is no ZIP archive, as .npz files are, or lacks its end",
				ff_store_name(s));
	if (code == FF_OK)
		*ret = (struct directory){number(tail + at + 16, 4), number(tail + at + 12, 4),
				number(tail + at + 10, 2)};
	free(tail);
	return code < 0 ? code : read_end64(s, (uint64_t)(from + at), ret, err);
}

/* Sizes beyond 32 bits, in the order in which they stand in the extra fields. */
static void read_extra(const uint8_t *at, size_t n, uint64_t *value[3])
{
	while (n >= 4) {
		size_t bytes = number(at + 2, 2), k = 4;

		if (bytes > n - 4)
			return;
		for (int i = 0; i < 3 && number(at, 2) == FIELD64; i++)
			if (*value[i] == ELSEWHERE && k + 8 <= bytes + 4) {
				*value[i] = number(at + k, 8);
				k += 8;
			}
		at += bytes + 4;
		n -= bytes + 4;
	}
}

/* The member whose record begins here; `n` bytes are left of the directory. */
static int read_member(const char *path, const uint8_t *at, uint64_t n, struct ff_arena *a,
		struct ff_zip_member *ret, uint64_t *taken, struct ff_error *err)
{
	uint64_t packed, unpacked, head, name, extra;
	uint64_t *wide[3] = {&unpacked, &packed, &head};

	if (n < CENTRAL_HEAD || !is_record(at, 1, 2))
		return ff_fail(err, FF_E_INPUT, "%s: its directory is damaged", path);
	name = number(at + 28, 2);
	extra = number(at + 30, 2);
	*taken = CENTRAL_HEAD + name + extra + number(at + 32, 2);
	if (*taken > n)
		return ff_fail(err, FF_E_INPUT, "%s: its directory is truncated", path);
	packed = number(at + 20, 4);
	unpacked = number(at + 24, 4);
	head = number(at + 42, 4);
	read_extra(at + CENTRAL_HEAD + name, (size_t)extra, wide);
	*ret = (struct ff_zip_member){
			.name = ff_arena_printf(
					a, "%.*s", (int)name, (const char *)at + CENTRAL_HEAD),
			.head = (int64_t)head,
			.packed = (int64_t)packed,
			.unpacked = (int64_t)unpacked,
			.crc = (uint32_t)number(at + 16, 4),
			.method = (uint16_t)number(at + 10, 2),
	};
	if (!ret->name)
		return ff_fail_memory(err);
	if (number(at + 8, 2) & ENCRYPTED || (ret->method != STORED && ret->method != DEFLATED) ||
			head > INT64_MAX || packed > INT64_MAX || unpacked > INT64_MAX)
		return ff_fail(err, FF_E_INPUT,
				"%s: %s is encrypted or compressed by other means than deflate",
				path, ret->name);
	return FF_OK;
}

static int read_members(const struct directory *d, const uint8_t *bytes, struct ff_arena *a,
		struct ff_zip *ret, struct ff_error *err)
{
	uint64_t at = 0, taken;
	int code = FF_OK;

	if (d->members > d->bytes / CENTRAL_HEAD)
		return ff_fail(err, FF_E_INPUT,
				"%s: its directory is too short for %" PRIu64 " members", ret->path,
				d->members);
	ret->member = ff_arena_array(a, (size_t)d->members, sizeof(*ret->member));
	if (!ret->member)
		return ff_fail_memory(err);
	while (ret->n < d->members && code == FF_OK) {
		code = read_member(ret->path, bytes + at, d->bytes - at, a, &ret->member[ret->n++],
				&taken, err);
		at += code == FF_OK ? taken : 0;
	}
	return code;
}

int ff_zip_list(const char *path, struct ff_arena *a, struct ff_zip *ret, struct ff_error *err)
{
	struct ff_zip z = {.path = path};
	struct ff_store *s;
	struct directory d = {0};
	uint8_t *bytes = NULL;
	int code = ff_store_open(path, &s, err);

	if (code < 0)
		return code;
	code = find_directory(s, &d, err);
	if (code == FF_OK && d.bytes > (uint64_t)ff_store_bytes(s))
		code = ff_fail(err, FF_E_INPUT, "%s: its directory is truncated", path);
	if (code == FF_OK && !(bytes = malloc((size_t)d.bytes + 1)))
		code = ff_fail_memory(err);
	if (code == FF_OK)
		code = get(s, d.at, (size_t)d.bytes, bytes, err);
	if (code == FF_OK)
		code = read_members(&d, bytes, a, &z, err);
	free(bytes);
	ff_store_close(s);
	if (code == FF_OK)
		*ret = z;
	return code;
}

const struct ff_zip_member *ff_zip_find(const struct ff_zip *z, const char *name)
{
	for (uint32_t i = 0; i < z->n; i++)
		if (!strcmp(z->member[i].name, name))
			return &z->member[i];
	return NULL;
}

/* The member's own header says where its bytes begin. */
static int find_bytes(const struct ff_zip *z, const struct ff_zip_member *m, int64_t *ret,
		struct ff_error *err)
{
	uint8_t head[LOCAL_HEAD];
	struct ff_store *s;
	int code = ff_store_open(z->path, &s, err);

	if (code < 0)
		return code;
	code = get(s, (uint64_t)m->head, sizeof(head), head, err);
	if (code == FF_OK && !is_record(head, 3, 4))
		code = ff_fail(err, FF_E_INPUT, "%s: byte %" PRId64 ": expected member %s", z->path,
				m->head, m->name);
	if (code == FF_OK)
		*ret = m->head + LOCAL_HEAD + (int64_t)number(head + 26, 2) +
		       (int64_t)number(head + 28, 2);
	ff_store_close(s);
	return code;
}

int ff_zip_open(const struct ff_zip *z, const struct ff_zip_member *m, struct ff_arena *a,
		struct ff_store **ret, struct ff_error *err)
{
	struct ff_stretch stretch = {.path = z->path,
			.name = ff_arena_printf(a, "%s: %s", z->path, m->name),
			.bytes = m->packed,
			.crc = m->crc,
			.packed = m->method == DEFLATED};
	int code = find_bytes(z, m, &stretch.at, err);

	if (code < 0)
		return code;
	if (!stretch.name)
		return ff_fail_memory(err);
	return ff_store_open_stretch(&stretch, ret, err);
}
