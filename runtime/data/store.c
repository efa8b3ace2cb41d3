/* Files of data, plain or packed.  SPDX-License-Identifier: Apache-2.0 */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define CHUNK ((int64_t)1 << 20) /* unpacked at once */
#define PACKED_CHUNK ((int64_t)64 << 10)
#define GZIP_WINDOW (15 + 16) /* of inflateInit2: with gzip's head and trailer */
#define RAW_WINDOW (-15)      /* neither */

struct ff_store {
	char *name;
	int fd;
	int64_t from, bytes; /* plain: where in the file; packed: what is unpacked */
	/* packed alone */
	bool packed, gzip, opened, ended;
	z_stream z;
	int64_t at, end; /* what is still packed, in the file */
	int64_t begin;   /* where that began */
	uint8_t *in;
	uint8_t *memory;
	int64_t room;
	uint32_t crc;
};

void ff_store_close(struct ff_store *s)
{
	if (!s)
		return;
	if (s->opened)
		inflateEnd(&s->z);
	if (s->fd >= 0)
		close(s->fd);
	free(s->in);
	free(s->memory);
	free(s->name);
	free(s);
}

const char *ff_store_name(const struct ff_store *s)
{
	return s->name;
}

int64_t ff_store_bytes(const struct ff_store *s)
{
	return s->bytes;
}

const uint8_t *ff_store_memory(const struct ff_store *s)
{
	return s->memory;
}

/* Up to `n` bytes of the file; fewer where it ends. */
static int read_file(const struct ff_store *s, int64_t at, int64_t n, void *to, int64_t *got,
		struct ff_error *err)
{
	uint8_t *out = to;

	for (*got = 0; *got < n;) {
		ssize_t k = pread(s->fd, out + *got, (size_t)(n - *got), (off_t)(at + *got));

		if (k == 0)
			break;
		if (k < 0 && errno != EINTR)
			return ff_fail(err, FF_E_IO, "%s: byte %" PRId64 ": cannot be read: %s",
					s->name, at + *got - s->from, strerror(errno));
		*got += k > 0 ? k : 0;
	}
	return FF_OK;
}

int ff_store_read(const struct ff_store *s, int64_t at, size_t n, void *to, struct ff_error *err)
{
	int64_t got;
	int code;

	if (!n)
		return FF_OK;
	if (s->packed) {
		memcpy(to, s->memory + at, n);
		return FF_OK;
	}
	code = read_file(s, s->from + at, (int64_t)n, to, &got, err);
	if (code == FF_OK && got < (int64_t)n)
		code = ff_fail(err, FF_E_IO,
				"%s: ends at byte %" PRId64 " now: it has become shorter", s->name,
				at + got);
	return code;
}

/* ---- what is packed ---- */

static int open_inflate(struct ff_store *s, int64_t at, int64_t end, struct ff_error *err)
{
	s->packed = true;
	s->at = s->begin = at;
	s->end = end;
	s->bytes = 0;
	s->in = malloc((size_t)PACKED_CHUNK);
	if (!s->in || inflateInit2(&s->z, s->gzip ? GZIP_WINDOW : RAW_WINDOW) != Z_OK)
		return ff_fail_memory(err);
	s->opened = true;
	return FF_OK;
}

/* Where in the packed data the next byte lies that was not looked at. */
static int64_t packed_place(const struct ff_store *s)
{
	return s->at - s->begin - (int64_t)s->z.avail_in;
}

/* Something to unpack, unless there is nothing more. */
static int feed(struct ff_store *s, struct ff_error *err)
{
	int64_t n = s->end - s->at < PACKED_CHUNK ? s->end - s->at : PACKED_CHUNK, got = 0;
	int code = n > 0 ? read_file(s, s->at, n, s->in, &got, err) : FF_OK;

	if (code < 0)
		return code;
	s->at += got;
	s->z.next_in = s->in;
	s->z.avail_in = (uInt)got;
	return FF_OK;
}

/* A gzip file may have several members, one behind the other; a stretch has a CRC elsewhere. */
static int end_member(struct ff_store *s, struct ff_error *err)
{
	int code = s->z.avail_in ? FF_OK : feed(s, err);
	uint32_t crc;

	if (code < 0)
		return code;
	if (s->z.avail_in && !s->gzip)
		return ff_fail(err, FF_E_INPUT,
				"%s: byte %" PRId64
				" of its compressed data: something follows its end",
				s->name, packed_place(s));
	if (s->z.avail_in && inflateReset(&s->z) != Z_OK)
		return ff_fail_memory(err);
	s->ended = !s->z.avail_in;
	if (!s->ended || s->gzip)
		return FF_OK;
	crc = (uint32_t)crc32_z(0, s->memory, (size_t)s->bytes);
	return crc == s->crc ? FF_OK
			     : ff_fail(err, FF_E_INPUT,
					       "%s: is damaged: its checksum is %08" PRIx32
					       ", expected %08" PRIx32,
					       s->name, crc, s->crc);
}

static int make_room(struct ff_store *s, int64_t bytes, struct ff_error *err)
{
	int64_t room = 2 * s->room > bytes ? 2 * s->room : bytes;
	uint8_t *grown;

	if (bytes <= s->room)
		return FF_OK;
	grown = realloc(s->memory, (size_t)room);
	if (!grown)
		return ff_fail_memory(err);
	s->memory = grown;
	s->room = room;
	return FF_OK;
}

