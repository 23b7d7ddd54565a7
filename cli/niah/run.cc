#include "cli/niah/run.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"

namespace recollect::cli::niah {
namespace {

constexpr int64_t kProbes = 16;
constexpr int64_t kProbeBytes = 4 << 10;
constexpr uint64_t kMix = 0x9e3779b97f4a7c15u;  // spreads small seeds over all bits
constexpr int64_t kMinWords = 20;               // for keys to differ
constexpr int64_t kBlockTokens = 63;            // base/types.h: kChunkTokens
constexpr int64_t kMapHits = 256;               // the most Retrieve gives on any device

// Position of the landmark after a prompt that was flushed, among those of `retrievals`. It follows
// the tokens and the landmarks of all blocks before, and of a family whose blocks end with theirs
// one less: the last that is not beyond.
int64_t LandmarkAfter(int64_t prompt_tokens, const std::vector<client::Retrieval>& retrievals) {
  const int64_t most = prompt_tokens + (prompt_tokens + kBlockTokens - 1) / kBlockTokens;
  int64_t landmark = -1;
  for (const client::Retrieval& retrieval : retrievals) {
    if (retrieval.position <= most) landmark = std::max(landmark, retrieval.position);
  }
  return landmark;
}

bool Overlaps(const client::Hit& hit, int64_t begin, int64_t end) {
  return hit.text_begin < end && begin < hit.text_end;
}

}  // namespace

const char* Name(Task task) {
  switch (task) {
    case Task::kPasskey:
      return "passkey";
    case Task::kDistractors:
      return "distractors";
    case Task::kHex:
      return "hex";
  }
  return "";
}

Runner::Runner(client::Client& client, const RunOptions& options, std::string text, Phrases phrases)
    : client_(client),
      options_(options),
      text_(std::move(text)),
      phrases_(std::move(phrases)),
      words_(TestWords(text_)) {}

Runner::~Runner() {
  for (const std::string& id : documents_)
    (void)client_.DeleteDocument(id);  // best effort at the end
}

absl::StatusOr<client::Document> Runner::Ingest(const std::string& text) {
  const std::string id = absl::StrCat("niah-", options_.seed, "-", getpid(), "-", next_document_++);
  documents_.push_back(id);  // also when it fails half way
  return client_.IngestText(id, client::ReadFrom(text));
}

absl::Status Runner::Delete(const std::string& id) {
  documents_.erase(std::remove(documents_.begin(), documents_.end(), id), documents_.end());
  return client_.DeleteDocument(id);
}

// Sizes are asked for in tokens, texts are cut in bytes: reads some of the text, here and there, to
// learn how many bytes a token has.
absl::Status Runner::Probe() {
  const auto size = static_cast<int64_t>(text_.size());
  const int64_t bytes = std::min(kProbeBytes, size / kProbes);
  std::string probe;
  for (int64_t i = 0; i < kProbes; ++i) {
    probe += Haystack::Cut(text_, i * (size - bytes) / kProbes, bytes, 1).shards().front();
  }
  ASSIGN_OR_RETURN(const client::Document document, Ingest(probe));
  bytes_per_token_ = static_cast<double>(document.bytes) / static_cast<double>(document.tokens);
  return Delete(document.id);
}

int64_t Runner::Shards(int64_t tokens) const {
  return std::max<int64_t>(1, (tokens + options_.shard_tokens - 1) / options_.shard_tokens);
}

absl::StatusOr<std::vector<Sample>> Runner::Run(
    const std::function<void(const Sample&)>& on_sample) {
  if (static_cast<int64_t>(words_.size()) < kMinWords) {
    return absl::InvalidArgumentError(absl::StrCat(
        "haystack: ", words_.size(), " words that training never used, needs ", kMinWords));
  }
  RETURN_IF_ERROR(Probe());
  std::vector<Sample> samples;
  for (const int64_t tokens : options_.tokens) {
    for (const Task task : options_.tasks) {
      for (const bool held_out : options_.held_out) {
        RETURN_IF_ERROR(RunCell({task, tokens, held_out}, on_sample, &samples));
      }
    }
    // Bigger sizes need the space.
    if (const auto shared = shared_.find(tokens); shared != shared_.end()) {
      RETURN_IF_ERROR(Drop(*shared->second));
      shared_.erase(shared);
    }
  }
  return samples;
}

absl::StatusOr<Runner::Base> Runner::MakeBase(const Cell& cell, Random& random) {
  const auto bytes = static_cast<int64_t>(static_cast<double>(cell.tokens) * bytes_per_token_);
  const int64_t spare = static_cast<int64_t>(text_.size()) - bytes;
  if (spare < 0) {
    return absl::InvalidArgumentError(absl::StrCat("haystack: ", text_.size(), " bytes, ",
                                                   cell.tokens, " tokens need about ", bytes));
  }
  Base base{
      Haystack::Cut(text_, random.Below(spare + 1), bytes, Shards(cell.tokens)), {}, {}, {}, {}};
  const PhraseList& phrases = cell.held_out ? phrases_.held_out : phrases_.trained;
  base.form =
      MakeForm(random, phrases, cell.task == Task::kHex ? ValueKind::kHex : ValueKind::kDigits,
               options_.hex_digits);
  for (int i = 0; cell.task == Task::kDistractors && i < options_.distractors; ++i) {
    const Needle distractor = MakeNeedle(random, base.form, words_, &base.taken);
    RETURN_IF_ERROR(base.haystack.Replace(random.Unit(), distractor.sentence).status());
  }
  return base;
}

absl::Status Runner::IngestBase(Base* base) {
  for (const std::string& shard : base->haystack.shards()) {
    ASSIGN_OR_RETURN(const client::Document document, Ingest(shard));
    base->ids.push_back(document.id);
    base->tokens.push_back(document.tokens);
  }
  return absl::OkStatus();
}

// The haystack of a cell's sample `i`: shared by all cells of a size where it holds no distractors
// and is worth keeping.
absl::StatusOr<std::shared_ptr<Runner::Base>> Runner::BaseFor(const Cell& cell, int i,
                                                              std::shared_ptr<Base> last) {
  const bool sharded = Shards(cell.tokens) > 1;
  const bool shared = sharded && cell.task != Task::kDistractors;
  if (shared && shared_.contains(cell.tokens)) return shared_[cell.tokens];
  if (sharded && !shared && i % options_.samples_per_haystack != 0) return last;
  if (last != nullptr) RETURN_IF_ERROR(Drop(*last));
  Random random(shared ? options_.seed * kMix + Crc32(absl::StrCat("haystack ", cell.tokens))
                       : CellSeed(cell) + static_cast<uint64_t>(i) * kMix + 1);
  ASSIGN_OR_RETURN(Base made, MakeBase(cell, random));
  auto base = std::make_shared<Base>(std::move(made));
  if (sharded) RETURN_IF_ERROR(IngestBase(base.get()));
  if (shared) shared_[cell.tokens] = base;
  return base;
}

absl::Status Runner::Drop(const Base& base) {
  for (const std::string& id : base.ids) RETURN_IF_ERROR(Delete(id));
  return absl::OkStatus();
}

// Depends on what the cell is, not on which others run.
uint64_t Runner::CellSeed(const Cell& cell) const {
  return options_.seed * kMix + Crc32(absl::StrCat(Name(cell.task), cell.tokens, cell.held_out));
}

absl::Status Runner::RunCell(const Cell& cell, const std::function<void(const Sample&)>& on_sample,
                             std::vector<Sample>* samples) {
  std::shared_ptr<Base> base;
  for (int i = 0; i < options_.samples; ++i) {
    ASSIGN_OR_RETURN(base, BaseFor(cell, i, base));
    Random random(CellSeed(cell) + static_cast<uint64_t>(i) * kMix);
    const double depth = (i % options_.depths + random.Unit()) / options_.depths;
    ASSIGN_OR_RETURN(const Sample sample, RunSample(cell, *base, depth, random));
    samples->push_back(sample);
    if (on_sample != nullptr) on_sample(sample);
  }
  // Others are kept until their size is done.
  return base != nullptr && cell.task == Task::kDistractors ? Drop(*base) : absl::OkStatus();
}

absl::StatusOr<Sample> Runner::RunSample(const Cell& cell, Base& base, double depth,
                                         Random& random) {
  Sample sample;
  sample.task = Name(cell.task);
  sample.phrasing = cell.held_out ? "held-out" : "trained";
  sample.tokens_asked = cell.tokens;
  sample.depth = depth;
  Form form = base.form;
  if (cell.task != Task::kDistractors) {  // nothing to be of the same form as
    const PhraseList& phrases = cell.held_out ? phrases_.held_out : phrases_.trained;
    form = MakeForm(random, phrases, cell.task == Task::kHex ? ValueKind::kHex : ValueKind::kDigits,
                    options_.hex_digits);
  }
  std::vector<std::string> taken = base.taken;
  const Needle needle = MakeNeedle(random, form, words_, &taken);
  Haystack haystack = base.haystack;
  ASSIGN_OR_RETURN(const Place place, haystack.Replace(depth, needle.sentence));
  const bool removed = options_.control == Control::kRemoved;
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const client::Document document,
                   Ingest((removed ? base.haystack : haystack).shards()[place.shard]));
  sample.ingest_s = absl::ToDoubleSeconds(absl::Now() - start);
  sample.ingested_tokens = document.tokens;

