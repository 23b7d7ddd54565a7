// The input is a byte, which chooses a model and a message of the gRPC API, and that message. It
// goes the way of service/, without the network; each is answered or refused. Ingest streams:
// ingest_fuzz.cc.
#include <utility>

#include "base/status.h"
#include "engine/step/limits.h"
#include "service/codec/codec.h"
#include "tests/fuzz/tiny_engine.h"

namespace {

using namespace recollect;  // NOLINT

constexpr char kDocument[] = "d";

// The same engine with a document, made once for each model.
engine::Engine& WithDocument(const fuzz::TinyEngine& tiny) {
  auto stream = tiny.engine->BeginIngest(kDocument, /*from_tokens=*/false, {});
  RECOLLECT_CHECK(stream.ok());
  std::string text;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&text, "the ship ", i, " under the sea. ");
  RECOLLECT_CHECK(fuzz::Append(**stream, 0, text).ok() && fuzz::Finish(**stream).ok());
  return *tiny.engine;
}

template <typename Message>
bool Parse(std::string_view bytes, Message& message) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

class Events final : public engine::GenerateEvents {
 public:
  void OnTokens(const std::vector<int32_t>&, const std::string& text) override {
    RECOLLECT_CHECK(service::ValidUtf8(text) == text);
  }
  void OnLogprobs(const engine::ChosenLogprob& token) override { service::Encode(token); }
  void OnRetrieval(const engine::Retrieval& retrieval) override { service::Encode(retrieval); }
  void OnDone(engine::FinishReason reason, const engine::Usage& usage) override {
    service::EncodeDone(reason, usage);
    end_.set_value(absl::OkStatus());
  }
  void OnError(const absl::Status& status) override { end_.set_value(status); }
  absl::Status Await() { return end_.get_future().get(); }

 private:
  std::promise<absl::Status> end_;
};

absl::Status Generate(engine::Engine& engine, std::string_view bytes) {
  constexpr int64_t kMaxTokens = 16;  // more of them are the same again
  v1::GenerateRequest message;
  if (!Parse(bytes, message)) return absl::OkStatus();
  ASSIGN_OR_RETURN(engine::GenerateRequest request, service::Decode(message));
  if (engine::CheckRequest(request).ok())
    request.max_tokens = std::min(request.max_tokens, kMaxTokens + std::ssize(request.generated));
  const auto events = std::make_shared<Events>();
  const auto handle = engine.Generate(std::move(request), events);
  return events->Await();
}

absl::Status Score(engine::Engine& engine, std::string_view bytes) {
  v1::ScoreRequest message;
  if (!Parse(bytes, message)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const engine::ScoreRequest request, service::Decode(message));
  std::shared_ptr<engine::RequestHandle> handle;
  const auto result = fuzz::Await<engine::ScoreResult>(
      [&](auto done) { handle = engine.Score(request, std::move(done)); });
  if (result.ok()) service::Encode(*result);
  return result.status();
}

absl::Status Retrieve(engine::Engine& engine, std::string_view bytes) {
  v1::RetrieveRequest message;
  if (!Parse(bytes, message)) return absl::OkStatus();
  std::shared_ptr<engine::RequestHandle> handle;
  const auto result = fuzz::Await<std::vector<engine::Retrieval>>(
      [&](auto done) { handle = engine.Retrieve(service::Decode(message), std::move(done)); });
  if (!result.ok()) return result.status();
  for (const engine::Retrieval& retrieval : *result) service::Encode(retrieval);
  return absl::OkStatus();
}

// A session that is used once and closed.
absl::Status OpenSession(engine::Engine& engine, std::string_view bytes) {
  v1::OpenSessionRequest message;
  if (!Parse(bytes, message)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const engine::SessionId id,
                   engine.OpenSession(service::Decode(message.session())));
  service::Encode(engine.GetSession(id).value());
  const auto events = std::make_shared<Events>();
  engine::GenerateRequest request;
  request.session = id;
  request.prompt.text = "the ship";
  request.max_tokens = 1;
  const auto handle = engine.Generate(std::move(request), events);
  const absl::Status generated = events->Await();
  RECOLLECT_CHECK(engine.CloseSession(id).ok());
  return generated;
}

absl::Status ReadText(engine::Engine& engine, std::string_view bytes) {
  v1::ReadTextRequest message;
  if (!Parse(bytes, message)) return absl::OkStatus();
  RETURN_IF_ERROR(service::CheckReadText(message));
  return engine
      .ReadText(message.id(), static_cast<int64_t>(message.begin()),
                static_cast<int64_t>(message.end()))
      .status();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Call = absl::Status (*)(engine::Engine&, std::string_view);
  static constexpr Call kCalls[] = {Generate, Score, Retrieve, OpenSession, ReadText};
  static engine::Engine* const engines[] = {&WithDocument(fuzz::TinyDrt()),
                                            &WithDocument(fuzz::TinyRatPlus())};
  if (size == 0) return 0;
  const absl::Status status = kCalls[(data[0] >> 1) % std::size(kCalls)](
      *engines[data[0] % 2], fuzz::AsText(data + 1, size - 1));
  if (!status.ok()) {
    fuzz::CheckRefusal(status,
                       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
                        absl::StatusCode::kFailedPrecondition, absl::StatusCode::kResourceExhausted,
                        absl::StatusCode::kOutOfRange});
  }
  return 0;
}
