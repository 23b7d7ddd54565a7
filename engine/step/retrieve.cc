#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"
#include "engine/step/prepare.h"
#include "engine/step/request.h"
#include "engine/step/text_retrieval.h"

namespace recollect::engine {
namespace {

// Runs the query as a prompt, flushes, and keeps what the landmark that closes it retrieved. Of
// documents that are kept as text, the query's words are looked up, and nothing runs.
class Retrieving final : public Answering<RetrieveRequest, std::vector<Retrieval>> {
 public:
  using Answering::Answering;

  absl::Status Prepare(const PromptSource& source) override {
    store_ = &source.store;
    threads_ = source.threads;
    if (!OfText() && !model_.config().has_adapter()) {
      RETURN_IF_ERROR(RequireLandmarks(model_));
    }
    ASSIGN_OR_RETURN(input_.tokens,
                     PromptTokens(model_, std::exchange(request_.query, {}), "query"));
    input_.flushes = {std::ssize(input_.tokens)};
    return input_.tokens.empty() ? absl::InvalidArgumentError("query: no tokens")
                                 : absl::OkStatus();
  }

  absl::StatusOr<bool> AnswerAtOnce() override {
    if (!OfText()) return false;
    const std::vector<kernels::SparseTerm> query = SparseQuery(*model_.words(), input_.tokens);
    Retrieval& retrieval = result_.emplace_back();
    retrieval.position = std::ssize(input_.tokens) - 1;
    for (const Pin& pin : session->mounts()) retrieval.candidates += pin->sparse()->blocks();
    const int64_t k = request_.k > 0 ? request_.k : kDefaultTextHits;
    auto blocks = RetrieveText(*store_, threads_, session->mounts(), query, k);
    counters_.CountError(blocks.status());
    RETURN_IF_ERROR(blocks.status());
    for (TextBlock& block : *blocks) retrieval.hits.push_back(std::move(block.hit));
    if (account != nullptr) account->SpendTokens(std::ssize(input_.tokens));
    return true;
  }

  absl::Status Plan(int64_t limit) override {
    session->Plan(input_, limit, HeadRows::kNone, piece);
    piece.with_retrievals = input_.done();
    piece.hits_per_group = piece.with_retrievals ? request_.k : 0;
    return absl::OkStatus();
  }

  absl::StatusOr<bool> PieceDone() override {
    if (!input_.done()) return false;
    const int64_t last = session->positions() - 1;
    for (Retrieval& retrieval : piece.retrievals) {
      if (retrieval.position != last) continue;
      if (request_.k > 0 && request_.k < std::ssize(retrieval.hits)) {
        retrieval.hits.resize(static_cast<size_t>(request_.k));
      }
      result_.push_back(std::move(retrieval));
    }
    return true;
  }

  int64_t most_rows() const override { return input_.most_rows(); }

 private:
  bool OfText() const { return !MountsMemory(model_.config(), session_options.mount_as); }

  // Where documents that are kept as text are searched.
  store::DocumentReader* store_ = nullptr;
  ThreadPool* threads_ = nullptr;  // null: the caller's
};

}  // namespace

std::shared_ptr<Request> MakeRetrieve(
    const model::Model& model, RetrieveRequest request,
    std::function<void(absl::StatusOr<std::vector<Retrieval>>)> done, Counters& counters) {
  return std::make_shared<Retrieving>(model, std::move(request), std::move(done), counters);
}

}  // namespace recollect::engine
