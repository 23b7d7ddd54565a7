#include "service/net/wire.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "openssl/err.h"
#include "openssl/ssl.h"

namespace recollect::service {
namespace {

class PlainWire final : public Wire {
 public:
  explicit PlainWire(int socket) : socket_(socket) {}
  ssize_t Read(char* bytes, size_t size) override { return recv(socket_, bytes, size, 0); }
  ssize_t Write(const char* bytes, size_t size) override {
    return send(socket_, bytes, size, MSG_NOSIGNAL);
  }
  void EndWriting() override { shutdown(socket_, SHUT_WR); }

 private:
  const int socket_;
};

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, FreeSsl>;

class TlsWire final : public Wire {
 public:
  TlsWire(int socket, SslPtr ssl) : socket_(socket), ssl_(std::move(ssl)) {}

  ssize_t Read(char* bytes, size_t size) override {
    if (broken_) return Broken();
    ERR_clear_error();
    size_t got = 0;
    const int result = SSL_read_ex(ssl_.get(), bytes, size, &got);
    return result == 1 ? static_cast<ssize_t>(got) : Explain(result);
  }

  ssize_t Write(const char* bytes, size_t size) override {
    if (broken_) return Broken();
    ERR_clear_error();
    size_t sent = 0;
    const int result = SSL_write_ex(ssl_.get(), bytes, size, &sent);
    return result == 1 ? static_cast<ssize_t>(sent) : Explain(result);
  }

  bool ready() const override { return SSL_is_init_finished(ssl_.get()) == 1; }

  void EndWriting() override {
    ERR_clear_error();
    if (!broken_ && SSL_is_init_finished(ssl_.get()) == 1) SSL_shutdown(ssl_.get());
    shutdown(socket_, SHUT_WR);
  }

 private:
  ssize_t Explain(int result) {
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
      default:  // OpenSSL must not be asked again
        broken_ = true;
        return Broken();
    }
  }
  static ssize_t Broken() {
    errno = ECONNRESET;
    return -1;
  }

  const int socket_;
  const SslPtr ssl_;
  bool broken_ = false;
};

}  // namespace

std::unique_ptr<Wire> MakePlainWire(int socket) { return std::make_unique<PlainWire>(socket); }

std::unique_ptr<Wire> MakeTlsWire(int socket, const access::Certificate::Context& context) {
  SslPtr ssl(SSL_new(context.get()));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), socket) != 1) return nullptr;
  SSL_set_accept_state(ssl.get());
  return std::make_unique<TlsWire>(socket, std::move(ssl));
}

}  // namespace recollect::service
