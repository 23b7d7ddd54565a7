// A wait for what a test cannot be told of: work in the background, another process.
#pragma once

#include <chrono>
#include <thread>

namespace recollect {

// Returns whether `condition` has come true within the time; asks every few milliseconds.
template <typename Condition>
bool Eventually(const Condition& condition,
                std::chrono::milliseconds most = std::chrono::minutes(1)) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace recollect
