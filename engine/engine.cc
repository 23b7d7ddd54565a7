#include "engine/engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/sync/mutex.h"
#include "engine/engine_impl.h"
#include "engine/session/mount_names.h"
#include "engine/session/prefix_state.h"
#include "engine/step/limits.h"
#include "engine/step/prepare.h"

namespace recollect::engine {
namespace {

// Of IndexMode::kIvf and kAuto: documents of fewer chunks are searched exactly. Measured in
// docs/decisions/0027-approximate-search.md.
constexpr int64_t kLeastIndexedByIvf = 4096, kLeastIndexed = 524288;

int64_t LeastIndexed(const EngineOptions& options) {
  if (options.index_least_chunks > 0) return options.index_least_chunks;
  return options.index == IndexMode::kAuto ? kLeastIndexed : kLeastIndexedByIvf;
}

constexpr const char* kIndexNames[] = {"exact", "ivf", "auto"};  // by IndexMode

absl::Status ValidateOptions(const EngineOptions& options) {
  const auto check = [](const char* name, int64_t value, int64_t least) {
    if (value >= least) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", value, ", expected at least ", least));
  };
  RETURN_IF_ERROR(check("fetch_threads", options.fetch_threads, 1));
  RETURN_IF_ERROR(check("landmark_budget_bytes", options.landmark_budget_bytes, 0));
  RETURN_IF_ERROR(check("memory_budget_bytes", options.memory_budget_bytes, 0));
  RETURN_IF_ERROR(check("chunk_states_budget_bytes", options.chunk_states_budget_bytes, 0));
  RETURN_IF_ERROR(check("state_budget_bytes", options.state_budget_bytes, 0));
  RETURN_IF_ERROR(check("prompt_cache_bytes", options.prompt_cache_bytes, 0));
  RETURN_IF_ERROR(check("index_least_chunks", options.index_least_chunks, 0));
  RETURN_IF_ERROR(check("ingest_slice_tokens", options.ingest_slice_tokens, 1));
  RETURN_IF_ERROR(check("shared_slice_tokens", options.shared_slice_tokens, 1));
  RETURN_IF_ERROR(check("prefill_slice_tokens", options.prefill_slice_tokens, 1));
  RETURN_IF_ERROR(check("commit_tokens", options.commit_tokens, 1));
  RETURN_IF_ERROR(check("text_commit_tokens", options.text_commit_tokens, 1));
  RETURN_IF_ERROR(check("max_ingests", options.max_ingests, 1));
  RETURN_IF_ERROR(check("max_sessions", options.max_sessions, 1));
  RETURN_IF_ERROR(check("max_queued", options.max_queued, 0));
  return check("max_batch", options.max_batch, 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    const EngineOptions& options, LoadedModel model, std::unique_ptr<store::DocumentStore> store) {
  RETURN_IF_ERROR(ValidateOptions(options));
  RECOLLECT_CHECK(model.model != nullptr && model.backend != nullptr && model.landmarks != nullptr);
  if (options.index == IndexMode::kIvf && model.lists == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("index ivf: landmark keys on ", model.landmarks->name(),
                     " are searched exactly; expected exact or auto"));
  }
  if (options.index == IndexMode::kIvf && model.model->config().has_adapter()) {
    return absl::FailedPreconditionError(
        "index ivf: keys of a memory adapter are searched exactly; expected exact or auto");
  }
  return std::make_unique<EngineImpl>(options, std::move(model), std::move(store));
}

EngineImpl::EngineImpl(const EngineOptions& options, LoadedModel model,
                       std::unique_ptr<store::DocumentStore> store)
    : options_(options),
      model_(std::move(model.model)),
      store_(std::move(store)),
      backend_(std::move(model.backend)),
      fetchers_(options.fetch_threads),
      background_(1),
      ingest_thread_(std::make_shared<Executor>(1)),
      tiers_(model_->config(), *store_, *store_, *backend_, options.memory_budget_bytes,
             options.chunk_states_budget_bytes, fetchers_, counters_),
      landmarks_(std::move(model.landmarks)),
      threads_(std::move(model.threads)),
      text_keys_(model_->words() == nullptr
                     ? nullptr
                     : std::make_unique<const TextKeys>(*model_, *store_, threads_,
                                                        std::move(model.sparse))),
      mounts_(std::make_shared<Mounts>(
          *store_,
          Mounts::Keys{*store_, *landmarks_, model_->config().key_width(),
                       options.landmark_budget_bytes,
                       [this](const store::DocumentInfo& info) { return indexes_.Find(info); },
                       text_keys_.get(), model_->config().has_adapter()},
          model_->fingerprint(), counters_, [this](OwnerId owner) { tiers_.EraseOwner(owner); },
          [this](const std::function<void()>& work) { RunInBackground(work); })),
      indexes_(*store_, *mounts_,
               options.index == IndexMode::kExact || text_keys_ != nullptr ? nullptr : model.lists,
               model_->fingerprint(), model_->config().key_width(), LeastIndexed(options),
               counters_),
      sessions_(options.max_sessions, options.session_ttl),
      prompts_(options.prompt_cache_bytes, options.session_ttl),
      scheduler_(
          {options.prefill_slice_tokens, options.ingest_slice_tokens, options.shared_slice_tokens,
           options.max_batch, options.state_budget_bytes, SweepPeriod()},
          *model_, *backend_, tiers_, *landmarks_, threads_.get(), counters_,
          [this] {
            sessions_.CloseExpired();
            prompts_.DropExpired();
          }),
      ingests_(std::make_shared<IngestRegistry>(
          IngestContext{
              *model_, *backend_, *store_, *store_, *store_, ingest_thread_, counters_,
              scheduler_.state_budget(), scheduler_.waker(), options.chunk_states_format,
              options.commit_tokens, options.text_commit_tokens, options.max_ingests,
              [this](const std::string& id, OwnerId replaced) { DocumentPublished(id, replaced); }},
          scheduler_, *mounts_)) {
  scheduler_.state_budget().OnShortage([this] { return prompts_.DropOldest(); });
  scheduler_.Start();
  indexes_.Start();
}

EngineImpl::~EngineImpl() { Shutdown(absl::InfinitePast()); }

absl::Duration EngineImpl::SweepPeriod() const {
  return std::clamp(options_.session_ttl / 4, absl::Milliseconds(10), absl::Seconds(5));
}

// Work that may block on the disk; once the threads are gone, the caller does it.
void EngineImpl::RunInBackground(const std::function<void()>& work) {
  const MemoryScope scope(MemoryScope::kTake);  // it is done in any case
  const absl::StatusOr<bool> posted =
      OrExhausted("posting", [&]() -> absl::StatusOr<bool> { return background_.Post(work); });
  if (!posted.value_or(false)) work();
}

absl::Status EngineImpl::health() const {
  RETURN_IF_ERROR(backend_->health());
  return landmarks_->health();
}

EngineStats EngineImpl::stats() const {
  EngineStats stats;
  static_cast<Counts&>(stats) = counters_;
  stats.sessions = sessions_.size();
  stats.running_requests = counters_.running;
  stats.queued_requests = std::max<int64_t>(outstanding_ - stats.running_requests, 0);
  stats.ingests = ingests_->size();
  stats.max_sessions = options_.max_sessions;
  stats.max_queued = options_.max_queued;
  stats.max_ingests = options_.max_ingests;
  stats.backend = backend_->name();
  const SparseIndex* const sparse = text_keys_ == nullptr ? nullptr : text_keys_->device();
  stats.landmark_index = sparse == nullptr ? landmarks_->name() : sparse->name();
  stats.index = kIndexNames[static_cast<size_t>(options_.index)];
  stats.chunk_states_format =
      options_.chunk_states_format == ChunkStatesFormat::kBf16 ? "bf16" : "mxint8";
  stats.indexed_documents = mounts_->listed_documents();
  stats.landmark_bytes = mounts_->used_bytes();
  stats.landmark_budget_bytes = mounts_->budget_bytes();
  stats.landmark_sketch_chunks = landmarks_->sketched_keys();
  if (const int64_t n = stats.landmark_sketch_chunks; n > 0) {
    const int64_t plain_bytes = landmarks_->LandmarkIndex::BytesOf(n, model_->config().key_width());
    const int64_t bytes = landmarks_->BytesOf(n, model_->config().key_width()) - plain_bytes;
    stats.landmark_sketch_key_bytes = (bytes + n - 1) / n;
  }
  stats.memory_bytes = tiers_.memory_bytes();
  stats.memory_budget_bytes = tiers_.memory_budget_bytes();
  stats.chunk_states_bytes = tiers_.chunk_states_bytes();
  stats.chunk_states_budget_bytes = tiers_.chunk_states_budget_bytes();
  stats.state_bytes = scheduler_.state_budget().used_bytes();
  stats.state_budget_bytes = scheduler_.state_budget().budget_bytes();
  stats.cached_prompts = prompts_.size();
  stats.prompt_cache_bytes = prompts_.bytes();
  stats.prompt_cache_budget_bytes = options_.prompt_cache_bytes;
  store::StoreState store = store_->state();
  stats.store_bytes = store.bytes;
  stats.store_free_bytes = store.free_bytes;
  stats.store_read_only = store.read_only;
  stats.store_cache_bytes = store.cache_bytes;
  stats.store_cache_budget_bytes = store.cache_budget_bytes;
  stats.store_cache_hits = store.cache_hits;
  stats.store_cache_misses = store.cache_misses;
  stats.store_cache_damaged = store.cache_damaged;
  stats.store_cache_read_only = store.cache_read_only;
  stats.store_table_bytes = std::move(store.table_bytes);
  kernels::DeviceRoom room = landmarks_->room();
  if (room.total_bytes == 0) room = backend_->room();
  stats.device_free_bytes = room.free_bytes;
  stats.device_total_bytes = room.total_bytes;
  stats.graph_launches = backend_->graph_launches();
  stats.store_read_p50_ms = counters_.store_read_ms.Percentile(0.5);
  stats.store_read_p99_ms = counters_.store_read_ms.Percentile(0.99);
  stats.landmark_step_p50_ms = counters_.landmark_steps.Percentile(0.5);
  stats.landmark_step_p99_ms = counters_.landmark_steps.Percentile(0.99);
  stats.time_to_first_token_s = counters_.time_to_first_token_s.values();
  stats.inter_token_s = counters_.inter_token_s.values();
  stats.store_read_s = counters_.store_read_s.values();
  const auto& steps = counters_.landmark_step_by_tier_s;
  stats.landmark_step_memory_s = steps[static_cast<size_t>(Tier::kMemory)].values();
  stats.landmark_step_states_s = steps[static_cast<size_t>(Tier::kStates)].values();
  stats.landmark_step_store_s = steps[static_cast<size_t>(Tier::kStore)].values();
  return stats;
}

Mounts::Need EngineImpl::NeedOf(const SessionOptions& options) const {
  const model::ModelConfig& config = model_->config();
  if (!config.has_adapter()) return {};
  return {MountsMemory(config, options.mount_as), MountsText(config, options.mount_as)};
}

absl::StatusOr<std::unique_ptr<Session>> EngineImpl::MakeSession(
    const SessionOptions& options, const model::LocalPatterns& pattern) {
  ASSIGN_OR_RETURN(std::vector<Pin> pins, mounts_->Mount(options.mounts, NeedOf(options)));
  ASSIGN_OR_RETURN(std::unique_ptr<SequenceState> sequence, backend_->NewSequence(pattern));
  auto session = std::make_unique<Session>(*model_, *store_, tiers_, *landmarks_, options,
                                           model_->config().PositionLimit(pattern),
                                           std::move(sequence), std::move(pins));
  if (model_->config().documents() == DocumentKind::kPrefix && !session->mounts().empty()) {
    const store::DocumentInfo& info = session->mounts().front()->info();
    const absl::Status status = MountPrefix(info, pattern, *session);
    counters_.CountError(status);
    RETURN_IF_ERROR(Annotate(status, absl::StrCat("document \"", info.id, "\"")));
  }
  return session;
}

absl::StatusOr<SessionLease> EngineImpl::BorrowSession(
    const SessionOptions& options, std::span<const int32_t> beginning,
    const std::shared_ptr<access::Account>& account) {
  RETURN_IF_ERROR(scheduler_.CheckRoom());
  ASSIGN_OR_RETURN(const model::LocalPatterns pattern, SessionPatterns(*model_, options));
  RETURN_IF_ERROR(ValidateSession(*model_, options));
  const bool recalls = model_->config().has_adapter();
  const bool keeps = !beginning.empty() && model_->config().rewinds() &&
                     model_->config().documents() != DocumentKind::kPrefix;
  if (!keeps) {
    ASSIGN_OR_RETURN(std::unique_ptr<Session> session, MakeSession(options, pattern));
    return SessionLease(session.release(),
                        [this](Session* used) { RunInBackground([used] { delete used; }); });
  }
  // One beyond the context is refused with its own numbers, and costs nobody a sequence.
  const int64_t limit = model_->config().PositionLimit(pattern);
  std::vector<Pin> pins;
  if (recalls) {
    ASSIGN_OR_RETURN(pins, mounts_->Mount(options.mounts, NeedOf(options)));
  }
  std::unique_ptr<Session> session;
  if (limit == 0 || std::ssize(beginning) <= limit) {
    session = prompts_.Take(beginning, account, pattern);
  }
  if (session == nullptr) {
    // What is mounted as text is in the prompt already, and other mounts change with each request.
    SessionOptions unmounted = options;
    unmounted.mounts.clear();
    ASSIGN_OR_RETURN(session, MakeSession(unmounted, pattern));
  }
  if (recalls) session->Mount(std::move(pins), options);
  return SessionLease(session.release(), [this, account, pattern](Session* used) {
    used->Unmount();
    prompts_.Put(std::unique_ptr<Session>(used), account, pattern);
  });
}

absl::Status EngineImpl::MountPrefix(const store::DocumentInfo& info,
                                     const model::LocalPatterns& pattern, Session& session) {
  if (info.pattern != pattern.Text()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a prefix made under the pattern ", info.pattern, ", the session's is ", pattern.Text()));
  }
  ASSIGN_OR_RETURN(const std::vector<int32_t> last,
                   store_->ReadTokens(info.owner, info.tokens - 1, info.tokens));
  ASSIGN_OR_RETURN(
      model::LocalState state,
      RestoreState(*model_, pattern, *store_, {info.owner, info.state_bytes, info.tokens - 1},
                   scheduler_.state_budget(), session.state_charge));
  RETURN_IF_ERROR(session.Begin(std::move(state), last.front()));
  scheduler_.state_budget().Set(session.state_charge, session.state_bytes());
  ++counters_.prefix_mounts;
  counters_.prefix_tokens += info.tokens;
  return absl::OkStatus();
}

absl::StatusOr<SessionId> EngineImpl::OpenSession(const SessionOptions& options,
                                                  const Origin& origin) {
  if (draining_) return ShuttingDown();
  RETURN_IF_ERROR(CheckSession(options));
  RETURN_IF_ERROR(sessions_.CheckRoom(origin.peer));
  std::shared_ptr<void> counted;
  if (origin.account != nullptr) {
    ASSIGN_OR_RETURN(counted, origin.account->TakeSession());
  }
  SessionOptions expanded = options;
  ASSIGN_OR_RETURN(expanded.mounts, ExpandMounts(*store_, options));
  SessionLease session;
  RETURN_IF_ERROR(MountThoseThere(*store_, options, expanded.mounts, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(session, BorrowSession(expanded, {}, origin.account));
    return absl::OkStatus();
  }));
  return sessions_.Add(std::move(session), origin, std::move(counted));
}

absl::StatusOr<SessionInfo> EngineImpl::GetSession(SessionId id) { return sessions_.Info(id); }

absl::Status EngineImpl::CloseSession(SessionId id) { return sessions_.Close(id); }

void EngineImpl::Shutdown(absl::Time deadline) {
  MutexLock once(shutdown_mutex_);
  if (stopped_) return;
  draining_ = true;
  {
    MutexLock lock(idle_mutex_);
    const auto idle = [this] { return outstanding_ == 0; };
    const absl::Duration left = std::max(deadline - SteadyNow(), absl::ZeroDuration());
    if (left == absl::InfiniteDuration()) {
      idle_.wait(lock, idle);
    } else {
      idle_.wait_for(lock, absl::ToChronoNanoseconds(left), idle);
    }
    failing_ = true;
    scheduler_.FailAll(ShuttingDown());
    idle_.wait(lock, idle);  // soon: what runs ends with its piece
  }
  scheduler_.Stop();
  ingests_->Shutdown(ShuttingDown());
  indexes_.Stop();
  background_.Stop();
  sessions_.CloseAll();
  prompts_.DropAll();
  fetchers_.Stop();
  stopped_ = true;
}

}  // namespace recollect::engine
