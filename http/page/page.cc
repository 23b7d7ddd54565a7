#include "http/page/page.h"

#include <string>

namespace recollect::http {
namespace {

constexpr std::string_view kFolder = "/page/";
constexpr char kHeaders[] =
    "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n";

}  // namespace

const EmbeddedFile* FindPageFile(std::string_view path) {
  if (path == "/") path = "/page/index.html";
  if (!path.starts_with(kFolder)) return nullptr;
  path.remove_prefix(kFolder.size());
  for (const EmbeddedFile& file : PageFiles())
    if (file.name == path) return &file;
  return nullptr;
}

void SendPageFile(const EmbeddedFile& file, Answer& answer) {
  answer.Send(200, std::string(file.content_type), std::string(file.content), kHeaders);
}

}  // namespace recollect::http
