// A team of threads for tests of ops that are shared.
#pragma once

#include <thread>
#include <vector>

#include "kernels/cpu/op_team.h"

namespace recollect::kernels {

// A team whose servers are threads of their own, for as long as it lives.
class ServedTeam {
 public:
  explicit ServedTeam(int servers, Isa isa = DetectIsa()) : leader_(isa) {
    for (int i = 0; i < servers; ++i) {
      threads_.emplace_back([this, isa] {
        OpContext own(isa);
        team_.Serve(own);
      });
    }
    leader_.set_team(&team_);
  }
  ~ServedTeam() {
    team_.Dismiss();
    for (std::thread& thread : threads_) thread.join();
  }
  OpContext& leader() { return leader_; }

 private:
  OpTeam team_;
  OpContext leader_;
  std::vector<std::thread> threads_;
};

}  // namespace recollect::kernels
