
#include "base/io/paths.h"
#include "base/status.h"
#include "model/text/tokenizer.h"
#include "service/codec/codec.h"
#include "service/limits.h"

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

engine::LayerNumbers Decode(const google::protobuf::RepeatedPtrField<v1::HeadNumbers>& layers) {
  engine::LayerNumbers numbers;
  for (const v1::HeadNumbers& layer : layers) {
    numbers.emplace_back(layer.heads().begin(), layer.heads().end());
  }
  return numbers;
}

v1::DocumentKind Encode(DocumentKind kind) {
  switch (kind) {
    case DocumentKind::kChunks:
      return v1::DOCUMENT_KIND_CHUNKS;
    case DocumentKind::kPrefix:
      return v1::DOCUMENT_KIND_PREFIX;
    case DocumentKind::kText:
      return v1::DOCUMENT_KIND_TEXT;
  }
  return v1::DOCUMENT_KIND_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<int64_t> DecodePageSize(int32_t page_size) {
  RETURN_IF_ERROR(CheckRange<int64_t>("page_size", page_size, 0, kMaxPageSize));
  return page_size == 0 ? kDefaultPageSize : page_size;
}

absl::Status CheckReadText(const v1::ReadTextRequest& request) {
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

// The numbers are the same, and the engine refuses one that is none.
static_assert(static_cast<int>(engine::MountAs::kMemory) == v1::MOUNT_AS_MEMORY &&
              static_cast<int>(engine::MountAs::kText) == v1::MOUNT_AS_TEXT &&
              static_cast<int>(engine::MountAs::kBoth) == v1::MOUNT_AS_BOTH);

engine::SessionOptions Decode(const v1::SessionOptions& session) {
  engine::SessionOptions options;
  options.mounts = {session.mounts().begin(), session.mounts().end()};
  options.mount_filter = session.mount_filter();
  if (session.has_dilation()) options.dilation = session.dilation();
  if (session.has_window()) options.window = session.window();
  if (session.has_initial()) options.initial = session.initial();
  options.layer_dilations = Decode(session.layer_dilations());
  options.layer_windows = Decode(session.layer_windows());
  options.layer_initials = Decode(session.layer_initials());
  if (session.has_context()) options.context = session.context();
  options.top_k_blocks = session.top_k_blocks();
  options.random_chunks = session.random_chunks();
  options.mount_as = static_cast<engine::MountAs>(session.mount_as());
  options.text_tokens = session.text_tokens();
  return options;
}

engine::Prompt Decode(const v1::Prompt& prompt) {
  engine::Prompt result{prompt.text(), {prompt.tokens().begin(), prompt.tokens().end()}};
  for (const v1::ChatMessage& message : prompt.messages()) {
    // Codecs of requests that take conversations have refused other roles (CheckRoles).
    const ChatRole role = message.role() == v1::CHAT_ROLE_SYSTEM      ? ChatRole::kSystem
                          : message.role() == v1::CHAT_ROLE_ASSISTANT ? ChatRole::kAssistant
                                                                      : ChatRole::kUser;
    result.messages.push_back({role, message.content()});
  }
  return result;
}

engine::RetrieveRequest Decode(const v1::RetrieveRequest& request) {
  return {.session_options = Decode(request.session()),
          .query = Decode(request.query()),
          .k = request.k()};
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
  if (!info.metadata.empty()) document.set_metadata(info.metadata);
  document.set_kind(Encode(info.kind()));
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
  ingest.set_kind(Encode(progress.kind()));
  ingest.set_refresh(progress.replaces != OwnerId{});
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

v1::Hit Encode(const engine::Hit& hit) {
  v1::Hit message;
  message.set_document(hit.document);
  message.set_chunk(hit.chunk);
  message.set_score(hit.score);
  message.set_weight(hit.weight);
  message.set_text_begin(hit.text_begin);
  message.set_text_end(hit.text_end);
  message.set_tier(Encode(hit.tier));
  if (!hit.quote.empty()) message.set_quote(hit.quote);
  return message;
}

v1::Retrieval Encode(const engine::Retrieval& retrieval) {
  v1::Retrieval message;
  message.set_position(retrieval.position);
  message.set_group(retrieval.group);
  message.set_candidates(retrieval.candidates);
  if (retrieval.nothing.has_value()) message.set_nothing(*retrieval.nothing);
  for (const engine::Hit& hit : retrieval.hits) {
    *message.add_hits() = Encode(hit);
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
