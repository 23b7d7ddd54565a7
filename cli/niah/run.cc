#include "cli/niah/run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status.h"
#include "cli/niah/needle.h"

namespace recollect::cli::niah {
namespace {

constexpr int64_t kProbes = 16;
constexpr int64_t kProbeBytes = 4 << 10;
constexpr uint64_t kMix = 0x9e3779b97f4a7c15u;  // spreads small seeds over all bits
constexpr int64_t kMinWords = 20;               // for keys to differ

}  // namespace

Runner::Runner(client::Client& client, const RunOptions& options, int64_t hits, std::string text,
               Phrases phrases)
    : client_(client),
      options_(options),
      text_(std::move(text)),
      material_{std::move(phrases), TestWords(text_)},
      asker_(client, hits, options.dilation, options.control == Control::kRandom,
             options.dry_multiplier) {
  for (const std::string& name : options_.tasks) {
    tasks_.push_back(MakeTask(name, options_.task, material_));
  }
}

int64_t Runner::total() const {
  int64_t samples = 0;
  for (const auto& task : tasks_) samples += std::ssize(task->variants()) * Asked(*task);
  return samples * std::ssize(options_.tokens);
}

std::string Runner::Name(const Cell& cell, int i) {
  return absl::StrCat(cell.task.name(), " ", cell.tokens, " ", cell.variant.name, " ", i);
}

const Sample* Observer::Known(const std::string& name) const {
  return answered == nullptr ? nullptr : answered(name);
}

absl::Status Observer::Tell(const std::string& name, const Sample& sample, bool known) const {
  return on_sample == nullptr ? absl::OkStatus() : on_sample(name, sample, known);
}

int Runner::Samples(const Task& task) const {
  const bool many = std::ssize(task.variants()) > kFewVariants && options_.samples_per_shape > 0;
  return many ? options_.samples_per_shape : options_.samples;
}

int Runner::Asked(const Task& task) const {
  return options_.asked > 0 ? std::min(options_.asked, Samples(task)) : Samples(task);
}

Random Runner::SampleRandom(const Cell& cell, int i) const {
  return Random(CellSeed(cell) + static_cast<uint64_t>(i) * kMix);
}

double Runner::Depth(const Cell& cell, int i, Random& random) const {
  // Of many variants each may have fewer samples than there are depths: together they have all.
  const bool many = std::ssize(cell.task.variants()) > kFewVariants;
  const int stretch = (i + (many ? cell.variant.number : 0)) % options_.depths;
  return (stretch + random.Unit()) / options_.depths;
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
  ASSIGN_OR_RETURN(const auto volume, Volume::Ingest(client_, options_.seed, probe));
  probe_ = {volume->bytes(), std::max<int64_t>(1, volume->tokens()), volume->chunks()};
  return absl::OkStatus();
}

int64_t Runner::BytesFor(int64_t tokens) const { return ScaledToTokens(probe_, tokens).bytes; }

// Of all sizes, before hours go to the first of them.
absl::Status Runner::CheckSizes() const {
  const int64_t most = *std::max_element(options_.tokens.begin(), options_.tokens.end());
  if (std::ssize(text_) < BytesFor(most)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--haystack: ", text_.size(), " bytes of text, about ",
                     ScaledToBytes(probe_, std::ssize(text_)).tokens, " tokens; --tokens ", most,
                     " needs about ", BytesFor(most), " bytes"));
  }
  if (options_.control == Control::kUnmounted) return absl::OkStatus();
  ASSIGN_OR_RETURN(const v1::ModelInfo model, client_.GetModel());
  const auto stats = client_.GetStats();
  if (absl::IsPermissionDenied(stats.status())) return absl::OkStatus();  // it will show
  RETURN_IF_ERROR(stats.status());
  ASSIGN_OR_RETURN(const int64_t there, TokensThere());
  const int64_t shards = (most + options_.shard_tokens - 1) / options_.shard_tokens;
  const TextSize rest = ScaledToTokens(probe_, std::max<int64_t>(0, most - there));
  return CheckRoom(absl::StrCat("--tokens ", most), *stats, RoomFor(model, *stats, rest, shards),
                   RoomFor(model, *stats, ScaledToTokens(probe_, most), shards));
}

// What an earlier run of these options has left.
absl::StatusOr<int64_t> Runner::TokensThere() const {
  if (options_.hide == Hide::kEach) return 0;
  const std::string begin = absl::StrCat("niah-", options_.seed, "-");
  int64_t tokens = 0;
  ASSIGN_OR_RETURN(const auto documents, client_.ListAllDocuments());
  for (const v1::Document& document : documents) {
    if (absl::StartsWith(document.id(), begin)) tokens += document.tokens();
  }
  ASSIGN_OR_RETURN(const auto ingests, client_.ListIngests());
  for (const v1::UnfinishedIngest& ingest : ingests) {
    if (absl::StartsWith(ingest.id(), begin)) tokens += ingest.tokens();
  }
  return tokens;
}

int64_t Runner::Shards(const Cell& cell) const {
  return std::max(cell.task.least_documents(),
                  (cell.tokens + options_.shard_tokens - 1) / options_.shard_tokens);
}

