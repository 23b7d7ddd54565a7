#include "engine/ingest/resume_state.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "store/record.h"

namespace recollect::engine {
namespace {

// Little-endian: version u32 | tokens i64 | text_end i64 | n i64 | ids i32[n] | bytes i32[n] |
// local state, to the end.
constexpr uint32_t kVersion = 1;
// Of an append point: version u32 | chunks i64 | bytes i64 | input_offset i64 | resume state, to
// the end.
constexpr uint32_t kPointVersion = 1;
static_assert(std::endian::native == std::endian::little);

template <typename T>
void Put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void PutAll(std::string& out, const std::vector<int32_t>& values) {
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t));
}

}  // namespace

std::string EncodeResumeState(const ResumeState& state) {
  std::string out;
  out.reserve(state.local_state.size() + state.pending_ids.size() * 8 + 64);
  Put(out, kVersion);
  Put(out, state.tokens);
  Put(out, state.text_end);
  Put(out, static_cast<int64_t>(state.pending_ids.size()));
  PutAll(out, state.pending_ids);
  PutAll(out, state.pending_bytes);
  out.append(state.local_state);
  return out;
}

absl::StatusOr<ResumeState> DecodeResumeState(std::string_view bytes) {
  store::RecordReader reader(store::Bytes(bytes.data(), bytes.size()));
  const auto version = reader.Get<uint32_t>();
  if (version != kVersion) {
    return absl::DataLossError(
        absl::StrCat("resume state has version ", version, ", expected ", kVersion));
  }
  ResumeState state;
  int64_t pending = 0;
  reader.Fields(state.tokens, state.text_end, pending);
  // So many have no room in any case.
  const auto count = static_cast<size_t>(std::clamp<int64_t>(pending, 0, std::ssize(bytes)));
  state.pending_ids = reader.Numbers<int32_t>(count);
  state.pending_bytes = reader.Numbers<int32_t>(count);
  const auto rest = reader.Rest<char>();
  if (!reader.done()) return absl::DataLossError("resume state is cut short");
  state.local_state.assign(rest.begin(), rest.end());
  return state;
}

absl::Status CheckResumeState(const ResumeState& state, const store::IngestProgress& progress,
                              int64_t vocab_size) {
  if (state.tokens != progress.tokens) {
    return absl::DataLossError(absl::StrCat("resume state stands at token ", state.tokens,
                                            ", the records at ", progress.tokens));
  }
  int64_t bytes = state.text_end;
  for (size_t i = 0; i < state.pending_ids.size(); ++i) {
    const int32_t id = state.pending_ids[i], covered = state.pending_bytes[i];
    if (id < 0 || id >= vocab_size || covered < 0) {
      return absl::DataLossError(absl::StrCat("resume state: waiting token ", i, " has id ", id,
                                              " and ", covered, " bytes, expected ids below ",
                                              vocab_size));
    }
    if (bytes <= progress.bytes) bytes += covered;  // no further: the sum might overflow
  }
  if (bytes != progress.bytes) {
    return absl::DataLossError(absl::StrCat("resume state covers ", bytes,
                                            " bytes of text, the records ", progress.bytes));
  }
  return absl::OkStatus();
}

std::string EncodeAppendPoint(const AppendPoint& point) {
  std::string out;
  Put(out, kPointVersion);
  Put(out, point.chunks);
  Put(out, point.bytes);
  Put(out, point.input_offset);
  return out + point.resume_state;
}

absl::StatusOr<AppendPoint> DecodeAppendPoint(std::string_view bytes,
                                              const store::DocumentInfo& document) {
  store::RecordReader reader(store::Bytes(bytes.data(), bytes.size()));
  const auto version = reader.Get<uint32_t>();
  if (version != kPointVersion) {
    return absl::DataLossError(
        absl::StrCat("append point has version ", version, ", expected ", kPointVersion));
  }
  AppendPoint point;
  reader.Fields(point.chunks, point.bytes, point.input_offset);
  const auto rest = reader.Rest<char>();
  if (!reader.done()) return absl::DataLossError("append point is cut short");
  const int64_t input = document.from_tokens ? document.tokens : document.bytes;
  const auto within = [](int64_t value, int64_t size) { return value > 0 && value <= size; };
  if (!within(point.chunks, document.chunks) || !within(point.input_offset, input) ||
      point.bytes > document.bytes) {
    return absl::DataLossError(absl::StrCat("append point after ", point.chunks, " chunks, ",
                                            point.bytes, " bytes and input ", point.input_offset,
                                            ", of a document with ", document.chunks, ", ",
                                            document.bytes, " and ", input));
  }
  point.resume_state.assign(rest.begin(), rest.end());
  return point;
}

}  // namespace recollect::engine
