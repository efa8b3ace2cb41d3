/* JPEG by libjpeg (libjpeg-turbo's libjpeg.txt).  SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include "formats.h"

/* libjpeg ends a call that fails by a jump. */
struct reader {
	struct jpeg_error_mgr base;
	jmp_buf failed;
	char text[JMSG_LENGTH_MAX];
};

static void keep_message(j_common_ptr jpeg, int level)
{
	struct reader *r = (struct reader *)jpeg->err;

	/* level -1 is a warning: the data are damaged, and the first one says how */
	if (level == -1 && !r->base.num_warnings++)
		r->base.format_message(jpeg, r->text);
}

static void fail(j_common_ptr jpeg)
{
	struct reader *r = (struct reader *)jpeg->err;

	r->base.format_message(jpeg, r->text);
	longjmp(r->failed, 1);
}

/* Nothing here is changed and needed behind a jump. */
static int read_lines(struct jpeg_decompress_struct *jpeg, struct reader *r, const char *path,
		const uint8_t *bytes, size_t n, struct ff_image *ret, struct ff_error *err)
{
	int code;

	if (setjmp(r->failed))
		return ff_fail(err, FF_E_INPUT, "%s: %s", path, r->text);
	jpeg_create_decompress(jpeg);
	jpeg_mem_src(jpeg, bytes, (unsigned long)n);
	jpeg_read_header(jpeg, TRUE);
	jpeg->out_color_space = JCS_RGB;
	jpeg->dct_method = JDCT_ISLOW;
	code = ff_image_room(path, jpeg->image_width, jpeg->image_height, ret, err);
	if (code < 0)
		return code;
	jpeg_start_decompress(jpeg);
	while (jpeg->output_scanline < jpeg->output_height) {
		JSAMPROW line = ret->rgb + 3 * (size_t)jpeg->output_scanline * jpeg->output_width;

		jpeg_read_scanlines(jpeg, &line, 1);
	}
	jpeg_finish_decompress(jpeg);
	return r->base.num_warnings ? ff_fail(err, FF_E_INPUT, "%s: %s", path, r->text) : FF_OK;
}

int ff_jpeg_decode(const char *path, const uint8_t *bytes, size_t n, struct ff_image *ret,
		struct ff_error *err)
{
	struct jpeg_decompress_struct jpeg = {0};
	struct reader r = {0};
	struct ff_image image = {0};
	int code;

	jpeg.err = jpeg_std_error(&r.base);
	r.base.emit_message = keep_message;
	r.base.error_exit = fail;
	code = read_lines(&jpeg, &r, path, bytes, n, &image, err);
	jpeg_destroy_decompress(&jpeg);
	if (code < 0)
		ff_image_free(&image);
	else
		*ret = image;
	return code;
}
