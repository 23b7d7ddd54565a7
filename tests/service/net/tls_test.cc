// TLS over gRPC, which the gate speaks.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/clock.h"
#include "openssl/ssl.h"
#include "tests/access/access_testing.h"
#include "tests/service/service_testing.h"
#include "tests/support/certificates.h"

namespace recollect {
namespace {

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

class TlsTest : public KeysFileTest {
 protected:
  void SetUp() override {
    KeysFileTest::SetUp();
    Write(trusted_);
    certificate_ = access::Certificate::Open(directory_ / "crt", directory_ / "key").value();
    auto server = service::Server::Start(
        {.listen = "127.0.0.1:0", .model_name = "fake", .certificate = certificate_.get()},
        engine_);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
  }
  void Write(const TestCertificate& made) const {
    std::ofstream(directory_ / "crt") << made.certificate;
    std::ofstream(directory_ / "key") << made.key;
  }
  absl::StatusOr<std::unique_ptr<client::Client>> Connect(const std::string& tls_ca) const {
    return client::Client::Connect(server_->address(),
                                   {.connect_timeout = absl::Seconds(2), .tls_ca = tls_ca});
  }

  const TestCertificate trusted_ = MakeCertificate();
  FakeEngine engine_;
  std::unique_ptr<access::Certificate> certificate_;
  std::unique_ptr<service::Server> server_;
};

TEST_F(TlsTest, CallsAndStreamsOfAllSizesPass) {
  const auto client = Connect(trusted_.certificate).value();
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += "words "[i % 6];
  EXPECT_THAT(client->IngestText("d", client::ReadFrom(text)), IsOk());
  std::string read;
  for (size_t begin = 0; begin < text.size(); begin += 100'000) {
    read +=
        client->ReadText("d", static_cast<int64_t>(begin), static_cast<int64_t>(begin) + 100'000)
            .value();
  }
  EXPECT_TRUE(read == text);
  engine_.Set({.generation = {.pieces = {std::string(4096, 'x')}, .repeat = 200}});
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("x");
  request.set_max_tokens(200);
  EXPECT_EQ(client->Generate(request).value().text, std::string(200 * 4096, 'x'));
}

TEST_F(TlsTest, WhoIsNotTrustedIsNotSpokenTo) {
  EXPECT_THAT(Connect(MakeCertificate().certificate), StatusIs(kUnavailable, "TLS"));
  EXPECT_THAT(Connect(""), StatusIs(kUnavailable, "no server answers at")) << "as it is";
  EXPECT_THAT(Connect("no PEM"), StatusIs(absl::StatusCode::kInvalidArgument, "tls_ca"));
  EXPECT_THAT(Connect(trusted_.certificate), IsOk()) << "others go on";
}

TEST_F(TlsTest, AReloadedCertificateIsShownToNewConnections) {
  const auto before = Connect(trusted_.certificate).value();
  const TestCertificate next = MakeCertificate();
  Write(next);
  ASSERT_THAT(certificate_->Reload(), IsOk());
  EXPECT_THAT(Connect(next.certificate).value()->GetStats(), IsOk());
  EXPECT_THAT(before->GetStats(), IsOk());
  EXPECT_THAT(Connect(trusted_.certificate), StatusIs(kUnavailable, ""));
}

// A client that says with TLS what it speaks, as `protocols` with their lengths before them:
// whether the server takes it.
bool Handshake(const std::string& address, const std::string& protocols, int version) {
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                            SSL_CTX_free);
  SSL_CTX_set_max_proto_version(context.get(), version);
  SSL_CTX_set_alpn_protos(context.get(), reinterpret_cast<const unsigned char*>(protocols.data()),
                          static_cast<unsigned int>(protocols.size()));
  std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(BIO_new_ssl_connect(context.get()),
                                                    BIO_free_all);
  BIO_set_conn_hostname(bio.get(), address.c_str());
  return BIO_do_connect(bio.get()) == 1 && BIO_do_handshake(bio.get()) == 1;
}

TEST_F(TlsTest, OtherProtocolsAndOldVersionsAreRefused) {
  EXPECT_TRUE(Handshake(server_->address(), "\x02h2", TLS1_3_VERSION));
  EXPECT_TRUE(Handshake(server_->address(), "\x02h2", TLS1_2_VERSION));
  EXPECT_TRUE(Handshake(server_->address(), "\x08http/1.1\x02h2", TLS1_3_VERSION));
  EXPECT_FALSE(Handshake(server_->address(), "\x08http/1.1", TLS1_3_VERSION));
  EXPECT_FALSE(Handshake(server_->address(), "\x02h2", TLS1_1_VERSION));
}

// A connection of plain TCP, on which a client begins to speak TLS and stops.
class Stalled {
 public:
  Stalled(const std::string& address, const std::string& bytes)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
  }
  Stalled(Stalled&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Stalled() {
    if (fd_ >= 0) close(fd_);
  }
  // Returns once the server has closed it.
  void AwaitEnd() const {
    char bytes[4096];
    while (recv(fd_, bytes, sizeof(bytes), 0) > 0) {
    }
  }

 private:
  int fd_;
};

// What a client says first.
std::string ClientHello() {
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                            SSL_CTX_free);
  std::unique_ptr<SSL, decltype(&SSL_free)> client(SSL_new(context.get()), SSL_free);
  SSL_set_bio(client.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));  // takes both
  SSL_connect(client.get());
  std::string bytes(4096, '\0');
  bytes.resize(static_cast<size_t>(BIO_read(SSL_get_wbio(client.get()), bytes.data(), 4096)));
  return bytes;
}

// Clients that say nothing, a part of their first message, or all of it and never answer the
// server's.
TEST_F(TlsTest, HalfHandshakesAreClosedInTimeAndHoldNobodyUp) {
  constexpr absl::Duration kTimeout = absl::Seconds(2);
  server_ = service::Server::Start({.listen = "127.0.0.1:0",
                                    .model_name = "fake",
                                    .handshake_timeout = kTimeout,
                                    .certificate = certificate_.get()},
                                   engine_)
                .value();
  const std::string hello = ClientHello();
  ASSERT_GT(hello.size(), 100u);
  const absl::Time begin = SteadyNow();
  std::vector<Stalled> stalled;
  for (const size_t said : {size_t{0}, size_t{3}, hello.size() / 2, hello.size()}) {
    for (int i = 0; i < 8; ++i) stalled.emplace_back(server_->address(), hello.substr(0, said));
  }
  // Calls, on connections that begin now, are answered meanwhile.
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(Connect(trusted_.certificate).value()->GetStats(), IsOk());
  EXPECT_LT(SteadyNow() - begin, kTimeout) << "the machine is too slow to tell";
  for (const Stalled& connection : stalled) connection.AwaitEnd();
  EXPECT_GE(SteadyNow() - begin, kTimeout);
  EXPECT_LT(SteadyNow() - begin, 10 * kTimeout);
  EXPECT_THAT(Connect(trusted_.certificate).value()->GetStats(), IsOk());
}

TEST_F(TlsTest, AServerThatSpeaksNoneRefusesClientsThatDo) {
  server_ =
      service::Server::Start({.listen = "127.0.0.1:0", .model_name = "fake"}, engine_).value();
  EXPECT_THAT(Connect(trusted_.certificate), StatusIs(kUnavailable, "TLS"));
  EXPECT_THAT(Connect(""), IsOk());
}

}  // namespace
}  // namespace recollect
