#include "cli/niah/ask.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/status.h"

namespace recollect::cli::niah {
namespace {

using Retrievals = google::protobuf::RepeatedPtrField<v1::Retrieval>;

constexpr int64_t kBlockTokens = 63;  // base/types.h: kChunkTokens

// Position of the landmark after a prompt that was flushed, among those of `retrievals`. It follows
// the tokens and the landmarks of all blocks before, and of a family whose blocks end with theirs
// one less: the last that is not beyond.
int64_t LandmarkAfter(int64_t prompt_tokens, const Retrievals& retrievals) {
  const int64_t most = prompt_tokens + (prompt_tokens + kBlockTokens - 1) / kBlockTokens;
  int64_t landmark = -1;
  for (const v1::Retrieval& retrieval : retrievals) {
    if (retrieval.position() <= most) landmark = std::max(landmark, retrieval.position());
  }
  return landmark;
}

// A chunk in a list of hits: the bytes [begin, end) of a volume.
struct Found {
  int64_t rank = 0, volume = 0;
  int64_t begin = 0, end = 0;
  double weight = 0;
};

// Hit when each of several places is found; first when the first hit is at any of them.
Finding Judge(const std::vector<Found>& list, const std::vector<Gold>& gold) {
  Finding finding{!gold.empty(), false, 0};
  for (const Gold& g : gold) {
    bool hit = false;
    for (const Found& found : list) {
      if (found.volume != g.place.shard || found.begin >= g.end || g.begin >= found.end) continue;
      hit = true;
      finding.first = finding.first || found.rank == 0;
      finding.weight += found.weight;
    }
    finding.hit = finding.hit && hit;
  }
  return finding;
}

std::vector<Found> ListOf(const v1::Retrieval& retrieval, const Volumes& volumes) {
  std::vector<Found> list;
  for (int rank = 0; rank < retrieval.hits_size(); ++rank) {
    const v1::Hit& hit = retrieval.hits(rank);
    const auto volume = std::find_if(volumes.begin(), volumes.end(),
                                     [&](const auto& v) { return v->id() == hit.document(); });
    if (volume == volumes.end()) continue;  // the prompt's own blocks
    list.push_back(
        {rank, volume - volumes.begin(), hit.text_begin(), hit.text_end(), hit.weight()});
  }
  return list;
}

// Of all places: one chunk only when each lies in one. `seen`: chunks that were retrieved, whose
// limits are known also where those of the volume are not.
Sample::Span SpanOf(const std::vector<Gold>& gold, const Volumes& volumes,
                    const std::vector<Found>& seen) {
  auto span = gold.empty() ? Sample::Span::kUnknown : Sample::Span::kOneChunk;
  for (const Gold& g : gold) {
    const Volume& volume = *volumes[g.place.shard];
    // White space before a sentence may lie in the chunk before.
    const int64_t begin = g.place.begin + 1, end = g.place.end;
    const auto has = [&](const Found& f, int64_t at) {
      return f.volume == g.place.shard && f.begin <= at && at < f.end;
    };
    const auto first = std::find_if(
        seen.begin(), seen.end(), [&](const Found& f) { return has(f, begin) || has(f, end - 1); });
    if (first != seen.end()) {
      if (!has(*first, begin) || !has(*first, end - 1)) return Sample::Span::kTwoChunks;
      continue;
    }
    const int64_t chunk = volume.ChunkAt(begin), last = volume.ChunkAt(end - 1);
    if (!volume.Exact(chunk) || !volume.Exact(last)) {
      span = Sample::Span::kUnknown;
    } else if (chunk != last) {
      return Sample::Span::kTwoChunks;
    }
  }
  return span;
}

}  // namespace

v1::SessionOptions Asker::Session(const Volumes& volumes) const {
  v1::SessionOptions session;
  for (const auto& volume : volumes) session.add_mounts(volume->id());
  session.set_random_chunks(random_chunks_);
  if (dilation_ != 0) session.set_dilation(dilation_);
  return session;
}

absl::Status Asker::Ask(const Question& question, const Volumes& volumes, Sample* sample) const {
  sample->question = question.prompt;
  sample->value = absl::StrJoin(question.expected, ", ");
  Retrievals retrievals;
  const absl::Time start = SteadyNow();
  if (question.max_tokens > 0) {
    v1::GenerateRequest request;
    *request.mutable_session() = Session(volumes);
    request.mutable_prompt()->set_text(question.prompt);
    request.set_max_tokens(question.max_tokens);
    request.mutable_sampling()->set_dry_multiplier(static_cast<float>(dry_multiplier_));
    request.mutable_stop()->Assign(question.stop.begin(), question.stop.end());
    request.set_with_retrievals(true);
    ASSIGN_OR_RETURN(const client::GenerateResult result, client_.Generate(request));
    sample->answer_ms = absl::ToDoubleMilliseconds(SteadyNow() - start);
    sample->answer = result.text;
    const v1::Usage& usage = result.done.usage();
    sample->generated_tokens = usage.generated_tokens();
    sample->generation_ms = usage.generation_ms();
    const int64_t landmark = LandmarkAfter(usage.prompt_tokens(), result.retrievals);
    for (const v1::Retrieval& retrieval : result.retrievals) {
      if (retrieval.position() == landmark) *retrievals.Add() = retrieval;
    }
    if (question.expected.size() == 1) {
      ASSIGN_OR_RETURN(sample->crosses_block, IsLongerThanABlock(question.expected.front()));
    }
  } else if (!volumes.empty()) {
    v1::RetrieveRequest request;
    *request.mutable_session() = Session(volumes);
    request.mutable_query()->set_text(question.prompt);
    ASSIGN_OR_RETURN(v1::RetrieveResponse response, client_.Retrieve(request));
    retrievals.Swap(response.mutable_retrievals());
    sample->answer_ms = absl::ToDoubleMilliseconds(SteadyNow() - start);
  }
  if (volumes.empty() || question.gold.empty()) return absl::OkStatus();

  std::vector<Found> seen;
  for (const v1::Retrieval& retrieval : retrievals) {
    const auto group = static_cast<size_t>(retrieval.group());
    if (sample->found.size() <= group) sample->found.resize(group + 1);
    const std::vector<Found> list = ListOf(retrieval, volumes);
    sample->found[group] = Judge(list, question.gold);
    seen.insert(seen.end(), list.begin(), list.end());
  }
  std::vector<const WordCounts*> parts;
  for (const auto& volume : volumes) parts.push_back(&volume->words());
  std::vector<Found> by_words;
  for (const Bm25Hit& hit : Bm25(parts, question.prompt, hits_)) {
    const Volume& volume = *volumes[hit.part];
    by_words.push_back({std::ssize(by_words), hit.part, volume.ChunkBegin(hit.text),
                        volume.ChunkBegin(hit.text + 1), 0});
  }
  sample->bm25 = Judge(by_words, question.gold);
  sample->span = SpanOf(question.gold, volumes, seen);
  return absl::OkStatus();
}

absl::StatusOr<client::GenerateResult> Asker::Continue(const std::string& prompt,
                                                       const Volumes& volumes,
                                                       const v1::Sampling& sampling,
                                                       int64_t max_tokens) const {
  v1::GenerateRequest request;
  *request.mutable_session() = Session(volumes);
  request.mutable_prompt()->set_text(prompt);
  *request.mutable_sampling() = sampling;
  request.mutable_sampling()->set_dry_multiplier(static_cast<float>(dry_multiplier_));
  request.set_max_tokens(max_tokens);
  return client_.Generate(request);
}

absl::StatusOr<double> Asker::BitsPerByte(const std::string& text, const Volumes& volumes) const {
  v1::ScoreRequest request;
  *request.mutable_session() = Session(volumes);
  request.mutable_prompt()->set_text(text);
  ASSIGN_OR_RETURN(const v1::ScoreResponse scored, client_.Score(request));
  const double nats = -std::accumulate(scored.logprobs().begin(), scored.logprobs().end(), 0.0);
  return nats / std::log(2.0) / static_cast<double>(std::max<int64_t>(1, scored.text_bytes()));
}

// Of the value and not of the answer, which may break off. A token is a byte at least.
absl::StatusOr<bool> Asker::IsLongerThanABlock(const std::string& value) const {
  if (static_cast<int64_t>(value.size()) < kBlockTokens) return false;
  v1::ScoreRequest request;
  request.mutable_prompt()->set_text(" " + value);
  ASSIGN_OR_RETURN(const v1::ScoreResponse scored, client_.Score(request));
  return scored.tokens_size() > kBlockTokens;
}

}  // namespace recollect::cli::niah