  std::vector<std::string> mounts = base.ids;
  mounts.resize(haystack.shards().size());
  mounts[place.shard] = document.id;
  sample.tokens_mounted = document.tokens;
  for (size_t s = 0; s < base.tokens.size(); ++s) {
    if (static_cast<int64_t>(s) != place.shard) sample.tokens_mounted += base.tokens[s];
  }
  sample.documents = static_cast<int64_t>(mounts.size());
  if (options_.control == Control::kUnmounted) {
    mounts.clear();
    sample.tokens_mounted = sample.documents = 0;
  }
  RETURN_IF_ERROR(Ask(needle, mounts, removed ? "" : document.id, place, &sample));
  if (!removed) {
    ASSIGN_OR_RETURN(sample.span, FindSpan(needle, document.id, place));
  }
  RETURN_IF_ERROR(Delete(document.id));
  return sample;
}

absl::Status Runner::Ask(const Needle& needle, const std::vector<std::string>& mounts,
                         const std::string& document, const Place& place, Sample* sample) {
  client::GenerateRequest request;
  request.session.mounts = mounts;
  request.session.random_chunks = options_.control == Control::kRandom;
  if (options_.dilation != 0) request.session.dilation = options_.dilation;
  request.prompt.text = needle.question;
  request.max_tokens = static_cast<int64_t>(needle.value.size()) + 8;  // a token is a byte at least
  request.stop = {".", "\n"};
  request.with_retrievals = true;
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const client::GenerateResult result, client_.Generate(request));
  sample->answer_ms = absl::ToDoubleMilliseconds(absl::Now() - start);
  sample->question = needle.question;
  sample->value = needle.value;
  sample->answer = result.text;
  sample->right = IsRight(result.text, needle.value);
  sample->generated_tokens = result.usage.generated_tokens;
  sample->generation_ms = result.usage.generation_ms;
  ASSIGN_OR_RETURN(sample->crosses_block, IsLongerThanABlock(needle.value));
  if (document.empty()) return absl::OkStatus();
  const int64_t begin = place.begin + needle.value_offset;
  const int64_t end = begin + static_cast<int64_t>(needle.value.size());
  const int64_t landmark = LandmarkAfter(result.usage.prompt_tokens, result.retrievals);
  for (const client::Retrieval& retrieval : result.retrievals) {
    if (retrieval.position != landmark) continue;
    const auto group = static_cast<size_t>(retrieval.group);
    if (sample->gold_hit.size() <= group) sample->gold_hit.resize(group + 1);
    sample->gold_weight.resize(sample->gold_hit.size());
    for (const client::Hit& hit : retrieval.hits) {
      if (hit.document != document || !Overlaps(hit, begin, end)) continue;
      sample->gold_hit[group] = true;
      sample->gold_weight[group] += hit.weight;
    }
  }
  return absl::OkStatus();
}

