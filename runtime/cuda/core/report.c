/* Places in host memory where kernels report what they cannot compute with: a wrong label, a
 * wrong id.  A stream looks at them when it is drained.  SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "memory.h"
#include "rows.h"

#define PLACES 256 /* of a page */

struct ff_report_page {
	struct ff_report_page *next;
	struct ff_device_error *place;
	struct ff_device_error *spare[PLACES]; /* those given back */
	uint32_t n_spare;
};

static int add_page(struct ff_device *dev, struct ff_error *err)
{
	struct ff_report_page *page = calloc(1, sizeof(*page));
	void *memory = NULL;
	int code;

	if (!page)
		return ff_fail_memory(err);
	code = ff_cuda_pin(dev, PLACES * sizeof(*page->place), &memory, err);
	if (code < 0) {
		free(page);
		return code;
	}
	page->place = memory;
	while (page->n_spare < PLACES) {
		page->spare[page->n_spare] = &page->place[page->n_spare];
		page->n_spare++;
	}
	page->next = dev->page;
	dev->page = page;
	return FF_OK;
}

int ff_device_error_take(struct ff_device *dev, struct ff_device_error **ret, struct ff_error *err)
{
	struct ff_report_page *page = dev->page;
	int code;

	while (page && !page->n_spare)
		page = page->next;
	if (!page) {
		code = add_page(dev, err);
		if (code < 0)
			return code;
		page = dev->page;
	}
	*ret = page->spare[--page->n_spare];
	memset(*ret, 0, sizeof(**ret));
	return FF_OK;
}

void ff_device_error_give(struct ff_device *dev, struct ff_device_error *t)
{
	for (struct ff_report_page *page = dev->page; t && page; page = page->next)
		if (t >= page->place && t < page->place + PLACES)
			page->spare[page->n_spare++] = t;
}

void ff_device_errors_close(struct ff_device *dev)
{
	while (dev->page) {
		struct ff_report_page *page = dev->page;

		dev->page = page->next;
		ff_cuda_unpin(dev, page->place);
		free(page);
	}
}
