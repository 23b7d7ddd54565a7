// The fixture for tests of what every Engine must do, whatever its model: engine/engine.h promises
// it, and the service relies on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/device/device_backend.h"
#include "engine/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/text/tokenizer.h"
#include "tests/engine/engine_testing.h"
#include "tests/kernels/device/host_device.h"
#include "tests/support/fake_engine.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {

inline constexpr int64_t kEndless = 1 << 16;  // tokens, the most that a request may ask for

struct Implementation {
  std::string name;
  std::function<std::unique_ptr<Engine>(int64_t max_sessions, int64_t max_ingests)> make;
  friend void PrintTo(const Implementation& kind, std::ostream* out) { *out << kind.name; }
};

inline std::unique_ptr<Engine> MakeReal(int64_t max_sessions, int64_t max_ingests,
                                        std::shared_ptr<const model::Model> model = nullptr,
                                        std::shared_ptr<Backend> backend = nullptr) {
  TestOptions options = SmallOptions();
  options.max_sessions = max_sessions;
  options.max_ingests = max_ingests;
  options.backend = std::move(backend);
  return MakeEngine(options, nullptr, std::move(model));
}

// A pretrained model with its layers on a device, and a context for generations without end.
inline std::unique_ptr<Engine> MakeLlamaOnADevice(int64_t max_sessions, int64_t max_ingests) {
  const auto model = LlamaModelForTest(2 * kEndless);
  auto backend = DeviceBackend::Create(std::make_shared<kernels::HostDevice>(), *model);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return MakeReal(max_sessions, max_ingests, model, *std::move(backend));
}

inline std::unique_ptr<Engine> MakeFake(int64_t max_sessions, int64_t max_ingests) {
  auto engine = std::make_unique<FakeEngine>();
  engine->max_sessions = max_sessions;
  engine->max_ingests = max_ingests;
  engine->Set({.generation = {.repeat = 1000, .then_hang = true}});
  return engine;
}

inline const Implementation kImplementations[] = {
    {"Real", [](int64_t sessions, int64_t ingests) { return MakeReal(sessions, ingests); }},
    {"RealWithText",
     [](int64_t sessions, int64_t ingests) {
       return MakeReal(sessions, ingests, TextModelForTest());
     }},
    {"RealWithAdapter",
     [](int64_t sessions, int64_t ingests) {
       return MakeReal(sessions, ingests, AdapterModelForTest(2 * kEndless));
     }},
    {"RealWithLlamaOnADevice", MakeLlamaOnADevice},
    {"Fake", MakeFake}};

inline std::string NameOf(const ::testing::TestParamInfo<Implementation>& info) {
  return info.param.name;
}

// Records the events of one generation and checks that they come one at a time and end once.
class Recorder final : public GenerateEvents {
 public:
  ~Recorder() override { EXPECT_TRUE(ended_) << "kept until the end"; }
  void OnTokens(const std::vector<int32_t>& tokens, const std::string& said) override {
    EXPECT_EQ(model::FindInvalidUtf8(said, /*allow_partial_end=*/false), -1);
    Note('t', [&] { count += std::ssize(tokens), text += said; });
  }
  void OnLogprobs(const ChosenLogprob& token) override {
    Note('l', [&] { logprobs.push_back(token); });
  }
  void OnRetrieval(const Retrieval& retrieval) override {
    Note('r', [&] { retrievals.push_back(retrieval); });
  }
  void OnSaved(const absl::StatusOr<store::DocumentInfo>& document) override {
    Note('s', [&] { saved = document; });
  }
  void OnDone(FinishReason why, const Usage& used) override {
    Note('d', [&] { reason = why, usage = used; });
  }
  void OnError(const absl::Status& error) override {
    Note('e', [&] { status = error; });
  }
  void AwaitTokens() const { count.wait(0); }
  // Waits for the end and returns its status. Until then the members below belong to the engine's
  // thread.
  absl::Status Wait() const {
    ended_.wait(false);
    return status;
  }

  std::function<void(char event)> on_event;  // called inside each of them
  // The events so far: 'r' OnRetrieval, 'l' OnLogprobs, 't' OnTokens, 's' OnSaved, 'd' OnDone, 'e'
  // OnError.
  std::string log;
  std::atomic<int64_t> count = 0;  // tokens
  std::string text;
  absl::StatusOr<store::DocumentInfo> saved = absl::UnknownError("OnSaved was not called");
  std::vector<Retrieval> retrievals;
  std::vector<ChosenLogprob> logprobs;
  FinishReason reason = FinishReason::kEos;
  Usage usage;
  absl::Status status;

 private:
  template <typename Set>
  void Note(char event, const Set& set) {
    EXPECT_EQ(inside_++, 0) << event;
    EXPECT_FALSE(ended_) << event;
    set();
    log += event;
    if (on_event) on_event(event);
    count.notify_all();
    --inside_;
    ended_ = event == 'd' || event == 'e';
    ended_.notify_all();
  }

  std::atomic<int> inside_ = 0;
  std::atomic<bool> ended_ = false;
};

class EngineContractTest : public ::testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override { Make(256, 64); }
  void Make(int64_t max_sessions, int64_t max_ingests) {
    engine_ = GetParam().make(max_sessions, max_ingests);
  }
  // Destroys the engine; an event that must not come any more comes before this returns.
  void TearDown() override { engine_ = nullptr; }

  static GenerateRequest Ask(int64_t max_tokens, std::vector<std::string> mounts = {}) {
    GenerateRequest request;
    request.prompt.text = "call me";
    request.max_tokens = max_tokens;
    request.session_options.mounts = std::move(mounts);
    request.ignore_eos = true;
    return request;
  }
  // A generation of kEndless tokens, which has begun.
  struct Running {
    std::shared_ptr<Recorder> events;
    std::shared_ptr<RequestHandle> handle;
  };
  Running Start(GenerateRequest request) {
    Running running{std::make_shared<Recorder>(), nullptr};
    request.max_tokens = kEndless;
    running.handle = engine_->Generate(std::move(request), running.events);
    running.events->AwaitTokens();
    return running;
  }
  // Returns the events of a generation that has ended.
  std::shared_ptr<Recorder> Run(GenerateRequest request) {
    const auto events = std::make_shared<Recorder>();
    engine_->Generate(std::move(request), events);
    events->Wait().IgnoreError();
    return events;
  }
  std::unique_ptr<IngestStream> Begin(const std::string& id, bool from_tokens = false) {
    auto stream = engine_->BeginIngest(id, from_tokens, {});
    EXPECT_TRUE(stream.ok()) << stream.status();
    return stream.ok() ? *std::move(stream) : nullptr;
  }

  std::unique_ptr<Engine> engine_;
};

}  // namespace recollect::engine
