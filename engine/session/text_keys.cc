#include "engine/session/text_keys.h"

#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/block_ends.h"

namespace recollect::engine {

int64_t TextKeys::BytesOf(const store::DocumentInfo& info) const {
  if (model_.config().has_adapter()) {
    return HybridKeys::BytesOf(model_.config(), info.tokens, info.chunks);
  }
  return WordBytesOf(info);
}

int64_t TextKeys::WordBytesOf(const store::DocumentInfo& info) const {
  return SparseKeys::BytesOf(*model_.words(), info.tokens, info.chunks);
}

absl::StatusOr<TextKeys::Cut> TextKeys::ReadBlocks(const store::DocumentInfo& info) const {
  ASSIGN_OR_RETURN(std::vector<int32_t> tokens, store_.ReadTokens(info.owner, 0, info.tokens));
  const model::Words& words = *model_.words();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < words.tokens()) continue;
    return absl::DataLossError(
        absl::StrCat("token ", i, ": id ", tokens[i], ", expected below ", words.tokens()));
  }
  std::vector<int64_t> blocks;
  blocks.reserve(static_cast<size_t>(info.chunks));
  for (std::span<const int32_t> left = tokens; !left.empty();) {
    // No block is longer: the rest of the document has no say in where this one ends.
    blocks.push_back(model::NextBlock(model_, left, /*final=*/true,
                                      /*position=*/info.tokens - std::ssize(left)));
    left = left.subspan(static_cast<size_t>(blocks.back()));
  }
  if (std::ssize(blocks) != info.chunks) {
    return absl::DataLossError(absl::StrCat(info.tokens, " tokens make up ", blocks.size(),
                                            " blocks, expected ", info.chunks));
  }
  return Cut{std::move(tokens), std::move(blocks)};
}

absl::StatusOr<SparseKeys> TextKeys::Read(const store::DocumentInfo& info) const {
  ASSIGN_OR_RETURN(const Cut cut, ReadBlocks(info));
  SparseKeys keys = SparseKeys::Make(*model_.words(), cut.tokens, cut.block_tokens, threads_.get());
  if (device_ != nullptr) RETURN_IF_ERROR(keys.MoveTo(*device_));
  return keys;
}

absl::StatusOr<HybridKeys> TextKeys::ReadHybrid(const store::DocumentInfo& info) const {
  ASSIGN_OR_RETURN(const Cut cut, ReadBlocks(info));
  const model::ModelConfig& config = model_.config();
  LargeVector<Bf16> keys(static_cast<size_t>(info.chunks * config.key_width()));
  RETURN_IF_ERROR(
      store_.FillLandmarkKeys(info.owner, info.chunks, config.key_width(), keys.data()));
  HybridKeys hybrid =
      HybridKeys::Make(config, *model_.words(), keys, cut.tokens, cut.block_tokens, threads_.get());
  if (device_ != nullptr) RETURN_IF_ERROR(hybrid.MoveTo(*device_));
  return hybrid;
}

}  // namespace recollect::engine
