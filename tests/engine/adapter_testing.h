// Engines over a tiny model with a memory adapter, and what PyTorch computes for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backend/device/device_backend.h"
#include "engine/backend/device/device_sparse.h"
#include "gtest/gtest.h"
#include "model/weights/safetensors.h"
#include "tests/engine/engine_testing.h"
#include "tests/engine/places.h"
#include "tests/kernels/device/host_device.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {

inline constexpr int64_t kAnswerTokens = 32;  // of the oracle

// Reads one file of the oracle.
class Golden {
 public:
  explicit Golden(const std::string& name)
      : file_(model::SafetensorsFile::Open(absl::StrCat(TinyAdapterGolden(), "/", name))) {
    EXPECT_THAT(file_, IsOk());
  }
  std::vector<float> Floats(const std::string& name) const { return *file_->ReadFloats(name); }
  std::vector<int32_t> Ids(const std::string& name) const {
    const model::TensorInfo& info = file_->tensors().at(name);
    std::vector<int32_t> ids(static_cast<size_t>(info.bytes) / sizeof(int32_t));
    std::copy_n(reinterpret_cast<const char*>(info.data), info.bytes,
                reinterpret_cast<char*>(ids.data()));
    return ids;
  }

 private:
  absl::StatusOr<model::SafetensorsFile> file_;
};

// On a device the base's layers, GCA and the search of keys run there, the rest of the adapter on
// the CPU.
class AdapterTest : public ::testing::TestWithParam<Place> {
 protected:
  static std::unique_ptr<EngineImpl> Make(TestOptions options = SmallOptions(),
                                          std::unique_ptr<store::DocumentStore> store = nullptr) {
    return MakeOf(AdapterModelForTest(), std::move(options), std::move(store));
  }
  static std::unique_ptr<EngineImpl> MakeOf(std::shared_ptr<const model::CpuModel> model,
                                            TestOptions options = SmallOptions(),
                                            std::unique_ptr<store::DocumentStore> store = nullptr) {
    if (GetParam() == Place::kDevice) {
      const auto adapter = model->config().has_adapter() ? model : nullptr;
      const auto device = std::make_shared<kernels::HostDevice>();
      options.backend = DeviceBackend::Create(device, *model, adapter).value();
      options.sparse = std::make_shared<DeviceSparse>(device);
    }
    return MakeEngine(options, std::move(store), std::move(model));
  }
  // With the golden document as "d".
  std::unique_ptr<EngineImpl> MakeWithDocument(const TestOptions& options = SmallOptions()) {
    auto engine = Make(options);
    EXPECT_THAT(IngestTokens(*engine, "d", golden_.Ids("tokens")), IsOk());
    return engine;
  }
  // The same, by a model whose files `change(directory)` has changed.
  template <typename Change>
  std::unique_ptr<EngineImpl> MakeChanged(const std::string& name, const Change& change) {
    const std::string directory = absl::StrCat(::testing::TempDir(), "/", name);
    WriteTinyAdapter(directory);
    change(directory);
    auto engine =
        MakeOf(std::shared_ptr<const model::CpuModel>(model::CpuModel::Load(directory).value()));
    EXPECT_THAT(IngestTokens(*engine, "d", golden_.Ids("tokens")), IsOk());
    return engine;
  }
  static GenerateRequest Ask(std::vector<int32_t> prompt, std::vector<std::string> mounts = {"d"}) {
    GenerateRequest request = TokensRequest(std::move(prompt), kAnswerTokens, std::move(mounts));
    request.with_retrievals = true;
    return request;
  }
  // Everything of a document but its name.
  static std::string Records(store::DocumentStore& store, const std::string& id, int64_t width) {
    const std::string all = DumpDocument(store, id, width);
    return all.substr(all.find('|'));
  }
  static std::vector<int32_t> Tokens(int64_t count, int32_t seed) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<int32_t>(3 + (seed * 131 + 37 * i + i * i) % 500));
    }
    return tokens;
  }

  const Golden golden_{"case.safetensors"};
};

}  // namespace recollect::engine
