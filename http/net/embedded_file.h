// A file that cmake/EmbedFiles.cmake compiles into the binary.
#pragma once

#include <string_view>

namespace recollect::http {

struct EmbeddedFile {
  std::string_view name;  // "app.js"
  std::string_view content_type;
  std::string_view content;
};

}  // namespace recollect::http
