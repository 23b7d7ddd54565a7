// A file that cmake/EmbedFiles.cmake compiles into the binary.
#ifndef RECOLLECT_HTTP_NET_EMBEDDED_FILE_H_
#define RECOLLECT_HTTP_NET_EMBEDDED_FILE_H_

#include <string_view>

namespace recollect::http {

struct EmbeddedFile {
  std::string_view name;  // "app.js"
  std::string_view content_type;
  std::string_view content;
};

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_NET_EMBEDDED_FILE_H_
