/* board/http/assets.c -- the files of the page, as `make web` built them. tools/embed writes web_assets.inc: an array
 * of bytes for each file, and WEB_ASSETS with an entry for each. */
#include "base/memory.h"
#include "board/http/internal.h"
#include "web_assets.inc"

const mr_board_asset mr_board_assets[] = {WEB_ASSETS{0}};
const int mr_board_n_assets = MR_COUNT(mr_board_assets) - 1;
