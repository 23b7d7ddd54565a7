// An HTTP request and its answer, for handlers, which know nothing of sockets.
//
//   void Handle(const Request& request, const std::shared_ptr<Answer>& answer) {
//     answer->Send(200, "application/json", "{}");
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "access/caller.h"
#include "base/sync/mutex.h"
#include "http/net/body.h"

namespace recollect::http {

struct Request {
  std::string method;                          // "GET"
  std::string path;                            // as sent, without what follows '?'
  std::map<std::string, std::string> query;    // what follows it, decoded
  std::map<std::string, std::string> headers;  // names in lower case
  std::string parameter;                       // what stands for {} in the route's path, decoded
  std::string body;                            // empty where the route takes a stream
  std::shared_ptr<Body> stream = nullptr;      // of a route that takes one (http/net/site.h)
  std::string peer;       // network address, by which places are counted (access/places.h)
  access::Caller caller;  // whose documents a handler may use (http/net/authorize.h)
};

// The value of a header, whose name is in lower case; nothing where the request has none.
std::optional<absl::string_view> HeaderOf(const Request& request, const char* name);

// Thread-safe. The handler sends one whole answer, or begins one, writes parts and ends it; after
// the client has disconnected, this has no effect.
class Answer {
 public:
  static constexpr size_t kMaxUnsentBytes = 1 << 20;

  struct Head {
    int status = 200;
    std::string content_type, headers = {};  // headers: as Send's
    bool streamed = true;
    // The length of a streamed answer's body, if it is known.
    std::optional<int64_t> bytes = {};
  };

  // How long a stream of server-sent events may be silent.
  struct Pauses {
    absl::Duration head;     // then its head is sent, though there is no event yet
    absl::Duration comment;  // then a comment line is sent, which clients skip
  };

  // `wake` tells the connection that there is something to take.
  explicit Answer(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Sends a whole answer. `headers`: further ones, each a whole line that ends with CRLF.
  void Send(int status, std::string content_type, std::string body, std::string headers = "");
  void Begin(Head head);  // ignored where KeepAlive has begun it
  // Keeps alive an answer that will begin with `head`: before it begins and while it goes on, the
  // connection sends something after each pause, so that proxies do not take it for dead.
  void KeepAlive(Head head, Pauses pauses);
  // Whether the answer has begun. If not, KeepAlive no longer begins it, so that it may still be an
  // error.
  bool Begun();
  // Writes a part. If more than kMaxUnsentBytes wait for a slow client, the answer ends as if the
  // client had disconnected.
  void Write(absl::string_view part);
  // Calls `next` once the connection has taken all that was written, perhaps at once, so that a
  // long answer need not wait in memory. Never calls it after the client has disconnected.
  void WhenTaken(std::function<void()> next);
  void End();
  // Ends the answer so that the client sees that it is incomplete.
  void Break() { Gone(); }
  // Sets a function to call once if the client disconnects before the end, at once if it already
  // has. Replaces an earlier one.
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
