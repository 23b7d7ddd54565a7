#include "cli/niah/run.h"

#include <algorithm>
#include <utility>

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
  int64_t cells = 0;
  for (const auto& task : tasks_)
    cells += std::ssize(task->variants()) * std::ssize(options_.tokens);
  return cells * options_.samples;
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
  bytes_per_token_ = static_cast<double>(volume->bytes()) /
                     static_cast<double>(std::max<int64_t>(1, volume->tokens()));
  return absl::OkStatus();
}

int64_t Runner::Shards(const Cell& cell) const {
  return std::max(cell.task.least_documents(),
                  (cell.tokens + options_.shard_tokens - 1) / options_.shard_tokens);
}

absl::StatusOr<std::vector<Sample>> Runner::Run(
    const std::function<void(const Sample&)>& on_sample) {
  if (std::ssize(material_.words) < kMinWords) {
    return absl::InvalidArgumentError(absl::StrCat("haystack: ", material_.words.size(),
                                                   " words that training never used, needs ",
                                                   kMinWords));
  }
  RETURN_IF_ERROR(Probe());
  std::vector<Sample> samples;
  for (const int64_t tokens : options_.tokens) {
    for (const auto& task : tasks_) {
      for (const Variant& variant : task->variants()) {
        RETURN_IF_ERROR(RunCell({*task, tokens, variant}, on_sample, &samples));
      }
    }
    shared_.clear();  // bigger sizes need the space
  }
  return samples;
}

absl::StatusOr<std::shared_ptr<Runner::Base>> Runner::MakeBase(const Cell& cell, Random& random) {
  const auto bytes = static_cast<int64_t>(static_cast<double>(cell.tokens) * bytes_per_token_);
  const int64_t spare = static_cast<int64_t>(text_.size()) - bytes;
  if (spare < 0) {
    return absl::InvalidArgumentError(absl::StrCat("haystack: ", text_.size(), " bytes, ",
                                                   cell.tokens, " tokens need about ", bytes));
  }
  const auto base = std::make_shared<Base>(
      Base{Haystack::Cut(text_, random.Below(spare + 1), bytes, Shards(cell)), {}});
  base->volumes.resize(base->haystack.shards().size());
  return base;
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
  Random random(shared ? options_.seed * kMix + Crc32(absl::StrCat("haystack ", cell.tokens))
                       : CellSeed(cell) + static_cast<uint64_t>(i) * kMix + 1);
  ASSIGN_OR_RETURN(const auto base, MakeBase(cell, random));
  if (cell.task.prepares()) {
    RETURN_IF_ERROR(cell.task.Prepare(cell.variant, random, &base->haystack));
  }
  if (shared) shared_[key] = base;
  return base;
}

// Depends on what the cell is, not on which others run.
uint64_t Runner::CellSeed(const Cell& cell) const {
  return options_.seed * kMix +
         Crc32(absl::StrCat(cell.task.name(), cell.tokens, cell.variant.number));
}

absl::Status Runner::RunCell(const Cell& cell, const std::function<void(const Sample&)>& on_sample,
                             std::vector<Sample>* samples) {
  std::shared_ptr<Base> base;
  for (int i = 0; i < options_.samples; ++i) {
    ASSIGN_OR_RETURN(base, BaseFor(cell, i, std::move(base)));
    Random random(CellSeed(cell) + static_cast<uint64_t>(i) * kMix);
    const double depth = (i % options_.depths + random.Unit()) / options_.depths;
    ASSIGN_OR_RETURN(const Sample sample, RunSample(cell, *base, depth, random));
    samples->push_back(sample);
    if (on_sample != nullptr) on_sample(sample);
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
  ASSIGN_OR_RETURN(const Question question,
                   cell.task.Make({cell.variant, depth, removed, random, haystack}));
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
