// Names as people see them. A character that shows nothing, or turns around what stands beside it,
// makes one name look like another; a control character does things to a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

namespace recollect::model {

// Whether `text` is UTF-8 in which every character shows: no control, bidirectional or zero-width
// one, and no filler.
bool IsPrintable(absl::string_view text);

// `text` with each character that does not show as \u{202e}, and each byte that is not UTF-8 as
// \xff. The rest stays as it is.
std::string EscapeInvisible(absl::string_view text);

// The same for text of several lines: line ends and tabs stay, and carriage returns, which would
// write over their line, go.
std::string PrintableText(absl::string_view text);

// `text`, or of a longer one about `most` bytes of whole characters and its size: what is quoted in
// a message may be as long as its file.
std::string Shortened(absl::string_view text, size_t most);

// Both of it in quotation marks: what a file or a flag gave, as a message shows it.
std::string Quoted(std::string_view text, size_t most);

}  // namespace recollect::model
