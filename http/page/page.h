// The web page: the files of http/page, which cmake/EmbedFiles.cmake compiles into the binary.
#pragma once

#include <span>
#include <string_view>

#include "http/net/embedded_file.h"
#include "http/net/exchange.h"

namespace recollect::http {

std::span<const EmbeddedFile> PageFiles();

// The file that `path` names, "/" or "/page/NAME"; null if there is none.
const EmbeddedFile* FindPageFile(std::string_view path);

// With headers that let the page load nothing but files and answers of this server, and let no
// other page show it in a frame.
void SendPageFile(const EmbeddedFile& file, Answer& answer);

}  // namespace recollect::http
