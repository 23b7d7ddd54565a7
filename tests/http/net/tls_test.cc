// HTTPS: the same server behind TLS.
#include "openssl/ssl.h"
#include "tests/access/access_testing.h"
#include "tests/http/http_testing.h"
#include "tests/support/certificates.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A client that trusts one certificate.
class TlsSocket {
 public:
  TlsSocket(const std::string& address, const std::string& trusted)
      : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free), bio_(nullptr, BIO_free_all) {
    BIO* text = BIO_new_mem_buf(trusted.data(), static_cast<int>(trusted.size()));
    X509* certificate = PEM_read_bio_X509(text, nullptr, nullptr, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), certificate);
    X509_free(certificate);
    BIO_free(text);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    bio_.reset(BIO_new_ssl_connect(context_.get()));
    BIO_set_conn_hostname(bio_.get(), address.c_str());
  }
  bool Handshake() const {
    return BIO_do_connect(bio_.get()) == 1 && BIO_do_handshake(bio_.get()) == 1;
  }
  void Send(const std::string& bytes) const {
    for (size_t sent = 0; sent < bytes.size();) {
      const int n =
          BIO_write(bio_.get(), bytes.data() + sent, static_cast<int>(bytes.size() - sent));
      if (n <= 0) return;
      sent += static_cast<size_t>(n);
    }
  }
  // Until `end` has come, or the server has closed.
  std::string ReadUntil(const std::string& end) const {
    std::string bytes;
    char part[4096];
    while (end.empty() || bytes.find(end) == std::string::npos) {
      const int n = BIO_read(bio_.get(), part, sizeof(part));
      if (n <= 0) break;
      bytes.append(part, static_cast<size_t>(n));
    }
    return bytes;
  }
  // Whether the server has said that nothing is missing.
  bool EndedCleanly() const {
    SSL* ssl = nullptr;
    BIO_get_ssl(bio_.get(), &ssl);
    return (SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN) != 0;
  }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<BIO, decltype(&BIO_free_all)> bio_;
};

class HttpsTest : public HttpTest {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    certificate_file_ = ::testing::TempDir() + "/recollect_https.crt";
    key_file_ = ::testing::TempDir() + "/recollect_https.key";
    Write(trusted_);
    certificate_ = access::Certificate::Open(certificate_file_, key_file_).value();
    Start({.listen = "127.0.0.1:0", .model_name = "fake", .certificate = certificate_.get()});
  }
  void TearDown() override { server_.reset(); }
  void Write(const TestCertificate& made) const {
    std::ofstream(certificate_file_) << made.certificate;
    std::ofstream(key_file_) << made.key;
  }
  TlsSocket Connect() const { return {server_->address(), trusted_.certificate}; }

  const TestCertificate trusted_ = MakeCertificate();
  std::string certificate_file_, key_file_;
  std::unique_ptr<access::Certificate> certificate_;
};

TEST_F(HttpsTest, RequestsAreAnsweredOnOneConnection) {
  const TlsSocket socket = Connect();
  ASSERT_TRUE(socket.Handshake());
  socket.Send("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(socket.ReadUntil("}"), StartsWith("HTTP/1.1 200"));
  const json fields = {{"model", "fake"}, {"prompt", std::string(1 << 20, 'x')}, {"stream", true}};
  socket.Send(Post("/v1/completions", fields.dump()));
  EXPECT_THAT(socket.ReadUntil(""), HasSubstr("data: [DONE]"));
  EXPECT_TRUE(socket.EndedCleanly());
}

TEST_F(HttpsTest, WhoSpeaksNoTlsIsClosed) {
  EXPECT_THAT(Ask(Get("/livez")), testing::Not(StartsWith("HTTP/1.1")));
  const TlsSocket socket = Connect();
  EXPECT_TRUE(socket.Handshake());
}

TEST_F(HttpsTest, AClientThatGoesCancelsItsRequest) {
  engine_.Set({.generation = {.then_wait = true}});
  for (const bool stream : {false, true}) {
    const int64_t before = engine_.seen().cancelled;
    {
      const TlsSocket socket = Connect();
      socket.Send(Post("/v1/completions",
                       json({{"model", "fake"}, {"prompt", "x"}, {"stream", stream}}).dump()));
      if (stream) socket.ReadUntil("lo");
    }
    engine_.Await([&](const FakeEngine::Seen& seen) { return seen.cancelled > before; });
  }
}

TEST_F(HttpsTest, HalfHandshakesAreClosedInTime) {
  Start({.listen = "127.0.0.1:0",
         .model_name = "fake",
         .timeout = absl::Milliseconds(50),
         .certificate = certificate_.get()});
  const Socket silent(server_->address());
  EXPECT_EQ(silent.ReadAll(), "");
  const Socket half(server_->address());
  half.Send(std::string("\x16\x03\x01\x02", 4));
  EXPECT_EQ(half.ReadAll(), "");
}

TEST_F(HttpsTest, AReloadedCertificateIsShownToNewConnections) {
  const TlsSocket before = Connect();
  ASSERT_TRUE(before.Handshake());
  const TestCertificate next = MakeCertificate();
  Write(next);
  ASSERT_THAT(certificate_->Reload(), IsOk());
  EXPECT_FALSE(Connect().Handshake());
  EXPECT_TRUE(TlsSocket(server_->address(), next.certificate).Handshake());
  before.Send(Get("/livez"));
  EXPECT_THAT(before.ReadUntil(""), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpsTest, TheDestructorEndsConnections) {
  engine_.Set({.generation = {.then_hang = true}});
  const TlsSocket idle = Connect(), running = Connect();
  ASSERT_TRUE(idle.Handshake());
  running.Send(Post("/v1/completions", R"({"model": "fake", "prompt": "x", "stream": true})"));
  running.ReadUntil("lo");
  const Socket silent(server_->address());
  server_.reset();
  engine_.Await([](const FakeEngine::Seen& seen) { return seen.cancelled == 1; });
}

}  // namespace
}  // namespace recollect
