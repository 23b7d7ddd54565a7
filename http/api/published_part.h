// A part of a document that is published already, which is sent again: it is compared with the text
// that is there. engine::IngestStream compares from the beginning only.
#ifndef RECOLLECT_HTTP_API_PUBLISHED_PART_H_
#define RECOLLECT_HTTP_API_PUBLISHED_PART_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace recollect::http {

// Used by one thread at a time. All calls may wait for the disk, and answer within the call.
class PublishedPart final : public engine::IngestStream {
 public:
  // `engine` must outlive it. `metadata`: as of Engine::BeginIngest.
  PublishedPart(engine::Engine& engine, store::DocumentInfo document, int64_t begin,
                std::optional<std::string> metadata)
      : engine_(engine),
        document_(std::move(document)),
        metadata_(std::move(metadata)),
        at_(begin) {}

  engine::IngestStatus status() const override;
  // ALREADY_EXISTS names the first byte that differs.
  void Append(int64_t offset, std::string text, AppendDone done) override;
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override;
  void Commit(AppendDone done) override;
  void Finish(std::function<void(absl::StatusOr<store::DocumentInfo>)> done) override;

 private:
  absl::Status Other(const std::string& what) const;
  absl::Status Compare(const std::string& text) const;

  engine::Engine& engine_;
  const store::DocumentInfo document_;
  const std::optional<std::string> metadata_;
  int64_t at_;
};

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_PUBLISHED_PART_H_
