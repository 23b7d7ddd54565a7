// Samples that all hide what they ask for in one haystack, before it is ingested, once, as one
// document.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status.h"
#include "cli/niah/run.h"

namespace recollect::cli::niah {
namespace {

// Places move when something is hidden before them: a gold is remembered by which place it has and
// by where in it it is.
struct Anchor {
  size_t gold = 0, place = 0;  // numbers: of the question's gold, of the haystack's place
};

std::vector<Anchor> AnchorsOf(const Question& question, const Haystack& haystack) {
  std::vector<Anchor> anchors;
  for (size_t g = 0; g < question.gold.size(); ++g) {
    const auto same = [&](const Place& p) {
      const Place& place = question.gold[g].place;
      return p.shard == place.shard && p.begin == place.begin && p.end == place.end;
    };
    const auto found = std::find_if(haystack.places().begin(), haystack.places().end(), same);
    if (found == haystack.places().end()) continue;  // text of the haystack itself
    anchors.push_back({g, static_cast<size_t>(found - haystack.places().begin())});
  }
  return anchors;
}

void MoveGold(const std::vector<Anchor>& anchors, const Haystack& haystack, Question* question) {
  for (const Anchor& anchor : anchors) {
    Gold& gold = question->gold[anchor.gold];
    const Place now = haystack.places()[anchor.place];
    const int64_t moved = now.begin - gold.place.begin;
    gold = {now, gold.begin + moved, gold.end + moved};
  }
}

}  // namespace

absl::StatusOr<Runner::Planned> Runner::Plan(const Cell& cell, int i, Haystack* haystack) const {
  Random random = SampleRandom(cell, i);
  Planned planned{cell, i, Depth(cell, i, random), {}};
  const bool removed = options_.control == Control::kRemoved;
  ASSIGN_OR_RETURN(planned.question, cell.task.Make({cell.variant, planned.depth, removed,
                                                     /*shared=*/true, random, *haystack}));
  return planned;
}

absl::StatusOr<std::vector<Runner::Planned>> Runner::PlanAll(int64_t tokens, Haystack* haystack) {
  std::vector<Planned> hidden, others;
  std::vector<std::vector<Anchor>> anchors;  // of those hidden
  const auto prepare = [&](const Cell& cell) -> absl::Status {
    Random random(CellSeed(cell) + 1);
    return cell.task.Prepare(cell.variant, random, haystack);
  };
  for (const auto& task : tasks_) {
    if (!task->hides()) {
      if (task->prepares()) RETURN_IF_ERROR(prepare({*task, tokens, task->variants().front()}));
      continue;
    }
    for (const Variant& variant : task->variants()) {
      const Cell cell{*task, tokens, variant};
      if (task->prepares()) RETURN_IF_ERROR(prepare(cell));
      for (int i = 0; i < Samples(*task); ++i) {
        ASSIGN_OR_RETURN(Planned planned, Plan(cell, i, haystack));
        if (i >= Asked(*task)) continue;  // only lies there
        anchors.push_back(AnchorsOf(planned.question, *haystack));
        hidden.push_back(std::move(planned));
      }
    }
  }
  for (size_t i = 0; i < hidden.size(); ++i) {
    MoveGold(anchors[i], *haystack, &hidden[i].question);
  }
  for (const auto& task : tasks_) {
    if (task->hides()) continue;
    for (const Variant& variant : task->variants()) {
      for (int i = 0; i < Asked(*task); ++i) {
        ASSIGN_OR_RETURN(Planned planned, Plan({*task, tokens, variant}, i, haystack));
        others.push_back(std::move(planned));
      }
    }
  }
  std::move(others.begin(), others.end(), std::back_inserter(hidden));
  for (Planned& planned : hidden) {
    const std::vector<Gold>& gold = planned.question.gold;
    if (!gold.empty()) planned.depth = haystack->DepthOf(gold.front().place);
  }
  return hidden;
}

absl::StatusOr<Volumes> Runner::IngestAll(int64_t tokens, const Haystack& haystack,
                                          const Observer& observer, Sample* first) {
  const absl::Time start = SteadyNow();
  ASSIGN_OR_RETURN(const auto volume,
                   Volume::IngestOnce(client_, options_.seed, haystack.shards().front(),
                                      [&](const v1::IngestProgress& progress) {
                                        if (observer.on_ingest == nullptr) return;
                                        observer.on_ingest(progress, tokens, haystack.bytes());
                                      }));
  first->ingested_tokens = volume->ingested_tokens();
  first->ingest_s = absl::ToDoubleSeconds(SteadyNow() - start);
  return Volumes{volume};
}

absl::Status Runner::RunAll(int64_t tokens, const Observer& observer,
                            std::vector<Sample>* samples) {
  Random random(HaystackSeed(tokens));
  Haystack haystack = CutHaystack(tokens, /*shards=*/1, random);
  ASSIGN_OR_RETURN(const std::vector<Planned> planned, PlanAll(tokens, &haystack));
  Volumes volumes;
  Sample ingest;
  const bool all_known = std::all_of(planned.begin(), planned.end(), [&](const Planned& plan) {
    return observer.Known(Name(plan.cell, plan.number)) != nullptr;
  });
  if (options_.control != Control::kUnmounted && !all_known) {
    ASSIGN_OR_RETURN(volumes, IngestAll(tokens, haystack, observer, &ingest));
  }
  for (const Planned& plan : planned) {
    const std::string name = Name(plan.cell, plan.number);
    if (const Sample* known = observer.Known(name); known != nullptr) {
      samples->push_back(*known);
      RETURN_IF_ERROR(observer.Tell(name, *known, true));
      continue;
    }
    Sample sample = std::exchange(ingest, {});  // the first one's is the work
    sample.task = plan.cell.task.name();
    sample.variant = plan.cell.variant.name;
    sample.tokens_asked = tokens;
    sample.depth = plan.depth;
    for (const auto& volume : volumes) sample.tokens_mounted += volume->tokens();
    sample.documents = std::ssize(volumes);
    RETURN_IF_ERROR(plan.cell.task.Run(asker_, plan.question, volumes, &sample));
    samples->push_back(sample);
    RETURN_IF_ERROR(observer.Tell(name, sample, false));
  }
  if (options_.keep || options_.control == Control::kUnmounted) return absl::OkStatus();
  // An earlier run may have been the one that ingested it.
  const absl::Status deleted =
      client_.DeleteDocument(Volume::NameOf(options_.seed, haystack.shards().front()));
  return absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
}

}  // namespace recollect::cli::niah