absl::StatusOr<std::vector<Sample>> Runner::Run(const Observer& observer) {
  if (std::ssize(material_.words) < kMinWords) {
    return absl::InvalidArgumentError(absl::StrCat("haystack: ", material_.words.size(),
                                                   " words that training never used, needs ",
                                                   kMinWords));
  }
  for (const auto& task : tasks_) {
    if (options_.hide == Hide::kEach || task->shares()) continue;
    return absl::InvalidArgumentError(absl::StrCat("--hide all: not for --task ", task->name(),
                                                   ", which needs haystacks of its own"));
  }
  RETURN_IF_ERROR(Probe());
  RETURN_IF_ERROR(CheckSizes());
  std::vector<Sample> samples;
  for (const int64_t tokens : options_.tokens) {
    if (options_.hide == Hide::kAll) {
      RETURN_IF_ERROR(RunAll(tokens, observer, &samples));
      continue;
    }
    for (const auto& task : tasks_) {
      for (const Variant& variant : task->variants()) {
        RETURN_IF_ERROR(RunCell({*task, tokens, variant}, observer, &samples));
      }
    }
    shared_.clear();  // bigger sizes need the space
  }
  return samples;
}

Haystack Runner::CutHaystack(int64_t tokens, int64_t shards, Random& random) const {
  const int64_t bytes = BytesFor(tokens), spare = std::ssize(text_) - bytes;
  return Haystack::Cut(text_, random.Below(spare + 1), bytes, shards);
}

// The haystack of a cell's sample `i`: shared by all cells of a size that can, where it is worth
// keeping.
absl::StatusOr<std::shared_ptr<Runner::Base>> Runner::BaseFor(const Cell& cell, int i,
                                                              std::shared_ptr<Base> last) {
  const int64_t shards = Shards(cell);
  const bool keep = shards > 1 || !cell.task.hides();
  const bool shared = keep && !(cell.task.prepares() && cell.task.hides());
  const std::pair key(shards, cell.task.prepares() ? cell.task.name() : "");
  if (shared && shared_.contains(key)) return shared_[key];
  if (keep && !shared && i % options_.samples_per_haystack != 0) return last;
  last.reset();  // its documents make room
  Random random(shared ? HaystackSeed(cell.tokens)
                       : CellSeed(cell) + static_cast<uint64_t>(i) * kMix + 1);
  const auto base = std::make_shared<Base>(Base{CutHaystack(cell.tokens, shards, random), {}});
  base->volumes.resize(base->haystack.shards().size());
  if (cell.task.prepares()) {
    RETURN_IF_ERROR(cell.task.Prepare(cell.variant, random, &base->haystack));
  }
  if (shared) shared_[key] = base;
  return base;
}

uint64_t Runner::HaystackSeed(int64_t tokens) const {
  return options_.seed * kMix + Crc32(absl::StrCat("haystack ", tokens));
}

// Depends on what the cell is, not on which others run.
uint64_t Runner::CellSeed(const Cell& cell) const {
  return options_.seed * kMix +
         Crc32(absl::StrCat(cell.task.name(), cell.tokens, cell.variant.number));
}

absl::Status Runner::RunCell(const Cell& cell, const Observer& observer,
                             std::vector<Sample>* samples) {
  std::shared_ptr<Base> base;
  for (int i = 0; i < Asked(cell.task); ++i) {
    ASSIGN_OR_RETURN(base, BaseFor(cell, i, std::move(base)));
    if (const Sample* known = observer.Known(Name(cell, i)); known != nullptr) {
      samples->push_back(*known);
      RETURN_IF_ERROR(observer.Tell(Name(cell, i), *known, true));
      continue;
    }
    Random random = SampleRandom(cell, i);
    const double depth = Depth(cell, i, random);
    ASSIGN_OR_RETURN(samples->emplace_back(), RunSample(cell, *base, depth, random));
    RETURN_IF_ERROR(observer.Tell(Name(cell, i), samples->back(), false));
  }
  return absl::OkStatus();
}

absl::StatusOr<Sample> Runner::RunSample(const Cell& cell, Base& base, double depth,
                                         Random& random) {
  Sample sample;
  sample.task = cell.task.name();
  sample.variant = cell.variant.name;
  sample.tokens_asked = cell.tokens;
  sample.depth = depth;
  Haystack haystack = base.haystack;
  const bool removed = options_.control == Control::kRemoved;
  ASSIGN_OR_RETURN(const Question question, cell.task.Make({cell.variant, depth, removed,
                                                            /*shared=*/false, random, haystack}));
  Volumes volumes;
  if (options_.control != Control::kUnmounted) {
    ASSIGN_OR_RETURN(volumes, Mount(haystack, base, &sample));
  }
  RETURN_IF_ERROR(cell.task.Run(asker_, question, volumes, &sample));
  return sample;
}

// Shards that the sample left as they are stay ingested for others.
absl::StatusOr<Volumes> Runner::Mount(const Haystack& haystack, Base& base, Sample* sample) {
  Volumes volumes;
  const absl::Time start = SteadyNow();
  for (size_t s = 0; s < haystack.shards().size(); ++s) {
    const std::string& text = haystack.shards()[s];
    const bool unchanged = text == base.haystack.shards()[s];
    auto volume = unchanged ? base.volumes[s] : nullptr;
    if (volume == nullptr) {
      ASSIGN_OR_RETURN(volume, Volume::Ingest(client_, options_.seed, text));
      sample->ingested_tokens += volume->tokens();
    }
    if (unchanged) base.volumes[s] = volume;
    sample->tokens_mounted += volume->tokens();
    volumes.push_back(std::move(volume));
  }
  sample->ingest_s = absl::ToDoubleSeconds(SteadyNow() - start);
  sample->documents = std::ssize(volumes);
  return volumes;
}

}  // namespace recollect::cli::niah