// Of the value and not of the answer, which may break off. A token is a byte at least.
absl::StatusOr<bool> Runner::IsLongerThanABlock(const std::string& value) {
  if (static_cast<int64_t>(value.size()) < kBlockTokens) return false;
  client::ScoreRequest request;
  request.prompt.text = " " + value;
  ASSIGN_OR_RETURN(const client::ScoreResult scored, client_.Score(request));
  return static_cast<int64_t>(scored.tokens.size()) > kBlockTokens;
}

// Asks for what the needle itself finds in its shard: among that are the chunks that hold it.
absl::StatusOr<Sample::Span> Runner::FindSpan(const Needle& needle, const std::string& document,
                                              const Place& place) {
  client::RetrieveRequest request;
  request.session.mounts = {document};
  request.query.text = needle.sentence;
  request.k = kMapHits;
  ASSIGN_OR_RETURN(const auto retrievals, client_.Retrieve(request));
  const int64_t begin =
      place.begin + 1;  // white space before the sentence may lie in the chunk before
  bool found = false;
  for (const client::Retrieval& retrieval : retrievals) {
    for (const client::Hit& hit : retrieval.hits) {
      if (!Overlaps(hit, begin, place.end)) continue;
      if (hit.text_begin > begin || hit.text_end < place.end) return Sample::Span::kTwoChunks;
      found = true;
    }
  }
  return found ? Sample::Span::kOneChunk : Sample::Span::kUnknown;
}

}  // namespace recollect::cli::niah
