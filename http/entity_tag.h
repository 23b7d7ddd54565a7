// Entity tags of RFC 9110, 8.8.3: whether a client has a copy already.
#ifndef RECOLLECT_HTTP_ENTITY_TAG_H_
#define RECOLLECT_HTTP_ENTITY_TAG_H_

#include "absl/strings/string_view.h"

namespace recollect::http {

// Whether a header If-None-Match, "*" or a list, names `tag`, which has its quotes. Weak ones count
// (13.1.2). What is no list names none.
bool NamesTag(absl::string_view header, absl::string_view tag);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_ENTITY_TAG_H_
