// TLS over gRPC, which the gate speaks.
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/numbers.h"
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

TEST_F(TlsTest, AServerThatSpeaksNoneRefusesClientsThatDo) {
  server_ =
      service::Server::Start({.listen = "127.0.0.1:0", .model_name = "fake"}, engine_).value();
  EXPECT_THAT(Connect(trusted_.certificate), StatusIs(kUnavailable, "TLS"));
  EXPECT_THAT(Connect(""), IsOk());
}

}  // namespace
}  // namespace recollect
