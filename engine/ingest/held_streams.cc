#include "engine/ingest/held_streams.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace recollect::engine {
namespace {

class HeldStream final : public IngestStream {
 public:
  HeldStream(std::shared_ptr<IngestStream> stream, std::function<void(const absl::Status&)> close,
             LatePlace late)
      : stream_(std::move(stream)), close_(std::move(close)), late_(std::move(late)) {}
  ~HeldStream() override { close_(absl::CancelledError("the stream was closed")); }
  IngestStatus status() const override { return stream_->status(); }
  void Append(int64_t offset, std::string text, AppendDone done) override {
    Run([stream = stream_, offset, text = std::move(text), done = std::move(done)]() mutable {
      stream->Append(offset, std::move(text), std::move(done));
    });
  }
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override {
    Run([stream = stream_, offset, tokens = std::move(tokens), done = std::move(done)]() mutable {
      stream->AppendTokens(offset, std::move(tokens), std::move(done));
    });
  }
  void Commit(AppendDone done) override {
    Run([stream = stream_, done = std::move(done)] { stream->Commit(done); });
  }
  void Finish(FinishDone done) override {
    Run([stream = stream_, done = std::move(done)] { stream->Finish(done); });
  }
  std::shared_ptr<RequestHandle> handle() const override {
    if (late_.wake == nullptr) return stream_->handle();
    return std::make_shared<CancelBy>([stream = stream_->handle(), wake = late_.wake] {
      stream->Cancel();
      wake();
    });
  }

 private:
  template <typename Call>
  void Run(Call call) {
    late_.with_place == nullptr ? call() : late_.with_place(std::move(call));
  }

  const std::shared_ptr<IngestStream> stream_;
  const std::function<void(const absl::Status&)> close_;
  const LatePlace late_;
};

}  // namespace

std::unique_ptr<IngestStream> HoldStream(std::shared_ptr<IngestStream> stream,
                                         std::function<void(const absl::Status&)> close,
                                         LatePlace late) {
  return std::make_unique<HeldStream>(std::move(stream), std::move(close), std::move(late));
}

}  // namespace recollect::engine
