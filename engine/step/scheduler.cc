#include "engine/step/scheduler.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/io/log.h"
#include "base/memory.h"
#include "base/status.h"

namespace recollect::engine {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, const model::Model& model, Backend& backend,
                     ChunkTiers& tiers, LandmarkIndex& landmarks, ThreadPool* threads,
                     Counters& counters, std::function<void()> idle)
    : options_(options),
      model_(model.config()),
      state_budget_(options.state_budget_bytes),
      tiers_(tiers),
      counters_(counters),
      idle_(std::move(idle)),
      step_(model, backend, tiers, landmarks, threads, waker()) {}

std::function<void()> Scheduler::waker() {
  return [signal = signal_] {
    {
      MutexLock lock(signal->mutex);
      signal->set = true;
    }
    signal->wake.notify_one();
  };
}

void Scheduler::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void Scheduler::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  waker()();
  if (thread_.joinable()) thread_.join();
}

void Scheduler::Submit(std::shared_ptr<Request> request) {
  {
    MutexLock lock(mutex_);
    inbox_.push_back(std::move(request));
  }
  waker()();
}

void Scheduler::AddIngest(std::shared_ptr<SliceSource> ingest) {
  MutexLock lock(mutex_);
  ingests_.push_back(std::move(ingest));
}

void Scheduler::RemoveIngest(const SliceSource* ingest) {
  MutexLock lock(mutex_);
  std::erase_if(ingests_, [ingest](const auto& entry) { return entry.get() == ingest; });
}

void Scheduler::FailAll(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    fail_all_ = status;
  }
  waker()();
}

void Scheduler::ObserveForTest(TurnObserver observer) {
  MutexLock lock(mutex_);
  observer_ = std::move(observer);
}

void Scheduler::Loop() {
  while (true) {
    bool worked = false;
    try {
      worked = RunTurn();
    } catch (const std::bad_alloc&) {
      // Outside of what belongs to a request or an ingest: each turn begins anew.
      LogError("the scheduler ran out of memory");
    }
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
    }
    if (!worked) Wait();
  }
}

bool Scheduler::RunTurn() {
  const double begin = Now();
  bool worked = RunSessions();
  worked ? share_.AddStep(Now() - begin, /*beside=*/0) : share_.Forget();
  if (!worked || share_.ingest_is_due()) worked = RunIngest() || worked;
  if (const absl::Time now = SteadyNow(); now - last_idle_ >= options_.idle_period) {
    last_idle_ = now;
    idle_();
  }
  return worked;
}

bool Scheduler::RunSessions() {
  TakeInbox();
  EndDue();
  Admit();
  return RunStep();
}

void Scheduler::TakeInbox() {
  MutexLock lock(mutex_);
  while (!inbox_.empty()) {
    queue_.push_back(inbox_.front());
    inbox_.pop_front();
  }
}

absl::Status Scheduler::CheckRoom() {
  if (CheckMemory().ok()) return absl::OkStatus();
  tiers_.Drop();
  while (!CheckMemory().ok() && state_budget_.GiveUp()) {
  }
  return CheckMemory();
}

void Scheduler::EndDue() {
  absl::Status all;
  {
    MutexLock lock(mutex_);
    all = fail_all_;
  }
  for (size_t i = 0; i < queue_.size();) {
    const absl::Status status =
        all.ok() ? DueStatus(queue_[i]->cancelled(), queue_[i]->deadline) : all;
    if (status.ok()) {
      ++i;
      continue;
    }
    Running waiting{std::move(queue_[i])};
    queue_.erase(queue_.begin() + static_cast<int64_t>(i));
    End(waiting, status);
  }
  for (const std::unique_ptr<Running>& running : running_) {
    // A piece that was cut half-way goes on first: its session could not be used any more
    // otherwise.
    if (running->active) continue;
    const absl::Status status =
        all.ok() ? DueStatus(running->request->cancelled(), running->request->deadline) : all;
    if (!status.ok()) End(*running, status);
  }
  DropEnded();
}

void Scheduler::DropEnded() {
  std::erase_if(running_, [](const auto& running) { return running->request == nullptr; });
}

void Scheduler::Admit() {
  while (!queue_.empty() && static_cast<int64_t>(running_.size()) < options_.max_batch) {
    running_.push_back(std::make_unique<Running>(Running{queue_.front()}));
    queue_.pop_front();
  }
  counters_.running = static_cast<int64_t>(running_.size());
}

bool Scheduler::RunStep() {
  batch_.clear();
  batch_running_.clear();
  // Now: a piece that was planned and is not in the batch would wait for ever.
  batch_.reserve(running_.size());
  batch_running_.reserve(running_.size());
  memory_ = running_.empty() ? absl::OkStatus() : CheckRoom();
  const size_t before = running_.size();
  CollectResumed();
  CollectPlanned();
  DropEnded();
  if (batch_.empty()) return running_.size() < before;  // who waits may have a place now
  int64_t rows = 0;
  for (const Piece* piece : batch_) rows += piece->rows();
  step_.Run(batch_);
  ++counters_.steps;
  Report(TurnKind::kStep, rows);
  for (Running* running : batch_running_) Settle(*running);
  DropEnded();
  return true;
}

void Scheduler::CollectResumed() {
  for (const std::unique_ptr<Running>& running : running_) {
    Piece& piece = running->request->piece;
    if (!StepRunner::Resume(piece)) continue;
    batch_.push_back(&piece);
    batch_running_.push_back(running.get());
  }
}

