// Writes a golden data directory, and what is in it, as the present release does:
//
//   build/release/bin/write_golden_data NEW-DIRECTORY
//
// tests/golden/README.md says when.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "model/model.h"
#include "store/rocks/rocks_store.h"
#include "tests/engine/data_directory/golden_data.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

int Write(const std::string& directory) {
  if (fs::exists(directory)) {
    std::fprintf(stderr, "%s exists\n", directory.c_str());
    return 1;
  }
  const std::string data = directory + "/data";
  fs::create_directories(directory);
  json widths;
  const auto open = [&](const std::string& model) {
    std::unique_ptr<Engine> engine = OpenEngine(model, data);
    RECOLLECT_CHECK(engine != nullptr);
    widths[engine->model().fingerprint()] = engine->model().config().key_width();
    return engine;
  };
  {
    const GoldenCase golden = ChunksCase();
    const auto engine = open(golden.model);
    for (size_t i = 0; i < golden.documents.size(); ++i) {
      RECOLLECT_CHECK(IngestTokens(*engine, absl::StrCat("chunks", i), golden.documents[i]).ok());
    }
    const auto stream = engine->BeginIngest("unfinished", /*from_tokens=*/true, {});
    RECOLLECT_CHECK(stream.ok());
    RECOLLECT_CHECK(AppendTokens(**stream, 0, golden.documents[0]).ok());
    engine->Shutdown(absl::InfinitePast());  // commits what the stream has read
  }
  {
    const GoldenCase golden = PrefixCase();
    const auto engine = open(golden.model);
    RECOLLECT_CHECK(IngestTokens(*engine, "prefix", golden.documents[0], golden.session).ok());
  }
  std::string answer;
  {
    const auto engine = open(ShippedModel());
    RECOLLECT_CHECK(Ingest(*engine, "text", kText).ok());
    answer = Answer(*engine, "text");
  }
  store::RocksOptions options;
  options.directory = data;
  json expected = {{"key_widths", widths}, {"answer", answer}};
  {
    auto store = store::OpenRocksStore(options);
    RECOLLECT_CHECK(store.ok());
    expected["contents"] = Contents(**store, widths);
  }
  WriteFile(directory + "/expected.json", expected.dump(1) + "\n");
  // The library's own log, and a lock that every process makes.
  for (const auto& entry : fs::directory_iterator(data)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("LOG") || name == "LOCK") fs::remove(entry.path());
  }
  return 0;
}

}  // namespace
}  // namespace recollect::engine

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_golden_data NEW-DIRECTORY\n");
    return 2;
  }
  return recollect::engine::Write(argv[1]);
}
