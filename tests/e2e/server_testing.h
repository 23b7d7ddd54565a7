// The program `recollect` as a server on RocksDB, and a client of it.
#pragma once

#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "client/client.h"
#include "tests/cli/cli_testing.h"

namespace recollect {

class ServerTest : public CliTest {
 protected:
  std::vector<std::string> Serve(const std::string& model, const std::string& dtype) const {
    return {RECOLLECT_BINARY, "serve",         "--model",     model,       "--data-dir",
            Path("data"),     "--grpc-listen", "127.0.0.1:0", "--threads", "2",
            "--log-level",    "error",         "--dtype",     dtype};
  }
  void StartServer(const std::string& model, const std::string& dtype = "auto") {
    Start(Serve(model, dtype));
  }
  void StartHttp() {
    auto arguments = Serve(Path("model"), "auto");
    arguments.insert(arguments.end(), {"--http-listen", "127.0.0.1:0"});
    Start(arguments);
  }
  // Until it listens; without a client.
  void StartProcess(const std::vector<std::string>& arguments) {
    server_ = std::make_unique<BackgroundProcess>(arguments);
    ready_ = server_->ReadLine();
    ASSERT_TRUE(absl::StartsWith(ready_, "recollect ready grpc=127.0.0.1:")) << ready_;
    address_ = ready_.substr(21, ready_.find(' ', 21) - 21);
    const size_t http = ready_.find(" http=");
    if (http != std::string::npos) http_ = ready_.substr(http + 6);
  }
  void Start(const std::vector<std::string>& arguments) {
    ASSERT_NO_FATAL_FAILURE(StartProcess(arguments));
    auto client = client::Client::Connect(address_);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  int StopServer() {
    client_.reset();
    server_->Signal(SIGTERM);
    const int code = server_->Wait();
    server_.reset();
    return code;
  }

  // The largest file of the database's tables and blobs.
  std::string LargestDataFile() const {
    namespace fs = std::filesystem;
    std::string largest;
    for (const auto& entry : fs::recursive_directory_iterator(Path("data"))) {
      const std::string extension = entry.path().extension();
      if (extension != ".sst" && extension != ".blob") continue;
      if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
    }
    return largest;
  }

  std::unique_ptr<BackgroundProcess> server_;
  std::string ready_, address_;
  std::string http_;  // its address, with --http-listen
  std::unique_ptr<client::Client> client_;
};

}  // namespace recollect
