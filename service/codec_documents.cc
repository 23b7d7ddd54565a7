#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "base/status.h"
#include "model/text/printable.h"
#include "model/text/tokenizer.h"
#include "service/codec.h"
#include "service/limits.h"
#include "service/paths.h"

namespace recollect::service {
namespace {

v1::Tier Encode(engine::Tier tier) {
  switch (tier) {
    case engine::Tier::kMemory:
      return v1::TIER_MEMORY;
    case engine::Tier::kStates:
      return v1::TIER_STATES;
    case engine::Tier::kStore:
      return v1::TIER_STORE;
  }
  return v1::TIER_UNSPECIFIED;
}

v1::DocumentKind KindOf(const std::string& pattern) {
  return pattern.empty() ? v1::DOCUMENT_KIND_CHUNKS : v1::DOCUMENT_KIND_PREFIX;
}

}  // namespace

absl::Status CheckDocumentId(const std::string& id) {
  return CheckRange<int64_t>("id: bytes", id.size(), 1, kMaxIdBytes);
}

absl::Status CheckNewDocumentId(const std::string& id) {
  RETURN_IF_ERROR(CheckDocumentId(id));
  if (model::IsPrintable(id) && !absl::StrContains(id, ',')) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "id: \"", model::EscapeInvisible(id),
      "\", commas and control, bidirectional and zero-width characters are not allowed"));
}

absl::StatusOr<int64_t> DecodePageSize(int32_t page_size) {
  RETURN_IF_ERROR(CheckRange<int64_t>("page_size", page_size, 0, kMaxPageSize));
  return page_size == 0 ? kDefaultPageSize : page_size;
}

absl::Status CheckReadText(const v1::ReadTextRequest& request) {
  RETURN_IF_ERROR(CheckDocumentId(request.id()));
  if (request.begin() < 0 || request.end() < request.begin()) {
    return absl::InvalidArgumentError(absl::StrCat("begin, end: ", request.begin(), ", ",
                                                   request.end(), ", must be 0 <= begin <= end"));
  }
  return CheckRange<int64_t>("end - begin", request.end() - request.begin(), 0, kMaxReadBytes);
}

absl::Status CheckPiece(const v1::IngestPiece& piece, bool from_tokens) {
  if (from_tokens ? !piece.text().empty() : piece.tokens_size() > 0) {
    return absl::InvalidArgumentError(from_tokens ? "piece.text: set, but the header says tokens"
                                                  : "piece.tokens: set, but the header says text");
  }
  RETURN_IF_ERROR(CheckRange<int64_t>("piece.text: bytes", piece.text().size(), 0, kMaxPieceBytes));
  return CheckRange<int64_t>("piece.tokens: count", piece.tokens_size(), 0, kMaxPieceTokens);
}

namespace {

absl::Status CheckDilation(int64_t dilation) {
  if (dilation == -1) return absl::OkStatus();  // switched off
  return CheckRange<int64_t>("dilation (-1: none)", dilation, 1, kMaxDilation);
}
absl::Status CheckWindow(int64_t window) {
  return CheckRange<int64_t>("window", window, 0, kMaxWindow);
}
absl::Status CheckInitial(int64_t initial) {
  return CheckRange<int64_t>("initial", initial, 0, kMaxInitial);
}

// Each number passes `check`; how many there must be is the model's to say.
absl::Status DecodeLayers(const google::protobuf::RepeatedPtrField<v1::HeadNumbers>& layers,
                          absl::Status (*check)(int64_t), engine::LayerNumbers& out) {
  for (const v1::HeadNumbers& layer : layers) {
    for (const int64_t number : layer.heads()) RETURN_IF_ERROR(check(number));
    out.emplace_back(layer.heads().begin(), layer.heads().end());
  }
  return absl::OkStatus();
}

absl::Status DecodeLocal(const v1::SessionOptions& session, engine::SessionOptions& options) {
  if (session.has_dilation()) {
    RETURN_IF_ERROR(CheckDilation(session.dilation()));
    options.dilation = session.dilation();
  }
  if (session.has_window()) {
    RETURN_IF_ERROR(CheckWindow(session.window()));
    options.window = session.window();
  }
  if (session.has_initial()) {
    RETURN_IF_ERROR(CheckInitial(session.initial()));
    options.initial = session.initial();
  }
  RETURN_IF_ERROR(DecodeLayers(session.layer_dilations(), CheckDilation, options.layer_dilations));
  RETURN_IF_ERROR(DecodeLayers(session.layer_windows(), CheckWindow, options.layer_windows));
  return DecodeLayers(session.layer_initials(), CheckInitial, options.layer_initials);
}

}  // namespace

absl::StatusOr<engine::SessionOptions> DecodeSessionOptions(const v1::SessionOptions& session) {
  RETURN_IF_ERROR(CheckRange<int64_t>("mounts: count", session.mounts_size(), 0, kMaxMounts));
  engine::SessionOptions options;
  for (const std::string& id : session.mounts()) {
    RETURN_IF_ERROR(CheckDocumentId(id));
    options.mounts.push_back(id);
  }
  RETURN_IF_ERROR(DecodeLocal(session, options));
  if (session.has_context()) {
    RETURN_IF_ERROR(CheckRange<int64_t>("context", session.context(), 1, kMaxContext));
    options.context = session.context();
  }
  RETURN_IF_ERROR(CheckRange<int64_t>("top_k_blocks", session.top_k_blocks(), 0, kMaxTopKBlocks));
  options.top_k_blocks = session.top_k_blocks();
  options.random_chunks = session.random_chunks();
  return options;
}

