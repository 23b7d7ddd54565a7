#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/step/request.h"

namespace recollect::engine {
namespace {

// Runs the query as a prompt, flushes, and keeps what the landmark that closes it retrieved.
class Retrieving final : public Request {
 public:
  Retrieving(RetrieveRequest request, std::vector<int32_t> tokens,
             std::function<void(absl::StatusOr<std::vector<Retrieval>>)> done, Counters& counters)
      : k_(request.k), done_(std::move(done)), counters_(counters) {
    deadline = request.deadline;
    input_.flushes = {static_cast<int64_t>(tokens.size())};
    input_.tokens = std::move(tokens);
  }

  absl::Status Plan(int64_t limit) override {
    session->Plan(input_, limit, HeadRows::kNone, piece);
    piece.want_retrievals = input_.done();
    piece.hits_per_group = piece.want_retrievals ? k_ : 0;
    piece.owner = weak_from_this();
    return absl::OkStatus();
  }

  absl::StatusOr<bool> PieceDone() override {
    if (!input_.done()) return false;
    const int64_t last = session->positions() - 1;
    for (Retrieval& retrieval : piece.retrievals) {
      if (retrieval.position != last) continue;
      if (k_ > 0 && k_ < static_cast<int64_t>(retrieval.hits.size())) {
        retrieval.hits.resize(static_cast<size_t>(k_));
      }
      result_.push_back(std::move(retrieval));
    }
    return true;
  }

  void Finish() override {
    counters_.prompt_tokens += std::ssize(input_.tokens);
    done_(std::move(result_));
  }
  void Fail(const absl::Status& status) override { done_(status); }
  bool prefilling() const override { return true; }
  int64_t most_rows() const override { return input_.most_rows(); }

 private:
  const int64_t k_;
  const std::function<void(absl::StatusOr<std::vector<Retrieval>>)> done_;
  Counters& counters_;
  Input input_;
  std::vector<Retrieval> result_;
};

}  // namespace

std::shared_ptr<Request> MakeRetrieve(
    RetrieveRequest request, std::vector<int32_t> tokens,
    std::function<void(absl::StatusOr<std::vector<Retrieval>>)> done, Counters& counters) {
  return std::make_shared<Retrieving>(std::move(request), std::move(tokens), std::move(done),
                                      counters);
}

}  // namespace recollect::engine
