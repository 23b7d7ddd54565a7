#include "http/api/published_part.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace recollect::http {
namespace {

class PublishedPart final : public engine::IngestStream {
 public:
  PublishedPart(engine::Engine& engine, store::DocumentInfo document, int64_t begin,
                std::optional<std::string> metadata)
      : engine_(engine),
        document_(std::move(document)),
        metadata_(std::move(metadata)),
        at_(begin) {}

  engine::IngestStatus status() const override {
    engine::IngestStatus status;
    status.committed_offset = status.accepted_offset = at_;
    status.bytes = document_.bytes;
    status.tokens = document_.tokens;
    status.chunks = document_.chunks;
    return status;
  }

  // ALREADY_EXISTS names the first byte that differs.
  void Append(int64_t offset, std::string text, AppendDone done) override {
    if (offset != at_) {
      return done(absl::InvalidArgumentError(
          absl::StrCat("input begins at offset ", offset, ", expected ", at_)));
    }
    const absl::Status compared = Compare(text);
    if (!compared.ok()) return done(compared);
    at_ += std::ssize(text);
    done(status());
  }

  void AppendTokens(int64_t, std::vector<int32_t>, AppendDone done) override {
    done(absl::InvalidArgumentError("this ingest takes text, not token ids"));
  }

  void Commit(AppendDone done) override { done(status()); }

  void Finish(std::function<void(absl::StatusOr<store::DocumentInfo>)> done) override {
    if (at_ == document_.bytes && metadata_.has_value()) {
      return done(engine_.SetMetadata(document_.id, *metadata_, engine::MetadataChange::kReplace));
    }
    if (at_ == document_.bytes) return done(document_);
    done(Other(absl::StrCat("it has ", document_.bytes, " bytes, the input ", at_)));
  }

 private:
  absl::Status Other(const std::string& what) const {
    return absl::AlreadyExistsError(
        absl::StrCat("document \"", document_.id, "\" exists with other content: ", what));
  }

  absl::Status Compare(const std::string& text) const {
    if (document_.from_tokens) return Other("it was ingested as token ids");
    const int64_t end = at_ + std::ssize(text);
    if (end > document_.bytes)
      return Other(absl::StrCat("it has ", document_.bytes, " bytes, the input at least ", end));
    const absl::StatusOr<std::string> stored = engine_.ReadText(document_.id, at_, end);
    const absl::StatusOr<store::DocumentInfo> now = engine_.GetDocument(document_.id);
    // As of an ingest whose document is deleted.
    if (absl::IsNotFound(now.status()) || (now.ok() && now->owner != document_.owner))
      return absl::FailedPreconditionError("the document was deleted");
    RETURN_IF_ERROR(stored.status());
    RETURN_IF_ERROR(now.status());
    const auto [mine, theirs] = std::mismatch(text.begin(), text.end(), stored->begin());
    if (mine == text.end()) return absl::OkStatus();
    return Other(absl::StrCat("first difference at offset ", at_ + (theirs - stored->begin())));
  }

  engine::Engine& engine_;
  const store::DocumentInfo document_;
  const std::optional<std::string> metadata_;
  int64_t at_;
};

}  // namespace

std::unique_ptr<engine::IngestStream> ComparePart(engine::Engine& engine,
                                                  const store::DocumentInfo& document,
                                                  int64_t begin,
                                                  const std::optional<std::string>& metadata) {
  return std::make_unique<PublishedPart>(engine, document, begin, metadata);
}

}  // namespace recollect::http