/* Unpacks up to `n` bytes more. */
static int inflate_some(struct ff_store *s, int64_t n, struct ff_error *err)
{
	int code = make_room(s, s->bytes + n, err), got;

	if (code == FF_OK && !s->z.avail_in)
		code = feed(s, err);
	if (code < 0)
		return code;
	if (!s->z.avail_in)
		return ff_fail(err, FF_E_INPUT,
				"%s: is truncated: its compressed data ends at byte %" PRId64
				", in the middle",
				s->name, packed_place(s));
	s->z.next_out = s->memory + s->bytes;
	s->z.avail_out = (uInt)n;
	got = inflate(&s->z, Z_NO_FLUSH);
	s->bytes += n - (int64_t)s->z.avail_out;
	if (got == Z_MEM_ERROR)
		return ff_fail_memory(err);
	if (got != Z_OK && got != Z_STREAM_END && got != Z_BUF_ERROR)
		return ff_fail(err, FF_E_INPUT, "%s: byte %" PRId64 " of its compressed data: %s",
				s->name, packed_place(s),
				s->z.msg ? s->z.msg : "cannot be unpacked");
	return got == Z_STREAM_END ? end_member(s, err) : FF_OK;
}

static int unpack(struct ff_store *s, int64_t bytes, struct ff_error *err)
{
	int code = FF_OK;

	while (s->packed && code == FF_OK && s->bytes < bytes && !s->ended)
		code = inflate_some(s, bytes - s->bytes < CHUNK ? bytes - s->bytes : CHUNK, err);
	return code;
}

int ff_store_need(struct ff_store *s, int64_t bytes, struct ff_error *err)
{
	int code = unpack(s, bytes, err);

	if (code < 0 || s->bytes >= bytes)
		return code;
	return ff_fail(err, FF_E_INPUT,
			"%s: is truncated: ends at byte %" PRId64 ", expected %" PRId64 " more",
			s->name, s->bytes, bytes - s->bytes);
}

int ff_store_whole(struct ff_store *s, struct ff_error *err)
{
	return unpack(s, INT64_MAX, err);
}

int ff_store_end(struct ff_store *s, int64_t bytes, struct ff_error *err)
{
	int code = ff_store_need(s, bytes, err);

	if (code == FF_OK)
		code = unpack(s, bytes + 1, err);
	if (code < 0 || s->bytes == bytes)
		return code;
	return ff_fail(err, FF_E_INPUT,
			"%s: goes on behind byte %" PRId64 ", where its sizes end it", s->name,
			bytes);
}

/* ---- opening ---- */

static int open_file(struct ff_store *s, const char *path, int64_t *bytes, struct ff_error *err)
{
	struct stat st;

	s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return ff_fail(err, FF_E_INPUT, "%s: %s", s->name, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return ff_fail(err, FF_E_INPUT, "%s: is no regular file", s->name);
	*bytes = (int64_t)st.st_size;
	return FF_OK;
}

static int start(const char *name, struct ff_store **ret, struct ff_error *err)
{
	struct ff_store *s = calloc(1, sizeof(*s));

	if (s)
		s->name = strdup(name);
	if (!s || !s->name) {
		free(s);
		return ff_fail_memory(err);
	}
	s->fd = -1;
	*ret = s;
	return FF_OK;
}

static int finish(struct ff_store *s, int code, struct ff_store **ret)
{
	if (code < 0)
		ff_store_close(s);
	else
		*ret = s;
	return code;
}

int ff_store_open(const char *path, struct ff_store **ret, struct ff_error *err)
{
	uint8_t head[2];
	int64_t got = 0;
	struct ff_store *s;
	int code = start(path, &s, err);

	if (code < 0)
		return code;
	code = open_file(s, path, &s->bytes, err);
	if (code == FF_OK)
		code = read_file(s, 0, 2, head, &got, err);
	if (code == FF_OK && got == 2 && head[0] == 0x1f && head[1] == 0x8b) {
		s->gzip = true;
		code = open_inflate(s, 0, s->bytes, err);
	}
	return finish(s, code, ret);
}

int ff_store_open_stretch(
		const struct ff_stretch *stretch, struct ff_store **ret, struct ff_error *err)
{
	struct ff_store *s;
	int64_t bytes = 0;
	int code = start(stretch->name, &s, err);

	if (code < 0)
		return code;
	s->crc = stretch->crc;
	code = open_file(s, stretch->path, &bytes, err);
	if (code == FF_OK && (stretch->at < 0 || stretch->bytes < 0 || stretch->at > bytes ||
					     stretch->bytes > bytes - stretch->at))
		code = ff_fail(err, FF_E_INPUT, "%s: reaches behind the end of the file", s->name);
	if (code == FF_OK && stretch->packed)
		code = open_inflate(s, stretch->at, stretch->at + stretch->bytes, err);
	if (code == FF_OK && !stretch->packed) {
		s->from = stretch->at;
		s->bytes = stretch->bytes;
	}
	return finish(s, code, ret);
}
