#include "engine/ingest/held_streams.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace recollect::engine {
namespace {

class HeldStream final : public IngestStream {
 public:
  HeldStream(std::shared_ptr<IngestStream> stream, std::function<void(const absl::Status&)> close)
      : stream_(std::move(stream)), close_(std::move(close)) {}
  ~HeldStream() override { close_(absl::CancelledError("the stream was closed")); }
  IngestStatus status() const override { return stream_->status(); }
  void Append(int64_t offset, std::string text, AppendDone done) override {
    stream_->Append(offset, std::move(text), std::move(done));
  }
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override {
    stream_->AppendTokens(offset, std::move(tokens), std::move(done));
  }
  void Commit(AppendDone done) override { stream_->Commit(std::move(done)); }
  void Finish(FinishDone done) override { stream_->Finish(std::move(done)); }
  std::shared_ptr<RequestHandle> handle() const override { return stream_->handle(); }

 private:
  const std::shared_ptr<IngestStream> stream_;
  const std::function<void(const absl::Status&)> close_;
};

class LateStream final : public IngestStream {
 public:
  LateStream(std::shared_ptr<IngestStream> stream, WithPlace with_place, std::function<void()> wake)
      : stream_(std::move(stream)), with_place_(std::move(with_place)), wake_(std::move(wake)) {}
  IngestStatus status() const override { return stream_->status(); }
  void Append(int64_t offset, std::string text, AppendDone done) override {
    with_place_(
        [stream = stream_, offset, text = std::move(text), done = std::move(done)]() mutable {
          stream->Append(offset, std::move(text), std::move(done));
        });
  }
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override {
    with_place_(
        [stream = stream_, offset, tokens = std::move(tokens), done = std::move(done)]() mutable {
          stream->AppendTokens(offset, std::move(tokens), std::move(done));
        });
  }
  void Commit(AppendDone done) override {
    with_place_([stream = stream_, done = std::move(done)] { stream->Commit(done); });
  }
  void Finish(FinishDone done) override {
    with_place_([stream = stream_, done = std::move(done)] { stream->Finish(done); });
  }
  std::shared_ptr<RequestHandle> handle() const override {
    return std::make_shared<Handle>(stream_->handle(), wake_);
  }

 private:
  // What waits hears at once that it is cancelled.
  class Handle final : public RequestHandle {
   public:
    Handle(std::shared_ptr<RequestHandle> stream, std::function<void()> wake)
        : stream_(std::move(stream)), wake_(std::move(wake)) {}
    void Cancel() override {
      stream_->Cancel();
      wake_();
    }

   private:
    const std::shared_ptr<RequestHandle> stream_;
    const std::function<void()> wake_;
  };

  const std::shared_ptr<IngestStream> stream_;
  const WithPlace with_place_;
  const std::function<void()> wake_;
};

}  // namespace

std::unique_ptr<IngestStream> HoldStream(std::shared_ptr<IngestStream> stream,
                                         std::function<void(const absl::Status&)> close) {
  return std::make_unique<HeldStream>(std::move(stream), std::move(close));
}

std::shared_ptr<IngestStream> StreamWithLatePlace(std::shared_ptr<IngestStream> stream,
                                                  WithPlace with_place,
                                                  std::function<void()> wake) {
  return std::make_shared<LateStream>(std::move(stream), std::move(with_place), std::move(wake));
}

}  // namespace recollect::engine
