// Continuous batching: one thread that decides what runs next. Each turn of its loop runs one step
// over the sessions that can continue (one decode token each, and prompt slices up to a bound),
// then, when it is due, one slice of one ingest.
//
// Sessions and ingests get about half of the time each (ingest_share.h), and all of it when the
// other has nothing to run. A slice on the CPU comes to rest between a layer of a tile and the
// next: the steps that are due run within it, and it goes on meanwhile on threads that they leave
// idle. So a stream never waits for more than one slice of prompts and about as long as an ordinary
// step takes. On other backends a slice runs whole, and is short while any session decodes (128
// tokens), so that its tokens do not arrive in bursts; a token of an ingest costs more in it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"
#include "base/sync/mutex.h"
#include "engine/backend/backend.h"
#include "engine/counters.h"
#include "engine/session/state_budget.h"
#include "engine/step/ingest_share.h"
#include "engine/step/request.h"
#include "engine/step/slice_source.h"
#include "engine/step/step.h"
#include "engine/types.h"

namespace recollect::engine {

struct SchedulerOptions {
  int64_t prefill_slice_tokens = 512;
  int64_t ingest_slice_tokens = 1024;
  int64_t shared_slice_tokens = 128;  // of one that does not pause, while any session decodes
  int64_t max_batch = 256;
  int64_t state_budget_bytes = int64_t{4} << 30;
  absl::Duration idle_period = absl::Seconds(1);  // `idle` is called at least this often
};

// Reports the scheduler's turns in order, for tests: a step or a slice that has ended, a slice that
// comes to rest for steps.
enum class TurnKind { kStep, kIngestPause, kIngestSlice };
using TurnObserver = std::function<void(TurnKind kind, int64_t rows)>;

// Thread-safe.
class Scheduler {
 public:
  // `threads`: of searches that are not the landmark index's; null: the scheduler's. `idle` runs
  // periodically on the scheduler's thread.
  Scheduler(const SchedulerOptions& options, const model::Model& model, Backend& backend,
            ChunkTiers& tiers, LandmarkIndex& landmarks, ThreadPool* threads, Counters& counters,
            std::function<void()> idle);
  ~Scheduler() { Stop(); }

  void Start();
  void Submit(std::shared_ptr<Request> request);
  void AddIngest(std::shared_ptr<SliceSource> ingest);
  void RemoveIngest(const SliceSource* ingest);

  // Wakes the loop. May be called on any thread, also after Stop.
  std::function<void()> waker();

  // Ends every request, running or waiting, with `status`; later requests end with it, too.
  void FailAll(const absl::Status& status);

  // Ends the thread after its current turn. Requests must have ended.
  void Stop();

  // RESOURCE_EXHAUSTED when the process is short of memory even without what is cached.
  absl::Status CheckRoom();

  const StateBudget& state_budget() const { return state_budget_; }
  StateBudget& state_budget() { return state_budget_; }

  void ObserveForTest(TurnObserver observer);

 private:
  struct Signal {
    Mutex mutex;
    std::condition_variable wake;
    bool set ABSL_GUARDED_BY(mutex) = false;
  };
  struct LandmarkTimer {
    double started_s = 0;
    bool counts = false;  // the piece is a decode step that places a landmark
  };
  struct Running {
    std::shared_ptr<Request> request;
    LandmarkTimer timer = {};
    bool active = false;  // its piece is planned and not yet done
  };

  void Loop();
  bool RunTurn();  // whether there was anything to do
  // The part of a turn that belongs to sessions: one step, if there is any.
  bool RunSessions();
  void TakeInbox();
  // Ends requests that are cancelled, late or failed.
  void EndDue();
  void Admit();
  bool RunStep();
  void CollectResumed();
  void CollectPlanned();
  bool PlanOne(Running& running, int64_t limit);
  void Settle(Running& running);
  bool RunIngest();
  std::shared_ptr<SliceSource> NextIngest();
  // Within a slice. `spent_ns`: ThreadPool::Pause.
  void RunDueSteps(const std::atomic<int64_t>& spent_ns);
  void Report(TurnKind kind, int64_t rows);
  void End(Running& running, const absl::Status& status);
  void DropEnded();
  void Wait();

  const SchedulerOptions options_;
  const model::ModelConfig& model_;
  StateBudget state_budget_;
  ChunkTiers& tiers_;
  Counters& counters_;
  const std::function<void()> idle_;
  const std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  StepRunner step_;
  std::thread thread_;

  Mutex mutex_;
  std::deque<std::shared_ptr<Request>> inbox_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<SliceSource>> ingests_ ABSL_GUARDED_BY(mutex_);
  size_t next_ingest_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status fail_all_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  TurnObserver observer_ ABSL_GUARDED_BY(mutex_);

  // The scheduler's thread only.
  std::deque<std::shared_ptr<Request>> queue_;
  std::vector<std::unique_ptr<Running>> running_;
  std::vector<Piece*> batch_;
  std::vector<Running*> batch_running_;
  absl::Status memory_;  // CheckRoom of this step
  size_t next_prefill_ = 0;
  IngestShare share_;
  double ingest_since_s_ = 0;  // the ingest has run since then
  absl::Time last_idle_ = absl::InfinitePast();
};

}  // namespace recollect::engine
