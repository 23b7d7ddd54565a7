// The values of the common options, and input that several verbs read.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/common/host.h"

namespace recollect::cli {

struct Options {
  std::string server;  // host:port, or several with commas; empty: embedded on host.data_dir
  HostOptions host;
  bool json = false;
  std::string backup_dir;    // of backups that this process makes
  std::string keys_file;     // of the keys that a server asks for
  std::string api_key_file;  // whose first line is the key to send; empty: $RECOLLECT_API_KEY
  std::string tls_ca_file;   // of the certificates that are trusted; empty: no TLS
  double timeout_s = 0;      // 0: none
  std::string log_level;
};

// The action of the chosen verb.
struct Command {
  Options options;
  std::function<absl::Status()> run;
};

// INVALID_ARGUMENT naming `flag` and the byte unless `text` is UTF-8: arguments may have any bytes,
// protocol strings may not.
absl::Status CheckUtf8(const std::string& flag, const std::string& text);

// A number of tokens: "3000", "4k", "1m"; k and m are 2^10 and 2^20. INVALID_ARGUMENT naming
// `flag` and the limits, 256 to 1024m.
absl::StatusOr<int64_t> ParseTokenCount(const std::string& flag, const std::string& text);

// The API key to send to a server; empty: none. NOT_FOUND or INVALID_ARGUMENT naming the file,
// never what is in it.
absl::StatusOr<std::string> ReadApiKey(const Options& options);

// The certificates that are trusted; empty: TLS is not asked for. NOT_FOUND or INVALID_ARGUMENT
// naming the file.
absl::StatusOr<std::string> ReadTlsCa(const Options& options);

// A whole file, or standard input for "-". NOT_FOUND or INVALID_ARGUMENT naming the path.
absl::StatusOr<std::string> ReadInput(const std::string& path);

}  // namespace recollect::cli
