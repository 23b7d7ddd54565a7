#include "access/certificate.h"

#include <memory>

#include "absl/time/clock.h"
#include "openssl/ssl.h"
#include "tests/access/access_testing.h"
#include "tests/support/certificates.h"

namespace recollect::access {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;

class CertificateTest : public KeysFileTest {
 protected:
  void SetUp() override {
    KeysFileTest::SetUp();
    certificate_ = directory_ / "server.crt";
    key_ = directory_ / "server.key";
  }
  void Write(const TestCertificate& made) const {
    std::ofstream(certificate_) << made.certificate;
    std::ofstream(key_) << made.key;
    ASSERT_EQ(chmod(key_.c_str(), 0600), 0);
  }
  absl::StatusOr<std::unique_ptr<Certificate>> Open() const {
    return Certificate::Open(certificate_, key_);
  }
  // The certificate that connections would get, as PEM.
  static std::string Shown(const Certificate& certificate) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, SSL_CTX_get0_certificate(certificate.context(Protocol::kHttp1).get()));
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(bio, &bytes);
    std::string text(bytes, static_cast<size_t>(size));
    BIO_free(bio);
    return text;
  }

  std::string certificate_, key_;
};

TEST_F(CertificateTest, AFileThatIsMissingOrHasNothingIsNamed) {
  Write(MakeCertificate());
  EXPECT_THAT(Open(), IsOk());
  std::filesystem::remove(key_);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound, key_));
  Write(MakeCertificate());
  std::filesystem::remove(certificate_);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound, certificate_));
  const TestCertificate made = MakeCertificate();
  Write({"", made.key});
  EXPECT_THAT(Open(), StatusIs(kInvalid, certificate_ + ": no certificate in it"));
  Write({made.key, made.key});
  EXPECT_THAT(Open(), StatusIs(kInvalid, certificate_ + ": no certificate in it"));
  Write({made.certificate, made.certificate});
  EXPECT_THAT(Open(), StatusIs(kInvalid, key_ + ": no private key in it"));
}

TEST_F(CertificateTest, DamageIsFoundAlsoBehindTheFirst) {
  const TestCertificate made = MakeCertificate();
  std::string damaged = made.certificate;
  damaged[damaged.size() / 2] = '!';
  Write({damaged, made.key});
  EXPECT_THAT(Open(), StatusIs(kInvalid, certificate_ + ": certificate 1 is damaged"));
  Write({made.certificate + damaged, made.key});
  EXPECT_THAT(Open(), StatusIs(kInvalid, "certificate 2 is damaged"));
  Write({made.certificate + MakeCertificate().certificate, made.key});
  EXPECT_THAT(Open(), IsOk());
}

TEST_F(CertificateTest, AKeyOfAnotherCertificateIsRefused) {
  Write({MakeCertificate().certificate, MakeCertificate().key});
  EXPECT_THAT(Open(), StatusIs(kInvalid,
                               key_ + ": not the key of the first certificate in " + certificate_));
}

// OpenSSL would ask for it at the terminal.
TEST_F(CertificateTest, AKeyWithAPasswordIsRefused) {
  Write(MakeCertificate(-absl::Hours(1), absl::Hours(1), "secret"));
  EXPECT_THAT(Open(), StatusIs(kInvalid, key_ + ": no private key in it (PEM, without a password"));
}

TEST_F(CertificateTest, OutsideItsTimeACertificateIsRefused) {
  const auto day = [](absl::Duration from_now) {
    return absl::FormatTime("%Y-%m-%d", absl::Now() + from_now, absl::UTCTimeZone());
  };
  Write(MakeCertificate(-absl::Hours(72), -absl::Hours(48)));
  EXPECT_THAT(Open(), StatusIs(kRefused, certificate_ + ": expired on " + day(-absl::Hours(48))));
  Write(MakeCertificate(absl::Hours(48), absl::Hours(72)));
  EXPECT_THAT(Open(),
              StatusIs(kRefused, certificate_ + ": not valid before " + day(absl::Hours(48))));
}

TEST_F(CertificateTest, OneThatExpiresSoonIsWarnedOf) {
  SetLogLevel(LogLevel::kWarning);
  const auto warned = [&](absl::Duration end) {
    Write(MakeCertificate(-absl::Hours(1), end));
    ::testing::internal::CaptureStderr();
    EXPECT_THAT(Open(), IsOk());
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warned(absl::Hours(24 * 13)), HasSubstr(certificate_ + ": expires on"));
  EXPECT_EQ(warned(absl::Hours(24 * 15)), "");
}

TEST_F(CertificateTest, ReloadingTakesTheNewOneOrLeavesTheOldOne) {
  const TestCertificate first = MakeCertificate(), second = MakeCertificate();
  Write(first);
  const auto certificate = Open().value();
  EXPECT_EQ(Shown(*certificate), first.certificate);
  Write(second);
  EXPECT_EQ(Shown(*certificate), first.certificate) << "not before";
  ASSERT_THAT(certificate->Reload(), IsOk());
  EXPECT_EQ(Shown(*certificate), second.certificate);
  Write({first.certificate, second.key});
  EXPECT_THAT(certificate->Reload(), StatusIs(kInvalid, "not the key"));
  EXPECT_EQ(Shown(*certificate), second.certificate);
}

}  // namespace
}  // namespace recollect::access
