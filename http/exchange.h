// One request over HTTP and its answer, for handlers, which know nothing of sockets.
//
//   void Handle(const Request& request, const std::shared_ptr<Answer>& answer) {
//     answer->Send(200, "application/json", "{}");
//   }
#ifndef RECOLLECT_HTTP_EXCHANGE_H_
#define RECOLLECT_HTTP_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "access/caller.h"
#include "base/mutex.h"
#include "http/body.h"

namespace recollect::http {

struct Request {
  std::string method;                          // "GET"
  std::string path;                            // as sent, without what follows '?'
  std::map<std::string, std::string> query;    // what follows it, decoded
  std::map<std::string, std::string> headers;  // names in lower case
  std::string parameter;                       // what stands for {} in the route's path, decoded
  std::string body;                            // empty where the route takes a stream
  std::shared_ptr<Body> stream = nullptr;      // of a route that takes one (http/routes.h)
  std::string peer;       // its network address, for whom places are counted (engine/places.h)
  access::Caller caller;  // whose documents a handler may use (http/authorize.h)
};

// Thread-safe. The handler sends one whole answer, or begins one, writes parts and ends it; what it
// does after the client has gone goes nowhere.
class Answer {
 public:
  static constexpr size_t kMaxUnsentBytes = 1 << 20;

  struct Head {
    int status = 200;
    std::string content_type, headers = {};  // headers: as Send's
    bool streamed = true;
    // Of a streamed answer: of what will be written in all. Absent: not known.
    std::optional<int64_t> bytes = {};
  };

  // How long a stream of server-sent events may be silent.
  struct Pauses {
    absl::Duration head;     // then its head is sent, though there is no event yet
    absl::Duration comment;  // then a comment line is sent, which clients skip
  };

  // `wake` tells the connection that there is something to take.
  explicit Answer(std::function<void()> wake) : wake_(std::move(wake)) {}

  // `headers`: further ones, each a whole line that ends with CRLF.
  void Send(int status, std::string content_type, std::string body, std::string headers = "");
  void Begin(std::string content_type);
  void Begin(Head head);  // ignored where KeepAlive has begun it
  // The answer will begin with `head`. Until it does, and while it goes on, the connection sends
  // something after each pause, so that proxies do not take it for dead.
  void KeepAlive(Head head, Pauses pauses);
  // Whether the head has been given. If not, KeepAlive no longer gives it: the answer may still be
  // an error.
  bool Begun();
  // More than kMaxUnsentBytes that wait for a slow reader end the answer, as if it had gone.
  void Write(absl::string_view part);
  // Calls `next` once what was written is on its way, perhaps at once, so that a long answer need
  // not wait in memory. Not after the client has gone.
  void WhenTaken(std::function<void()> next);
  void End();
  // Ends it so that the client sees that it is not whole.
  void Break() { Gone(); }
  // `cancel` is called once if the client goes before the end, at once if it has gone already.
  // Replaces an earlier one.
  void OnGone(std::function<void()> cancel);

  // The rest is for the connection.
  struct News {
    bool proceed = false;      // "100 Continue" is due, unless a head has been sent
    std::optional<Head> head;  // once
    std::string bytes;
    bool ended = false, gone = false;
    absl::Duration pause = absl::InfiniteDuration();  // after which Idle is due
  };
  News Take();
  void Idle();
  void Proceed();
  void Gone();
  void Detach();  // no further wakes

 private:
  void Wake();

  Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> cancel_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> next_ ABSL_GUARDED_BY(mutex_);
  News news_ ABSL_GUARDED_BY(mutex_);
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Head> idle_head_ ABSL_GUARDED_BY(mutex_);  // what Idle begins with
  std::optional<Pauses> pauses_ ABSL_GUARDED_BY(mutex_);   // of KeepAlive
};

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_EXCHANGE_H_
