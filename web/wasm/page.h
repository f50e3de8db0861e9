/* web/wasm/page.h -- what worker.js calls: requests of the page go in, replies come out. */
#ifndef MR_WASM_PAGE_H
#define MR_WASM_PAGE_H

#include <emscripten.h>
#include <stddef.h>

/* Memory for a body of n bytes, which page_ask frees; NULL if there is not so much. */
EMSCRIPTEN_KEEPALIVE void *page_buffer(size_t n);
/* Answers a request and returns the HTTP status, or 0 if the board cannot be started. body: from page_buffer. */
EMSCRIPTEN_KEEPALIVE int page_ask(const char *method, const char *target, const char *type, void *body, size_t n);
/* The body of the newest reply, until the next request. */
EMSCRIPTEN_KEEPALIVE const char *page_reply(void);
EMSCRIPTEN_KEEPALIVE size_t page_reply_bytes(void);

#endif
