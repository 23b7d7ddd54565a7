// Entity tags of RFC 9110, 8.8.3: whether a client has a copy already, or means this very one.
#pragma once

#include "absl/strings/string_view.h"

namespace recollect::http {

// Whether weak tags (W/"…") name anything: in If-None-Match they do, in If-Match not (13.1.1).
enum class TagComparison { kWeak, kStrong };

// Whether a header If-Match or If-None-Match, "*" or a list, names `tag`, which is a strong one and
// has its quotes. What is no list names none.
bool NamesTag(absl::string_view header, absl::string_view tag, TagComparison comparison);

}  // namespace recollect::http
