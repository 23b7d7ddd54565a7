// GPT-2's printable alphabet of bytes: files write each byte of a token as one printable character.
// Bytes 0x21 to 0x7e, 0xa1 to 0xac and 0xae to 0xff stand for themselves as code points; the
// others, in their order, are U+0100 and what follows (a space is U+0120, "Ġ").
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace recollect::model {

// Returns the bytes that `text` writes in the alphabet, nothing if it has another character.
std::optional<std::string> FromByteAlphabet(std::string_view text);

}  // namespace recollect::model