// All that decode take part; prompts share one slice, and take turns at being first.
void Scheduler::CollectPlanned() {
  int64_t left = options_.prefill_slice_tokens;
  const size_t count = running_.size(), first = next_prefill_;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = (first + i) % count;
    Running& running = *running_[at];
    if (running.active) continue;
    if (!running.request->prefilling()) {
      PlanOne(running, 1);
    } else if (left > 0) {
      if (PlanOne(running, left)) left -= running.request->piece.rows();
      next_prefill_ = at + 1;
    }
  }
}

bool Scheduler::PlanOne(Running& running, int64_t limit) {
  Request& request = *running.request;
  absl::Status status = request.session->broken;
  // Whoever ran into the error has heard its code, which may be one to try again after.
  if (!status.ok() && !absl::IsDataLoss(status)) {
    status = absl::FailedPreconditionError(absl::StrCat(
        "an earlier request failed and the session can only be closed: ", status.message()));
  }
  const int64_t rows = std::min(limit, request.most_rows());
  if (status.ok()) status = memory_;
  if (status.ok()) status = state_budget_.CheckRoom(StateGrowth(model_, rows));
  if (status.ok()) {
    request.piece.Begin(request.session.get(), running.request);
    status = OrExhausted("a prompt", [&] { return request.Plan(limit); });
    if (absl::IsResourceExhausted(status)) request.session->broken = status;  // planned in part
  }
  if (!status.ok()) {
    End(running, status);
    return false;
  }
  if (request.piece.rows() == 0) {
    Settle(running);
    return false;
  }
  running.active = true;
  running.timer.counts =
      !request.prefilling() && request.piece.rows() <= 2 && !request.piece.landmarks.empty();
  if (running.timer.counts) running.timer.started_s = Now();
  batch_.push_back(&request.piece);
  batch_running_.push_back(&running);
  return true;
}

void Scheduler::Settle(Running& running) {
  Request& request = *running.request;
  Piece& piece = request.piece;
  state_budget_.Set(request.session->state_charge, request.session->state_bytes());
  if (!piece.status.ok()) {
    request.session->broken = piece.status;
    End(running, piece.status);
    return;
  }
  if (piece.waiting) return;
  running.active = false;
  if (request.account != nullptr) request.account->SpendTokens(piece.rows());
  if (running.timer.counts) {
    const double took_s = Now() - running.timer.started_s;
    counters_.landmark_steps.Add(took_s * 1e3);
    counters_.landmark_step_s(piece.slowest).Observe(took_s);
    running.timer.counts = false;
  }
  const absl::StatusOr<bool> complete =
      OrExhausted("an answer", [&] { return request.PieceDone(); });
  if (!complete.ok()) {
    End(running, complete.status());
  } else if (*complete) {
    End(running, absl::OkStatus());
  }
}

void Scheduler::End(Running& running, const absl::Status& status) {
  std::exchange(running.request, nullptr)->End(status);
}

void Scheduler::Report(TurnKind kind, int64_t rows) {
  TurnObserver observer;
  {
    MutexLock lock(mutex_);
    observer = observer_;
  }
  if (observer) observer(kind, rows);
}

std::shared_ptr<SliceSource> Scheduler::NextIngest() {
  MutexLock lock(mutex_);
  for (size_t i = 0; i < ingests_.size(); ++i) {
    const size_t at = (next_ingest_ + i) % ingests_.size();
    if (!ingests_[at]->HasSlice()) continue;
    next_ingest_ = at + 1;
    return ingests_[at];
  }
  return nullptr;
}

bool Scheduler::RunIngest() {
  const std::shared_ptr<SliceSource> ingest = NextIngest();
  if (ingest == nullptr) {
    share_.Forget();
    return false;
  }
  const bool pauses = ingest->pauses();
  const bool is_short = !pauses && std::ranges::any_of(running_, [](const auto& running) {
    return !running->request->prefilling();
  });
  ingest_since_s_ = Now();
  CheckRoom().IgnoreError();  // the ingest looks itself
  ingest->RunSlice(is_short ? std::min(options_.shared_slice_tokens, options_.ingest_slice_tokens)
                            : options_.ingest_slice_tokens,
                   [this](const std::atomic<int64_t>& spent_ns) { RunDueSteps(spent_ns); });
  const double took = Now() - ingest_since_s_;
  pauses ? share_.AddIngest(took) : share_.AddWhole(took);
  Report(TurnKind::kIngestSlice, 0);
  return true;
}

void Scheduler::RunDueSteps(const std::atomic<int64_t>& spent_ns) {
  double now = Now();
  share_.AddIngest(now - ingest_since_s_);
  ingest_since_s_ = now;
  if (share_.ingest_is_due()) return;
  const MemoryScope scope(MemoryScope::kTake);  // as outside of the slice
  Report(TurnKind::kIngestPause, 0);
  bool worked = true;
  while (worked && !share_.ingest_is_due()) {
    const int64_t spent_before = spent_ns;
    try {
      worked = RunSessions();
    } catch (const std::bad_alloc&) {
      LogError("the scheduler ran out of memory");  // as in Loop
    }
    const double begin = std::exchange(now, Now());
    worked ? share_.AddStep(now - begin, static_cast<double>(spent_ns - spent_before) * 1e-9)
           : share_.Forget();
  }
  ingest_since_s_ = now;
}

void Scheduler::Wait() {
  absl::Time until = SteadyNow() + options_.idle_period;
  for (const auto& request : queue_) until = std::min(until, request->deadline);
  for (const auto& running : running_) {
    if (!running->active) until = std::min(until, running->request->deadline);
  }
  MutexLock lock(signal_->mutex);
  const absl::Duration left = std::max(until - SteadyNow(), absl::Milliseconds(1));
  signal_->wake.wait_for(
      lock, absl::ToChronoMicroseconds(left),
      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(signal_->mutex) { return signal_->set; });
  signal_->set = false;
}

}  // namespace recollect::engine
