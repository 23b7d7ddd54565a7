// Accepts HTTP connections and ends them. One thread serves all, each a coroutine
// (http/net/connection.h): an idle one costs a descriptor and some kilobytes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/sync/mutex.h"
#include "http/net/connection.h"
#include "http/net/site.h"
#include "http/options.h"

namespace recollect::http {

// Thread-safe.
class Listener {
 public:
  // `options` and `site` must outlive it. FAILED_PRECONDITION: the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const ServerOptions& options, Site& site);
  ~Listener();  // like Drain with a deadline in the past

  const std::string& address() const { return address_; }  // with the real port
  // Refuses requests, stops listening, waits until running requests are answered or `deadline`
  // (SteadyNow() time) has passed, and closes. Blocks. May be repeated.
  void Drain(absl::Time deadline);

 private:
  Listener(const ServerOptions& options, Site& site) : options_(options), site_(site) {}

  absl::Status Listen();
  boost::asio::awaitable<void> Accept();
  boost::asio::awaitable<void> Serve(std::shared_ptr<Connection> connection);
  void CountRunning(int change);

  const ServerOptions& options_;
  Site& site_;
  std::string address_;
  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::acceptor acceptor_{io_};
  std::set<std::shared_ptr<Connection>> connections_;  // of the thread of io_, like the next
  std::map<std::string, int64_t> by_peer_;
  Mutex mutex_;
  std::condition_variable idle_;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // requests between head and the end of the answer
  std::thread thread_;
};

}  // namespace recollect::http