absl::StatusOr<engine::Prompt> DecodePrompt(const v1::Prompt& prompt, absl::string_view field,
                                            int64_t max_tokens) {
  if (!prompt.text().empty() && prompt.tokens_size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": both text and tokens are set"));
  }
  RETURN_IF_ERROR(CheckRange<int64_t>(absl::StrCat(field, ".text: bytes"), prompt.text().size(), 0,
                                      kMaxPromptBytes));
  RETURN_IF_ERROR(CheckRange<int64_t>(absl::StrCat(field, ".tokens: count"), prompt.tokens_size(),
                                      0, max_tokens));
  return engine::Prompt{prompt.text(), {prompt.tokens().begin(), prompt.tokens().end()}};
}

absl::StatusOr<engine::RetrieveRequest> DecodeRetrieve(const v1::RetrieveRequest& request) {
  engine::RetrieveRequest result;
  RETURN_IF_ERROR(CheckRange<int64_t>("k", request.k(), 0, kMaxHits));
  ASSIGN_OR_RETURN(result.session_options, DecodeSessionOptions(request.session()));
  ASSIGN_OR_RETURN(result.query, DecodePrompt(request.query(), "query", kMaxPromptTokens));
  if (result.query.text.empty() && result.query.tokens.empty()) {
    return absl::InvalidArgumentError("query: empty, needs text or tokens");
  }
  result.k = request.k();
  return result;
}

v1::Document Encode(const store::DocumentInfo& info) {
  v1::Document document;
  document.set_id(ValidUtf8(info.id));  // a damaged key may be anything
  document.set_fingerprint(info.fingerprint);
  document.set_from_tokens(info.from_tokens);
  document.set_bytes(info.bytes);
  document.set_tokens(info.tokens);
  document.set_chunks(info.chunks);
  document.set_created_unix_ms(info.created_unix_ms);
  document.set_stored_bytes(info.stored_bytes);
  document.set_sha256(info.sha256);
  if (!info.damage.empty()) {
    document.set_damage(WithoutPaths(ValidUtf8(info.damage)));
    return document;  // the rest is not known
  }
  document.set_kind(KindOf(info.pattern));
  if (info.pattern.empty()) return document;
  document.set_pattern(info.pattern);
  document.set_state_bytes(info.state_bytes);
  return document;
}

v1::UnfinishedIngest Encode(const store::IngestProgress& progress) {
  v1::UnfinishedIngest ingest;
  ingest.set_id(progress.id);
  ingest.set_fingerprint(progress.fingerprint);
  ingest.set_from_tokens(progress.from_tokens);
  ingest.set_committed_offset(progress.input_offset);
  ingest.set_bytes(progress.bytes);
  ingest.set_tokens(progress.tokens);
  ingest.set_chunks(progress.chunks);
  ingest.set_kind(KindOf(progress.pattern));
  if (!progress.pattern.empty()) ingest.set_pattern(progress.pattern);
  return ingest;
}

v1::IngestProgress Encode(const engine::IngestStatus& status) {
  v1::IngestProgress progress;
  progress.set_committed_offset(status.committed_offset);
  progress.set_accepted_offset(status.accepted_offset);
  progress.set_bytes(status.bytes);
  progress.set_tokens(status.tokens);
  progress.set_chunks(status.chunks);
  progress.set_tokens_per_s(status.tokens_per_s);
  progress.set_committed_sha256(status.committed_sha256);
  return progress;
}

v1::Retrieval Encode(const engine::Retrieval& retrieval) {
  v1::Retrieval message;
  message.set_position(retrieval.position);
  message.set_group(retrieval.group);
  message.set_candidates(retrieval.candidates);
  for (const engine::Hit& hit : retrieval.hits) {
    v1::Hit& out = *message.add_hits();
    out.set_document(hit.document);
    out.set_chunk(hit.chunk);
    out.set_score(hit.score);
    out.set_weight(hit.weight);
    out.set_text_begin(hit.text_begin);
    out.set_text_end(hit.text_end);
    out.set_tier(Encode(hit.tier));
  }
  return message;
}

std::string ValidUtf8(std::string_view bytes) {
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  int dropped = 0;  // a character has at most three continuation bytes
  while (dropped < 3 && !bytes.empty() && continues(bytes.front())) {
    bytes.remove_prefix(1);
    ++dropped;
  }
  std::string text;
  while (true) {
    const int64_t bad = model::FindInvalidUtf8(bytes, /*allow_partial_end=*/false);
    text.append(bytes.substr(0, bad < 0 ? bytes.size() : bad));
    if (bad < 0) return text;
    bytes.remove_prefix(bad);
    if (model::FindInvalidUtf8(bytes, /*allow_partial_end=*/true) < 0)
      return text;  // cut at the end
    text.append("\uFFFD");
    bytes.remove_prefix(1);
  }
}

}  // namespace recollect::service
