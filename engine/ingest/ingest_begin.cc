#include "engine/ingest/ingest_begin.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "engine/ingest/append.h"

namespace recollect::engine {
namespace {

// Returns the pattern under which documents are kept; empty if they are no prefixes.
std::string KeptPattern(const IngestContext& context, const model::LocalPatterns& pattern) {
  return context.model.config().documents() == DocumentKind::kPrefix ? pattern.Text() : "";
}

absl::Status CheckPattern(const store::DocumentInfo& document, const char* was_made,
                          const std::string& pattern) {
  if (document.pattern == pattern) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("document \"", document.id, "\" ", was_made,
                                                    " under the pattern ", document.pattern,
                                                    "; asked for ", pattern));
}

// The document is of another model, kind of input or pattern: messages name both.
absl::Status CheckAppend(const store::DocumentInfo& document, bool from_tokens,
                         const std::string& fingerprint, const std::string& pattern) {
  RETURN_IF_ERROR(
      CheckModel(document, fingerprint, "was read", ", and then it can be appended to"));
  if (document.from_tokens != from_tokens) {
    const auto input = [](bool tokens) { return tokens ? "token ids" : "text"; };
    return absl::FailedPreconditionError(
        absl::StrCat("document \"", document.id, "\" was ingested as ", input(document.from_tokens),
                     "; ", input(from_tokens), " cannot be appended to it"));
  }
  return CheckPattern(document, "was made", pattern);
}

// Whether the text committed so far is the document's: a replacement that ended with its process
// has left another.
absl::StatusOr<bool> IsBeginningOf(store::DocumentReader& store,
                                   const store::IngestProgress& progress,
                                   const store::DocumentInfo& document) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  if (progress.bytes > document.bytes) return false;
  for (int64_t begin = 0; begin < progress.bytes; begin += kPiece) {
    const int64_t end = std::min(begin + kPiece, progress.bytes);
    ASSIGN_OR_RETURN(const std::string read, store.ReadText(progress.owner, begin, end));
    ASSIGN_OR_RETURN(const std::string text, store.ReadText(document.owner, begin, end));
    if (read != text) return false;
  }
  return true;
}

absl::StatusOr<store::IngestProgress> BeginRefresh(const IngestContext& context,
                                                   const store::DocumentInfo& document,
                                                   const std::string& kept) {
  const auto begin = [&] {
    return context.writer.BeginRefresh(document, context.model.fingerprint(), kept);
  };
  const absl::StatusOr<store::IngestProgress> progress = begin();
  bool resumable = !absl::IsFailedPrecondition(progress.status());
  if (progress.ok()) {
    ASSIGN_OR_RETURN(resumable, IsBeginningOf(context.reader, *progress, document));
  }
  if (resumable) return progress;
  // All that is lost is what another model has read of it, or a replacement that was broken off.
  RETURN_IF_ERROR(context.writer.AbandonIngest(document.id));
  return begin();
}

// OK if the document that is there, if any, is the one to be replaced or appended to.
absl::Status CheckReplaced(const AskedIngest& asked,
                           const absl::StatusOr<store::DocumentInfo>& document) {
  const std::string& expected = asked.replacement->sha256;
  if (!expected.empty() && (!document.ok() || document->sha256 != expected)) {
    const std::string there =
        document.ok() ? absl::StrCat("has SHA-256 ", document->sha256) : "does not exist";
    return absl::FailedPreconditionError(absl::StrCat("document \"", asked.id, "\" ", there,
                                                      "; one of SHA-256 ", expected,
                                                      " was to be replaced"));
  }
  if (!asked.replacement->appends) return absl::OkStatus();
  // Between the look at it when the stream was asked for and the place among the ingests.
  const OwnerId seen = asked.appends_to == nullptr ? OwnerId{} : asked.appends_to->info().owner;
  if (seen == (document.ok() ? document->owner : OwnerId{})) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("another stream has just written document \"", asked.id, "\""));
}

absl::StatusOr<store::IngestProgress> BeginReplacement(const IngestContext& context,
                                                       const AskedIngest& asked,
                                                       const std::string& kept) {
  store::IngestWriter& writer = context.writer;
  const std::string& fingerprint = context.model.fingerprint();
  absl::StatusOr<store::DocumentInfo> document = context.catalog.Get(asked.id);
  if (!document.ok() && !absl::IsNotFound(document.status())) return document.status();
  RETURN_IF_ERROR(CheckReplaced(asked, document));
  if (asked.appends_to != nullptr) {
    RETURN_IF_ERROR(CheckAppend(*document, asked.from_tokens, fingerprint, kept));
  }
  const absl::Status abandoned = writer.AbandonIngest(asked.id);
  if (!abandoned.ok() && !absl::IsNotFound(abandoned)) return abandoned;
  if (asked.appends_to != nullptr) return BeginAppend(context, *document, kept);
  if (!document.ok()) return writer.BeginIngest(asked.id, fingerprint, asked.from_tokens, kept);
  document->from_tokens = asked.from_tokens;  // as the new one will be
  return writer.BeginRefresh(*document, fingerprint, kept);
}

}  // namespace

absl::StatusOr<store::IngestProgress> BeginInStore(const IngestContext& context,
                                                   const AskedIngest& asked) {
  const std::string kept = KeptPattern(context, asked.pattern);
  if (asked.replacement.has_value()) return BeginReplacement(context, asked, kept);
  if (asked.refreshes != nullptr) return BeginRefresh(context, *asked.refreshes, kept);
  return context.writer.BeginIngest(asked.id, context.model.fingerprint(), asked.from_tokens, kept);
}

absl::Status CheckComparable(const IngestContext& context, const store::DocumentInfo& document,
                             const model::LocalPatterns& pattern) {
  RETURN_IF_ERROR(CheckModel(document, context.model.fingerprint(), "exists, read"));
  return CheckPattern(document, "exists, made", KeptPattern(context, pattern));
}

}  // namespace recollect::engine
